"""Pods that wait and have been promised a node, drawn by lot: they count, though they are nowhere.

Most of them are refused by every node, and may evict nobody, so that they wait for good and keep
what they were promised. Some are held back by a gate, and some are of a scheduler that is not here.
"""

from collections.abc import Collection, Sequence

from oracle.case import FOREIGN, Object
from oracle.draws import Draw
from oracle.seen import leaving
from oracle.some_pods import any_pod, grow, host_ports
from oracle.some_rules import pod_affinity

#: No node has this label.
NOBODY = {"oracle": "nobody"}
_PRIORITIES = (-5, 50, 100, 1000, 2000, 2000, 2000)
_EVICTED = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
_STATES = {"waits": 6, "gated": 2, "foreign": 1}


def nominated_pods(draw: Draw, nodes: Sequence[str], features: Collection[str]) -> list[Object]:
    if not nodes or not draw.chance(0.5):
        return []
    return [
        _nominated(draw, f"nominated-{number}", nodes, features)
        for number in range(draw.randint(1, 6))
    ]


def nominate_some(
    draw: Draw, probes: Sequence[Object], bound: Sequence[Object], nodes: Sequence[str]
) -> None:
    """Some probes come with a promise, and some pods that leave do so to make room for somebody.

    Probes with volumes do not: a nomination is how kube-scheduler says for which node they wait.
    """
    for probe in probes:
        if nodes and "volumes" not in probe["spec"] and draw.chance(0.12):
            probe["status"] = {"nominatedNodeName": draw.one(nodes)}
    for pod in bound:
        if leaving(pod) and draw.chance(0.6):
            pod["status"]["conditions"] = [*pod["status"].get("conditions", ()), _EVICTED]


def _nominated(draw: Draw, name: str, nodes: Sequence[str], features: Collection[str]) -> Object:
    pod = any_pod(draw, name)
    spec = pod["spec"]
    spec |= {"priority": draw.one(_PRIORITIES), "preemptionPolicy": "Never"}
    _ask(draw, spec, features)
    match draw.weighted(_STATES):
        case "waits":
            spec["nodeSelector"] = NOBODY
        case "gated":
            spec["schedulingGates"] = [{"name": "example.com/not-yet"}]
        case "foreign":
            spec["schedulerName"] = FOREIGN
    pod["status"] = {"nominatedNodeName": "gone" if draw.chance(0.05) else draw.one(nodes)}
    return pod


def _ask(draw: Draw, spec: Object, features: Collection[str]) -> None:
    """For enough of something that others feel it."""
    if draw.chance(0.7):
        grow(draw, spec)
    if draw.chance(0.4):
        spec["containers"][0]["ports"] = host_ports(draw)
    if "affinity" in features and draw.chance(0.35):
        spec["affinity"] = {"podAntiAffinity": pod_affinity(draw, (), anti=True)}
