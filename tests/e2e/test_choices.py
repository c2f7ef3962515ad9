"""Scenes in which one node is best: kube-scheduler and the profile made after it must agree."""

import itertools
import re
from dataclasses import dataclass, field
from typing import Any

import pytest

from fairlead.sim.controlplane import ControlPlane
from fairleads import FAIRLEAD, Pods, eventually, fairlead
from preloaded import run

HOST = "kubernetes.io/hostname"
OURS = "like-default"
MIB = 1 << 20
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
WEB = {"app": "web"}
SMALL = {"allocatable": {"cpu": "10", "memory": "10Gi"}}

Body = dict[str, Any]


@dataclass(frozen=True)
class Scene:
    """Nodes (options of `create_nodes`, and images), pods already there, and who should win."""

    best: str
    asks: Body
    there: list[Body] = field(default_factory=list)
    nodes: dict[str, Body] = field(default_factory=lambda: {"a": {}, "b": {}, "c": {}})
    #: Services and the like that tell which pods belong together, by path.
    selecting: dict[str, Body] = field(default_factory=dict)


def soft(*keys: str) -> Body:
    return {"taints": [{"key": k, "value": "x", "effect": "PreferNoSchedule"} for k in keys]}


def zone(name: str) -> Body:
    return {"labels": {"zone": name}}


def real_zone(name: str) -> Body:
    return {"labels": {"topology.kubernetes.io/zone": name}}


def prefers(**weights: int) -> Body:
    """Preferred node affinity: a label key that must exist, and its weight."""
    terms = [
        {
            "weight": weight,
            "preference": {"matchExpressions": [{"key": key, "operator": "Exists"}]},
        }
        for key, weight in weights.items()
    ]
    return {"nodeAffinity": {PREFERRED: terms}}


def wishes(kind: str, weight: int = 10, key: str = HOST) -> Body:
    term = {"topologyKey": key, "labelSelector": {"matchLabels": WEB}}
    return {kind: {PREFERRED: [{"weight": weight, "podAffinityTerm": term}]}}


def needs(key: str = HOST) -> Body:
    term = {"topologyKey": key, "labelSelector": {"matchLabels": WEB}}
    return {"podAffinity": {REQUIRED: [term]}}


def spread(*keys: str, max_skew: int = 1) -> Body:
    return {
        "metadata": {"labels": WEB},
        "topologySpreadConstraints": [
            {
                "maxSkew": max_skew,
                "topologyKey": key,
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": WEB},
            }
            for key in keys
        ],
    }


def on(node: str, **more: Any) -> Body:
    return {"nodeName": node, **more}


def web(*nodes: str) -> list[Body]:
    return [on(node, metadata={"labels": WEB}) for node in nodes]


SERVICE = {"spec": {"selector": WEB, "ports": [{"port": 80}]}}
WORKLOAD = {
    "spec": {
        "selector": {"matchLabels": WEB},
        "template": {
            "metadata": {"labels": WEB},
            "spec": {"containers": [{"name": "main", "image": "x"}]},
        },
    }
}
BARE_WORKLOAD = {"spec": {**WORKLOAD["spec"], "selector": WEB}}


def made_by(version: str, kind: str) -> Body:
    owner = {"apiVersion": version, "kind": kind, "name": "web", "uid": "1", "controller": True}
    return {"metadata": {"labels": WEB, "ownerReferences": [owner]}}


SCENES = {
    "few soft taints": Scene(
        "b", {}, nodes={"a": soft("x"), "b": {}, "c": soft("x", "y"), "d": soft("y")}
    ),
    "a soft taint that is tolerated": Scene(
        "c",
        {"tolerations": [{"key": "y", "operator": "Exists", "effect": "PreferNoSchedule"}]},
        nodes={"a": soft("x"), "b": soft("x", "y"), "c": soft("y")},
    ),
    "the heaviest preference": Scene(
        "c",
        {"affinity": prefers(disk=10, fast=30)},
        nodes={
            "a": {"labels": {"disk": ""}},
            "b": {"labels": {"fast": ""}},
            "c": {"labels": {"disk": "", "fast": ""}},
        },
    ),
    "a preference counts more than room": Scene(
        "a",
        {"affinity": prefers(disk=1)},
        there=[on("a", requests={"cpu": "5", "memory": "5Gi"})],
        nodes={"a": {**SMALL, "labels": {"disk": ""}}, "b": SMALL, "c": SMALL},
    ),
    "a soft taint counts more than a preference": Scene(
        "b",
        {"affinity": prefers(disk=100)},
        nodes={"a": {**soft("x"), "labels": {"disk": ""}}, "b": {}, "c": soft("x")},
    ),
    "the emptiest node": Scene(
        "b",
        {"requests": {"cpu": "1", "memory": "1Gi"}},
        there=[
            on("a", requests={"cpu": "3", "memory": "3Gi"}),
            on("b", requests={"cpu": "2", "memory": "2Gi"}),
            on("c", requests={"cpu": "4", "memory": "4Gi"}),
        ],
        nodes={"a": SMALL, "b": SMALL, "c": SMALL},
    ),
    "pods that ask for nothing count as small ones": Scene(
        "c",
        {},
        there=[on(node) for node in ("a", "a", "a", "b", "b")] + [on("c")],
        nodes={name: {"allocatable": {"cpu": "1", "memory": "2Gi"}} for name in "abc"},
    ),
    "the node that the pod makes more even": Scene(
        "b",
        {"requests": {"cpu": "1", "memory": "3Gi"}},
        there=[
            on("a", requests={"cpu": "2", "memory": "2Gi"}),
            on("b", requests={"cpu": "4", "memory": "0"}),
            on("c", requests={"cpu": "2", "memory": "2Gi"}),
        ],
        nodes={"a": SMALL, "b": SMALL, "c": SMALL},
    ),
    "the emptiest zone": Scene(
        "d",
        spread("zone"),
        there=web("a", "b", "c"),
        nodes={"a": zone("1"), "b": zone("1"), "c": zone("2"), "d": zone("3")},
    ),
    "the emptiest host": Scene("b", spread(HOST), there=web("a", "a", "c")),
    "zone and host at once": Scene(
        "d",
        spread("zone", HOST),
        there=web("a", "a", "b", "c"),
        nodes={"a": zone("1"), "b": zone("1"), "c": zone("2"), "d": zone("2")},
    ),
    "a node without the zone's label is last": Scene(
        "a",
        spread("zone"),
        there=web("a", "b", "b"),
        nodes={"a": zone("1"), "b": zone("2"), "c": {}},
    ),
    "near those that it likes": Scene("b", {"affinity": wishes("podAffinity")}, there=web("b")),
    "near more of them": Scene(
        "d",
        {"affinity": wishes("podAffinity", key="zone")},
        there=web("a", "c", "c"),
        nodes={"a": zone("1"), "b": zone("1"), "c": {**zone("2"), **soft("x")}, "d": zone("2")},
    ),
    "apart from those that it does not like": Scene(
        "c", {"affinity": wishes("podAntiAffinity")}, there=web("a", "b")
    ),
    "near those that like it": Scene(
        "c",
        {"metadata": {"labels": WEB}},
        there=[on("c", affinity=wishes("podAffinity"))],
    ),
    "apart from those that do not like it": Scene(
        "a",
        {"metadata": {"labels": WEB}},
        there=[on(node, affinity=wishes("podAntiAffinity")) for node in "bc"],
    ),
    "near those that had to be near such a pod": Scene(
        "b", {"metadata": {"labels": WEB}}, there=[on("b", affinity=needs())]
    ),
    "away from others of the same service": Scene(
        "c",
        {"metadata": {"labels": WEB}},
        there=web("a", "b"),
        selecting={"api/v1:services": SERVICE},
    ),
    "in another zone than others of the same service": Scene(
        "d",
        {"metadata": {"labels": WEB}},
        there=web("a", "b"),
        selecting={"api/v1:services": SERVICE},
        nodes=dict(zip("abcd", map(real_zone, "1112"), strict=True)),
    ),
    "a node in no zone is not held to zones": Scene(
        "e",
        {"metadata": {"labels": WEB}},
        there=web("a", "b", "e"),
        selecting={"api/v1:services": SERVICE},
        nodes={**dict(zip("abcd", map(real_zone, "1112"), strict=True)), "e": {}},
    ),
    "away from others of the same ReplicaSet": Scene(
        "c",
        made_by("apps/v1", "ReplicaSet"),
        there=web("a", "b"),
        selecting={"apis/apps/v1:replicasets": WORKLOAD},
    ),
    "away from others of the same StatefulSet": Scene(
        "c",
        made_by("apps/v1", "StatefulSet"),
        there=web("a", "b"),
        selecting={"apis/apps/v1:statefulsets": {"spec": {**WORKLOAD["spec"], "serviceName": "x"}}},
    ),
    "away from others of the same ReplicationController": Scene(
        "c",
        made_by("v1", "ReplicationController"),
        there=web("a", "b"),
        selecting={"api/v1:replicationcontrollers": BARE_WORKLOAD},
    ),
    "rules of its own in place of the service's": Scene(
        "c",
        {**spread(HOST), "metadata": {"labels": {"app": "web", "is": "special"}}},
        there=web("a", "a", "b", "b", "c"),
        selecting={
            "api/v1:services": {"spec": {"selector": {"is": "special"}, "ports": [{"port": 80}]}}
        },
    ),
    "where the image is": Scene(
        "b",
        {"container": {"image": "big:1"}},
        nodes={"a": {}, "b": {"images": {"big:1": 900 * MIB}}, "c": {"images": {"big:2": 1 << 30}}},
    ),
    "where the larger image is": Scene(
        "c",
        {
            "container": {"image": "big"},
            "initContainers": [{"name": "i", "image": "host:5000/small"}],
        },
        nodes={
            "a": {},
            "b": {"images": {"host:5000/small:latest": 400 * MIB}},
            "c": {"images": {"big:latest": 800 * MIB}},
        },
    ),
}


@pytest.fixture(scope="module")
def arena(real_plane):
    """One API server with kube-scheduler and Fairlead at work on it."""
    options = ("--profile", "default-scheduler", "--scheduler-name", OURS)
    with real_plane.start_kube_scheduler(), fairlead(real_plane, *options):
        yield real_plane


_numbers = itertools.count()


@pytest.mark.parametrize("scene", SCENES.values(), ids=SCENES.keys())
def test_both_choose_the_best_node(arena, scene: Scene) -> None:
    namespace = f"choices-{next(_numbers)}"
    assert arena.api("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})[0] == 201
    pods = Pods(arena, namespace)
    try:
        for name, options in scene.nodes.items():
            _create_node(arena, name, **options)
        for number, pod in enumerate(scene.there):
            pods.create(f"there-{number}", scheduler="nobody", **pod)
        for kind, body in scene.selecting.items():
            path = "/" + kind.replace(":", f"/namespaces/{namespace}/")
            status, answer = arena.api("POST", path, {"metadata": {"name": "web"}, **body})
            assert status == 201, answer
        for scheduler in ("default-scheduler", OURS):
            _wait_until_known(pods, scheduler, list(scene.nodes)[-1])
            # Told apart from pods and new nodes: nothing shows that it has arrived.
            if scene.selecting or any("images" in node for node in scene.nodes.values()):
                eventually(lambda: _choice(pods, scheduler, scene) == scene.best, what=scheduler)  # noqa: B023
            assert (scheduler, _choice(pods, scheduler, scene)) == (scheduler, scene.best)
    finally:
        arena.delete_namespace(namespace)
        for name in scene.nodes:
            arena.api("DELETE", f"/api/v1/nodes/{name}")


def test_explain_and_compare_know_what_pods_belong_with(arena) -> None:
    scene = SCENES["away from others of the same service"]
    namespace = "choices-explained"
    assert arena.api("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})[0] == 201
    pods = Pods(arena, namespace)
    try:
        for name in scene.nodes:
            _create_node(arena, name)
        for number, pod in enumerate(scene.there):
            pods.create(f"there-{number}", scheduler="nobody", **pod)
        body = {"metadata": {"name": "web"}, **SERVICE}
        assert arena.api("POST", f"/api/v1/namespaces/{namespace}/services", body)[0] == 201
        pods.create("asks", scheduler="nobody", **scene.asks)
        options = ["--profile", "default-scheduler", "--scheduler-name", "nobody"]
        access = ["--kubeconfig", str(arena.kubeconfig_for("system:kube-scheduler"))]
        words = [str(FAIRLEAD), "explain", f"{namespace}/asks", *options, *access]
        told = run(words, check=True).stdout
        assert "it would go to node c" in told
        compare = [str(FAIRLEAD), "compare", "--live", "--profile", "default-scheduler", *access]
        told = run(compare, check=True).stdout
        assert re.search(rf"{namespace}/asks +default-scheduler +c ", told), told
    finally:
        arena.delete_namespace(namespace)
        for name in scene.nodes:
            arena.api("DELETE", f"/api/v1/nodes/{name}")


def _choice(pods: Pods, scheduler: str, scene: Scene) -> str:
    pods.create("asks", scheduler=scheduler, **scene.asks)
    chosen = pods.wait_bound("asks")["asks"]
    _remove(pods, "asks")
    return chosen


def _create_node(plane: ControlPlane, name: str, **options: Any) -> None:
    images = options.pop("images", {})
    plane.create_nodes([name], **options)
    if images:
        listed = [{"names": [image], "sizeBytes": size} for image, size in images.items()]
        status = {"status": {"images": listed}}
        path, merge = f"/api/v1/nodes/{name}/status", "application/merge-patch+json"
        assert plane.api("PATCH", path, status, content_type=merge)[0] == 200


def _wait_until_known(pods: Pods, scheduler: str, node: str) -> None:
    """Nodes are told in order: who can use the last knows all of them."""
    named = {"key": "metadata.name", "operator": "In", "values": [node]}
    terms = {"nodeSelectorTerms": [{"matchFields": [named]}]}
    pods.create("probe", scheduler=scheduler, affinity={"nodeAffinity": {REQUIRED: terms}})
    pods.wait_bound("probe")
    _remove(pods, "probe")


def _remove(pods: Pods, name: str) -> None:
    pods.delete(name)
    eventually(lambda: not pods.get(name), what=f"{name} gone")
