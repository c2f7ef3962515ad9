"""Required affinity on one node, asked again and again as pods come and go there.

What other nodes hold stays the same meanwhile, so it is added up once for all nodes; a question
then costs a few numbers for each term.
"""

from collections.abc import Callable, Collection

import numpy as np

from fairlead.cluster.arrays import NodeMask, PerNode
from fairlead.cluster.nodes import Nodes
from fairlead.cluster.pod_index import PodQuery
from fairlead.model.pods import Pod, PodRequest
from fairlead.plugins.affinity_rules import by_key, meant_by_any, sum_of_domain


class AffinityTrial:
    """What a request meets on each node. Made while every pod is where it is."""

    def __init__(self, request: PodRequest, nodes: Nodes) -> None:
        self._request = request
        self._nodes = nodes
        #: Where pods on other nodes refuse it already.
        self._never = nodes.none()
        #: By topology key, the counts of pods that its anti-affinity selects.
        self._anti_affinity: dict[str, list[PerNode]] = {}
        for key, terms in by_key(request.anti_affinity).items():
            self._never |= _elsewhere(key, meant_by_any(terms, nodes), nodes) > 0
            self._anti_affinity[key] = [nodes.pods_meant(PodQuery((term,))) for term in terms]
        for key, holders in nodes.existing_anti_affinity_by_key(request).items():
            self._never |= _elsewhere(key, holders, nodes) > 0
        self._affinity = _RequiredAffinity(request, nodes) if request.required_affinity else None

    def at(self, row: int, pods: Collection[Pod]) -> Callable[[], bool]:
        """Asks about the row as it is then; `pods` are all that may be there."""
        if self._never[row] or (self._affinity and not self._affinity.possible[row]):
            return lambda: False
        counted = [
            counts
            for key, found in self._anti_affinity.items()
            if self._has(key, row)
            for counts in found
        ]
        excluding = [pod.uid for pod in pods if self._excludes(pod, row)]
        affinity = self._affinity
        is_there = self._nodes.is_there

        def allows() -> bool:
            if affinity and not affinity.allows(row):
                return False
            if any(counts.item(row) for counts in counted):
                return False
            return not any(map(is_there, excluding))

        return allows

    def _excludes(self, pod: Pod, row: int) -> bool:
        return any(
            self._has(term.topology_key, row) and self._nodes.means_itself(self._request, (term,))
            for term in pod.request.anti_affinity
        )

    def _has(self, key: str, row: int) -> bool:
        return bool(self._nodes.domains(key).item(row) >= 0)


class _RequiredAffinity:
    """Each term's domain must hold a pod that all the terms mean."""

    def __init__(self, request: PodRequest, nodes: Nodes) -> None:
        keys = list(dict.fromkeys(term.topology_key for term in request.required_affinity))
        self._meant = nodes.pods_meant(PodQuery(request.required_affinity))
        #: Where all the keys are; and where each domain holds such a pod on another node.
        self.possible: NodeMask = nodes.all()
        self._elsewhere, counted = nodes.all(), nodes.none()
        for key in keys:
            self.possible &= nodes.has_label(key)
            counted |= nodes.has_label(key)
            self._elsewhere &= _elsewhere(key, self._meant, nodes) > 0
        here = np.where(counted, self._meant, 0)
        self._others = here.sum() - here
        self._itself = nodes.means_itself(request, request.required_affinity)

    def allows(self, row: int) -> bool:
        if self._elsewhere[row] or self._meant.item(row):
            return True
        return self._itself and not self._others[row]


def _elsewhere(key: str, counts: PerNode, nodes: Nodes) -> PerNode:
    """How many of the pods counted are in the domain of each node, but on other nodes."""
    found: PerNode = sum_of_domain(key, counts, nodes) - np.where(nodes.has_label(key), counts, 0)
    return found
