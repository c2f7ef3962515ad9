"""A CSI driver can attach only so many volumes to a node."""

from dataclasses import dataclass
from typing import ClassVar

from fairlead.cluster.arrays import NodeMask
from fairlead.cluster.aspects import Aspect
from fairlead.cluster.nodes import Nodes
from fairlead.model.pods import PodRequest


@dataclass(frozen=True, slots=True)
class NodeVolumeLimits:
    name: ClassVar[str] = "NodeVolumeLimits"
    reads: ClassVar[Aspect] = Aspect.VOLUMES
    refusal: ClassVar[str] = "node(s) exceed max volume count"
    curable: ClassVar[bool] = True

    def applies(self, request: PodRequest, nodes: Nodes) -> bool:
        return request.volumes is not None

    def allows(self, request: PodRequest, nodes: Nodes) -> NodeMask:
        if request.volumes is None:
            return nodes.all()
        return ~nodes.over_volume_limit(request.volumes)
