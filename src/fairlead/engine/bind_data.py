"""What is written in a bind beside its node. The engine decides it, and knows no dialect.

The form that device plugins read, the time of day and the leader's epoch are not the engine's to
know: the driver gives it an encoder. With an encoder that always says the same about the same
decision, the same events give the same instructions.
"""

from collections.abc import Mapping
from dataclasses import field
from typing import Protocol

from fairlead.model.gpus import Grant, Inventory
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.pods import Pod


@dataclass(frozen=True, slots=True)
class BindData:
    """What goes with a bind, or the problem why it cannot be written."""

    annotations: Mapping[str, str] = field(default_factory=dict)
    #: An annotation of the node that must be ours before the bind, and its value.
    lock: tuple[str, str] | None = None
    problem: str = ""


class BindEncoder(Protocol):
    def __call__(
        self, pod: Pod, node: str, grant: Grant | None, inventory: Inventory | None
    ) -> BindData:
        """What goes with the bind. `inventory` are the GPUs of the node, where they are listed."""
        ...


_NOTHING = BindData()


def without_annotations(
    pod: Pod, node: str, grant: Grant | None, inventory: Inventory | None
) -> BindData:
    """For those who only look where pods would go."""
    return _NOTHING
