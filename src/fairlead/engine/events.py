"""What can happen to the engine. Each is a small frozen value; `now` travels beside it."""

from collections.abc import Mapping
from enum import Enum, auto

from fairlead.model.advance import AdvanceReservation
from fairlead.model.behaviour import Behaviour
from fairlead.model.budgets import Budget
from fairlead.model.claims import ClaimObject
from fairlead.model.counted import CountedResource
from fairlead.model.data_sets import DataSet, NodeData
from fairlead.model.forecasts import Forecast
from fairlead.model.gangs import GangSpec
from fairlead.model.gpus import Inventory
from fairlead.model.http_extenders import ExtenderAnswer
from fairlead.model.hyper_nodes import HyperNode
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.named_readings import SeenReading
from fairlead.model.node_figures import SeenFigures
from fairlead.model.nodes import Node
from fairlead.model.pods import Pod
from fairlead.model.prices import Prices
from fairlead.model.queues import QueueSpec
from fairlead.model.readings import NodeReadings
from fairlead.model.run_times import RunTime
from fairlead.model.selectors import LabelSelector
from fairlead.model.service_classes import ServiceClass
from fairlead.model.solver import PatternUse
from fairlead.model.storage import StorageObject
from fairlead.model.topology import Topology
from fairlead.model.unit_kinds import UnitKind


@dataclass(frozen=True, slots=True)
class ServerKnown:
    """The API server's version is known: behave like its kube-scheduler. Comes before all else."""

    behaviour: Behaviour


@dataclass(frozen=True, slots=True)
class RunEnded:
    """How long a pod ran that has ended, for units like it."""

    kind: UnitKind
    ran_s: float
    #: It ended by itself, without a failure.
    succeeded: bool
    #: The gang that it was a member of, and when it started: one of its members is enough.
    gang: str = ""
    #: How long it had declared to run.
    declared_s: float | None = None


@dataclass(frozen=True, slots=True)
class OwnerRunTimeSeen:
    """What the controller of pods declares about how long they run."""

    #: Namespace, kind and name: "default/Job/train".
    owner: str
    #: None: nothing.
    run_time: RunTime | None
    #: When it started, as the API server writes times: its bound counts from then.
    started: str = ""


@dataclass(frozen=True, slots=True)
class RunTimesLoaded:
    """What was learned about run times before, as `RunTimes.dump` gave it."""

    data: bytes


@dataclass(frozen=True, slots=True)
class ForecastDue:
    """The starts of the first waiting units are to be forecast, to be judged when they start."""

    #: How many units.
    depth: int


@dataclass(frozen=True, slots=True)
class StartRecordLoaded:
    """How start forecasts did before, as `start_dumps.dump` gave it."""

    data: bytes


@dataclass(frozen=True, slots=True)
class NodeSeen:
    """A node was added or changed."""

    node: Node


@dataclass(frozen=True, slots=True)
class NodeGone:
    name: str


@dataclass(frozen=True, slots=True)
class InventorySeen:
    """An object other than the Node lists GPUs of a node; None: it lists them no more.

    The cluster merges them by UUID with those of the Node and of other sources.
    """

    node: str
    source: str
    inventory: Inventory | None


@dataclass(frozen=True, slots=True)
class PodSeen:
    """A pod was added or changed: pending, bound, finished, ours or anyone's."""

    pod: Pod


@dataclass(frozen=True, slots=True)
class PodGone:
    pod: Pod


@dataclass(frozen=True, slots=True)
class PodRejected:
    """The kubelet of its node rejected a pod that was bound; `message` is what it reported."""

    pod: Pod
    message: str


@dataclass(frozen=True, slots=True)
class ReleaseOverdue:
    """GPUs of a pod that is gone were kept for too long: the agent has not said anything."""

    uid: str


@dataclass(frozen=True, slots=True)
class ReservationIdle:
    """A reservation has had no shares for a while."""

    node: str
    number: int


@dataclass(frozen=True, slots=True)
class ReservationsPaused:
    """GPUs of the node could not be reserved; without a reason: it may be tried again."""

    node: str
    why: str = ""


@dataclass(frozen=True, slots=True)
class NodeDistrusted:
    """Something on this node could not be read, so what is free there is not known.

    `cause` is what could not be read: "namespace/name" of a pod, or "node/name". When it is read
    well, or gone, trust returns.
    """

    name: str
    cause: str


@dataclass(frozen=True, slots=True)
class TrustRestored:
    """What could not be read is gone."""

    cause: str


@dataclass(frozen=True, slots=True)
class NamespaceSeen:
    """A namespace was added or changed, or (labels None) is gone."""

    name: str
    labels: Mapping[str, str] | None
    #: The key of the queue of its pods that name none; empty: they have none.
    queue: str = ""


@dataclass(frozen=True, slots=True)
class SelectorSeen:
    """A Service or an owner of pods was added or changed, or (selector None) selects nothing."""

    kind: str
    namespace: str
    name: str
    selector: LabelSelector | None


@dataclass(frozen=True, slots=True)
class StorageSeen:
    """A claim, a volume, or something else that storage is made of was added or changed."""

    told: StorageObject


@dataclass(frozen=True, slots=True)
class StorageGone:
    gone: StorageObject


@dataclass(frozen=True, slots=True)
class ClaimObjectSeen:
    """A resource claim, or something that claims are allocated from, was added or changed.

    A claim may come from a watch or from the reply to a write. Of two versions the newer counts.
    """

    seen: ClaimObject


@dataclass(frozen=True, slots=True)
class ClaimObjectGone:
    """The same is gone; as it was seen last."""

    gone: ClaimObject


@dataclass(frozen=True, slots=True)
class NodeChosen:
    """Another scheduler, whom we advise, chose this node for the pod: give it GPUs there."""

    pod: Pod
    node: str


class BindProblem(Enum):
    """Why a bind did not happen. Every one is certain: an unanswered bind is settled first."""

    #: The pod is gone, or another pod has its name now.
    GONE = auto()
    #: Another scheduler bound it; the watch shows where.
    TAKEN = auto()
    #: The API server or an admission webhook said no.
    DENIED = auto()
    #: The API server could not do it just now.
    UNAVAILABLE = auto()


@dataclass(frozen=True, slots=True)
class BindDone:
    uid: str


@dataclass(frozen=True, slots=True)
class BindFailed:
    uid: str
    problem: BindProblem
    message: str


@dataclass(frozen=True, slots=True)
class BudgetSeen:
    """A disruption budget was added or changed."""

    budget: Budget


@dataclass(frozen=True, slots=True)
class BudgetGone:
    key: str


@dataclass(frozen=True, slots=True)
class GangSeen:
    """The object of a gang was added or changed."""

    spec: GangSpec


@dataclass(frozen=True, slots=True)
class GangGone:
    """The object of a gang is gone: its pods wait until it comes back."""

    key: str


@dataclass(frozen=True, slots=True)
class GangKindSeen:
    """Whether the API server serves the objects of a dialect of gangs.

    `dialect` is the first part of the keys of its gangs. Where they are not served, `problem` is
    the sentence with which pods wait whose gang is not known.
    """

    dialect: str
    problem: str = ""


@dataclass(frozen=True, slots=True)
class QueueSeen:
    """The object of a queue was added or changed."""

    spec: QueueSpec


@dataclass(frozen=True, slots=True)
class QueueGone:
    """The object of a queue is gone: its pods wait until it comes back; those with nodes stay."""

    key: str


@dataclass(frozen=True, slots=True)
class QueueKindSeen:
    """Whether the API server serves the queues of a dialect. Comes after all that there are.

    Where they are not served, and there is no problem, pods that name one have no queue. With a
    problem, they wait with that sentence.
    """

    dialect: str
    is_served: bool
    problem: str = ""


@dataclass(frozen=True, slots=True)
class AdvanceSeen:
    """An advance reservation was added or changed."""

    reservation: AdvanceReservation


@dataclass(frozen=True, slots=True)
class AdvanceGone:
    """An advance reservation is gone."""

    name: str


@dataclass(frozen=True, slots=True)
class CountedSeen:
    """A counted resource was added or changed."""

    resource: CountedResource


@dataclass(frozen=True, slots=True)
class CountedGone:
    """A counted resource is gone."""

    name: str


@dataclass(frozen=True, slots=True)
class NodeRequestsServed:
    """Whether nodes can be requested for whole gangs."""

    is_on: bool


@dataclass(frozen=True, slots=True)
class NodeRequestSeen:
    """What became of the request for the nodes of a gang; None: it is gone."""

    gang: str
    #: A sentence for the owner of the gang.
    sentence: str | None


@dataclass(frozen=True, slots=True)
class TopologySeen:
    """An object that lists levels of the topology was added or changed, or (None) is gone."""

    #: Dialect and name: "kai/default".
    key: str
    topology: Topology | None


@dataclass(frozen=True, slots=True)
class HyperNodeSeen:
    """A HyperNode of Volcano was added or changed, or (None) is gone."""

    name: str
    hyper_node: HyperNode | None


@dataclass(frozen=True, slots=True)
class EvictionEnded:
    """Every victim was evicted, or (with a message) not all could be.

    `uid` is the pod that they make room for.
    """

    uid: str
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Prepared:
    """Every step of a `Prepare` is done, and the objects that show it were seen before this."""

    uid: str


@dataclass(frozen=True, slots=True)
class PrepareFailed:
    """A step of a `Prepare` failed, and those after it were not begun."""

    uid: str
    #: As `failure_of` writes it.
    message: str


@dataclass(frozen=True, slots=True)
class PricesComputed:
    """What gaps are worth, computed from `Engine.basis`."""

    prices: Prices


@dataclass(frozen=True, slots=True)
class ReadingsTaken:
    """What GPUs are doing. Comes every few seconds, even without new readings:
    old readings fade.
    """

    readings: tuple[NodeReadings, ...] = ()


@dataclass(frozen=True, slots=True)
class FiguresSeen:
    """What nodes cost, draw or emit, from all sources that are usable."""

    seen: SeenFigures


@dataclass(frozen=True, slots=True)
class ReadingSeen:
    """Values of a reading that the configuration names."""

    seen: SeenReading


@dataclass(frozen=True, slots=True)
class DataSeen:
    """A set of data that pods read, or what a node has of them."""

    seen: DataSet | NodeData


@dataclass(frozen=True, slots=True)
class PlanComputed:
    """What the solver answered about a gang; None: no plan."""

    gang: str
    number: int
    answer: tuple[PatternUse, ...] | None = None


@dataclass(frozen=True, slots=True)
class ForecastSeen:
    """A forecast that starts are chosen by; without values: none is usable."""

    forecast: Forecast


@dataclass(frozen=True, slots=True)
class ExtendersAnswered:
    """What HTTP extenders say about a pod, or why they do not."""

    uid: str
    answer: ExtenderAnswer


@dataclass(frozen=True, slots=True)
class ServiceClassesSeen:
    """The service classes of the configuration."""

    classes: tuple[ServiceClass, ...]


@dataclass(frozen=True, slots=True)
class ServiceRecordLoaded:
    """How service classes did, as it was kept across restarts."""

    data: bytes


Event = (
    ServerKnown
    | NodeSeen
    | NodeGone
    | InventorySeen
    | PodSeen
    | PodGone
    | PodRejected
    | RunEnded
    | RunTimesLoaded
    | ForecastDue
    | StartRecordLoaded
    | OwnerRunTimeSeen
    | ReleaseOverdue
    | ReservationIdle
    | ReservationsPaused
    | NodeDistrusted
    | TrustRestored
    | NamespaceSeen
    | SelectorSeen
    | StorageSeen
    | StorageGone
    | ClaimObjectSeen
    | ClaimObjectGone
    | NodeChosen
    | Prepared
    | PrepareFailed
    | BindDone
    | BindFailed
    | BudgetSeen
    | BudgetGone
    | GangSeen
    | GangGone
    | GangKindSeen
    | AdvanceSeen
    | AdvanceGone
    | CountedSeen
    | CountedGone
    | NodeRequestsServed
    | NodeRequestSeen
    | QueueSeen
    | QueueGone
    | QueueKindSeen
    | TopologySeen
    | HyperNodeSeen
    | EvictionEnded
    | PricesComputed
    | ReadingsTaken
    | FiguresSeen
    | ReadingSeen
    | DataSeen
    | PlanComputed
    | ForecastSeen
    | ExtendersAnswered
    | ServiceClassesSeen
    | ServiceRecordLoaded
)
