"""kube-scheduler's plugins, and what each is to Fairlead: the one table to keep up to date.

1.36's is written out; that of each newer version says only what it has otherwise.
"""

from collections.abc import Mapping, Sequence
from difflib import get_close_matches

from fairlead.apps.config.kube_scheduler.beyond import points_of_ours
from fairlead.model.behaviour import KUBERNETES_1_36, KUBERNETES_1_37, Behaviour
from fairlead.model.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class KubePlugin:
    #: The extension points that it has something to say at.
    points: frozenset[str]
    #: In the default profile; 0 stands for no weight of its own.
    weight: int = 0
    on_by_default: bool = True
    #: Its preFilter refuses pods or nodes by itself, and not only prepares its filter.
    refuses_early: bool = False
    #: Its filter says the same without its preFilter.
    filters_alone: bool = False
    #: Not kube-scheduler's own. At points where it has nothing to say it may be named, too.
    beyond: bool = False

    def needs(self, point: str) -> bool:
        """Does it work at this point, and would it fall short elsewhere without?"""
        return point in self.points and not (self.filters_alone and point == "preFilter")


def _at(points: str, weight: int = 0, **more: bool) -> KubePlugin:
    return KubePlugin(frozenset(points.split()), weight, **more)


# In the order of the default profile, in which a node counts under the first rule that refuses it.
_PLUGINS_1_36: Mapping[str, KubePlugin] = {
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


def _newer(
    old: Mapping[str, KubePlugin], first: Sequence[str], changed: Mapping[str, KubePlugin]
) -> Mapping[str, KubePlugin]:
    """A later version's table: these come first, the others where they were, new ones last."""
    found = {**old, **changed}
    return {name: found[name] for name in (*first, *found)}


_PLUGINS_1_37 = _newer(
    _PLUGINS_1_36,
    ("SchedulingGates", "PrioritySort", "NodeName", "NodeUnschedulable"),
    {
        "NodeName": _at("preFilter filter", filters_alone=True),
        "NodeUnschedulable": _at("preFilter filter", filters_alone=True),
        "TaintToleration": _at("preFilter filter preScore score", 3, filters_alone=True),
        "DynamicResources": _at(
            "preEnqueue preFilter filter postFilter podGroupPostFilter score reserve preBind", 2
        ),
        "DefaultPreemption": _at("preEnqueue postFilter podGroupPostFilter"),
        # Inert without the gate InPlacePodVerticalScalingSchedulerPreemption.
        "DeferredPodScheduling": _at("preFilter filter permit", on_by_default=False),
    },
)

#: Extension points, as files spell them, that have come since.
POINTS_SINCE: Mapping[str, Behaviour] = {"podGroupPostFilter": KUBERNETES_1_37}


@dataclass(frozen=True, slots=True)
class Catalogue:
    """The plugins that kube-scheduler of one version brings along."""

    behaviour: Behaviour
    plugins: Mapping[str, KubePlugin]

    def has_point(self, point: str) -> bool:
        return point not in POINTS_SINCE or POINTS_SINCE[point].version <= self.behaviour.version

    def works_at(self, point: str, name: str) -> bool:
        return name in self.plugins and point in self.plugins[name].points

    def may_stand_at(self, point: str, name: str) -> bool:
        return self.works_at(point, name) or self.plugins[name].beyond

    def unknown(self, name: str) -> str:
        """What to say about a plugin that this kube-scheduler does not bring along."""
        for other in _CATALOGUES.values():
            if name in other.plugins:
                return self.belongs_to(name, other.behaviour)
        near = get_close_matches(name, self.plugins, n=1, cutoff=0.75)
        if near:
            return f"unknown plugin {name!r}; did you mean {near[0]!r}?"
        return (
            f"{name!r} is a plugin of neither kube-scheduler nor Fairlead; write it as a "
            "Fairlead plugin (docs/plugins.md), or use kube-scheduler for the pods that need it"
        )

    def belongs_to(self, name: str, other: Behaviour) -> str:
        """What to say about something that only another version has."""
        return (
            f"kube-scheduler {other.name} has {name}, but {self.behaviour.name} does not; "
            f"remove it on Kubernetes {self.behaviour.name}"
        )


def _with_ours(kube: Mapping[str, KubePlugin]) -> Mapping[str, KubePlugin]:
    found = points_of_ours(frozenset(kube))
    ours = {name: KubePlugin(points, on_by_default=False, beyond=True)
            for name, points in found.items()}  # fmt: skip
    return {**kube, **ours}


_CATALOGUES: Mapping[Behaviour, Catalogue] = {
    KUBERNETES_1_36: Catalogue(KUBERNETES_1_36, _with_ours(_PLUGINS_1_36)),
    KUBERNETES_1_37: Catalogue(KUBERNETES_1_37, _with_ours(_PLUGINS_1_37)),
}


def catalogue_of(behaviour: Behaviour) -> Catalogue:
    return _CATALOGUES[behaviour]


#: Part of Fairlead itself; each with the extension point where kube-scheduler has it.
BUILT_IN: Mapping[str, str] = {
    "SchedulingGates": "preEnqueue",
    "PrioritySort": "queueSort",
    "DefaultBinder": "bind",
}
#: Groups of pods: kube-scheduler's alpha, which Fairlead does not know.
OF_POD_GROUPS = frozenset({"GangScheduling", "TopologyPlacementGenerator", "PodGroupPodsCount"})
#: What has to stand together: a rule and what prepares it or carries it out.
COMPANIONS: Mapping[str, tuple[str, ...]] = {
    "filter": ("preFilter", "reserve", "preBind"),
    "score": ("preScore",),
}
