"""The step before the bind of a pod whose volume claims are not bound yet."""

from typing import ClassVar

from fairlead.cluster.cluster import Cluster
from fairlead.cluster.nodes import Nodes
from fairlead.cluster.trial import Trial
from fairlead.cluster.volume_outlook import out_of_reach
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.storage import VolumePlan


@dataclass(frozen=True, slots=True)
class VolumeStep:
    """Bind and provision what the pod needs, and wait until all of it is bound."""

    plan: VolumePlan
    plugin: ClassVar[str] = "VolumeBinding"
    doing: ClassVar[str] = "binding volumes"
    done: ClassVar[str] = "volumes were bound"

    def assume(self, cluster: Cluster | Trial, node: str) -> None:
        cluster.assume_volumes(self.plan, node)

    def settle(self, cluster: Cluster) -> None:
        cluster.settle_volumes(self.plan)

    def problem(self, node: Nodes, name: str) -> str:
        """A volume that was provisioned out of reach of the node."""
        problem = out_of_reach(self.plan, node, name)
        return f"{self.doing}: {problem}" if problem else ""
