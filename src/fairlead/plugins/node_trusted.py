"""No new pod goes where it is not known what is free."""

from typing import ClassVar

from fairlead.cluster.arrays import NodeMask
from fairlead.cluster.aspects import Aspect
from fairlead.cluster.nodes import Nodes
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.pods import PodRequest


@dataclass(frozen=True, slots=True)
class NodeTrusted:
    name: ClassVar[str] = "NodeTrusted"
    reads: ClassVar[Aspect] = Aspect.TRUST
    refusal: ClassVar[str] = "node(s) had an object that could not be read"
    resolvable: ClassVar[bool] = False

    def allows(self, request: PodRequest, nodes: Nodes) -> NodeMask:
        return ~nodes.distrusted()
