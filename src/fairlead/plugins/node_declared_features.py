"""What a pod needs of the kubelet, the node must have declared."""

from typing import ClassVar

from fairlead.cluster.arrays import NodeMask
from fairlead.cluster.aspects import Aspect
from fairlead.cluster.nodes import Nodes
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.pods import PodRequest


@dataclass(frozen=True, slots=True)
class NodeDeclaredFeatures:
    name: ClassVar[str] = "NodeDeclaredFeatures"
    reads: ClassVar[Aspect] = Aspect.FEATURES
    refusal: ClassVar[str] = "node(s) didn't match Pod's required features"
    resolvable: ClassVar[bool] = False

    def allows(self, request: PodRequest, nodes: Nodes) -> NodeMask:
        allowed = nodes.all()
        for feature in request.features:
            allowed &= nodes.declares(feature)
        return allowed

    def detail(self, request: PodRequest, node: Nodes) -> str:
        lacking = [f for f in request.features if not node.declares(f)[0]]
        return f"not declared: {', '.join(lacking)}"
