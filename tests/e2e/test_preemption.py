"""Who is evicted, where and in which words: the real kube-scheduler and Fairlead in turn."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from fairlead.sim.controlplane import ControlPlane, served
from fairleads import Pods, eventually, fairlead

GPU = "nvidia.com/gpu"
THEIRS, OURS = "default-scheduler", "gpu-scheduler"
PRIORITIES = {"low": 1, "middle": 5, "high": 10, "higher": 20}
_numbers = itertools.count()


@dataclass(frozen=True)
class Scene:
    """GPUs of each node, the pods there, budgets (allowed, by label), and the pod that asks."""

    nodes: dict[str, int]
    there: dict[str, dict[str, Any]]
    asks: dict[str, Any]
    budgets: dict[str, int] = field(default_factory=dict)
    #: How many have to go, if any: they are evicted one after the other.
    victims: int = 1


def on(node: str, gpus: int, priority: str = "low", **more: Any) -> dict[str, Any]:
    return {"nodeName": node, "gpus": gpus, "priorityClassName": priority, **more}


def labelled(app: str) -> dict[str, Any]:
    return {"metadata": {"labels": {"app": app}}}


HIGH = {"priorityClassName": "high"}

SCENES = {
    "one victim of two": Scene(
        {"a": 4}, {"x": on("a", 2), "y": on("a", 2, "middle")}, {"gpus": 2, **HIGH}
    ),
    "the node with the least important victims": Scene(
        {"a": 4, "b": 4},
        {"x": on("a", 4, "middle"), "y": on("b", 2), "z": on("b", 2)},
        {"gpus": 4, **HIGH},
        victims=2,
    ),
    "a budget that is used up": Scene(
        {"a": 4, "b": 4},
        {"x": on("a", 4, **labelled("db")), "y": on("b", 4, "middle", **labelled("web"))},
        {"gpus": 4, **HIGH},
        budgets={"db": 0},
    ),
    "only what a port needs": Scene(
        {"a": 4},
        {
            "x": on("a", 1, container={"ports": [{"containerPort": 80, "hostPort": 80}]}),
            "y": on("a", 1),
        },
        {"gpus": 1, "container": {"ports": [{"containerPort": 80, "hostPort": 80}]}, **HIGH},
    ),
    "nobody less important": Scene(
        {"a": 4, "b": 2}, {"x": on("a", 4, "high"), "y": on("b", 2)}, {"gpus": 4, **HIGH}
    ),
    "too little even then": Scene(
        {"a": 4}, {"x": on("a", 1), "y": on("a", 3, "high")}, {"gpus": 4, **HIGH}
    ),
    "a pod that never preempts": Scene(
        {"a": 4}, {"x": on("a", 4)}, {"gpus": 4, "priorityClassName": "gentle"}
    ),
}


@pytest.fixture(scope="module")
def arena(real_plane: ControlPlane) -> Iterator[ControlPlane]:
    served.priority_class(real_plane, "gentle", 10, preemptionPolicy="Never")
    with (
        served.priority_classes(real_plane, {**PRIORITIES, "gentle": 10}),
        real_plane.start_kube_scheduler(),
        fairlead(real_plane),
    ):
        yield real_plane


@pytest.mark.parametrize("scene", SCENES.values(), ids=SCENES.keys())
def test_the_same_victims_the_same_place_and_the_same_words(arena, scene: Scene) -> None:
    theirs = play(arena, scene, THEIRS)
    ours = play(arena, scene, OURS)
    assert ours == theirs


def play(plane: ControlPlane, scene: Scene, scheduler: str) -> dict[str, Any]:
    """The scene with one scheduler, and all that can be seen of what it did."""
    pods = Pods(plane, f"preempt-{next(_numbers)}")
    assert plane.api("POST", "/api/v1/namespaces", {"metadata": {"name": pods.namespace}})[0] == 201
    for name, gpus in scene.nodes.items():
        labels = {"scene": pods.namespace}
        plane.create_nodes([name], allocatable={GPU: str(gpus)}, labels=labels)
    try:
        for app, allowed in scene.budgets.items():
            make_budget(plane, pods.namespace, app, allowed)
        wait_known(pods, scene, scheduler)
        for name, pod in scene.there.items():
            # Held back by a finalizer, so that what was written on them can be read.
            meta = {**pod.get("metadata", {}), "finalizers": ["fairlead.dev/hold"]}
            pods.create(name, scheduler="somebody", **{**pod, "metadata": meta})
        pods.create("asks", scheduler=scheduler, **scene.asks)
        condition = pods.wait_refused("asks")
        found = observed(pods, scene, condition, scheduler)
        release(plane, pods, scene)
        if found["nominated"]:
            assert pods.wait_bound("asks")["asks"] == found["nominated"]
        return found
    finally:
        release(plane, pods, scene)
        plane.delete_namespace(pods.namespace)
        for name in scene.nodes:
            plane.api("DELETE", f"/api/v1/nodes/{name}")


def wait_known(pods: Pods, scene: Scene, scheduler: str) -> None:
    """The scheduler knows the nodes of this scene and no others: pods come by another watch."""
    where, count = {"scene": pods.namespace}, len(scene.nodes)

    def known() -> bool:
        pods.create("probe", scheduler=scheduler, requests={"cpu": "1000"}, nodeSelector=where)
        message = pods.wait_refused("probe")["message"]
        pods.delete("probe")
        return f"0/{count} nodes are available: {count} Insufficient cpu" in message

    eventually(known, what="the nodes of the scene are known")


def observed(
    pods: Pods, scene: Scene, condition: dict[str, Any], scheduler: str
) -> dict[str, Any]:  # fmt: skip
    nominated = pods.get("asks")["status"].get("nominatedNodeName", "")
    if nominated:
        eventually(lambda: all_told(pods, scene), what="victims told")
    found = victims(pods, scene)
    return {
        "message": condition["message"],
        "nominated": nominated,
        "victims": {name: told(pod, scheduler) for name, pod in found.items()},
        "events": {
            name: event_of(pods, name, pods.get("asks")["metadata"]["uid"]) for name in found
        },
    }


def victims(pods: Pods, scene: Scene) -> dict[str, dict[str, Any]]:
    there = {name: pods.get(name) for name in scene.there}
    return {name: p for name, p in there.items() if p["metadata"].get("deletionTimestamp")}


def all_told(pods: Pods, scene: Scene) -> bool:
    found = victims(pods, scene)
    are_all = len(found) >= scene.victims
    return are_all and all(pods.events(name, "Preempted") for name in found)


def told(pod: dict[str, Any], scheduler: str) -> dict[str, Any]:
    (condition,) = [c for c in pod["status"]["conditions"] if c["type"] == "DisruptionTarget"]
    fields = ("type", "status", "reason", "message", "observedGeneration")
    return {key: str(condition.get(key)).replace(scheduler, "S") for key in fields}


def event_of(pods: Pods, name: str, uid: str) -> dict[str, Any]:
    (event,) = pods.events(name, "Preempted")
    return {
        "type": event["type"],
        "action": event["action"],
        "note": event["note"].replace(uid, "UID"),
    }


def release(plane: ControlPlane, pods: Pods, scene: Scene) -> None:
    for name in scene.there:
        path = f"{pods.path}/{name}"
        body = {"metadata": {"finalizers": None}}
        plane.api("PATCH", path, body, content_type="application/merge-patch+json")
        if pods.get(name).get("metadata", {}).get("deletionTimestamp"):
            plane.api("DELETE", f"{path}?gracePeriodSeconds=0")


def make_budget(plane: ControlPlane, namespace: str, app: str, allowed: int) -> None:
    path = f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets"
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": app}}}
    assert plane.api("POST", path, {"metadata": {"name": app}, "spec": spec})[0] == 201
    status = {
        "disruptionsAllowed": allowed, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1,
        "observedGeneration": 1,
    }  # fmt: skip
    kind = "application/merge-patch+json"
    answer = plane.api("PATCH", f"{path}/{app}/status", {"status": status}, content_type=kind)
    assert answer[0] == 200, answer
