"""The plugin contract: one request in, one result for every node out.

A plugin is a frozen dataclass whose fields are its options. It reads the nodes it is given, keeps
nothing between calls, does no I/O, and computes the result for a node from that node alone: it may
be called for all nodes at once or for the few that changed.

`reads` names what its result depends on. Results are shared between equal requests and recomputed
only where something in `reads` changed, so a plugin that omits an aspect returns stale results
(`fairlead.testing.check_plugin` finds that). Authors of plugins import from `fairlead.plugin`.
"""

from collections.abc import Callable, Collection, Iterable
from typing import ClassVar, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from fairlead.cluster.arrays import NodeMask, NodeScores
from fairlead.cluster.aspects import Aspect
from fairlead.cluster.nodes import Nodes
from fairlead.model.goals import GoalUnit
from fairlead.model.gpus import GpuRequest
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.pods import Pod, PodField, PodRequest

HIGHEST_SCORE = 100.0

#: What is said where every filter allows a node, but no single set of GPUs serves the pod.
NO_FITTING_GPU = "node(s) had no fitting GPU"

#: (nodes, slots)
GpuScores = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Reason:
    """One sentence about the nodes where it is true. A node may have several reasons."""

    text: str
    where: NodeMask
    #: Where evicting pods could change the result.
    resolvable: NodeMask


@runtime_checkable
class Filter(Protocol):
    """Rejects nodes."""

    name: ClassVar[str]
    reads: ClassVar[Aspect]
    #: Shown to users as "<count> <refusal>".
    refusal: ClassVar[str]
    #: Could evicting pods change the result?
    resolvable: ClassVar[bool]

    def allows(self, request: PodRequest, nodes: Nodes) -> NodeMask:
        """True where the pod may run."""
        ...


@runtime_checkable
class ClusterFilter(Filter, Protocol):
    """A filter whose result for a node depends on other nodes as well.

    It is always called for all nodes, again whenever anything that it reads changed on any node,
    and only for requests that it applies to.
    """

    def applies(self, request: PodRequest, nodes: Nodes) -> bool:
        """False if it allows every node for this request."""
        ...


class FilterTrial(Protocol):
    """What a cluster filter would answer for one node if other pods were there."""

    def at(self, row: int, pods: Collection[Pod]) -> Callable[[], bool]:
        """A question that may be asked again as pods come and go on this row, and on no other.

        `pods` are all that may be there when it is asked. True if the pod may run there.
        """
        ...


@runtime_checkable
class EvictionForecast(ClusterFilter, Protocol):
    """A cluster filter that can predict what evicting pods from a node would change there.

    Without this it is asked about all nodes again for every pod that might have to go.
    """

    def reasons_without(self, request: PodRequest, nodes: Nodes, below: int) -> Iterable[Reason]:
        """Why not, if the pods below this priority had left the node, and only this one."""
        ...

    def trial(self, request: PodRequest, nodes: Nodes) -> FilterTrial:
        """Made of all nodes while every pod is where it is."""
        ...


@runtime_checkable
class Concerns(Protocol):
    """A filter or score that does not apply to some requests, on any node."""

    def concerns(self, request: PodRequest) -> bool:
        """False when it allows every node, or rates it 0."""
        ...


@runtime_checkable
class PreFilter(Filter, Protocol):
    """A filter that may refuse a pod before any node is checked."""

    def pre_filter(self, request: PodRequest, nodes: Nodes) -> str:
        """One sentence why the pod cannot run on any node at the moment, or an empty string."""
        ...


@runtime_checkable
class PreFilterResult(Filter, Protocol):
    """A filter that can name the only nodes to check before any node is checked."""

    def pre_filter_result(self, request: PodRequest, nodes: Nodes) -> NodeMask | None:
        """The nodes to check; None for all."""
        ...


@runtime_checkable
class FailingFilter(Filter, Protocol):
    """A filter that may fail on a node: then the pod is placed nowhere, and is tried again."""

    def failing(self, request: PodRequest, nodes: Nodes) -> NodeMask:
        """True where it failed when it was last asked."""
        ...

    def failure(self, request: PodRequest, node: Nodes) -> str:
        """Why, for the one node given."""
        ...


@runtime_checkable
class DeviceAllocator(Filter, Protocol):
    """A filter for requests whose devices are chosen one by one when the pod is placed.

    Without an allocator for a request, its GPUs are only counted.
    """

    def allocates(self, ask: GpuRequest) -> GpuRequest | None:
        """The request as devices are chosen for it; None if it is for another allocator."""
        ...


@runtime_checkable
class ReasonedFilter(Protocol):
    """A filter with more than one reason."""

    def reasons(self, request: PodRequest, nodes: Nodes) -> Iterable[Reason]:
        """Why, for the nodes that it does not allow."""
        ...


@runtime_checkable
class DetailedFilter(Protocol):
    """A filter that reports amounts with its refusal, for `fairlead explain`."""

    def detail(self, request: PodRequest, node: Nodes) -> str:
        """One line about the given node, such as "requested 2 nvidia.com/gpu, 1 of 8 free"."""
        ...


@dataclass(frozen=True, slots=True)
class GpuDetail:
    """One GPU and why it cannot serve a pod, for `fairlead explain`."""

    uuid: str
    index: int
    model: str
    memory_mib: int
    #: Of its compute, 0 to 1.
    free_share: float
    free_mib: int
    #: Pods on it.
    pods: int
    #: Why it cannot serve the pod; empty if it could.
    missing: str = ""
    #: What was measured (utilisation 0 to 1) and how long ago; None without a reading.
    utilisation: float | None = None
    memory_used_mib: float | None = None
    reading_age_s: float | None = None


@runtime_checkable
class DetailedGpuFilter(Protocol):
    """A filter that reports individual GPUs, and for the event which node is closest to a fit."""

    def gpus(self, request: PodRequest, node: Nodes) -> tuple[GpuDetail, ...]:
        """The GPUs of the single node given."""
        ...

    def nearest(self, request: PodRequest, nodes: Nodes) -> str:
        """One sentence about the nodes given, all of which it refused; or an empty string."""
        ...


@runtime_checkable
class Score(Protocol):
    """Rates nodes. The profile sets the weight of a score."""

    name: ClassVar[str]

    @property
    def reads(self) -> Aspect:
        """A class variable, unless it depends on the options."""
        ...

    def rate(self, request: PodRequest, nodes: Nodes) -> NodeScores:
        """0 to 100 for each node, higher is better; refused nodes do not matter."""
        ...


@runtime_checkable
class GpuChooser(Protocol):
    """A score that also chooses the GPU of the node that a share goes to.

    The first such score of a profile is used. It must rate highest the GPU on which its rating of
    the node is based.
    """

    def rate_gpus(self, request: PodRequest, nodes: Nodes) -> GpuScores:
        """(nodes, slots): higher is better; among equals the first GPU is used."""
        ...


@runtime_checkable
class RelativeScore(Protocol):
    """A score of a node that depends on the other candidates.

    It is always called for all nodes, again whenever anything that it reads changed on any node or
    other nodes are left. A class may be both a filter and a relative score.
    """

    name: ClassVar[str]
    reads: ClassVar[Aspect]

    def applies_as_score(self, request: PodRequest, nodes: Nodes) -> bool:
        """False when all nodes are equal for this request."""
        ...

    def rank(self, request: PodRequest, nodes: Nodes, left: NodeMask) -> NodeScores:
        """0 to 100 for the nodes that are left, of which there is at least one."""
        ...


@runtime_checkable
class Picker(Protocol):
    """Chooses one of the nodes that passed every filter."""

    name: ClassVar[str]

    def pick(self, request: PodRequest, nodes: Nodes, scores: NodeScores) -> int:
        """A position in `nodes`, all of which are allowed, or -1 for none of them."""
        ...


@runtime_checkable
class Goal(Protocol):
    """Counts what a pod on a node costs, in a unit."""

    name: ClassVar[str]
    unit: ClassVar[GoalUnit]
    reads: ClassVar[Aspect]

    def count(self, request: PodRequest, nodes: Nodes) -> NodeScores:
        """For each node; 0 or more, less is better."""
        ...


@runtime_checkable
class DetailedGoal(Goal, Protocol):
    """A goal that says what its count is made of, for `fairlead explain`."""

    def detail(self, request: PodRequest, node: Nodes) -> str:
        """One line about the given node."""
        ...


def counts_once(goal: Goal) -> bool:
    """Whether pods that are placed together count it once for each of their nodes."""
    return bool(getattr(goal, "once_per_node", False))


AnyScore = Score | RelativeScore
Plugin = Filter | AnyScore | Picker | Goal


def pod_keys_of(plugin: Plugin) -> tuple[str, ...]:
    """Pod labels and annotations the plugin reads; they become part of the request."""
    return tuple(getattr(plugin, "pod_keys", ()))


def pod_fields_of(plugin: Plugin, *, as_filter: bool = False) -> PodField:
    """Fields of the pod that the plugin reads; they become part of the request.

    One that is both a filter and a score may read others as a filter.
    """
    pod_fields = getattr(plugin, "pod_fields", 0)
    return PodField(getattr(plugin, "filter_pod_fields", pod_fields) if as_filter else pod_fields)


def depends_on_pods(rule: Filter) -> bool:
    """Could its answer for a node change with the pods there, as far as what it reads goes?

    A filter that reads volumes, but only claims and what they are bound to, says that it does not.
    """
    return bool(getattr(rule, "depends_on_pods", True))


def concerns(rule: Filter | AnyScore, request: PodRequest) -> bool:
    # Asked for every pod and rule, and `isinstance` of a protocol takes its time.
    told = getattr(rule, "concerns", None)
    return told is None or bool(told(request))


def reasons_of(rule: Filter, request: PodRequest, nodes: Nodes) -> Iterable[Reason]:
    """The filter's reasons, or its one refusal for all the nodes it does not allow."""
    told: Callable[[PodRequest, Nodes], Iterable[Reason]] | None = getattr(rule, "reasons", None)
    if told is not None:
        return told(request, nodes)
    refused = ~rule.allows(request, nodes)
    return [Reason(rule.refusal, refused, refused if rule.resolvable else nodes.none())]


def nearest_of(rule: Filter, request: PodRequest, refused: Nodes) -> str:
    """How near the nodes came that it refused, where it can tell."""
    told: Callable[[PodRequest, Nodes], str] | None = getattr(rule, "nearest", None)
    return "" if told is None else told(request, refused)
