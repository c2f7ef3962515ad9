"""Refuses pods that ask for parts of GPUs, or by a map, where the profile only counts GPUs."""

from typing import ClassVar

from fairlead.cluster.arrays import NodeMask
from fairlead.cluster.aspects import Aspect
from fairlead.cluster.nodes import Nodes
from fairlead.model.gpus import PLAIN
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.pods import PodRequest
from fairlead.plugins.api import DeviceAllocator


@dataclass(frozen=True, slots=True)
class GpusCounted:
    """Every profile has it whose allocators do not serve every request.

    Without it such a pod would be bound like one that asks for nothing.
    """

    allocators: tuple[DeviceAllocator, ...] = ()
    name: ClassVar[str] = "GpusCounted"
    #: The answer never changes; it has to be given once.
    reads: ClassVar[Aspect] = Aspect.PRESENCE
    refusal: ClassVar[str] = "node(s) were not checked, the profile assigns no GPUs"
    resolvable: ClassVar[bool] = False

    def pre_filter(self, request: PodRequest, nodes: Nodes) -> str:
        ask = request.gpu_request
        if ask is None or any(rule.allocates(ask) is not None for rule in self.allocators):
            return ""
        if ask.map_slot is not None:
            return _no("follow its scheduling map", "SchedulingMap")
        if ask.dialect == PLAIN:
            return ""
        return _no(f"assign GPUs that are requested in the dialect {ask.dialect}", "GpuFit")

    def allows(self, request: PodRequest, nodes: Nodes) -> NodeMask:
        return nodes.none() if self.pre_filter(request, nodes) else nodes.all()


def _no(what: str, rule: str) -> str:
    return (
        f"the profile of the pod's scheduler does not {what}; enable the filter {rule} there, or "
        "choose another scheduler"
    )
