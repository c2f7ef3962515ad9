"""The same situation, told by the real kube-scheduler and by Fairlead: every word must agree."""

import contextlib
import itertools
import re
from dataclasses import dataclass, field
from typing import Any

import pytest

from bind_denials import no_binds
from fairlead.sim.controlplane import ControlPlane
from fairleads import Pods, eventually, fairlead

GPU = "nvidia.com/gpu"
ZONE = {"zone": "z1"}
WEB = {"app": "web"}
NEAR_WEB = {"topologyKey": "zone", "labelSelector": {"matchLabels": WEB}}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
TAINT = {"key": "dedicated", "value": "x", "effect": "NoSchedule"}


@dataclass(frozen=True)
class Scene:
    """Nodes (options of `create_nodes`), pods already there, and the pod that asks."""

    nodes: dict[str, dict[str, Any]]
    asks: dict[str, Any]
    there: list[dict[str, Any]] = field(default_factory=list)
    cordoned: tuple[str, ...] = ()


def gpus(count: int, **more: Any) -> dict[str, Any]:
    return {"allocatable": {GPU: str(count)}, **more}


def names(*lists: list[str]) -> dict[str, Any]:
    """Node affinity to nodes that are in all of these lists."""
    fields = [{"key": "metadata.name", "operator": "In", "values": values} for values in lists]
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchFields": fields}]}}}


SCENES = {
    "no nodes at all": Scene({}, {"gpus": 1}),
    "more GPUs than any node has": Scene({"a": gpus(4), "b": gpus(8)}, {"gpus": 9}),
    "all GPUs taken": Scene({"a": gpus(2)}, {"gpus": 1}, there=[{"gpus": 2, "nodeName": "a"}]),
    "taken on one node, too small on the other": Scene(
        {"a": gpus(2), "b": gpus(1)}, {"gpus": 2}, there=[{"gpus": 1, "nodeName": "a"}]
    ),
    "a taint": Scene({"a": gpus(8, taints=[TAINT])}, {"gpus": 1}),
    "a cordon": Scene({"a": gpus(8)}, {"gpus": 1}, cordoned=("a",)),
    "a selector nobody matches": Scene({"a": gpus(8)}, {"nodeSelector": {"disk": "fast"}}),
    "an affinity nobody matches": Scene(
        {"a": gpus(8, labels={"rank": "3"})},
        {
            "affinity": {
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [
                            {
                                "matchExpressions": [
                                    {"key": "rank", "operator": "Gt", "values": ["3"]}
                                ]
                            }
                        ]
                    }
                }
            }
        },
    ),
    "terms that name no node in common": Scene(
        {"a": gpus(8), "b": gpus(8)}, {"affinity": names(["a"], ["b"])}
    ),
    "terms that name one node, which is tainted": Scene(
        {"a": gpus(8, taints=[TAINT]), "b": gpus(8), "c": gpus(8)}, {"affinity": names(["a"])}
    ),
    "a node that is not there": Scene({"a": gpus(8)}, {"affinity": names(["nowhere"])}),
    "a number that is none": Scene(
        {"a": gpus(8, labels={"rank": "1_000"})},
        {
            "affinity": {
                "nodeAffinity": {
                    REQUIRED: {
                        "nodeSelectorTerms": [
                            {
                                "matchExpressions": [
                                    {"key": "rank", "operator": "Gt", "values": ["3"]}
                                ]
                            }
                        ]
                    }
                }
            }
        },
    ),
    "what no kubelet here declares": Scene(
        {"a": gpus(8)},
        {
            "restartPolicy": "Never",
            "container": {
                "restartPolicy": "Never",
                "restartPolicyRules": [
                    {
                        "action": "RestartAllContainers",
                        "exitCodes": {"operator": "In", "values": [42]},
                    }
                ],
            },
        },
    ),
    "a port in use": Scene(
        {"a": gpus(8)},
        {"container": {"ports": [{"containerPort": 80, "hostPort": 80}]}},
        there=[{"nodeName": "a", "container": {"ports": [{"containerPort": 80, "hostPort": 80}]}}],
    ),
    "no place for another pod": Scene(
        {"a": {"allocatable": {"pods": "1"}}}, {}, there=[{"nodeName": "a"}]
    ),
    "several resources short at once": Scene(
        {"a": {"allocatable": {"cpu": "1", "memory": "1Gi"}}},
        {"requests": {"cpu": "2", "memory": "2Gi", "ephemeral-storage": "1Ti"}, "gpus": 1},
    ),
    "twelve nodes with five different reasons": Scene(
        {
            **{f"full-{n}": gpus(0) for n in range(3)},
            **{f"tainted-{n}": gpus(8, taints=[TAINT]) for n in range(4)},
            **{f"small-{n}": {"allocatable": {GPU: "8", "memory": "1Gi"}} for n in range(2)},
            "cordoned-0": gpus(8),
            "cordoned-1": gpus(8),
            "crowded": {"allocatable": {GPU: "8", "pods": "0"}},
        },
        {"gpus": 1, "requests": {"memory": "2Gi"}},
        cordoned=("cordoned-0", "cordoned-1"),
    ),
    "a pod that must be near what is not there": Scene(
        {"a": gpus(8, labels=ZONE)}, {"affinity": {"podAffinity": {REQUIRED: [NEAR_WEB]}}}
    ),
    "pods that must not be near each other": Scene(
        {"a": gpus(8, labels=ZONE), "b": gpus(8, labels=ZONE), "c": gpus(8, taints=[TAINT])},
        {"affinity": {"podAntiAffinity": {REQUIRED: [NEAR_WEB]}}},
        there=[{"nodeName": "a", "metadata": {"labels": WEB}}],
    ),
    "a pod that another one does not want near": Scene(
        {"a": gpus(8, labels=ZONE), "b": gpus(8, labels=ZONE)},
        {"metadata": {"labels": WEB}},
        there=[{"nodeName": "a", "affinity": {"podAntiAffinity": {REQUIRED: [NEAR_WEB]}}}],
    ),
    "a domain that is too full, and one that is none": Scene(
        {"a": gpus(8, labels=ZONE), "b": gpus(8, labels={"zone": "z2"}), "c": gpus(8)},
        {
            "metadata": {"labels": WEB},
            "topologySpreadConstraints": [
                {
                    "maxSkew": 1,
                    "topologyKey": "zone",
                    "whenUnsatisfiable": "DoNotSchedule",
                    "labelSelector": {"matchLabels": WEB},
                    "minDomains": 3,
                }
            ],
        },
        there=[
            {"nodeName": "a", "metadata": {"labels": WEB}},
            {"nodeName": "b", "metadata": {"labels": WEB}},
        ],
    ),
    "an init container that asks for more": Scene(
        {"a": gpus(2)},
        {
            "gpus": 1,
            "initContainers": [
                {"name": "i", "image": "x", "resources": {"limits": {GPU: "3"}}},
            ],
        },
    ),
    "a sidecar that adds up": Scene(
        {"a": gpus(2)},
        {
            "gpus": 2,
            "initContainers": [
                {
                    "name": "i",
                    "image": "x",
                    "restartPolicy": "Always",
                    "resources": {"limits": {GPU: "1"}},
                },
            ],
        },
    ),
}


@pytest.fixture(scope="module")
def arena(real_plane):
    """One API server, and kube-scheduler at work on it."""
    with real_plane.start_kube_scheduler():
        yield real_plane


@pytest.fixture(scope="module", autouse=True)
def ours(arena):
    """Fairlead at work beside it."""
    with fairlead(arena) as running:
        yield running


_numbers = itertools.count()


@pytest.mark.parametrize("scene", SCENES.values(), ids=SCENES.keys())
def test_the_words_are_kube_schedulers(arena, scene: Scene) -> None:
    pods = _namespace(arena)
    merge = "application/merge-patch+json"
    for name, options in scene.nodes.items():
        arena.create_nodes([name], **options)
    for name in scene.cordoned:
        arena.api(
            "PATCH", f"/api/v1/nodes/{name}", {"spec": {"unschedulable": True}}, content_type=merge
        )
    try:
        _have_seen(pods, *scene.nodes)
        for number, pod in enumerate(scene.there):
            pods.create(f"there-{number}", **pod)
        pods.create("theirs", scheduler="default-scheduler", **scene.asks)
        pods.create("ours", scheduler="gpu-scheduler", **scene.asks)
        for name in ("theirs", "ours"):
            pods.wait_refused(name)
        fields = ("type", "status", "reason", "message", "observedGeneration")
        note = _alike(pods, *fields)["message"]
        their_event, our_event = (_failure(pods, name, note) for name in ("theirs", "ours"))
        for key in ("type", "reason", "action", "note"):
            assert our_event[key] == their_event[key]
    finally:
        arena.delete_namespace(pods.namespace)
        for name in scene.nodes:
            arena.api("DELETE", f"/api/v1/nodes/{name}")


def test_it_behaves_like_the_version_of_the_server(arena, ours) -> None:
    version = arena.api("GET", "/version")[1]
    said = "behaving like kube-scheduler"
    (line,) = eventually(lambda: [r for r in ours.records if r["event"] == said], what=said)
    assert line["version"] == f"{version['major']}.{version['minor']}"


def test_a_resize_under_way_takes_as_much(arena) -> None:
    """One container grows and one shrinks: whether there is room depends on the version."""
    pods = _namespace(arena)
    arena.create_nodes(["a"], allocatable={"cpu": "4"})
    asked, given = {"grows": "2", "shrinks": "1"}, {"grows": "1", "shrinks": "2"}
    try:
        _have_seen(pods, "a")
        pods.create("resized", nodeName="a", containers=[_asking(*one) for one in asked.items()])
        _report(pods, "resized", given)
        pods.create("theirs", scheduler="default-scheduler", requests={"cpu": "400m"})
        pods.create("ours", scheduler="gpu-scheduler", requests={"cpu": "400m"})
        for name in ("theirs", "ours"):
            eventually(lambda name=name: pods.condition(name))
        _alike(pods, "status", "message")
        assert pods.node("ours") == pods.node("theirs")
    finally:
        arena.delete_namespace(pods.namespace)
        arena.api("DELETE", "/api/v1/nodes/a")


def _asking(name: str, cpu: str) -> dict[str, Any]:
    return {"name": name, "image": "x", "resources": {"requests": {"cpu": cpu}}}


def _report(pods: Pods, name: str, given: dict[str, str]) -> None:
    """Plays the kubelet: this is what the containers have, whatever they ask for."""
    statuses = [
        {
            "name": container, "image": "x", "imageID": "", "ready": True, "restartCount": 0,
            "resources": {"requests": {"cpu": cpu}}, "allocatedResources": {"cpu": cpu},
        }
        for container, cpu in given.items()
    ]  # fmt: skip
    body = {"status": {"phase": "Running", "containerStatuses": statuses}}
    merge = "application/merge-patch+json"
    path = f"{pods.path}/{name}/status"
    assert pods.plane.api("PATCH", path, body, content_type=merge)[0] == 200


def test_a_denied_bind_is_told_in_the_same_words(arena) -> None:
    pods = _namespace(arena)
    arena.create_nodes(["a"], allocatable={GPU: "8"})
    try:
        _have_seen(pods, "a")
        with no_binds(pods):
            pods.create("theirs", scheduler="default-scheduler", gpus=1)
            pods.create("ours", scheduler="gpu-scheduler", gpus=1)
            theirs, ours = pods.wait_refused("theirs"), pods.wait_refused("ours")
            assert ours["reason"] == theirs["reason"] == "SchedulerError"
            assert ours["message"] == theirs["message"].replace("theirs", "ours")
    finally:
        arena.delete_namespace(pods.namespace)
        arena.api("DELETE", "/api/v1/nodes/a")


STABLE = (
    "scheduler_schedule_attempts_total",
    "scheduler_scheduling_attempt_duration_seconds",
    "scheduler_pod_scheduling_attempts",
    "scheduler_framework_extension_point_duration_seconds",
    "scheduler_preemption_attempts_total",
    "scheduler_preemption_victims",
    "scheduler_pending_pods",
    "scheduler_queue_incoming_pods_total",
)


def test_the_stable_metrics_have_its_names_types_labels_and_buckets(arena, ours) -> None:
    pods = _namespace(arena)
    arena.create_nodes(["a"], allocatable={GPU: "8"})
    try:
        pods.create("theirs", scheduler="default-scheduler", gpus=1)
        pods.create("ours", scheduler="gpu-scheduler", gpus=1)
        pods.wait_bound("theirs", "ours")
        eventually(lambda: ours.metric("scheduler_pod_scheduling_attempts_count"))
        theirs_text = eventually(lambda: _when_bound(arena), what="theirs is counted")
        ours_text = ours.get("/metrics")[1]
        for name in STABLE:
            assert _described(ours_text, name) == _described(theirs_text, name), name
        assert _comings(ours_text) <= _comings(theirs_text)
    finally:
        arena.delete_namespace(pods.namespace)
        arena.api("DELETE", "/api/v1/nodes/a")


def _when_bound(plane: ControlPlane) -> str:
    """The metrics of kube-scheduler, if it has counted a pod that it bound."""
    text = plane.text("/metrics", of="kube-scheduler")
    counted = re.search(r"^scheduler_pod_scheduling_attempts_count [1-9]", text, re.MULTILINE)
    return text if counted else ""


def _described(text: str, name: str) -> tuple[str, set[str], set[float]]:
    """Type, label names and bucket bounds of a metric."""
    (kind,) = set(re.findall(rf"^# TYPE {name} (\w+)$", text, re.MULTILINE))
    labelled = re.findall(rf"^{name}(?:_bucket)?{{([^}}]*)}}", text, re.MULTILINE)
    labels = {label for found in labelled for label in re.findall(r'(\w+)="', found)}
    bounds = {bound for found in labelled for bound in re.findall(r'\ble="([^"]+)"', found)}
    return kind, labels, {round(float(bound), 6) for bound in bounds}


def _comings(text: str) -> set[str]:
    """What a new pod is called in the metrics, by whatever version."""
    found = re.findall(r"^scheduler_queue_incoming_pods_total{(.*)}", text, re.MULTILINE)
    events = {event for labels in found for event in re.findall(r'event="(\w+PodAdd)"', labels)}
    assert events, "some pod has come"
    return {event for event in events if not event.startswith("AssignedPod")}


def _namespace(plane) -> Pods:
    name = f"oracle-{next(_numbers)}"
    assert plane.api("POST", "/api/v1/namespaces", {"metadata": {"name": name}})[0] == 201
    return Pods(plane, name)


def _have_seen(pods: Pods, *nodes: str) -> None:
    """Returns when both schedulers have seen what was written to nodes until now.

    They hear of pods and of nodes separately. A label is written last, and asked for.
    """
    if not nodes:
        return
    label, merge = {"seen": pods.namespace}, "application/merge-patch+json"
    path, patch = f"/api/v1/nodes/{nodes[0]}", {"metadata": {"labels": label}}
    assert pods.plane.api("PATCH", path, patch, content_type=merge)[0] == 200
    for scheduler in ("default-scheduler", "gpu-scheduler"):
        anywhere = {"nodeSelector": label, "tolerations": [{"operator": "Exists"}]}
        pods.create(f"sees-{scheduler}", scheduler=scheduler, **anywhere)
        pods.wait_bound(f"sees-{scheduler}")
        pods.delete(f"sees-{scheduler}")


def _alike(pods: Pods, *fields: str) -> dict[str, Any]:
    """What both say of their pods in the end: before, one may have seen less than the other."""
    said: list[dict[str, Any]] = []

    def are_alike() -> bool:
        found = (pods.condition(name) for name in ("theirs", "ours"))
        said[:] = [{field: one.get(field) for field in fields} for one in found]
        return said[0] == said[1]

    with contextlib.suppress(AssertionError):
        eventually(are_alike)
    theirs, ours = said
    assert ours == theirs
    return ours


def _failure(pods: Pods, name: str, note: str) -> dict[str, Any]:
    def told() -> list[dict[str, Any]]:
        return [each for each in pods.events(name, "FailedScheduling") if each["note"] == note]

    return eventually(told, what=f"{name}: {note}")[0]
