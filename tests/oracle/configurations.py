"""A KubeSchedulerConfiguration that both sides serve: one profile with defaults, others with none.

Each of the others gives arguments to plugins, weights to scores, or leaves something out. A case
says which of them its probes ask.
"""

import json
from functools import cache

from fairlead.apps.config import kube_scheduler, profiles
from fairlead.model.behaviour import KNOWN
from fairlead.placement.profile import Profile
from fairlead.plugins.registry import Registry
from oracle.case import Object
from oracle.draws import HOST, RACK, ZONE
from oracle.some_nodes import GPU, WIDGET
from oracle.some_rules import PREFERRED, REQUIRED

#: The profile that decides as kube-scheduler does by default, in the file and in Fairlead.
DEFAULT = "default-scheduler"
#: One whose scores count devices that classes make an extended resource.
DEVICES = "counts-devices"

_PACKED = [
    {"name": "cpu", "weight": 1},
    {"name": "memory", "weight": 2},
    {"name": GPU, "weight": 3},
]
_SHAPE = [
    {"utilization": 0, "score": 2},
    {"utilization": 40, "score": 10},
    {"utilization": 100, "score": 0},
]


def _on(key: str, operator: str, *values: str) -> Object:
    line = {"key": key, "operator": operator, **({"values": list(values)} if values else {})}
    return {"matchExpressions": [line]}


def _evenly(key: str, skew: int, when: str) -> Object:
    return {"topologyKey": key, "maxSkew": skew, "whenUnsatisfiable": when}


#: Arguments by plugin, of each profile.
ARGUMENTS: dict[str, dict[str, Object]] = {
    DEFAULT: {},
    "packs": {
        "NodeResourcesFit": {"scoringStrategy": {"type": "MostAllocated", "resources": _PACKED}},
        "NodeResourcesBalancedAllocation": {"resources": [{"name": "cpu"}, {"name": GPU}]},
        "InterPodAffinity": {"hardPodAffinityWeight": 70},
        "PodTopologySpread": {"defaultingType": "List"},
    },
    "shapes": {
        "NodeResourcesFit": {
            "ignoredResources": [WIDGET],
            "scoringStrategy": {
                "type": "RequestedToCapacityRatio",
                "resources": _PACKED,
                "requestedToCapacityRatio": {"shape": _SHAPE},
            },
        },
        "InterPodAffinity": {
            "hardPodAffinityWeight": 0,
            "ignorePreferredTermsOfExistingPods": True,
        },
    },
    "spreads": {
        "NodeResourcesFit": {
            "ignoredResourceGroups": ["example.com"],
            "scoringStrategy": {"type": "LeastAllocated", "resources": [{"name": GPU}]},
        },
        "PodTopologySpread": {
            "defaultingType": "List",
            "defaultConstraints": [
                _evenly(ZONE, 1, "DoNotSchedule"),
                _evenly(HOST, 2, "ScheduleAnyway"),
            ],
        },
    },
    "adds": {
        "NodeAffinity": {
            "addedAffinity": {
                REQUIRED: {"nodeSelectorTerms": [_on("disk", "Exists"), _on("rank", "Gt", "2")]},
                PREFERRED: [
                    {"weight": 40, "preference": _on(RACK, "In", "a")},
                    {"weight": 7, "preference": _on("disk", "NotIn", "hdd")},
                ],
            }
        },
    },
    "weighs": {},
    # Not for NodeResourcesBalancedAllocation: kube-scheduler 1.36.4 ends with a nil pointer there.
    DEVICES: {
        "NodeResourcesFit": {"scoringStrategy": {"type": "MostAllocated", "resources": [
            {"name": "cpu", "weight": 1}, {"name": WIDGET, "weight": 5}]}},
    },
}  # fmt: skip
#: What profiles change about the plugins themselves.
_PLUGINS: dict[str, Object] = {
    "weighs": {
        "filter": {"disabled": [{"name": "TaintToleration"}, {"name": "NodePorts"}]},
        "preFilter": {"disabled": [{"name": "NodePorts"}]},
        "score": {
            "disabled": [{"name": "ImageLocality"}, {"name": "NodeResourcesBalancedAllocation"}],
            "enabled": [{"name": "TaintToleration", "weight": 9}, {"name": "InterPodAffinity"}],
        },
        "preScore": {
            "disabled": [{"name": "NodeResourcesBalancedAllocation"}],
        },
    },
}


def in_turn(seed: int) -> str:
    """Which of them the case asks: the defaults every other time, and the others one by one."""
    others = [name for name in ARGUMENTS if name not in (DEFAULT, DEVICES)]
    return DEFAULT if seed % 2 else others[seed // 2 % len(others)]


def configuration() -> Object:
    """What to give to kube-scheduler, besides what its kind and version are."""
    return {"profiles": [_profile(name) for name in ARGUMENTS]}


def _profile(name: str) -> Object:
    arguments = [{"name": plugin, "args": args} for plugin, args in ARGUMENTS[name].items()]
    profile: Object = {"schedulerName": name, "pluginConfig": arguments}
    return profile | ({"plugins": _PLUGINS[name]} if name in _PLUGINS else {})


def as_file() -> str:
    """The same as a file of its own, for Fairlead."""
    head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    election = {"leaderElection": {"leaderElect": False}}
    return json.dumps({**head, **election, **configuration()})


@cache
def served() -> dict[str, Profile]:
    """Profiles of ours by the name that they serve; the defaults are our own, built in."""
    found = kube_scheduler.translate(as_file(), Registry(), KNOWN[0])
    assert found is not None
    assert found.problems == []
    return {**found.profiles, DEFAULT: profiles.built_in(DEFAULT)}
