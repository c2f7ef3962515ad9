"""A pod, as far as placing it is concerned."""

from collections.abc import Mapping
from dataclasses import field, fields, replace
from enum import IntFlag, StrEnum, auto
from functools import cached_property
from typing import NamedTuple

from fairlead.model.capacity_types import CapacityTerms
from fairlead.model.claim_uses import ClaimUse
from fairlead.model.counted import CountedAsk
from fairlead.model.extended import ContainerAsk
from fairlead.model.gangs import Membership
from fairlead.model.gpus import GpuRequest, Grant
from fairlead.model.kept_record import KeptRecord
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.loads import PodLoad
from fairlead.model.reservations import Reservation
from fairlead.model.rules import LABEL_ONLY
from fairlead.model.run_times import RunTime
from fairlead.model.selectors import LabelSelector, PodTerm, Requirement, SpreadRule
from fairlead.model.sizes import Kept, weigh
from fairlead.model.start_times import StartTimes
from fairlead.model.volumes import PodVolumes

# Amounts by resource name, sorted by name: hashable, so that equal needs can share work.
Amounts = tuple[tuple[str, int], ...]


class Effect(StrEnum):
    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NO_EXECUTE = "NoExecute"


@dataclass(frozen=True, slots=True)
class Taint:
    key: str
    value: str
    effect: str


@dataclass(frozen=True, slots=True)
class Toleration:
    """Empty key or effect means any."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""

    def tolerates(self, taint: Taint) -> bool:
        if self.effect and self.effect != taint.effect:
            return False
        if self.key and self.key != taint.key:
            return False
        if self.operator in ("", "Equal"):
            return self.value == taint.value
        return self.operator == "Exists"


@dataclass(frozen=True, slots=True)
class NodeTerm:
    """All of its requirements must hold; a term without any matches no node."""

    labels: tuple[Requirement, ...] = ()
    fields: tuple[Requirement, ...] = ()
    _hash: int = field(default=0, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash((self.labels, self.fields)))

    def __hash__(self) -> int:
        return self._hash

    @property
    def lines(self) -> int:
        """What it takes to compare a node with it; sixteen values are as much as one line."""
        return sum(1 + len(line.values) // 16 for line in (*self.labels, *self.fields))


@dataclass(frozen=True, slots=True)
class PreferredTerm:
    """Nodes that the pod would like to be on, and how much: 1 to 100."""

    weight: int
    term: NodeTerm


@dataclass(frozen=True, slots=True)
class HostPort:
    port: int
    protocol: str = "TCP"
    ip: str = "0.0.0.0"

    def conflicts(self, other: "HostPort") -> bool:
        if (self.port, self.protocol) != (other.port, other.protocol):
            return False
        return self.ip == other.ip or ANY_ADDRESS in (self.ip, other.ip)


ANY_ADDRESS = HostPort(0).ip


class PodField(IntFlag):
    """Fields of a pod that are part of its request only if a plugin of the profile reads them.

    Pods that differ only in other fields share their results.
    """

    IMAGES = auto()  #: the images it runs
    PREFERRED_AFFINITY = auto()  #: labels that preferred terms of other pods select
    DEFAULT_SELECTOR = auto()  #: selectors of its Services and its controller
    LOAD = auto()  #: what it will do with its GPUs


@dataclass(frozen=True, eq=True)
class PodRequest:
    """All that may influence where a pod goes. Equal requests get equal answers, once.

    Rules see this and never the pod itself, so nothing outside it can change a shared answer.
    """

    resources: Amounts = ()
    #: cpu (milli) and memory (bytes) for scoring: kube-scheduler's defaults stand in for
    #: containers that ask for none, so that a node full of them does not look empty.
    scored: tuple[int, int] = (0, 0)
    node_name: str = ""
    node_selector: tuple[tuple[str, str], ...] = ()
    #: None: any node will do. Empty: no node can.
    node_terms: tuple[NodeTerm, ...] | None = None
    tolerations: tuple[Toleration, ...] = ()
    host_ports: tuple[HostPort, ...] = ()
    #: What it asks of single GPUs.
    gpu_request: GpuRequest | None = None
    #: Required terms about pods in the same topology domain.
    required_affinity: tuple[PodTerm, ...] = ()
    anti_affinity: tuple[PodTerm, ...] = ()
    spread: tuple[SpreadRule, ...] = ()
    #: Preferred terms: nodes, spreading, and pods (anti-affinity has a weight below 0).
    preferred: tuple[PreferredTerm, ...] = ()
    soft_spread: tuple[SpreadRule, ...] = ()
    preferred_affinity: tuple[tuple[PodTerm, int], ...] = ()
    #: What the node's kubelet must declare to be able to do.
    features: tuple[str, ...] = ()
    #: Images of its containers (so many of them) and image volumes, with a tag or digest each.
    images: tuple[str, ...] = ()
    containers: int = 0
    #: For default topology spreading: the selectors of its Services and its controller.
    default_selector: LabelSelector | None = None
    #: What it says it will do with its GPUs.
    load: PodLoad | None = None
    #: None for the many pods without a volume that matters.
    volumes: PodVolumes | None = None
    #: Which capacity it accepts; None for the many pods that do not say.
    capacity: CapacityTerms | None = None
    #: Its resource claims, in order.
    claims: tuple[ClaimUse, ...] = ()
    #: A rule of its author about its nodes, as an expression.
    node_rule: str = ""
    #: What selectors of others see: namespace, and the labels that any selector uses.
    namespace: str = ""
    labels: tuple[tuple[str, str], ...] = ()
    #: Labels and annotations that a plugin of the profile declared it reads.
    pod_keys: tuple[tuple[str, str], ...] = ()
    #: Which containers ask for extended resources. The sums are in `resources`: only a claim that
    #: is made for the pod needs to know more, and takes it from the pod itself.
    extended: tuple[ContainerAsk, ...] = field(default=(), compare=False)
    _hash: int = field(default=0, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # Hashing nested tuples costs microseconds, and every decision looks a request up.
        object.__setattr__(self, "_hash", hash((
            self.resources, self.scored, self.node_name, self.node_selector, self.node_terms,
            self.tolerations, self.host_ports, self.gpu_request, self.required_affinity,
            self.anti_affinity, self.spread, self.preferred, self.soft_spread,
            self.preferred_affinity, self.features, self.images, self.containers,
            self.default_selector, self.load, self.volumes, self.claims, self.namespace,
            self.labels, self.pod_keys, self.capacity, self.node_rule,
        )))  # fmt: skip

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def weight_bytes(self) -> int:
        """About how much memory it takes; some requests are megabytes long."""
        return weigh(self.extended, *(getattr(self, name) for name in _COMPARED))

    def amount(self, resource: str) -> int:
        """How much of one resource is asked for."""
        for name, amount in self.resources:
            if name == resource:
                return amount
        return 0

    @property
    def own_keys(self) -> frozenset[str]:
        """Label keys that its own terms ask about: a pod may be meant by its own rules."""
        if not (self.required_affinity or self.anti_affinity or self.spread or self.soft_spread):
            return frozenset()
        terms: tuple[PodTerm | SpreadRule, ...] = (
            *self.required_affinity,
            *self.anti_affinity,
            *self.spread,
        )
        keys = (term.selector.keys for term in terms if term.selector is not None)
        return frozenset().union(*keys) | {""}  # never empty: the namespace matters as well

    def pod_value(self, key: str) -> str | None:
        return next((value for name, value in self.pod_keys if name == key), None)


_COMPARED = tuple(field.name for field in fields(PodRequest) if field.compare)


@dataclass(frozen=True, slots=True)
class Pod:
    """One pod as last seen. `node` is set once it is bound, by us or by anyone."""

    namespace: str
    name: str
    uid: str
    version: str = ""
    scheduler: str = ""
    node: str = ""
    priority: int = 0
    #: The name of its PriorityClass; empty: none.
    priority_class: str = ""
    #: When it was created, as the API server writes times.
    created: str = ""
    generation: int = 0
    #: Succeeded or Failed: it holds nothing any more.
    finished: bool = False
    #: It has finished without success.
    failed: bool = False
    #: Has a deletion timestamp: it holds what it has until it is gone.
    deleting: bool = False
    gates: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    request: PodRequest = field(default_factory=PodRequest)
    #: What it takes from its node; differs from the request after an in-place resize.
    usage: Amounts = ()
    #: The same for scoring; None where it is what the request says.
    usage_scored: tuple[int, int] | None = None
    #: The GPUs that it was given, as its annotations say.
    grant: Grant | None = None
    #: Of a bound pod: a claim that a scheduler made for it has its GPUs.
    gpus_by_claim: bool = False
    #: It has a GPU for others: a pod of Fairlead itself.
    reservation: Reservation | None = None
    #: How its annotations differ from that: they were changed after the bind, without effect.
    edited: str = ""
    #: Annotations that look like a request for GPUs and are none; only while it is pending.
    misspelt: str = ""
    #: Asks for GPUs, and a container lacks the variable that names them; only while it is pending.
    uninjected: bool = False
    #: Set when the pod is invalid; it is refused with this sentence.
    problem: str = ""
    #: Its nominated node (`status.nominatedNodeName`).
    nominated: str = ""
    #: Devices that are kept for it, as its status says; only while it is pending.
    kept: KeptRecord | None = None
    #: May others be evicted for it? (`preemptionPolicy` is not Never.)
    preempts: bool = True
    #: When its kubelet took it on, as the API server writes times; empty if it has not.
    started: str = ""
    #: It is leaving because a scheduler evicted it.
    evicted: bool = False
    #: The gang it belongs to.
    gang: Membership | None = None
    #: The key of the queue that it names itself; `UNQUEUED`: none applies; empty: it names none.
    queue: str = ""
    #: Of a bound pod: the key of the queue that it was bound for; empty: that is not known.
    charged_queue: str = ""
    #: The counted resources that it asks for, and has; None: it asks for none.
    counted: CountedAsk | None = None
    #: Kind and name of the controller that made it, if that says which pods belong together.
    owner: tuple[str, str] | None = None
    #: The controller that made it, as "Kind/name"; only of pods with GPUs.
    controller: str = ""
    #: As in the request; kept apart, since few profiles look at them.
    images: tuple[str, ...] = ()
    containers: int = 0
    load: PodLoad | None = None
    #: How long it declares to run; None: it says nothing.
    run_time: RunTime | None = None
    #: When it may start, and is to have ended; None: it says nothing.
    start: StartTimes | None = None
    #: Reason and message of its PodScheduled=False condition, so that it is not written twice.
    condition: tuple[str, str] = ("", "")

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def held_scored(self) -> tuple[int, int]:
        """Cpu and memory that it counts for in scores, once it is on a node."""
        return self.request.scored if self.usage_scored is None else self.usage_scored

    def request_with(
        self,
        pod_keys: tuple[str, ...] = (),
        seen_by: frozenset[str] = frozenset(),
        *,
        images: bool = False,
        default_selector: LabelSelector | None = None,
        load: bool = False,
    ) -> PodRequest:
        """The request, with what plugins read of the pod and what others' selectors see of it.

        Labels that no selector uses are left out, so that pods that differ in them alone (the
        replicas of a StatefulSet, say) still share their answers.
        """
        request = self.request
        seen = (
            seen_by
            | request.own_keys
            | (default_selector.keys if default_selector else frozenset())
        )
        if not (pod_keys or seen or images or (load and self.load)):
            return request
        found = ((key, self._value(key)) for key in pod_keys)
        more = _More(
            self.images if images else (),
            self.containers if images else 0,
            default_selector,
            self.load if load else None,
            self.namespace if seen or pod_keys else "",
            tuple(sorted((k, v) for k, v in self.labels.items() if k in seen)),
            tuple((key, value) for key, value in found if value is not None),
        )
        return _dressed.get((request, more)) or _dress(request, more)

    def _value(self, key: str) -> str | None:
        """Of an annotation, else of a label."""
        if key.startswith(LABEL_ONLY):
            return self.labels.get(key.removeprefix(LABEL_ONLY))
        return self.annotations.get(key, self.labels.get(key))


class _More(NamedTuple):
    """What a request may say beyond what the pod asks for."""

    images: tuple[str, ...]
    containers: int
    default_selector: LabelSelector | None
    load: PodLoad | None
    namespace: str
    labels: tuple[tuple[str, str], ...]
    pod_keys: tuple[tuple[str, str], ...]


def _dress(request: PodRequest, more: _More) -> PodRequest:
    """The request with more fields; the same one again for pods that ask for the same."""
    dressed = replace(request, **more._asdict())
    return _dressed.keep((request, more), dressed, dressed.weight_bytes)


_dressed: Kept[tuple[PodRequest, _More], PodRequest] = Kept(16 << 20)
