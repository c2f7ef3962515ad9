"""What the pod asks for must be free on the node."""

from collections.abc import Iterable
from functools import lru_cache
from typing import ClassVar

from fairlead.cluster.arrays import NodeMask
from fairlead.cluster.aspects import Aspect
from fairlead.cluster.extended_claims import unoffered
from fairlead.cluster.nodes import Nodes
from fairlead.model.extended import extended_use, may_be_unoffered
from fairlead.model.gpu_resources import GPU_PARTS
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.pods import Amounts, PodRequest
from fairlead.model.quantities import PODS, is_extended, shown
from fairlead.plugins.api import Reason

_ONE_POD = 1


@dataclass(frozen=True, slots=True)
class NodeResourcesFit:
    #: Extended resources that an extender manages; a group is what stands before the slash.
    ignored_resources: tuple[str, ...] = ()
    ignored_resource_groups: tuple[str, ...] = ()
    name: ClassVar[str] = "NodeResourcesFit"
    reads: ClassVar[Aspect] = Aspect.USAGE | Aspect.ALLOCATABLE
    refusal: ClassVar[str] = "node(s) lack free resources"
    resolvable: ClassVar[bool] = True

    def allows(self, request: PodRequest, nodes: Nodes) -> NodeMask:
        asked, has_parts = _asked(self, request.resources)
        if has_parts or (request.claims and extended_use(request.claims) is not None):
            return _have_room_where_offered(request, asked, nodes)
        return nodes.have_room(asked)

    def reasons(self, request: PodRequest, nodes: Nodes) -> Iterable[Reason]:
        """One reason for each resource that is short, as kube-scheduler counts them."""
        # A node where one request exceeds all there is cannot be helped by evicting anyone.
        unresolvable = nodes.none()
        asked, _ = _asked(self, request.resources)
        for resource, need in asked:
            unresolvable |= _counts(request, resource, nodes) & (nodes.allocatable(resource) < need)
        crowded: NodeMask = nodes.free(PODS) < _ONE_POD
        yield Reason("Too many pods", crowded, crowded & ~unresolvable)
        for resource, need in asked:
            short = _counts(request, resource, nodes) & (nodes.free(resource) < need)
            yield Reason(f"Insufficient {resource}", short, short & ~unresolvable)

    def detail(self, request: PodRequest, node: Nodes) -> str:
        asked = [*_asked(self, request.resources)[0], (PODS, _ONE_POD)]
        return "; ".join(
            f"requested {shown(resource, need)} {resource}, {shown(resource, max(0, free))} of "
            f"{shown(resource, int(node.allocatable(resource)[0]))} free"
            for resource, need in asked
            if (free := int(node.free(resource)[0])) < need and _counts(request, resource, node)[0]
        )

    def ignores(self, resource: str) -> bool:
        group = resource.partition("/")[0]
        return is_extended(resource) and (
            resource in self.ignored_resources or group in self.ignored_resource_groups
        )


@lru_cache(maxsize=4096)  # a pod that is tried asks for 64 kinds at most
def _asked(rule: NodeResourcesFit, resources: Amounts) -> tuple[Amounts, bool]:
    """What must be free, and whether parts of GPUs are among it."""
    found = tuple(asked for asked in resources if not rule.ignores(asked[0]))
    return found, any(name in GPU_PARTS for name, _ in found)


def _have_room_where_offered(request: PodRequest, asked: Amounts, nodes: Nodes) -> NodeMask:
    """Where devices of a class, or the ledger alone, stand in for a resource, none is counted."""
    counted = tuple(pair for pair in asked if not may_be_unoffered(request.claims, pair[0]))
    enough = nodes.have_room(counted)
    for resource, need in asked:
        if may_be_unoffered(request.claims, resource):
            enough = enough & ((nodes.free(resource) >= need) | unoffered(resource, nodes))
    return enough


def _counts(request: PodRequest, resource: str, nodes: Nodes) -> NodeMask:
    """Where the resource must be free."""
    if may_be_unoffered(request.claims, resource):
        return ~unoffered(resource, nodes)
    return nodes.all()
