"""What the engine asks its driver to do.

The driver answers `Prepare` and `Bind` with an event each.
"""

from collections.abc import Mapping
from dataclasses import field
from itertools import chain

from fairlead.model.advance import AdvanceStatus
from fairlead.model.claims import ResourceClaim
from fairlead.model.counted import CountedStatus
from fairlead.model.gangs import GangSpec, GangStatus
from fairlead.model.gpus import Grant
from fairlead.model.kept_record import KeptRecord
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.pods import Pod
from fairlead.model.queues import QueueSpec, QueueStatus
from fairlead.placement.verdicts import PlacementRecord, VictimsByNode
from fairlead.plugins.prepare import PrepareStep


@dataclass(frozen=True, slots=True)
class Bind:
    """Write the Binding: node and GPUs in one transaction, for this uid only."""

    pod: Pod
    node: str
    #: The grant in the form that the device plugin of the node reads, and what else is written.
    annotations: Mapping[str, str] = field(default_factory=dict)
    grant: Grant | None = None
    #: An annotation of the node that must be ours before, and its value.
    lock: tuple[str, str] | None = None
    #: The key of the queue that the pod is counted for, written with the bind; empty: none.
    queue: str = ""
    #: The counted resources that it is charged with, written with the bind; empty: none.
    counted: str = ""


@dataclass(frozen=True, slots=True)
class Prepare:
    """Carry out the steps one after the other; the first that fails ends it.

    Comes before the pod's `Bind`, which follows when the answer is `Prepared`.
    """

    pod: Pod
    node: str
    steps: tuple[PrepareStep, ...]


@dataclass(frozen=True, slots=True)
class Decided:
    """Note why the pod goes where it goes. Comes after its bind, and only if records are kept."""

    pod: Pod
    node: str
    record: PlacementRecord


@dataclass(frozen=True, slots=True)
class AnnounceScheduled:
    """Record the `Scheduled` event: the bind is certain."""

    pod: Pod
    node: str
    attempts: int
    #: When the pod first became ready to be scheduled, on the driver's own clock.
    first_queued_s: float


@dataclass(frozen=True, slots=True)
class AnnounceFailure:
    """Record a `FailedScheduling` event, and the PodScheduled=False condition if it changed."""

    pod: Pod
    #: The condition's reason: "Unschedulable", "SchedulerError", or that of a quota.
    reason: str
    message: str
    #: The node that it is nominated for from now on; None: as before.
    nominated: str | None = None
    #: Devices that are kept for it; they are written, and forgotten, with the nomination.
    kept: KeptRecord | None = None
    #: Without one only the condition is written: an event on one pod of a gang is enough.
    with_event: bool = True


@dataclass(frozen=True, slots=True)
class AnnounceWarning:
    """Record a warning event about the pod, which goes on as it is."""

    pod: Pod
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class AnnounceNotice:
    """Record an ordinary event about the pod."""

    pod: Pod
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Evict:
    """Delete the victims so that the pod can have the node; answer with how that went."""

    pod: Pod
    #: The node that the pod is nominated for. Victims may be on other nodes, too.
    node: str
    victims_by_node: VictimsByNode
    #: Why, if not to make room for the pod.
    because: str = ""
    #: They are moved: evicted through the Eviction API, so that disruption budgets hold. The first
    #: one that may not be ends it.
    moves: bool = False
    #: The same to make room: none is evicted unless all may be.
    within_budgets: bool = False

    @property
    def victims(self) -> tuple[Pod, ...]:
        """Those of all nodes."""
        return tuple(chain.from_iterable(self.victims_by_node.values()))


@dataclass(frozen=True, slots=True)
class Unreserve:
    """Delete the reservation pod: no pod has a share of its GPU."""

    pod: Pod


@dataclass(frozen=True, slots=True)
class ReleaseClaims:
    """Take back what was written for the pod about its resource claims: it is not bound after all.

    There is no answer. What the claims show then is seen as ever.
    """

    pod: Pod


@dataclass(frozen=True, slots=True)
class FreeClaim:
    """Clear the allocation of a claim: the pod cannot use it where it is. There is no answer."""

    pod: Pod
    claim: ResourceClaim


@dataclass(frozen=True, slots=True)
class ClearNomination:
    """The node that the pod is nominated for went to a more important one."""

    pod: Pod


@dataclass(frozen=True, slots=True)
class Decline:
    """The node that another scheduler chose for the pod is refused."""

    pod: Pod
    message: str


@dataclass(frozen=True, slots=True)
class GangStatusChanged:
    """Write the status of the gang's object, if it has one. Comes only when it has changed."""

    spec: GangSpec
    status: GangStatus


@dataclass(frozen=True, slots=True)
class QueueStatusChanged:
    """Write the status of the queue's object. At most every half a minute for one queue."""

    spec: QueueSpec
    status: QueueStatus


@dataclass(frozen=True, slots=True)
class AdvanceStatusChanged:
    """Write the status of the object of an advance reservation."""

    name: str
    status: AdvanceStatus


@dataclass(frozen=True, slots=True)
class CountedStatusChanged:
    """Write the status of the object of a counted resource."""

    name: str
    status: CountedStatus


@dataclass(frozen=True, slots=True)
class FindFinished:
    """Show the engine the members of the gang that have succeeded, as pods that were seen."""

    key: str
    namespace: str


@dataclass(frozen=True, slots=True)
class AttemptCrashed:
    """An attempt to place the pod broke off by a defect: what is booked may be wrong.

    `node` is where the pod was to go, if that was decided.
    """

    pod: Pod
    node: str
    error: Exception


@dataclass(frozen=True, slots=True)
class AskExtenders:
    """Ask these HTTP extenders which of the nodes the pod may have, and how good they are.

    The answer comes back as `ExtendersAnswered`.
    """

    pod: Pod
    nodes: tuple[str, ...]
    extenders: tuple[str, ...]


Instruction = (
    Prepare
    | AskExtenders
    | Bind
    | Decided
    | AnnounceScheduled
    | AnnounceFailure
    | AnnounceWarning
    | AnnounceNotice
    | Evict
    | Unreserve
    | ReleaseClaims
    | FreeClaim
    | ClearNomination
    | Decline
    | GangStatusChanged
    | QueueStatusChanged
    | AdvanceStatusChanged
    | CountedStatusChanged
    | FindFinished
    | AttemptCrashed
)
