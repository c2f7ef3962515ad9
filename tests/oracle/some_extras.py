"""What is put on top of a drawn case: overhead, pods that nobody may try, and one thing let be.

It draws from lots of its own, so that cases stay what they are when something is added here.
"""

from collections.abc import Sequence

from oracle.case import Object, labels_of, selects
from oracle.draws import POD_WORDS, Draw, some_labels
from oracle.seen import leaving
from oracle.some_rules import pod_affinity

_OVERHEAD_CPU = ("50m", "100m", "1500m")
_OVERHEAD_MEMORY = ("16Mi", "120Mi", "1Gi")


def weigh_down(draw: Draw, pods: Sequence[Object]) -> None:
    """Some pods take more than their containers do, as a RuntimeClass would have it."""
    for pod in pods:
        if draw.chance(0.06):
            overhead = {"cpu": draw.one(_OVERHEAD_CPU), "memory": draw.one(_OVERHEAD_MEMORY)}
            pod["spec"]["overhead"] = overhead


def gated_pods(draw: Draw) -> list[Object]:
    """Pods that are held back: whatever they ask for, it concerns nobody else."""
    count = draw.randint(1, 3) if draw.chance(0.3) else 0
    return [_gated(draw, f"gated-{number}") for number in range(count)]


def _gated(draw: Draw, name: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "team-a",
            "labels": some_labels(draw, POD_WORDS, 0.7),
        },
        "spec": {
            "schedulerName": "default-scheduler",
            "schedulingGates": [{"name": "example.com/not-yet"}],
            "priority": 1000,
            "affinity": {"podAntiAffinity": pod_affinity(draw, (), anti=True)},
            "containers": [
                {
                    "name": "c0",
                    "image": "x",
                    "resources": {"requests": {"cpu": draw.one(("1", "8"))}},
                }
            ],
        },
    }


def keep_from_evicting(probes: Sequence[Object], bound: Sequence[Object]) -> None:
    """No probe evicts that spreads over domains with a pod in them that it means and that leaves.

    kube-scheduler does not count such a pod, and yet takes it off the count when it plays through
    an eviction. So it finds room where there will be none (ADR 0007).
    """
    leavers = [pod for pod in bound if leaving(pod)]
    for probe in probes:
        rules = probe["spec"].get("topologySpreadConstraints", ())
        if any(_counts(rule, probe, pod) for rule in rules for pod in leavers):
            probe["spec"]["preemptionPolicy"] = "Never"


def _counts(rule: Object, probe: Object, pod: Object) -> bool:
    return (
        rule["whenUnsatisfiable"] == "DoNotSchedule"
        and probe["metadata"]["namespace"] == pod["metadata"]["namespace"]
        and selects(rule.get("labelSelector") or {}, labels_of(pod))
    )
