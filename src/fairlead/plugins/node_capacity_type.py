"""Pods that ask for on-demand capacity never go to spot capacity."""

from typing import ClassVar

from fairlead.cluster.arrays import NodeMask
from fairlead.cluster.aspects import Aspect
from fairlead.cluster.nodes import Nodes
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.pods import PodRequest


@dataclass(frozen=True, slots=True)
class NodeCapacityType:
    name: ClassVar[str] = "NodeCapacityType"
    reads: ClassVar[Aspect] = Aspect.LABELS
    refusal: ClassVar[str] = "node(s) were spot capacity"
    resolvable: ClassVar[bool] = False

    def concerns(self, request: PodRequest) -> bool:
        return request.capacity is not None and request.capacity.on_demand_only

    def allows(self, request: PodRequest, nodes: Nodes) -> NodeMask:
        return ~nodes.spot()
