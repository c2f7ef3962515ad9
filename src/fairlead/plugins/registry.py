"""Every plugin by name. Built-ins are listed here; a program may add those of its users."""

from collections.abc import Iterable
from difflib import get_close_matches

from fairlead.model.errors import ConfigError, UnknownPlugin
from fairlead.plugins.allocation import LeastAllocated, MostAllocated, RequestedToCapacityRatio
from fairlead.plugins.api import AnyScore, Filter, Plugin
from fairlead.plugins.balanced_allocation import NodeResourcesBalancedAllocation
from fairlead.plugins.best_fit import BestFit
from fairlead.plugins.dot_product import DotProduct
from fairlead.plugins.dynamic_resources import DynamicResources
from fairlead.plugins.fill_quiet_gpus import FillQuietGpus
from fairlead.plugins.fragmentation_gradient import FragmentationGradient
from fairlead.plugins.gap_price import GapPrice
from fairlead.plugins.gpu_aware import GpuAware
from fairlead.plugins.gpu_best_fit import GpuBestFit
from fairlead.plugins.gpu_clustering import GpuClustering
from fairlead.plugins.gpu_fit import GpuFit
from fairlead.plugins.gpu_links import GpuLinks
from fairlead.plugins.gpu_packing import GpuPacking
from fairlead.plugins.image_locality import ImageLocality
from fairlead.plugins.inter_pod_affinity import InterPodAffinity
from fairlead.plugins.low_utilisation import LowUtilisation
from fairlead.plugins.memory_room import MemoryRoom
from fairlead.plugins.named_readings import GpuReadingScore, ReadingLimit, ReadingScore
from fairlead.plugins.node_affinity import NodeAffinity
from fairlead.plugins.node_capacity_type import NodeCapacityType
from fairlead.plugins.node_declared_features import NodeDeclaredFeatures
from fairlead.plugins.node_ending import NodeEnding
from fairlead.plugins.node_name import NodeName
from fairlead.plugins.node_ports import NodePorts
from fairlead.plugins.node_resources_fit import NodeResourcesFit
from fairlead.plugins.node_trusted import NodeTrusted
from fairlead.plugins.node_unschedulable import NodeUnschedulable
from fairlead.plugins.node_volume_limits import NodeVolumeLimits
from fairlead.plugins.pod_topology_spread import PodTopologySpread
from fairlead.plugins.quiet_neighbours import QuietNeighbours
from fairlead.plugins.room_first import RoomFirst
from fairlead.plugins.rules import NodeRules
from fairlead.plugins.scheduling_map import SchedulingMap
from fairlead.plugins.spread import Spread
from fairlead.plugins.taint_toleration import TaintToleration
from fairlead.plugins.utilsched import UtilSched
from fairlead.plugins.volume_binding import VolumeBinding
from fairlead.plugins.volume_restrictions import VolumeRestrictions
from fairlead.plugins.volume_zone import VolumeZone

# The order is kube-scheduler's: a node counts under the first rule that refuses it. Our own rules
# come last, so that their words come after those that users know.
FILTERS: tuple[type[Filter], ...] = (
    NodeUnschedulable,
    NodeName,
    TaintToleration,
    NodeAffinity,
    NodePorts,
    NodeResourcesFit,
    VolumeRestrictions,
    NodeVolumeLimits,
    VolumeBinding,
    VolumeZone,
    PodTopologySpread,
    InterPodAffinity,
    DynamicResources,
    NodeDeclaredFeatures,
    SchedulingMap,
    GpuFit,
    NodeEnding,
    NodeCapacityType,
    NodeRules,
    NodeTrusted,
)
SCORES: tuple[type[AnyScore], ...] = (
    BestFit,
    DotProduct,
    FillQuietGpus,
    FragmentationGradient,
    GapPrice,
    GpuAware,
    GpuBestFit,
    GpuClustering,
    GpuLinks,
    GpuPacking,
    LowUtilisation,
    MemoryRoom,
    QuietNeighbours,
    RoomFirst,
    LeastAllocated,
    MostAllocated,
    RequestedToCapacityRatio,
    NodeResourcesBalancedAllocation,
    Spread,
    UtilSched,
    TaintToleration,
    NodeAffinity,
    PodTopologySpread,
    InterPodAffinity,
    ImageLocality,
)


#: Only in profiles that name them.
ON_REQUEST: tuple[type[Plugin], ...] = (ReadingLimit, ReadingScore, GpuReadingScore)


class Registry:
    """Plugin classes by name; a name can be taken once."""

    def __init__(self, kinds: Iterable[type[Plugin]] = (*FILTERS, *SCORES, *ON_REQUEST)) -> None:
        self._kinds: dict[str, type[Plugin]] = {}
        for kind in kinds:
            self.add(kind)

    def add(self, kind: type[Plugin]) -> None:
        taken = self._kinds.get(kind.name)
        if taken is not None and taken is not kind:
            raise ConfigError(
                f"two plugins are named {kind.name!r}: {taken.__module__} and {kind.__module__}; "
                "rename one of them"
            )
        self._kinds[kind.name] = kind

    def find(self, name: str) -> type[Plugin]:
        kind = self._kinds.get(name)
        if kind is None:
            near = get_close_matches(name, self._kinds, n=1, cutoff=0.5)
            hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(self.names)}"
            raise UnknownPlugin(f"no plugin is named {name!r}; {hint}")
        return kind

    @property
    def names(self) -> list[str]:
        return sorted(self._kinds)
