"""Consolidation: running units are moved so that a waiting one can start."""

from dataclasses import field
from datetime import UTC, datetime

from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.pods import Pod

#: On a pod: "true" means that it is never moved.
DO_NOT_MOVE = "fairlead.dev/do-not-move"
#: On a pod: when its work was last saved, as RFC 3339. What it did since is lost by a move.
LAST_CHECKPOINT = "fairlead.dev/last-checkpoint"
#: Words of others that mean the same as `DO_NOT_MOVE`, with the value that says so; None: any.
_OTHERS = (
    ("cluster-autoscaler.kubernetes.io/safe-to-evict", "false"),
    ("descheduler.alpha.kubernetes.io/prefer-no-eviction", None),
)
#: Kinds of controllers that create a pod again on any node.
RECREATING = frozenset({"ReplicaSet", "ReplicationController", "StatefulSet", "Job"})


@dataclass(frozen=True, slots=True)
class MoveLimits:
    """What a plan may cost."""

    #: A unit is not moved before it has run for so long.
    least_run_s: float = 600.0
    #: What the waiting unit gains: its GPUs for so long. A plan must lose less.
    horizon_s: float = 3600.0
    #: Pods that one plan moves at most, and GPU-seconds that it loses at most.
    most_moves: int = 16
    most_gpu_seconds: float = 72_000.0
    #: Kinds of controllers whose pods may be moved.
    owners: frozenset[str] = RECREATING


@dataclass(frozen=True, slots=True)
class ConsolidationTerms:
    """Whether, when and how much a scheduler moves by itself."""

    enabled: bool = False
    #: A unit must have waited so long.
    after_s: float = 300.0
    #: Pods moved and GPU-seconds lost in any hour, at most.
    moves_per_hour: int = 16
    gpu_seconds_per_hour: float = 72_000.0
    #: How long places are held for the waiting unit and for those that move.
    held_s: float = 600.0
    limits: MoveLimits = field(default_factory=MoveLimits)


NO_MOVES = ConsolidationTerms()


def protection(pod: Pod) -> str:
    """The annotation that forbids to move the pod; empty if there is none."""
    said = pod.annotations
    if said.get(DO_NOT_MOVE) == "true":
        return DO_NOT_MOVE
    for name, value in _OTHERS:
        if name in said and value in (None, said[name]):
            return name
    return ""


def saved_at_s(pod: Pod, now_s: float) -> float | None:
    """The time, in seconds since 1970, since which the pod's work would be lost; None: not started.

    A checkpoint before the start, or in the future, is none.
    """
    started_s = time_of(pod.started)
    if started_s is None:
        return None
    said_s = time_of(pod.annotations.get(LAST_CHECKPOINT, ""))
    valid = said_s is not None and started_s <= said_s <= now_s
    return said_s if valid else started_s


def time_of(text: str) -> float | None:
    """Seconds since 1970; None if the text is no time."""
    if not text:
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
