"""The claims for extended resources of pods, node by node.

Where a device plugin offers a resource, it serves the pod. Elsewhere devices of the class do.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from fairlead.claims.extended import Classes, RequestMapping, extended_requests
from fairlead.cluster.arrays import NodeMask, Rows
from fairlead.cluster.extended_classes import in_flight_uid
from fairlead.cluster.holdings import Holding
from fairlead.cluster.nodes import Nodes
from fairlead.model.claim_uses import ClaimUse
from fairlead.model.claims import ResourceClaim
from fairlead.model.extended import UNNAMED, ExtendedUse, has_class
from fairlead.model.nodes import GPU, Node
from fairlead.model.pods import Amounts, Pod


def unoffered(resource: str, nodes: Nodes) -> NodeMask:
    """Where no device plugin offers the resource."""
    found: NodeMask = nodes.allocatable(resource) == 0
    return found


def parts_of(use: ExtendedUse, nodes: Nodes) -> Iterator[tuple[Rows, ExtendedUse]]:
    """Positions of nodes that offer the same, and the use with the classes that stand in there."""
    masks = np.array([unoffered(resource, nodes) for resource, _ in use.classes])
    kinds, kind_of = np.unique(masks, axis=1, return_inverse=True)
    for number, chosen in enumerate(kinds.T.tolist()):
        pairs = zip(use.classes, chosen, strict=True)
        classes = tuple(pair for pair, is_chosen in pairs if is_chosen)
        yield np.flatnonzero(kind_of == number), replace(use, entry=UNNAMED, classes=classes)


def claim_of_part(use: ExtendedUse) -> ResourceClaim | None:
    """The claim that the pod needs there; None: a device plugin offers all."""
    return _claim(use, use.classes)


def special_claim(use: ExtendedUse, node: Nodes) -> ResourceClaim | None:
    """The claim that the pod needs on the one node given."""
    return _claim(use, _classes_on(use, node))


def mappings(use: ExtendedUse, node: Nodes) -> tuple[RequestMapping, ...]:
    """Which request of the claim is for which container."""
    return extended_requests(use.containers, _classes_on(use, node)).mappings


def _classes_on(use: ExtendedUse, node: Nodes) -> Classes:
    return tuple(pair for pair in use.classes if unoffered(pair[0], node)[0])


def _claim(use: ExtendedUse, classes: Classes) -> ResourceClaim | None:
    if not classes:
        return None
    return ResourceClaim(
        use.pod.partition("/")[0],
        UNNAMED if use.pod else "",
        in_flight_uid(use.owner) if use.owner else "",
        requests=extended_requests(use.containers, classes).requests,
        owner=use.owner,
        for_extended_resources=True,
    )


def unfit(use: ExtendedUse, nodes: Nodes) -> NodeMask:
    """Where a resource without a class is not known at all, and no other rule asks for it."""
    known = {name for name, _ in use.classes}
    asked = {name for each in use.containers for name, _, _ in each.resources} - known
    found = nodes.none()
    for resource in asked:
        for position in np.flatnonzero(unoffered(resource, nodes) & ~found).tolist():
            (node,) = nodes.at(np.array([position])).objects()
            found[position] = node is not None and resource not in dict(node.allocatable)
    return found


def gets_devices(uses: tuple[ClaimUse, ...], node: Node | None) -> bool:
    """Whether devices of a class stand in for the GPUs of a pod on the node."""
    return (
        has_class(uses, GPU) and node is not None and not _offers_gpus(node)
    )  # fmt: skip


def without_gpus(held: Holding) -> Holding:
    """The claim of the pod holds its GPUs; the pod itself holds none."""
    held.grant, held.by_claim = None, True
    held.amounts = _others(held.amounts)
    return held


def as_bound(pod: Pod, held: Holding | None, node: Node | None) -> Pod:
    """A bound pod as it was bound, whatever its status says later: does a claim have its GPUs?

    The status of a pod may be that of an attempt that failed. Where a device plugin offers GPUs,
    the pod has them from the plugin.
    """
    here = held is not None and held.node == pod.node
    by_claim = held.by_claim if held is not None and here else pod.gpus_by_claim
    if not by_claim or (not here and _offers_gpus(node)):
        return replace(pod, gpus_by_claim=False)
    request = replace(pod.request, gpu_request=None)
    usage = _others(pod.usage)
    return replace(pod, request=request, usage=usage, grant=None, gpus_by_claim=True)


class UnknownNodes:
    """Pods with GPUs of claims, by the node that they are bound to and that is not known yet."""

    def __init__(self) -> None:
        self._pods: dict[str, dict[str, Pod]] = {}

    def put(self, pod: Pod) -> None:
        self._pods.setdefault(pod.node, {})[pod.uid] = pod

    def drop(self, pod: Pod) -> None:
        there = self._pods.get(pod.node, {})
        there.pop(pod.uid, None)
        if not there:
            self._pods.pop(pod.node, None)

    def served_by_plugin(self, node: Node) -> list[Pod]:
        """The node has come: pods there whose GPUs are those of a device plugin after all."""
        found = self._pods.pop(node.name, {}) if self._pods else {}
        return [*found.values()] if _offers_gpus(node) else []


def _offers_gpus(node: Node | None) -> bool:
    return node is not None and dict(node.allocatable).get(GPU, 0) > 0


def _others(amounts: Amounts) -> Amounts:
    return tuple(pair for pair in amounts if pair[0] != GPU)
