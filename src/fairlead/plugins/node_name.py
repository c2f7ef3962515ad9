"""A pod that names its node goes there or nowhere."""

from typing import ClassVar

from fairlead.cluster.arrays import NodeMask
from fairlead.cluster.aspects import Aspect
from fairlead.cluster.nodes import Nodes
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.pods import PodRequest


@dataclass(frozen=True, slots=True)
class NodeName:
    name: ClassVar[str] = "NodeName"
    reads: ClassVar[Aspect] = Aspect.PRESENCE
    refusal: ClassVar[str] = "node(s) didn't match the requested node name"
    resolvable: ClassVar[bool] = False

    def allows(self, request: PodRequest, nodes: Nodes) -> NodeMask:
        return nodes.named((request.node_name,)) if request.node_name else nodes.all()
