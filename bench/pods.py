"""Pods in the shapes that scheduler_perf, kube-scheduler's own benchmark, schedules.

Each function gives a pod's labels and spec. `group` is the label by which pods of one kind know
each other, `namespaces` are where they look for each other.
"""

from dataclasses import dataclass
from typing import Any, TypeAlias

Body: TypeAlias = dict[str, Any]

ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"
GROUP = "group"
HIGH_PRIORITY = "bench-high"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def plain(cpu: str = "100m", memory: str = "500Mi", gpus: int = 0, **spec: Any) -> Body:
    amounts = {"cpu": cpu, "memory": memory} | ({"nvidia.com/gpu": str(gpus)} if gpus else {})
    resources = {"requests": amounts, "limits": amounts}
    container = {"name": "main", "image": "bench", "resources": resources}
    return {"metadata": {"labels": {}}, "spec": {"containers": [container], **spec}}


def in_zones(pod: Body, zones: tuple[str, ...]) -> Body:
    term = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": list(zones)}]}
    return _with_affinity(pod, "nodeAffinity", {_REQUIRED: {"nodeSelectorTerms": [term]}})


def rather_in_zone(pod: Body, zone: str) -> Body:
    term = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}
    return _with_affinity(pod, "nodeAffinity", {_PREFERRED: [{"weight": 10, "preference": term}]})


def near(pod: Body, group: str, namespaces: tuple[str, ...] = ()) -> Body:
    rule = {_REQUIRED: [_term(group, ZONE, namespaces)]}
    return _with_affinity(_labelled(pod, group), "podAffinity", rule)


def apart(pod: Body, group: str, namespaces: tuple[str, ...] = ()) -> Body:
    rule = {_REQUIRED: [_term(group, HOST, namespaces)]}
    return _with_affinity(_labelled(pod, group), "podAntiAffinity", rule)


def rather_near(pod: Body, group: str, namespaces: tuple[str, ...] = ()) -> Body:
    rule = {_PREFERRED: [{"weight": 1, "podAffinityTerm": _term(group, HOST, namespaces)}]}
    return _with_affinity(_labelled(pod, group), "podAffinity", rule)


def rather_apart(pod: Body, group: str, namespaces: tuple[str, ...] = ()) -> Body:
    rule = {_PREFERRED: [{"weight": 1, "podAffinityTerm": _term(group, HOST, namespaces)}]}
    return _with_affinity(_labelled(pod, group), "podAntiAffinity", rule)


def spread(pod: Body, group: str, when_unsatisfiable: str, max_skew: int = 5) -> Body:
    rule = {
        "topologyKey": ZONE,
        "maxSkew": max_skew,
        "whenUnsatisfiable": when_unsatisfiable,
        "labelSelector": {"matchLabels": {GROUP: group}},
    }
    labelled = _labelled(pod, group)
    return labelled | {"spec": labelled["spec"] | {"topologySpreadConstraints": [rule]}}


def _term(group: str, topology_key: str, namespaces: tuple[str, ...]) -> Body:
    term = {"topologyKey": topology_key, "labelSelector": {"matchLabels": {GROUP: group}}}
    return term | ({"namespaces": list(namespaces)} if namespaces else {})


def _labelled(pod: Body, group: str) -> Body:
    return pod | {"metadata": {"labels": {**pod["metadata"]["labels"], GROUP: group}}}


def _with_affinity(pod: Body, kind: str, rule: Body) -> Body:
    affinity = pod["spec"].get("affinity", {}) | {kind: rule}
    return pod | {"spec": pod["spec"] | {"affinity": affinity}}


@dataclass(frozen=True, slots=True)
class Shape:
    """Pods to measure, and those that are there before."""

    measured: Body
    #: Enough for kube-scheduler to be busy for ten seconds or more on 5,000 nodes.
    pods: int = 1000
    #: Kinds of pods that are there before, and how many for each node.
    base: tuple[tuple[float, Body], ...] = ()
    #: False: they are left to the scheduler, which finds no room for them.
    base_bound: bool = True
    #: The scheduler changes them, so the next one gets new ones.
    base_is_used_up: bool = False
    #: How many have to go for each measured pod.
    victims: int = 0


BASE, MEASURED = "bench-base", "bench-measured"
ZONES = ("zone-1", "zone-2", "zone-3")
_BOTH = (BASE, MEASURED)
_NEAR = near(plain(), "near", _BOTH)
_APART = apart(plain(), "apart", _BOTH)
_RATHER_NEAR = rather_near(plain(), "rather-near", _BOTH)
_RATHER_APART = rather_apart(plain(), "rather-apart", _BOTH)
_IN_ZONES = in_zones(plain(), ZONES[:2])
_RATHER_IN_ZONE = rather_in_zone(plain(), ZONES[0])
_LOW = plain(cpu="900m", terminationGracePeriodSeconds=0)  # gone at once: no kubelet says goodbye
_HIGH = plain(cpu="3", priorityClassName=HIGH_PRIORITY)  # three of the four low ones must go
_TOO_LARGE = plain(cpu="9", priorityClassName=HIGH_PRIORITY)

#: Upstream's counts of base pods for each node, fewer measured pods.
SHAPES = {
    "basic": Shape(plain(), 2000, ((0.2, plain()),)),
    "node affinity": Shape(_IN_ZONES, 2000, ((1, _IN_ZONES),)),
    "preferred node affinity": Shape(_RATHER_IN_ZONE, 2000, ((1, _RATHER_IN_ZONE),)),
    "spreading": Shape(spread(plain(), "spread", "DoNotSchedule"), 1000, ((1, plain()),)),
    "preferred spreading": Shape(
        spread(plain(), "spread", "ScheduleAnyway"), 1000, ((1, plain()),)
    ),
    "affinity": Shape(_NEAR, 500, ((1, _NEAR),)),
    "anti-affinity": Shape(_APART, 1000, ((0.2, _APART),)),
    "preferred affinity": Shape(_RATHER_NEAR, 1000, ((1, _RATHER_NEAR),)),
    "preferred anti-affinity": Shape(_RATHER_APART, 1000, ((1, _RATHER_APART),)),
    "mixed": Shape(
        plain(),
        1000,
        tuple((0.4, kind) for kind in (plain(), _NEAR, _APART, _RATHER_NEAR, _RATHER_APART)),
    ),
    "unschedulable": Shape(
        plain(), 1000, ((2, _TOO_LARGE),), base_bound=False, base_is_used_up=True
    ),
    "preemption": Shape(_HIGH, 500, ((4, _LOW),), base_is_used_up=True, victims=3),
}
