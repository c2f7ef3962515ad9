"""A queue: what a team may use of the cluster, in one form for every API that describes queues."""

from enum import StrEnum

from fairlead.model.backfill import BackfillMode
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.pods import Amounts

#: Amounts of a queue count GPUs by this name, in thousandths: whole GPUs, shares and slices alike.
GPUS = "nvidia.com/gpu"

#: Followed by a model: only GPUs of that model, in thousandths.
GPUS_OF_MODEL = "fairlead.dev/gpu-"

#: In place of the key of a queue: no queue applies to the pod, not even that of its namespace.
UNQUEUED = "-"

Weights = tuple[tuple[str, float], ...]


class Sharing(StrEnum):
    """How what is left after the guarantees is divided among the queues of one parent."""

    #: By weight and past use, continuously.
    CONTINUOUS = "continuous"
    #: In tiers of priority, in whole units, as KAI does.
    KAI = "kai"
    #: By weight, without guarantees of what is idle (Volcano's plugin `proportion`).
    PROPORTION = "proportion"
    #: By weight up to the maximum of each (ElasticQuota of Koordinator).
    RUNTIME = "runtime"
    #: The queues that ask first have it (Volcano's plugin `capacity`, ElasticQuota).
    FIRST_COME = "first-come"


class UnitOrder(StrEnum):
    """Which unit of a queue is tried first."""

    PRIORITY = "Priority"
    FIFO = "FIFO"
    #: None is tried before the first one has started.
    STRICT_FIFO = "StrictFIFO"
    #: Units of the namespace that uses least.
    FAIR = "Fair"
    SHORTEST_FIRST = "ShortestFirst"
    #: GPUs times run time: the order of a queue whose starts are planned short first.
    SMALLEST_FIRST = "SmallestFirst"
    DEADLINE = "Deadline"
    #: The least time left until its goal; those that have missed it come after the others.
    SLACK = "Slack"


class Victims(StrEnum):
    """Which units may be evicted for one that waits."""

    NEVER = "Never"
    LOWER_PRIORITY = "LowerPriority"
    ANY = "Any"


class Period(StrEnum):
    DAY = "Day"
    MONTH = "Month"


@dataclass(frozen=True, slots=True)
class GpuBudget:
    """The most that a queue may use in a day or a month, in UTC."""

    period: Period
    gpu_hours: float


@dataclass(frozen=True, slots=True)
class PastUse:
    """What a queue has used, as its status records it."""

    #: When this was true, in seconds since 1970.
    at_s: float
    #: GPU-seconds, halved with each half-life.
    gpu_seconds: float = 0.0
    #: GPU-hours since the current day and month began.
    day_hours: float = 0.0
    month_hours: float = 0.0


@dataclass(frozen=True, slots=True)
class QueueSpec:
    """What the object of a queue says; "unset" has become a number by the rule of its API."""

    #: Dialect and name: "fairlead/research", "elasticquota/team-a/quota".
    key: str
    #: The key of its parent; empty: at the top.
    parent: str = ""
    guaranteed: Amounts = ()
    #: Only the resources that it lists are limited.
    limit: Amounts = ()
    weight: float = 1.0
    #: Where an API has a weight for each resource: those that differ from `weight`.
    weights: Weights = ()
    priority: int = 0
    budgets: tuple[GpuBudget, ...] = ()
    #: The namespaces whose pods may use it; None: all.
    namespaces: frozenset[str] | None = None
    #: Pods of this namespace that name no queue use this one.
    of_namespace: str = ""
    order: UnitOrder = UnitOrder.PRIORITY
    #: For how many of its waiting units a start is planned; None: as the queue above it says.
    backfill: BackfillMode | None = None
    sharing: Sharing = Sharing.CONTINUOUS
    #: Units of this queue that may be evicted for others of it.
    within: Victims = Victims.LOWER_PRIORITY
    #: Units of other queues above their share that may be evicted for units of this one.
    reclaims: Victims = Victims.ANY
    #: Whether its units may be evicted for those of other queues.
    reclaimable: bool = True
    #: A unit that has run for less is not evicted: for others of the queue, for other queues.
    min_run_s: float = 0.0
    min_run_reclaim_s: float = 0.0
    #: Above its share, it reclaims only from queues that are so many times further above theirs.
    saturation_multiplier: float = 1.0
    #: Where it has queues beneath it, it takes no units of its own.
    leaves_only: bool = False
    #: Of its guarantee, what other queues do not get even while it is not used.
    not_lent: Amounts = ()
    #: No more units are started.
    closed: bool = False
    #: Charged with the minimum of a gang from its admission on, before it has pods (Volcano).
    charged_at_admission: bool = False
    created_s: float = 0.0
    uid: str = ""
    recorded: PastUse | None = None
    #: Set when the object is invalid; its units wait with this sentence.
    problem: str = ""

    @property
    def name(self) -> str:
        return self.key.partition("/")[2] or self.key


@dataclass(frozen=True, slots=True)
class QueueReport:
    """One queue as it is now, those beneath it included."""

    spec: QueueSpec
    depth: int
    used: Amounts
    #: What the units that wait ask for.
    asked: Amounts
    #: By resource that any unit of the tree uses or asks for.
    fair_share: Amounts
    past: PastUse | None
    pending_units: int
    pending_pods: int
    running_pods: int
    problem: str = ""


@dataclass(frozen=True, slots=True)
class QueueStatus:
    """What the status of the object says."""

    used: Amounts
    fair_share: Amounts
    past: PastUse | None
    pending_units: int
    pending_pods: int
    running_pods: int
    problem: str = ""
