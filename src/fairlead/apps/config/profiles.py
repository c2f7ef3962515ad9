"""The profiles that Fairlead brings along. Any of them can serve any scheduler name."""

from collections.abc import Mapping
from dataclasses import replace

from fairlead.kube.dialects import RESOURCES
from fairlead.model.errors import ConfigError
from fairlead.model.gpus import Isolation
from fairlead.model.nodes import GPU
from fairlead.placement.gpus import GpuPolicy
from fairlead.placement.profile import Profile
from fairlead.plugins.allocation import LeastAllocated, MostAllocated
from fairlead.plugins.api import AnyScore, Filter
from fairlead.plugins.balanced_allocation import NodeResourcesBalancedAllocation
from fairlead.plugins.dynamic_resources import DynamicResources
from fairlead.plugins.gap_price import GapPrice
from fairlead.plugins.goals import Goals
from fairlead.plugins.gpu_aware import GpuAware
from fairlead.plugins.gpu_best_fit import GpuBestFit
from fairlead.plugins.gpu_fit import GpuFit, Overcommitting
from fairlead.plugins.gpu_links import GpuLinks
from fairlead.plugins.gpu_packing import GpuPacking
from fairlead.plugins.image_locality import ImageLocality
from fairlead.plugins.inter_pod_affinity import InterPodAffinity
from fairlead.plugins.node_affinity import NodeAffinity
from fairlead.plugins.node_resources_fit import NodeResourcesFit
from fairlead.plugins.node_trusted import NodeTrusted
from fairlead.plugins.pod_topology_spread import PodTopologySpread
from fairlead.plugins.registry import FILTERS
from fairlead.plugins.room_first import RoomFirst
from fairlead.plugins.rules import NodeRules
from fairlead.plugins.scheduling_map import SchedulingMap
from fairlead.plugins.spread import Spread
from fairlead.plugins.taint_toleration import TaintToleration
from fairlead.plugins.utilsched import UtilSched
from fairlead.plugins.volume_binding import VolumeBinding

#: How much goals count beside scores: a hundredth of a level is more than all scores.
_FIRST = 10_000.0

_GPU_FIRST = {GPU: 10, "cpu": 1, "memory": 1}

_TUTORIAL = {"cpu": 10, "memory": 10, GPU: 20}

_SCORES: Mapping[str, tuple[tuple[AnyScore, float], ...]] = {
    # Names that other systems' users already have in their pods come first.
    "gpu-scheduler": ((GapPrice(), 1.0), (GpuLinks(), 0.1)),
    "toyscheduler": ((GpuBestFit(), 1.0),),
    "alnair-cost-saving": ((GpuPacking(), 1.0),),
    "alnair-high-performance": ((Spread(), 1.0),),
    "simple-custom-scheduler": ((LeastAllocated(_TUTORIAL), 1.0),),
    "gpu-aware-scheduler": ((GpuAware(), 1.0),),
    "utilsched": ((UtilSched(), 300.0),),
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
        (DynamicResources(), 2.0),
        (NodeResourcesBalancedAllocation(), 1.0),
        (ImageLocality(), 1.0),
        (VolumeBinding(), 1.0),
    ),
}

#: Where shares do not go to the fullest GPU that has room.
_GPUS = {"alnair-high-performance": GpuPolicy.SPREAD, "spread": GpuPolicy.SPREAD}

#: Filters of all profiles. Rules are added to each of them where there are any.
_ALWAYS = tuple(kind for kind in FILTERS if kind is not NodeRules)

#: The profile that is kube-scheduler's own.
KUBE = "default-scheduler"
NAMES = tuple(_SCORES)
#: Served when the user names no scheduler at all.
SERVED_BY_DEFAULT = ("gpu-scheduler", "toyscheduler")


def built_in(name: str) -> Profile:
    scores = _SCORES.get(name)
    if scores is None:
        raise ConfigError(f"unknown profile {name!r}; choose one of {', '.join(NAMES)}")
    if name == KUBE:
        # A user of kube-scheduler gets its rules and no others; GPUs are only counted.
        filters = tuple(kind() for kind in _ALWAYS if kind not in (GpuFit, SchedulingMap))
    else:
        filters = tuple(_filter(kind) for kind in _ALWAYS)
    return Profile(name, filters, scores, gpus=_GPUS.get(name, GpuPolicy.PACK))


def _filter(kind: type[Filter]) -> Filter:
    """What belongs to a dialect of GPUs alone, no node lists: it is in the book of GPUs."""
    if kind is NodeResourcesFit:
        return NodeResourcesFit(ignored_resources=RESOURCES)
    return kind()


def overcommitted(profile: Profile, limit: float, high_water: float) -> Profile:
    """The same, but shares may add up to `limit` GPUs on one that is measured to be quiet.

    That is for pods that would have to wait otherwise: room by the book outweighs all scores.
    """
    rule = Overcommitting(limit, high_water)
    _check_gpu_fit(profile, "overcommit")
    filters = tuple(rule if isinstance(each, GpuFit) else each for each in profile.filters)
    outweighing = 1.0 + sum(weight for _, weight in profile.scores)
    scores = (*profile.scores, (RoomFirst(), outweighing))
    return replace(profile, filters=filters, scores=scores)


def aiming(profile: Profile, goals: Goals) -> Profile:
    """The same, but by these goals first; its scores choose among nodes that are equally good."""
    if profile.picker is not None:
        raise ConfigError("goals and picker cannot be combined; remove one of them")
    outweighing = _FIRST * (1.0 + sum(weight for _, weight in profile.scores)) * len(goals.levels)
    return replace(profile, scores=(*profile.scores, (goals, outweighing)))


def ruled(profile: Profile, rules: NodeRules) -> Profile:
    """The same with these rules, which no profile can leave out."""
    others = [each for each in profile.filters if not isinstance(each, NodeRules)]
    last = [each for each in others if isinstance(each, NodeTrusted)]
    filters = (*(each for each in others if each not in last), rules, *last)
    return replace(profile, filters=filters)


def isolated(profile: Profile, isolation: Isolation) -> Profile:
    """The same, but shares that demand no isolation have this one."""
    _check_gpu_fit(profile, "isolation")
    filters = tuple(
        replace(each, isolation=isolation) if isinstance(each, GpuFit) else each
        for each in profile.filters
    )
    return replace(profile, filters=filters)


def claiming(
    profile: Profile, *, preempts: bool = False, chooses: bool = False, tries_later: bool = False
) -> Profile:
    """The same with other rules for resource claims."""
    if not any(isinstance(each, DynamicResources) for each in profile.filters):
        raise ConfigError("claims needs the filter DynamicResources; enable it, or remove claims")
    filters = tuple(
        replace(
            each,
            preempts=preempts and profile.preempts,
            chooses=chooses,
            tries_later=tries_later,
        )
        if isinstance(each, DynamicResources)
        else each
        for each in profile.filters
    )
    return replace(profile, filters=filters)


def _check_gpu_fit(profile: Profile, key: str) -> None:
    if not any(isinstance(each, GpuFit) for each in profile.filters):
        raise ConfigError(f"{key} needs the filter GpuFit; enable it, or remove {key}")
