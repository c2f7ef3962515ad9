"""Who sees what on the scheduler's port, on a real API server: three users, every route."""

import json
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from fairlead.apps.queues.reader import QueueReader
from fairlead.apps.run.usage import Usage
from fairlead.apps.serving import health
from fairlead.apps.serving.access import AllowAll
from fairlead.apps.serving.details import Details
from fairlead.cluster.cluster import Cluster
from fairlead.engine.engine import Engine
from fairlead.sim.controlplane import ControlPlane, service_account
from fairleads import FAIRLEAD, PATIENCE_S, Pods, Running, eventually, fairlead
from leaders import inventory
from preloaded import run
from yaml_texts import yaml_of

RBAC = "/apis/rbac.authorization.k8s.io/v1"
NODE = "node-of-access"
OPEN = {"/healthz", "/livez", "/readyz", "/health", "/ready", "/metrics"}


@dataclass
class Scene:
    plane: ControlPlane
    running: Running
    #: Tokens by user.
    tokens: dict[str, str]
    mine: Pods
    other: Pods

    def get(self, user: str, path: str) -> tuple[int, str]:
        token = self.tokens.get(user, "")
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        asked = urllib.request.Request(self.running.url + path, headers=headers)
        try:
            with urllib.request.urlopen(asked, timeout=PATIENCE_S) as reply:
                return reply.status, reply.read().decode()
        except urllib.error.HTTPError as refused:
            return refused.code, refused.read().decode()

    def usage(self, user: str, query: str = "") -> dict[str, Any]:
        status, text = self.get(user, f"/usage{query}")
        assert status == 200, text
        return json.loads(text)


@pytest.fixture(scope="module")
def scene(control_plane: ControlPlane) -> Iterator[Scene]:
    """A pod of the tenant's and one of somebody else's, each with a GPU of one node."""
    mine, other = Pods(control_plane, "access-mine"), Pods(control_plane, "access-other")
    with (
        _namespaces(control_plane, mine.namespace, other.namespace),
        _rights(control_plane, mine.namespace),
        fairlead(control_plane, "--authenticate") as running,
    ):
        gpus = {"annotations": inventory(NODE, 4), "allocatable": {"nvidia.com/gpu": "4"}}
        control_plane.create_nodes([NODE], **gpus)
        users = ("reader", "tenant", "nobody")
        tokens = {name: _user(control_plane, mine.namespace, name) for name in users}
        mine.create("my-pod", gpus=1)
        other.create("secret-pod", gpus=1)
        mine.wait_bound("my-pod")
        other.wait_bound("secret-pod")
        mine.create("my-waiting-pod", gpus=9)
        other.create("secret-waiting-pod", gpus=9)
        mine.wait_refused("my-waiting-pod")
        other.wait_refused("secret-waiting-pod")
        found = Scene(control_plane, running, tokens, mine, other)
        eventually(lambda: len(found.usage("reader")["pods"]) == 2, what="a look at both pods")
        eventually(lambda: found.usage("tenant")["pods"], what="the tenant's rights are known")
        yield found
    control_plane.api("DELETE", f"/api/v1/nodes/{NODE}")


@contextmanager
def _namespaces(plane: ControlPlane, *names: str) -> Iterator[None]:
    for name in names:
        made = {"metadata": {"name": name}}
        assert plane.api("POST", "/api/v1/namespaces", made)[0] == 201
    yield
    for name in names:
        plane.delete_namespace(name)


def _user(plane: ControlPlane, namespace: str, name: str) -> str:
    """The token of a ServiceAccount, which is made."""
    file = plane.kubeconfig_for(service_account(namespace, name))
    return str(yaml_of(file)["users"][0]["user"]["token"])


@contextmanager
def _rights(plane: ControlPlane, namespace: str) -> Iterator[None]:
    """The reader may list pods and nodes everywhere, the tenant pods of one namespace."""
    everywhere = f"reader-{namespace}"
    rule = {"apiGroups": [""], "verbs": ["get", "list"]}
    cluster = {**rule, "resources": ["pods", "nodes"]}
    for path, kind, name, user, rules in (
        (RBAC, "ClusterRole", everywhere, "reader", cluster),
        (
            f"{RBAC}/namespaces/{namespace}",
            "Role",
            "tenant",
            "tenant",
            {**rule, "resources": ["pods"]},
        ),
    ):
        meta = {"metadata": {"name": name}}
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name}
        subject = {"kind": "ServiceAccount", "name": user, "namespace": namespace}
        bound = {**meta, "roleRef": role, "subjects": [subject]}
        assert plane.api("POST", f"{path}/{kind.lower()}s", {**meta, "rules": [rules]})[0] == 201
        assert plane.api("POST", f"{path}/{kind.lower()}bindings", bound)[0] == 201
    yield
    for kind in ("clusterrolebindings", "clusterroles"):
        assert plane.api("DELETE", f"{RBAC}/{kind}/{everywhere}")[0] == 200


def _routes() -> list[str]:
    queues = QueueReader(Engine({}))
    details = Details(AllowAll(), Usage(Cluster()), queues=queues)
    app = health.make_app(CollectorRegistry(), str, details=details)
    return sorted(resource.canonical for resource in app.router.resources())


def test_three_users_and_all_routes_leak_nothing(scene: Scene) -> None:
    """0 leaks: what a user may not list is in no answer to him, whatever he asks."""
    secrets = {
        "reader": set(),
        "tenant": {"secret-", scene.other.namespace, NODE},
        "nobody": {"my-", "secret-", scene.mine.namespace, scene.other.namespace, NODE},
    }
    secrets |= dict.fromkeys(("anonymous", "forger"), secrets["nobody"])
    scene.tokens["forger"] = scene.tokens["tenant"][:-4] + "AAAA"
    leaks = [
        (user, path, secret)
        for path in _paths(scene)
        for user, hidden in secrets.items()
        for secret in hidden - _in_his_own_pod(user, path)
        if secret in scene.get(user, path)[1]
    ]
    assert leaks == []


def _in_his_own_pod(user: str, path: str) -> set[str]:
    """The node of a pod that he may get is in that pod."""
    return {NODE} if user == "tenant" and path.endswith("access-mine&name=my-pod") else set()


def _paths(scene: Scene) -> Iterator[str]:
    """Every route, plainly and about each namespace and pod."""
    names = ("my-pod", "secret-pod", "my-waiting-pod", "secret-waiting-pod")
    spaces = (scene.mine.namespace, scene.other.namespace)
    for route in set(_routes()) - {"/metrics"}:
        yield route
        for space in spaces:
            yield f"{route}?namespace={space}"
            yield from (f"{route}?namespace={space}&name={name}" for name in names)


def test_health_and_metrics_stay_open_and_name_no_pod(scene: Scene) -> None:
    assert set(_routes()) >= OPEN
    for route in OPEN:
        status, text = scene.get("anonymous", route)
        assert status == 200
        assert "my-pod" not in text
        assert "secret-pod" not in text


def test_each_sees_what_he_may_list(scene: Scene) -> None:
    told = scene.usage("reader")
    assert {(pod["name"], pod["node"]) for pod in told["pods"]} == {
        ("my-pod", NODE), ("secret-pod", NODE),
    }  # fmt: skip
    assert {gpu["node"] for gpu in told["gpus"]} == {NODE}
    assert told["notes"] == []

    told = scene.usage("tenant")
    assert [(pod["name"], pod["node"]) for pod in told["pods"]] == [("my-pod", "")]
    assert told["gpus"] == []
    assert "you may not list nodes" in told["notes"][0]

    told = scene.usage("nobody")
    assert (told["pods"], told["gpus"]) == ([], [])
    assert scene.get("anonymous", "/usage")[0] == 401
    assert scene.get("nobody", f"/usage?namespace={scene.mine.namespace}")[0] == 403
    assert len(scene.usage("reader", f"?namespace={scene.mine.namespace}")["pods"]) == 1


def test_top_shows_the_same_with_the_token_of_the_kubeconfig(scene: Scene) -> None:
    tenant = scene.plane.kubeconfig_for(service_account(scene.mine.namespace, "tenant"))
    told = _run(tenant, "top", "--scheduler", scene.running.url, "-o", "json")
    assert [pod["name"] for pod in json.loads(told.stdout)["pods"]] == ["my-pod"]

    certified = scene.plane.kubeconfig_for("somebody")
    refused = _run(certified, "top", "--once", "--scheduler", scene.running.url)
    assert refused.returncode == 1
    assert "kubectl create token" in refused.stderr


def _run(kubeconfig: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [str(FAIRLEAD), *words, "--kubeconfig", str(kubeconfig)]
    return run(command, timeout=PATIENCE_S)


def test_a_tenant_asks_the_scheduler_why_his_pod_waits(scene: Scene) -> None:
    space = scene.mine.namespace
    tenant = scene.plane.kubeconfig_for(service_account(space, "tenant"))
    reader = scene.plane.kubeconfig_for(service_account(space, "reader"))
    asked = ("explain", f"{space}/my-waiting-pod", "--scheduler", scene.running.url)

    alone = _run(tenant, *asked[:2])
    assert alone.returncode == 1
    assert "fairlead: the API server refused to list /api/v1/nodes" in alone.stderr
    assert "query the running scheduler: --scheduler" in alone.stderr

    told = _run(tenant, *asked)
    assert told.returncode == 0, told.stderr
    assert "nodes are available: 1 Insufficient nvidia.com/gpu" in told.stdout
    assert "NODES  REASON\n    1  Insufficient nvidia.com/gpu\n" in told.stdout
    assert NODE not in told.stdout
    assert f"{NODE}  refused by NodeResourcesFit" in _run(reader, *asked).stdout

    foreign = f"{scene.other.namespace}/secret-waiting-pod"
    assert "you may not get that pod" in _run(tenant, "explain", foreign, *asked[2:]).stderr
    absent = scene.get("tenant", f"/explain?namespace={space}&name=nothing")
    assert absent == (404, "there is no such pod, or it has finished\n")
    assert scene.get("tenant", "/explain")[0] == 400


def test_a_bound_pod_is_explained_by_what_was_decided(scene: Scene) -> None:
    """Where it is, with which GPU; who may list nodes also sees how good that is now."""
    space = scene.mine.namespace
    tenant = scene.plane.kubeconfig_for(service_account(space, "tenant"))
    gpu = scene.mine.get("my-pod")["metadata"]["annotations"]["fairlead.dev/gpus"]
    sentence = f"{space}/my-pod: the pod is bound to node {NODE}, {gpu}\n"
    bound = _run(tenant, "explain", f"{space}/my-pod")
    assert bound.stdout.startswith(sentence), bound.stderr
    assert "if the pod were pending now" not in bound.stdout

    bound = _run(scene.plane.kubeconfig_for(), "explain", f"{space}/my-pod")
    assert bound.stdout.startswith(sentence), bound.stderr
    assert "the best nodes if the pod were pending now:" in bound.stdout
    assert f"\n{NODE}  fits" in bound.stdout


def test_without_the_right_to_ask_nothing_is_shown(
    control_plane: ControlPlane, namespace: str
) -> None:
    """A scheduler that may not create reviews says so, and names the right that it lacks."""
    file = control_plane.kubeconfig_for(service_account(namespace, "powerless"))
    token = yaml_of(file)["users"][0]["user"]["token"]
    with fairlead(control_plane, "--authenticate", kubeconfig=file) as running:
        scene = Scene(control_plane, running, {"a": token}, *[Pods(control_plane, "x")] * 2)
        status, text = scene.get("a", "/usage")
        assert status == 503
        assert "create tokenreviews" in text
        assert scene.get("a", "/livez") == (200, "ok")
