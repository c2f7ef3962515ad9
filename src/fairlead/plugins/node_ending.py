"""Nothing new goes to a node that ends soon, whatever the pod tolerates."""

from typing import ClassVar

from fairlead.cluster.arrays import NodeMask
from fairlead.cluster.aspects import Aspect
from fairlead.cluster.nodes import Nodes
from fairlead.model.ending import ending_sign
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.pods import PodRequest

_NAME = "metadata.name"


@dataclass(frozen=True, slots=True)
class NodeEnding:
    """Except for pods that name their node, as those of DaemonSets do."""

    name: ClassVar[str] = "NodeEnding"
    reads: ClassVar[Aspect] = Aspect.TAINTS
    refusal: ClassVar[str] = "node(s) were about to end"
    resolvable: ClassVar[bool] = False

    def concerns(self, request: PodRequest) -> bool:
        terms = request.node_terms
        return not terms or not all(
            any(rule.key == _NAME for rule in term.fields) for term in terms
        )

    def allows(self, request: PodRequest, nodes: Nodes) -> NodeMask:
        return ~nodes.ending()

    def detail(self, request: PodRequest, node: Nodes) -> str:
        (found,) = node.objects()
        sign = ending_sign(found.taints, found.labels, found.annotations) if found else ""
        return f"it has the {sign}" if sign else ""
