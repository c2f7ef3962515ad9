"""The step before the bind of a pod whose GPU a reservation pod takes from a device plugin."""

from typing import ClassVar

from fairlead.cluster import reserving
from fairlead.cluster.cluster import Cluster
from fairlead.cluster.nodes import Nodes
from fairlead.cluster.trial import Trial
from fairlead.model.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class ReservationStep:
    """Create the reservation pods that are missing, and wait until their GPUs are known."""

    node: str
    numbers: tuple[int, ...]
    plugin: ClassVar[str] = "GpuFit"
    doing: ClassVar[str] = "reserving GPUs"
    done: ClassVar[str] = "GPUs were reserved"

    def assume(self, cluster: Cluster | Trial, node: str) -> None:
        for number in self.numbers:
            cluster.reserve(self.node, number)

    def settle(self, cluster: Cluster) -> None:
        for number in self.numbers:
            reserving.settle(cluster, self.node, number)

    def problem(self, node: Nodes, name: str) -> str:
        return ""
