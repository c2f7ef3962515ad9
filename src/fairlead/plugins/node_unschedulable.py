"""Cordoned nodes take only pods that tolerate it."""

from typing import ClassVar

from fairlead.cluster.arrays import NodeMask
from fairlead.cluster.aspects import Aspect
from fairlead.cluster.nodes import Nodes
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.pods import Effect, PodRequest, Taint

CORDON = Taint("node.kubernetes.io/unschedulable", "", Effect.NO_SCHEDULE)


@dataclass(frozen=True, slots=True)
class NodeUnschedulable:
    name: ClassVar[str] = "NodeUnschedulable"
    reads: ClassVar[Aspect] = Aspect.TAINTS
    refusal: ClassVar[str] = "node(s) were unschedulable"
    resolvable: ClassVar[bool] = False

    def allows(self, request: PodRequest, nodes: Nodes) -> NodeMask:
        if any(toleration.tolerates(CORDON) for toleration in request.tolerations):
            return nodes.all()
        return ~nodes.cordoned()
