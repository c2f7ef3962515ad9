"""Inter-pod affinity and anti-affinity, required and preferred, of the pod and of existing pods."""

from collections.abc import Iterable, Mapping
from typing import ClassVar

import numpy as np

from fairlead.cluster.arrays import NodeMask, NodeScores, PerNode
from fairlead.cluster.aspects import Aspect
from fairlead.cluster.nodes import Nodes
from fairlead.cluster.pod_index import PodQuery
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.pods import PodField, PodRequest
from fairlead.plugins.affinity_rules import (
    affinity_matches,
    anti_affinity_matches,
    existing_anti_affinity_matches,
    sum_of_domain,
)
from fairlead.plugins.affinity_trial import AffinityTrial
from fairlead.plugins.api import Reason
from fairlead.plugins.normalising import stretched


@dataclass(frozen=True, slots=True)
class InterPodAffinity:
    #: Weight of required affinity of existing pods to this one; 0 to 100.
    hard_pod_affinity_weight: int = 1
    #: Leave out preferred terms of existing pods, unless this pod has some of its own.
    ignore_preferred_terms_of_existing_pods: bool = False
    name: ClassVar[str] = "InterPodAffinity"
    reads: ClassVar[Aspect] = Aspect.PODS | Aspect.LABELS
    refusal: ClassVar[str] = "node(s) didn't match pod affinity rules"
    resolvable: ClassVar[bool] = True
    pod_fields: ClassVar[PodField] = PodField.PREFERRED_AFFINITY
    filter_pod_fields: ClassVar[PodField] = PodField(0)

    def __post_init__(self) -> None:
        if not 0 <= self.hard_pod_affinity_weight <= 100:
            raise ValueError("hard_pod_affinity_weight must be 0 to 100")

    def applies(self, request: PodRequest, nodes: Nodes) -> bool:
        if request.required_affinity or request.anti_affinity:
            return True
        return bool(nodes.existing_anti_affinity(request)) and bool(
            existing_anti_affinity_matches(request, nodes).any()
        )

    def allows(self, request: PodRequest, nodes: Nodes) -> NodeMask:
        allowed = affinity_matches(request, nodes)
        allowed &= ~anti_affinity_matches(request, nodes)
        allowed &= ~existing_anti_affinity_matches(request, nodes)
        return allowed

    def applies_as_score(self, request: PodRequest, nodes: Nodes) -> bool:
        if request.preferred_affinity:
            return True
        if self.ignore_preferred_terms_of_existing_pods:
            return False
        return bool(nodes.preferred_affinity_to(request) or nodes.required_affinity_to(request))

    def rank(self, request: PodRequest, nodes: Nodes, left: NodeMask) -> NodeScores:
        """By the weights of its preferred terms, and of existing pods' terms about it."""
        weights: dict[str, PerNode] = {}
        nodes.prepare_counts([PodQuery((term,)) for term, _ in request.preferred_affinity])
        for term, weight in request.preferred_affinity:
            meant = nodes.pods_meant(PodQuery((term,)))
            _weigh(weights, term.topology_key, nodes)[:] += weight * meant
        for key, rows in nodes.preferred_affinity_to(request):
            _add_rows(_weigh(weights, key, nodes), rows)
        if self.hard_pod_affinity_weight:
            for key, rows in nodes.required_affinity_to(request):
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
        unmatched = ~affinity_matches(request, nodes, below)
        excluded = anti_affinity_matches(request, nodes, below) & ~unmatched
        by_existing = existing_anti_affinity_matches(request, nodes, below) & ~unmatched & ~excluded
        yield Reason(self.refusal, unmatched, nodes.none())
        yield Reason("node(s) didn't match pod anti-affinity rules", excluded, excluded)
        yield Reason(
            "node(s) didn't satisfy existing pods anti-affinity rules", by_existing, by_existing
        )

    def trial(self, request: PodRequest, nodes: Nodes) -> AffinityTrial:
        return AffinityTrial(request, nodes)


def _weigh(weights: dict[str, PerNode], key: str, nodes: Nodes) -> PerNode:
    if key not in weights:
        weights[key] = np.zeros(len(nodes), dtype=np.int64)
    return weights[key]


def _add_rows(weighed: PerNode, rows: Mapping[int, int], weight: int = 1) -> None:
    for row, count in rows.items():
        weighed[row] += weight * count
