"""Pods that must be near others or apart, pods that would like to, and what others wish of them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fairlead.cluster.arrays import NodeMask, NodeScores, PerNode
from fairlead.cluster.aspects import Aspect
from fairlead.cluster.nodes import Nodes
from fairlead.cluster.pod_index import PodQuery
from fairlead.model.pods import PodRequest, Side
from fairlead.plugins.affinity_rules import is_minded, near_enough, sum_of_domain, too_near
from fairlead.plugins.affinity_trial import AffinityTrial
from fairlead.plugins.api import Reason
from fairlead.plugins.normalising import stretched


@dataclass(frozen=True, slots=True)
class InterPodAffinity:
    #: How much it counts that a pod there had to be near such a pod as this; 0 to 100.
    hard_pod_affinity_weight: int = 1
    #: Leave out what pods there wish, unless this pod has wishes of its own.
    ignore_preferred_terms_of_existing_pods: bool = False
    name: ClassVar[str] = "InterPodAffinity"
    reads: ClassVar[Aspect] = Aspect.PODS | Aspect.LABELS
    refusal: ClassVar[str] = "node(s) didn't match pod affinity rules"
    curable: ClassVar[bool] = True
    sides: ClassVar[Side] = Side.WISHES
    filter_sides: ClassVar[Side] = Side(0)

    def __post_init__(self) -> None:
        if not 0 <= self.hard_pod_affinity_weight <= 100:
            raise ValueError("hard_pod_affinity_weight must be 0 to 100")

    def applies(self, request: PodRequest, nodes: Nodes) -> bool:
        if request.near or request.apart:
            return True
        return bool(nodes.minding(request)) and bool(is_minded(request, nodes).any())

    def allows(self, request: PodRequest, nodes: Nodes) -> NodeMask:
        allowed = near_enough(request, nodes)
        allowed &= ~too_near(request, nodes)
        allowed &= ~is_minded(request, nodes)
        return allowed

    def cares(self, request: PodRequest, nodes: Nodes) -> bool:
        if request.wishes:
            return True
        if self.ignore_preferred_terms_of_existing_pods:
            return False
        return bool(nodes.wishes_about(request) or nodes.needs_about(request))

    def rank(self, request: PodRequest, nodes: Nodes, left: NodeMask) -> NodeScores:
        """By the weights of its own wishes, of others' wishes about it, and of their needs."""
        weights: dict[str, PerNode] = {}
        nodes.prepare_counts([PodQuery((term,)) for term, _ in request.wishes])
        for term, weight in request.wishes:
            meant = nodes.pods_meant(PodQuery((term,)))
            _weigh(weights, term.topology_key, nodes)[:] += weight * meant
        for key, rows in nodes.wishes_about(request):
            _add_rows(_weigh(weights, key, nodes), rows)
        if self.hard_pod_affinity_weight:
            for key, rows in nodes.needs_about(request):
                _add_rows(_weigh(weights, key, nodes), rows, self.hard_pod_affinity_weight)
        counts = np.zeros(len(nodes), dtype=np.int64)
        for key, weighed in weights.items():
            counts += sum_of_domain(key, weighed, nodes)
        return stretched(counts, left)

    def reasons(self, request: PodRequest, nodes: Nodes) -> Iterable[Reason]:
        return self._reasons(request, nodes, None)

    def reasons_without(
        self, request: PodRequest, nodes: Nodes, below: int
    ) -> Iterable[Reason]:  # fmt: skip
        """The same if the pods below a priority had left the node, and only that."""
        return self._reasons(request, nodes, below)

    def _reasons(self, request: PodRequest, nodes: Nodes, below: int | None) -> Iterable[Reason]:
        """A node has one of the three: the first that kube-scheduler would have found."""
        far = ~near_enough(request, nodes, below)
        crowded = too_near(request, nodes, below) & ~far
        minded = is_minded(request, nodes, below) & ~far & ~crowded
        yield Reason(self.refusal, far, nodes.none())
        yield Reason("node(s) didn't match pod anti-affinity rules", crowded, crowded)
        yield Reason("node(s) didn't satisfy existing pods anti-affinity rules", minded, minded)

    def trial(self, request: PodRequest, nodes: Nodes) -> AffinityTrial:
        return AffinityTrial(request, nodes)


def _weigh(weights: dict[str, PerNode], key: str, nodes: Nodes) -> PerNode:
    if key not in weights:
        weights[key] = np.zeros(len(nodes), dtype=np.int64)
    return weights[key]


def _add_rows(weighed: PerNode, rows: Mapping[int, int], weight: int = 1) -> None:
    for row, count in rows.items():
        weighed[row] += weight * count
