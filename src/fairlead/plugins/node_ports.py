"""A host port belongs to one pod at a time."""

from typing import ClassVar

from fairlead.cluster.arrays import NodeMask
from fairlead.cluster.aspects import Aspect
from fairlead.cluster.nodes import Nodes
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.pods import PodRequest


@dataclass(frozen=True, slots=True)
class NodePorts:
    name: ClassVar[str] = "NodePorts"
    reads: ClassVar[Aspect] = Aspect.PORTS
    refusal: ClassVar[str] = "node(s) didn't have free ports for the requested pod ports"
    resolvable: ClassVar[bool] = True

    def concerns(self, request: PodRequest) -> bool:
        return bool(request.host_ports)

    def allows(self, request: PodRequest, nodes: Nodes) -> NodeMask:
        allowed = nodes.all()
        for port in request.host_ports:
            allowed &= ~nodes.port_taken(port)
        return allowed
