"""Pods that must be near others, pods that must not, and pods that others must not be near."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fairlead.cluster.arrays import NodeMask, PerNode
from fairlead.cluster.aspects import Aspect
from fairlead.cluster.nodes import Nodes
from fairlead.cluster.pod_index import PodQuery
from fairlead.model.pods import PodRequest
from fairlead.plugins.api import Reason


@dataclass(frozen=True, slots=True)
class InterPodAffinity:
    name: ClassVar[str] = "InterPodAffinity"
    reads: ClassVar[Aspect] = Aspect.PODS | Aspect.LABELS
    refusal: ClassVar[str] = "node(s) didn't match pod affinity rules"
    curable: ClassVar[bool] = True

    def applies(self, request: PodRequest, nodes: Nodes) -> bool:
        return bool(request.near or request.apart or nodes.minding(request))

    def allows(self, request: PodRequest, nodes: Nodes) -> NodeMask:
        allowed = _near_enough(request, nodes)
        allowed &= ~_too_near(request, nodes)
        allowed &= ~_minded(request, nodes)
        return allowed

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
