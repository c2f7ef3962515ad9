"""A CSI driver can attach only so many volumes to a node."""

from collections.abc import Iterable
from typing import ClassVar

from fairlead.cluster.arrays import NodeMask
from fairlead.cluster.aspects import Aspect
from fairlead.cluster.nodes import Nodes
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.pods import PodRequest
from fairlead.model.volumes import PodVolumes
from fairlead.plugins.api import Reason


@dataclass(frozen=True, slots=True)
class NodeVolumeLimits:
    name: ClassVar[str] = "NodeVolumeLimits"
    reads: ClassVar[Aspect] = Aspect.VOLUMES
    refusal: ClassVar[str] = "node(s) exceed max volume count"
    resolvable: ClassVar[bool] = True

    def applies(self, request: PodRequest, nodes: Nodes) -> bool:
        return request.volumes is not None

    def allows(self, request: PodRequest, nodes: Nodes) -> NodeMask:
        if request.volumes is None:
            return nodes.all()
        allowed = ~nodes.over_volume_limit(request.volumes)
        for _, lacking in self._lacking(request.volumes, nodes):
            allowed &= ~lacking
        return allowed

    def reasons(self, request: PodRequest, nodes: Nodes) -> Iterable[Reason]:
        """A node has one: the first driver that it lacks, or that it holds too many volumes."""
        if request.volumes is None:
            return
        told = nodes.none()
        for driver, lacking in self._lacking(request.volumes, nodes):
            first = lacking & ~told
            told |= lacking
            yield Reason(f"{driver} CSI driver is not installed on the node", first, first)
        over = nodes.over_volume_limit(request.volumes) & ~told
        yield Reason(self.refusal, over, over)

    def _lacking(self, volumes: PodVolumes, nodes: Nodes) -> list[tuple[str, NodeMask]]:
        if not nodes.behaviour.refuses_missing_drivers:  # before 1.37
            return []
        storage = nodes.storage
        wanted = sorted({volume.driver for volume in storage.attached.of_pod(volumes)})
        return [
            (driver, ~nodes.has_driver(driver))
            for driver in wanted
            if (found := storage.drivers.get(driver)) and found.must_be_installed
        ]
