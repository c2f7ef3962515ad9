"""The profiles that Fairlead brings along. Any of them can serve any scheduler name."""

from collections.abc import Mapping

from fairlead.model.errors import ConfigError
from fairlead.model.nodes import GPU
from fairlead.placement.profile import Profile
from fairlead.plugins.allocation import LeastAllocated, MostAllocated
from fairlead.plugins.api import Opinion
from fairlead.plugins.balanced_allocation import NodeResourcesBalancedAllocation
from fairlead.plugins.gpu_best_fit import GpuBestFit
from fairlead.plugins.image_locality import ImageLocality
from fairlead.plugins.inter_pod_affinity import InterPodAffinity
from fairlead.plugins.node_affinity import NodeAffinity
from fairlead.plugins.pod_topology_spread import PodTopologySpread
from fairlead.plugins.registry import FILTERS
from fairlead.plugins.spread import Spread
from fairlead.plugins.taint_toleration import TaintToleration
from fairlead.plugins.volume_binding import VolumeBinding

_GPU_FIRST = {GPU: 10, "cpu": 1, "memory": 1}

_SCORES: Mapping[str, tuple[tuple[Opinion, float], ...]] = {
    # Names that other systems' users already have in their pods come first.
    "gpu-scheduler": ((GpuBestFit(), 1.0),),
    "toyscheduler": ((GpuBestFit(), 1.0),),
    "binpack": ((MostAllocated(_GPU_FIRST), 1.0),),
    "least-allocated": ((LeastAllocated(), 1.0),),
    "spread": ((Spread(), 1.0),),
    # kube-scheduler's own, with its weights.
    "default-scheduler": (
        (TaintToleration(), 3.0),
        (NodeAffinity(), 2.0),
        (LeastAllocated(), 1.0),
        (PodTopologySpread("System"), 2.0),
        (InterPodAffinity(), 2.0),
        (NodeResourcesBalancedAllocation(), 1.0),
        (ImageLocality(), 1.0),
        (VolumeBinding(), 1.0),
    ),
}

NAMES = tuple(_SCORES)
#: Served when the user names no scheduler at all.
SERVED_BY_DEFAULT = ("gpu-scheduler", "toyscheduler")


def built_in(name: str) -> Profile:
    scores = _SCORES.get(name)
    if scores is None:
        raise ConfigError(f"there is no profile {name!r}; choose one of {', '.join(NAMES)}")
    return Profile(name, tuple(kind() for kind in FILTERS), scores)
