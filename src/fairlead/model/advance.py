"""Advance reservations: nodes that people keep free for a time in the future."""

from enum import StrEnum

from fairlead.model.lazy_dataclass import dataclass


class AdvancePhase(StrEnum):
    INVALID = "Invalid"
    #: It has not begun.
    PENDING = "Pending"
    ACTIVE = "Active"
    ENDED = "Ended"


@dataclass(frozen=True, slots=True)
class AdvanceReservation:
    """From its start to its end, only its users start on its nodes; with maintenance, no unit."""

    name: str
    #: In seconds since 1970.
    start_s: float = 0.0
    end_s: float = 0.0
    #: Labels of its nodes; or so many GPUs of a model (empty: of any), as whole nodes.
    node_selector: tuple[tuple[str, str], ...] = ()
    gpus: int = 0
    model: str = ""
    #: Whose pods may use it; with neither, those of no namespace.
    namespaces: frozenset[str] = frozenset()
    queues: frozenset[str] = frozenset()
    #: Pods of others that still run when it begins are evicted.
    preempts: bool = False
    #: Nodes that were chosen for its GPUs before, by name.
    chosen: tuple[str, ...] = ()
    #: Why it has no effect.
    problem: str = ""
    #: Not whole nodes, but so many GPUs together on each; a node may have several times as many.
    gpus_per_node: int = 0
    #: The nodes and numbers of GPUs that were chosen before.
    chosen_gpus: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class AdvanceStatus:
    """What the status of the object says."""

    phase: AdvancePhase
    nodes: tuple[str, ...] = ()
    gpus: int = 0
    #: Pods of others on its nodes that do not end before its start, or run now that it has begun.
    conflicts: int = 0
    message: str = ""
    #: GPUs of each node, if it does not have them whole.
    gpus_on: tuple[tuple[str, int], ...] = ()
