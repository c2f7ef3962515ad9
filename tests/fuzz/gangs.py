"""Objects of gangs, and pods that name them, with much in them that can be changed."""

import copy
import json
from collections.abc import Iterable
from random import Random
from typing import Any

from fuzz.mutations import mutated
from fuzz.objects import SCHEDULER, Json

_LWS = "leaderworkerset.sigs.k8s.io/"
_TOPOLOGY = {"requiredTopologyLevel": "zone", "preferredTopologyLevel": "kubernetes.io/hostname"}
_PACK = {"packConstraint": {"required": "zone", "preferred": "kubernetes.io/hostname"}}
#: The `spec` of an object of each dialect that has objects.
SPECS: dict[str, Json] = {
    "native": {
        "schedulingPolicy": {"gang": {"minCount": 2}}, "priority": 0, "disruptionMode": "PodGroup",
        "schedulingConstraints": {"topology": [{"key": "zone"}]},
    },
    "composite": {
        "schedulingPolicy": {"gang": {"minGroupCount": 1}}, "priority": 0,
        "schedulingConstraints": {"topology": [{"key": "zone"}]},
        "parentCompositePodGroupName": "g",
    },
    "scheduler-plugins": {
        "minMember": 2, "minResources": {"cpu": "1", "nvidia.com/gpu": 2},
        "scheduleTimeoutSeconds": 10,
    },
    "volcano": {
        "minMember": 2, "minTaskMember": {"a": 1, "b": 1}, "queue": "default",
        "minResources": {"cpu": "1"}, "networkTopology": {"mode": "hard", "highestTierAllowed": 1},
        "subGroupPolicy": [{"name": "a", "subGroupSize": 2, "minSubGroups": 1}],
    },
    "kai": {
        "minMember": 2, "queue": "q", "topologyConstraint": _TOPOLOGY,
        "stalenessGracePeriod": "60s",
        "subGroups": [
            {"name": "root", "minSubGroup": 1},
            {"name": "a", "minMember": 1, "parent": "root"},
            {"name": "b", "minMember": 1, "parent": "root", "topologyConstraint": _TOPOLOGY},
        ],
    },
    "koordinator": {"minMember": 2, "scheduleTimeoutSeconds": 10},
    "grove": {
        "podgroups": [
            {"name": "a", "minReplicas": 1, "topologyConstraint": _PACK},
            {"name": "b", "minReplicas": 1},
        ],
        "topologyConstraint": _PACK,
        "topologyConstraintGroupConfigs": [
            {"name": "x", "podGroupNames": ["a", "b"], "topologyConstraint": _PACK}
        ],
    },
}  # fmt: skip
_TASKS = json.dumps([
    {"name": "a", "minMember": 1, "minResource": {"cpu": "1"}}, {"name": "b", "minMember": 1},
])  # fmt: skip
_KOORDINATOR = "gang.scheduling.koordinator.sh/"
_YUNIKORN = "yunikorn.apache.org/"
_KUEUE = "kueue.x-k8s.io/"
#: Labels and annotations of a pod for each way to name a gang.
WORDS: tuple[tuple[Json, Json], ...] = (
    ({"scheduling.x-k8s.io/pod-group": "g"}, {}),
    ({"volcano.sh/task-spec": "a"}, {"scheduling.k8s.io/group-name": "g"}),
    ({"kai.scheduler/subgroup-name": "a"}, {"pod-group-name": "g"}),
    ({"pod-group.scheduling.sigs.k8s.io": "g"}, {}),
    ({"pod-group.scheduling.sigs.k8s.io/name": "g",
      "pod-group.scheduling.sigs.k8s.io/min-available": "2"}, {}),
    ({}, {f"{_KOORDINATOR}name": "g", f"{_KOORDINATOR}min-available": "2",
          f"{_KOORDINATOR}groups": '["default/g"]', f"{_KOORDINATOR}waiting-time": "10s",
          f"{_KOORDINATOR}match-policy": "once-satisfied"}),
    ({"grove.io/podgang": "g", "grove.io/podclique": "a"}, {}),
    ({f"{_YUNIKORN}app-id": "g"},
     {f"{_YUNIKORN}task-groups": _TASKS, f"{_YUNIKORN}task-group-name": "a"}),
    ({"spark-app-selector": "g"}, {f"{_YUNIKORN}task-groups": _TASKS}),
    ({f"{_KUEUE}pod-group-name": "g"}, {f"{_KUEUE}pod-group-total-count": "2"}),
    ({"fairlead.dev/gang": "g"}, {"fairlead.dev/gang-min": "2", "fairlead.dev/gang-max": "3"}),
    ({f"{_LWS}name": "g", f"{_LWS}group-index": "0", f"{_LWS}worker-index": "0"},
     {f"{_LWS}size": "2", "fairlead.dev/gang-topology": "required: zone"}),
    ({f"{_LWS}name": "g", f"{_LWS}group-index": "0", f"{_LWS}worker-index": "0"},
     {f"{_LWS}size": "2", f"{_LWS}exclusive-topology": "zone"}),
)  # fmt: skip


def drawn_object(rng: Random, dialects: Iterable[str] = SPECS) -> tuple[str, Json]:
    """A dialect, and an object of it, mostly changed."""
    dialect = rng.choice(list(dialects))
    whole = {"spec": SPECS[dialect], "status": {"conditions": [{"type": "X", "status": "True"}]}}
    obj = mutated(rng, whole) if rng.random() < 0.8 else copy.deepcopy(whole)
    if dialect == "native" and isinstance(obj.get("spec"), dict) and rng.random() < 0.5:
        obj["spec"]["parentCompositePodGroupName"] = rng.choice(("g", "h"))
    return dialect, {**obj, "metadata": {"name": rng.choice(("g", "h"))}}


def drawn_pod(rng: Random, number: int) -> Json:
    """A pod in one gang, in two, or in none, with words that are mostly changed."""
    said: Json = {"labels": {}, "annotations": {}}
    for labels, annotations in rng.sample(WORDS, rng.choice((1, 1, 1, 1, 2))):
        said["labels"] |= labels
        said["annotations"] |= annotations
    if rng.random() < 0.5:
        said = {key: _texts(found) for key, found in mutated(rng, said).items()}
    container = {"name": "c", "image": "x", "resources": _amounts(rng)}
    spec: Json = {"schedulerName": SCHEDULER, "containers": [container], "priority": 0}
    if rng.random() < 0.2:
        spec["schedulingGroup"] = {"podGroupName": "g"}
    if rng.random() < 0.1:
        spec["schedulingGates"] = [{"name": "example.com/gate"}]
    return {
        "apiVersion": "v1", "kind": "Pod", "spec": spec,
        "metadata": {"name": f"member-{number}", **said},
    }  # fmt: skip


def _amounts(rng: Random) -> Json:
    amounts = {"nvidia.com/gpu": str(rng.choice((0, 1, 1, 2)))}
    return {"limits": amounts, "requests": amounts}


def _texts(found: Any) -> dict[str, str]:
    """The API server takes only texts here."""
    items = found.items() if isinstance(found, dict) else ()
    return {
        str(key): value if isinstance(value, str) else json.dumps(value) for key, value in items
    }
