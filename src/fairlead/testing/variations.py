"""A drawn cluster, and the same cluster with something changed."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from random import Random

from fairlead.cluster.aspects import Aspect
from fairlead.cluster.nodes import Nodes
from fairlead.model.nodes import GPU, Image, Node
from fairlead.model.pods import Pod
from fairlead.testing.builders import a_taint
from fairlead.testing.drawn import DrawnCluster


class ClusterVariations:
    """One cluster and its variations, each built once and shared by all requests."""

    def __init__(self, drawn: DrawnCluster, rng: Random) -> None:
        self.drawn = drawn
        self.rng = rng
        self.cluster = drawn.build()
        self.shuffled = rng.sample(drawn.nodes, len(drawn.nodes))
        self._in_another_order = replace(drawn, nodes=self.shuffled).build().nodes
        self._variations: dict[Aspect, tuple[Nodes, ...]] = {}

    def in_another_order(self) -> Nodes:
        return self._in_another_order

    def with_other(self, aspects: Aspect) -> tuple[Nodes, ...]:
        """The nodes of the cluster where these aspects, and no others, are different."""
        if aspects not in self._variations:
            built = (change(self.drawn).build().nodes for change in VARIATIONS[aspects])
            self._variations[aspects] = tuple(built)
        return self._variations[aspects]


_Change = Callable[[DrawnCluster], DrawnCluster]


def _each(change: Callable[[Node], Node]) -> _Change:
    return lambda drawn: replace(drawn, nodes=[change(node) for node in drawn.nodes])


def _without_grant(pod: Pod) -> Pod:
    """It is not known that the pod has GPUs."""
    return replace(pod, grant=None, request=replace(pod.request, gpu_request=None))


_ALLOCATABLE = (("cpu", 64_000), ("memory", 1 << 40), (GPU, 2), ("pods", 110))
_OF_PODS = Aspect.USAGE | Aspect.PORTS | Aspect.PODS | Aspect.VOLUMES | Aspect.DEVICES

VARIATIONS: Mapping[Aspect, tuple[_Change, ...]] = {
    Aspect.LABELS: (_each(lambda node: replace(node, labels={"zone": "b", "rank": "1"})),),
    Aspect.ANNOTATIONS: (_each(lambda node: replace(node, annotations={"note": "x"})),),
    Aspect.TAINTS: (
        _each(lambda node: replace(node, taints=(a_taint("other"),), unschedulable=True)),
    ),
    Aspect.ALLOCATABLE: (_each(lambda node: replace(node, allocatable=_ALLOCATABLE)),),
    Aspect.IMAGES: (_each(lambda node: replace(node, images=(Image(("y:2",), 500 << 20),))),),
    Aspect.FEATURES: (_each(lambda node: replace(node, features=("F", "G"))),),
    Aspect.DEVICES: (
        _each(lambda node: replace(node, inventory=None)),
        lambda drawn: replace(drawn, pods=[_without_grant(pod) for pod in drawn.pods]),
    ),
    Aspect.VOLUMES: (lambda drawn: replace(drawn, storage=()),),
    Aspect.LOAD: (lambda drawn: replace(drawn, measured=False),),
    _OF_PODS: (lambda drawn: replace(drawn, pods=()),),
}
