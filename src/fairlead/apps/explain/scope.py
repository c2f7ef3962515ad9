"""What of an explanation is shown, and as what. It loads nothing: `fairlead run` needs it."""

from typing import Any

from fairlead.model.lazy_dataclass import dataclass

Answer = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ExplanationScope:
    """What of an explanation is shown: nodes by name, pods of others by name, and so many nodes."""

    nodes: bool = True
    pods: bool = True
    most_nodes: int | None = None


ALL = ExplanationScope()
