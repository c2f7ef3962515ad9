"""Nobody but the scheduler says which GPUs a pod has: the policy in deploy/fairlead.yaml."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from fairlead.sim.controlplane import ADMIN, ControlPlane, served, service_account
from fairlead.sim.controlplane.client import (
    APPLY_PATCH,
    MERGE_PATCH,
    STRATEGIC_PATCH,
    Answer,
    SyncClient,
)
from fairleads import Pods, fairlead
from manifests import policy
from test_deploy import installed_on

POLICY = policy("fairlead-assignments")
JSON_PATCH = "application/json-patch+json"
SCHEDULER = service_account("fairlead-system", "fairlead")
PODS = "/api/v1/namespaces/default/pods"
OURS = (
    "fairlead.dev/gpus",
    "fairlead.dev/assignment",
    "fairlead.dev/epoch",
    "fairlead.dev/map-index",
    "fairlead.dev/runtime-gpus",
    "fairlead.dev/mps-threads",
    "fairlead.dev/mps-memory",
    "fairlead.dev/charged-queue",
)
KAI = "nvidia.com/container.main.gpus.devices"
WRITERS = "forgers"
CLIENTS: dict[tuple[str, tuple[str, ...]], SyncClient] = {}

Way = Callable[[SyncClient, str, str], Answer]


@pytest.fixture(scope="module")
def writers(real_plane: ControlPlane) -> Iterator[ControlPlane]:
    """Everybody below may do everything, as far as RBAC is concerned."""
    groups = ("forgers", "system:nodes", "system:serviceaccounts:kube-system")
    binding = {
        "kind": "ClusterRoleBinding",
        "metadata": {"name": WRITERS},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin",
        },
        "subjects": [
            {"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": one}
            for one in groups
        ],
    }  # fmt: skip
    path = served.create(real_plane, binding)
    for group in groups:
        served.wait_allowed(real_plane, "", "patch", "pods", [group])
    yield real_plane
    real_plane.api("DELETE", path)
    while CLIENTS:
        CLIENTS.popitem()[1].close()


def client_of(plane: ControlPlane, who: str = ADMIN, groups: tuple[str, ...] = ()) -> SyncClient:
    """One for each user, for the time of this module: a connection is dearer than a request."""
    if (who, groups) not in CLIENTS:
        CLIENTS[who, groups] = plane.connect(who, groups)
    return CLIENTS[who, groups]


@pytest.fixture(scope="module")
def guarded(writers: ControlPlane) -> Iterator[ControlPlane]:
    """The API server with the policy in force."""

    def in_force() -> bool:
        body = _pod("probe", {OURS[0]: "0"})
        return writers.api("POST", f"{PODS}?dryRun=All", body)[0] == 422

    with served.policy(writers, POLICY, in_force):
        yield writers


def _pod(name: str, annotations: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": annotations or {}},
        "spec": {
            "schedulerName": "gpu-scheduler",
            "containers": [{"name": "main", "image": "x"}],
            **spec,
        },
    }


def _patch(kind: str, sub: str = "") -> Way:
    def forge(client: SyncClient, name: str, key: str) -> Answer:
        if kind == JSON_PATCH:
            pointer = key.replace("~", "~0").replace("/", "~1")
            body: Any = [{"op": "add", "path": f"/metadata/annotations/{pointer}", "value": "0"}]
        else:
            body = {"metadata": {"annotations": {key: "0"}}}
        return client.api("PATCH", f"{PODS}/{name}{sub}", body, content_type=kind)

    return forge


def _apply(sub: str = "") -> Way:
    def forge(client: SyncClient, name: str, key: str) -> Answer:
        body = {
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "annotations": {key: "0"}},
        }  # fmt: skip
        path = f"{PODS}/{name}{sub}?fieldManager=forger&force=true"
        return client.api("PATCH", path, body, content_type=APPLY_PATCH)

    return forge


def _put(sub: str = "") -> Way:
    def forge(client: SyncClient, name: str, key: str) -> Answer:
        _, found = client.api("GET", f"{PODS}/{name}")
        found["metadata"]["annotations"] = {**found["metadata"].get("annotations", {}), key: "0"}
        return client.api("PUT", f"{PODS}/{name}{sub}", found)

    return forge


def _remove(client: SyncClient, name: str, key: str) -> Answer:
    body = {"metadata": {"annotations": {key: None}}}
    return client.api("PATCH", f"{PODS}/{name}", body, content_type=MERGE_PATCH)


def _create(**spec: Any) -> Way:
    def forge(client: SyncClient, name: str, key: str) -> Answer:
        return client.api("POST", PODS, _pod(f"{name}-new", {key: "0"}, **spec))

    return forge


def _bind(path: str) -> Way:
    def forge(client: SyncClient, name: str, key: str) -> Answer:
        body = {
            "apiVersion": "v1", "kind": "Binding",
            "metadata": {"name": name, "annotations": {key: "0"}},
            "target": {"apiVersion": "v1", "kind": "Node", "name": "somewhere"},
        }  # fmt: skip
        return client.api("POST", path.format(name=name), body)

    return forge


@dataclass(frozen=True)
class Forgery:
    way: Way
    who: str = "mallory"
    groups: tuple[str, ...] = ("forgers",)


NODE = ("system:node:somewhere", ("system:nodes",))
FORGERIES = {
    "create": Forgery(_create()),
    "create for another scheduler, on a node": Forgery(
        _create(schedulerName="default-scheduler", nodeName="somewhere")
    ),
    "create as the controller of a template": Forgery(
        _create(), service_account("kube-system", "replicaset-controller"), ()
    ),
    "create as administrator": Forgery(_create(), ADMIN, ()),
    "merge patch": Forgery(_patch(MERGE_PATCH)),
    "strategic patch": Forgery(_patch(STRATEGIC_PATCH)),
    "JSON patch": Forgery(_patch(JSON_PATCH)),
    "apply": Forgery(_apply()),
    "put": Forgery(_put()),
    "remove": Forgery(_remove),
    "merge patch of the status": Forgery(_patch(MERGE_PATCH, "/status")),
    "strategic patch of the status": Forgery(_patch(STRATEGIC_PATCH, "/status")),
    "JSON patch of the status": Forgery(_patch(JSON_PATCH, "/status")),
    "apply to the status": Forgery(_apply("/status")),
    "put of the status": Forgery(_put("/status")),
    "merge patch of the status as a node": Forgery(_patch(MERGE_PATCH, "/status"), *NODE),
    "binding": Forgery(_bind(PODS + "/{name}/binding")),
    "binding, the old way": Forgery(_bind("/api/v1/namespaces/default/bindings")),
    "binding as kube-scheduler": Forgery(
        _bind(PODS + "/{name}/binding"), "system:kube-scheduler", ("forgers",)
    ),
}
#: The API server drops annotations on these ways by itself. Should it ever stop, we must notice.
DROPPED = {
    f"{what} of {sub}": Forgery(way(sub))
    for sub in ("/ephemeralcontainers", "/resize")
    for what, way in {
        "merge patch": lambda sub: _patch(MERGE_PATCH, sub),
        "JSON patch": lambda sub: _patch(JSON_PATCH, sub),
        "put": _put,
    }.items()
}


def annotations_of(plane: ControlPlane, name: str) -> dict[str, str]:
    return plane.api("GET", f"{PODS}/{name}")[1].get("metadata", {}).get("annotations", {})


@pytest.fixture
def victim(writers: ControlPlane) -> Iterator[str]:
    """A pod that has been told its GPUs, if somebody tells; it goes after the test."""
    name = "victim"
    status, answer = writers.api("POST", PODS, _pod(name, {"said": "before"}))
    assert status == 201, answer
    yield name
    for gone in (name, f"{name}-new"):
        writers.api("DELETE", f"{PODS}/{gone}?gracePeriodSeconds=0")


def forge(plane: ControlPlane, forgery: Forgery, name: str, key: str) -> Answer:
    if forgery.who == NODE[0]:  # which has a say in pods of its own only
        assert _bind(PODS + "/{name}/binding")(client_of(plane), name, "note")[0] == 201
    return forgery.way(client_of(plane, forgery.who, forgery.groups), name, key)


@pytest.fixture(scope="module")
def scheduler(guarded: ControlPlane) -> Iterator[ControlPlane]:
    with installed_on(guarded):
        yield guarded


@pytest.mark.parametrize("how", [how for how in FORGERIES if how != "remove"])
@pytest.mark.parametrize("key", [*OURS, KAI, "hami.io/vgpu-devices-allocated"])
def test_with_the_policy_it_fails(guarded: ControlPlane, victim: str, how: str, key: str) -> None:
    status, answer = forge(guarded, FORGERIES[how], victim, key)

    assert status == 422, answer
    assert key in answer["message"]
    assert "leave it as it is" in answer["message"]
    assert key not in annotations_of(guarded, victim)


@pytest.mark.parametrize("how", DROPPED)
def test_other_subresources_change_nothing(guarded: ControlPlane, victim: str, how: str) -> None:
    forge(guarded, DROPPED[how], victim, OURS[0])

    assert annotations_of(guarded, victim) == {"said": "before"}


@pytest.mark.parametrize("how", ["remove", "merge patch", "put", "apply to the status"])
@pytest.mark.parametrize("key", OURS)
def test_what_the_scheduler_said_stays(
    scheduler: ControlPlane, victim: str, how: str, key: str
) -> None:
    body = {
        "apiVersion": "v1", "kind": "Binding",
        "metadata": {"name": victim, "annotations": {key: "GPU-1"}},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "somewhere"},
    }  # fmt: skip
    binder = client_of(scheduler, SCHEDULER)
    status, answer = binder.api("POST", f"{PODS}/{victim}/binding", body)
    assert status == 201, answer

    refused, answer = forge(scheduler, FORGERIES[how], victim, key)

    assert refused == 422, answer
    assert annotations_of(scheduler, victim)[key] == "GPU-1"


def test_everything_else_can_be_edited(guarded: ControlPlane, victim: str) -> None:
    """What the pod asks for, until it is bound; and what does not concern GPUs, always."""
    for how in ("merge patch", "apply", "put"):
        status, answer = forge(guarded, FORGERIES[how], victim, "fairlead.dev/gpu-share")
        assert status == 200, answer
    assert annotations_of(guarded, victim)["fairlead.dev/gpu-share"] == "0"
    as_a_node = FORGERIES["merge patch of the status as a node"]
    status, answer = forge(guarded, as_a_node, victim, "example.com/note")
    assert status == 200, answer


#: Ways to change a pod that is there already.
CHANGES = [how for how in FORGERIES if "create" not in how and "binding" not in how]


@pytest.mark.parametrize("how", CHANGES)
def test_what_a_bound_pod_asks_for_cannot_be_changed(
    guarded: ControlPlane, victim: str, how: str
) -> None:
    keys = [*_words(), "nvidia.com/container.main.gpu-memory.request"]
    asked = {"metadata": {"annotations": dict.fromkeys(keys, "1") if how == "remove" else {}}}
    guarded.api("PATCH", f"{PODS}/{victim}", asked, content_type=MERGE_PATCH)
    before = annotations_of(guarded, victim)
    assert _bind(PODS + "/{name}/binding")(client_of(guarded), victim, "note")[0] == 201
    forgery = FORGERIES[how]
    client = client_of(guarded, forgery.who, forgery.groups)
    for key in keys:
        status, answer = forgery.way(client, victim, key)
        assert status == 422, (key, answer)
        assert f"annotation {key} says what a pod asks of GPUs" in answer["message"]
    assert annotations_of(guarded, victim) == {**before, "note": "0"}


def _words() -> list[str]:
    found = next(v for v in POLICY[0]["spec"]["variables"] if v["name"] == "requestKeys")
    return re.findall(r"'([^']+)'", found["expression"])


def test_a_plain_binding_of_another_scheduler_passes(guarded: ControlPlane, victim: str) -> None:
    client = client_of(guarded, "system:kube-scheduler")
    status, answer = _bind(PODS + "/{name}/binding")(client, victim, "note")

    assert status == 201, answer


def test_a_device_plugin_may_say_what_it_did(guarded: ControlPlane, victim: str) -> None:
    plugin = Forgery(_patch(MERGE_PATCH), service_account("kube-system", "hami-device-plugin"), ())

    assert forge(guarded, plugin, victim, "hami.io/bind-phase")[0] == 200
    assert forge(guarded, plugin, victim, OURS[0])[0] == 422


def test_a_pod_cannot_hide_in_a_group_of_kai(guarded: ControlPlane, victim: str) -> None:
    body = {"metadata": {"labels": {"runai-gpu-group": "x"}}}
    client = client_of(guarded, "mallory", ("forgers",))
    status, answer = client.api("PATCH", f"{PODS}/{victim}", body, content_type=MERGE_PATCH)

    assert status == 422, answer
    assert "only KAI writes it" in answer["message"]


def test_the_scheduler_itself_works_as_ever(scheduler: ControlPlane) -> None:
    gpus = '{"gpus":[{"uuid":"GPU-1","index":0,"memoryMiB":81920}]}'
    scheduler.create_nodes(["gpu-1"], annotations={"fairlead.dev/inventory": gpus})
    pods = Pods(scheduler, "default")
    try:
        with fairlead(scheduler, kubeconfig=scheduler.kubeconfig_for(SCHEDULER)):
            pods.create("half", metadata={"annotations": {"fairlead.dev/gpu-share": "0.5"}})
            pods.wait_bound("half")
        assert pods.get("half")["metadata"]["annotations"]["fairlead.dev/gpus"] == "GPU-1"
    finally:
        pods.delete("half")
        scheduler.api("DELETE", "/api/v1/nodes/gpu-1")
