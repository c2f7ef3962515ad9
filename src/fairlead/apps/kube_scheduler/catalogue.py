"""kube-scheduler 1.36's plugins, and what each is to Fairlead: the one table to keep up to date."""

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches


@dataclass(frozen=True, slots=True)
class KubePlugin:
    #: The extension points that it has something to say at.
    points: frozenset[str]
    #: In the default profile; 0 stands for no weight of its own.
    weight: int = 0
    on_by_default: bool = True
    #: Its preFilter refuses pods or nodes by itself, and not only prepares its filter.
    refuses_early: bool = False


def _at(points: str, weight: int = 0, **more: bool) -> KubePlugin:
    return KubePlugin(frozenset(points.split()), weight, **more)


# In the order of the default profile, in which a node counts under the first rule that refuses it.
PLUGINS: Mapping[str, KubePlugin] = {
    "SchedulingGates": _at("preEnqueue"),
    "PrioritySort": _at("queueSort"),
    "NodeUnschedulable": _at("filter"),
    "NodeName": _at("filter"),
    "TaintToleration": _at("filter preScore score", 3),
    "NodeAffinity": _at("preFilter filter preScore score", 2, refuses_early=True),
    "NodePorts": _at("preFilter filter"),
    "NodeResourcesFit": _at("preFilter filter preScore score placementScore", 1),
    "VolumeRestrictions": _at("preFilter filter", refuses_early=True),
    "NodeVolumeLimits": _at("preFilter filter"),
    "VolumeBinding": _at("preFilter filter reserve preBind preScore score", refuses_early=True),
    "VolumeZone": _at("preFilter filter", refuses_early=True),
    "PodTopologySpread": _at("preFilter filter preScore score", 2),
    "InterPodAffinity": _at("preFilter filter preScore score", 2),
    "DynamicResources": _at("preEnqueue preFilter filter postFilter score reserve preBind", 2),
    "DefaultPreemption": _at("preEnqueue postFilter"),
    "NodeResourcesBalancedAllocation": _at("preScore score", 1),
    "ImageLocality": _at("score", 1),
    "DefaultBinder": _at("bind"),
    "NodeDeclaredFeatures": _at("preFilter filter"),
    "GangScheduling": _at("preEnqueue permit", on_by_default=False),
    "TopologyPlacementGenerator": _at("placementGenerate", on_by_default=False),
    "PodGroupPodsCount": _at("placementScore", on_by_default=False),
}

#: Part of Fairlead itself; each with the extension point where kube-scheduler has it.
BUILT_IN: Mapping[str, str] = {
    "SchedulingGates": "preEnqueue",
    "PrioritySort": "queueSort",
    "DefaultBinder": "bind",
}
#: Groups of pods: kube-scheduler's alpha, which Fairlead does not know.
OF_POD_GROUPS = frozenset({"GangScheduling", "TopologyPlacementGenerator", "PodGroupPodsCount"})
#: Their scores tell no two nodes apart in kube-scheduler 1.36, unless a pod has resource claims.
MUTE_SCORES = frozenset({"VolumeBinding", "DynamicResources"})
#: What has to stand together: a rule and what prepares it or carries it out.
COMPANIONS: Mapping[str, tuple[str, ...]] = {
    "filter": ("preFilter", "reserve", "preBind"),
    "score": ("preScore",),
}


def works_at(point: str, name: str) -> bool:
    return name in PLUGINS and point in PLUGINS[name].points


def unknown(name: str) -> str:
    """What to say about a plugin that kube-scheduler does not bring along."""
    near = get_close_matches(name, PLUGINS, n=1, cutoff=0.75)
    if near:
        return f"there is no plugin {name!r}; did you mean {near[0]!r}?"
    return (
        f"{name!r} is none of kube-scheduler's own plugins; write its rules as a Fairlead plugin "
        "(docs/plugins.md), or leave the pods that need it with kube-scheduler"
    )
