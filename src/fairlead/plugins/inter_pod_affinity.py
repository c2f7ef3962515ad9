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
        return bool(nodes.minding(request)) and bool(_minded(request, nodes).any())

    def allows(self, request: PodRequest, nodes: Nodes) -> NodeMask:
        allowed = _near_enough(request, nodes)
        allowed &= ~_too_near(request, nodes)
        allowed &= ~_minded(request, nodes)
        return allowed

    def cares(self, request: PodRequest, nodes: Nodes) -> bool:
        if request.wishes:
            return True
        if self.ignore_preferred_terms_of_existing_pods:
            return False
        return bool(nodes.wishes_about(request) or nodes.needs_about(request))

    def rank(self, request: PodRequest, nodes: Nodes, left: NodeMask) -> NodeScores:
        """By the weights of its own wishes, of others' wishes about it, and of their needs."""
        counts = np.zeros(len(nodes), dtype=np.int64)
        for term, weight in request.wishes:
            meant = nodes.pods_meant(PodQuery((term,)))
            counts += weight * _sum_of_domain(term.topology_key, meant, nodes)
        for key, rows in nodes.wishes_about(request):
            counts += _sum_of_domain(key, _dense(rows, nodes), nodes)
        if self.hard_pod_affinity_weight:
            for key, rows in nodes.needs_about(request):
                needs = _sum_of_domain(key, _dense(rows, nodes), nodes)
                counts += self.hard_pod_affinity_weight * needs
        return stretched(counts, left)

    def reasons(self, request: PodRequest, nodes: Nodes) -> Iterable[Reason]:
        """A node has one of the three: the first that kube-scheduler would have found."""
        far = ~_near_enough(request, nodes)
        crowded = _too_near(request, nodes) & ~far
        minded = _minded(request, nodes) & ~far & ~crowded
        yield Reason(self.refusal, far, nodes.none())
        yield Reason("node(s) didn't match pod anti-affinity rules", crowded, crowded)
        yield Reason("node(s) didn't satisfy existing pods anti-affinity rules", minded, minded)


def _near_enough(request: PodRequest, nodes: Nodes) -> NodeMask:
    """Each term's domain must hold a pod that all the terms mean."""
    keyed, found = nodes.all(), nodes.all()
    if not request.near:
        return found
    meant = nodes.pods_meant(PodQuery(request.near))
    anywhere = nodes.none()
    for term in request.near:
        has_key = nodes.has_label(term.topology_key)
        keyed &= has_key
        found &= _in_domain(term.topology_key, meant, nodes)
        anywhere |= has_key & (meant > 0)
    # The first of its kind could never start if it had to wait for another.
    if not anywhere.any() and nodes.means_itself(request, request.near):
        return keyed
    return keyed & found


def _too_near(request: PodRequest, nodes: Nodes) -> NodeMask:
    near = nodes.none()
    for term in request.apart:
        near |= _in_domain(term.topology_key, nodes.pods_meant(PodQuery((term,))), nodes)
    return near


def _minded(request: PodRequest, nodes: Nodes) -> NodeMask:
    near = nodes.none()
    for key, holders in nodes.minding(request):
        near |= _in_domain(key, holders, nodes)
    return near


def _in_domain(key: str, counts: PerNode, nodes: Nodes) -> NodeMask:
    """True where the node's domain holds at least one of the pods counted."""
    domains = nodes.domains(key)
    taken = np.zeros(int(domains.max(initial=-1)) + 2, dtype=np.bool_)
    taken[domains[counts > 0]] = True
    taken[-1] = False  # nodes without the label are in no domain
    found: NodeMask = taken[domains]
    return found


def _sum_of_domain(key: str, counts: PerNode, nodes: Nodes) -> PerNode:
    """For each node the sum over its domain; 0 without the label."""
    domains = nodes.domains(key)
    keyed = domains >= 0
    sums = np.bincount(domains[keyed], counts[keyed], minlength=int(domains.max(initial=-1)) + 2)
    found: PerNode = np.where(keyed, sums[domains], 0).astype(np.int64)
    return found


def _dense(rows: Mapping[int, int], nodes: Nodes) -> PerNode:
    counts = np.zeros(len(nodes), dtype=np.int64)
    counts[list(rows)] = list(rows.values())
    return counts
