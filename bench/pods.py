"""Pods in the shapes that scheduler_perf, kube-scheduler's own benchmark, schedules.

Each function gives a pod's labels and spec. `group` is the label by which pods of one kind know
each other, `namespaces` are where they look for each other.
"""

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
