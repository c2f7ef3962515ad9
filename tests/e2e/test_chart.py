"""The chart on a real API server: installed, at work with its own rights, and gone again."""

import itertools
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

import gang_crds
from audits import Audited, Permission, granted
from charts import Helm, Release
from dra_objects import DRIVER, DraObjects, claim_spec, device, exactly, uses
from duties import (
    GPU,
    ask_as_a_user,
    evict_somebody,
    have_volumes_bound,
    learn_a_run_time,
    lock_a_node,
    make_room_for_a_gang,
    reserve_a_gpu,
    slow_to_bind_in,
)
from fairlead.sim.controlplane import ControlPlane
from fairlead.sim.controlplane.client import SyncClient
from fairlead.sim.controlplane.commands import free_port
from fairleads import Pods, eventually
from leaders import EPOCH, Lease, bind, inventory
from manifests import CHART, DEPLOY, NAMESPACE, SCHEDULER, WEBHOOK, kubectl
from webhooks import environment, injects

Start = Callable[..., ControlPlane]
_numbers = itertools.count()
#: kube-apiserver makes them some time after it is ready.
MADE_BY_THE_SERVER = {
    "configmap/extension-apiserver-authentication",
    "configmap/kube-apiserver-legacy-service-account-token-tracking",
    "ipaddress.networking.k8s.io/10.96.0.1",
    "namespace/kube-node-lease",
    "namespace/kube-public",
    "service/kubernetes",
    "servicecidr.networking.k8s.io/kubernetes",
}
INJECTED = {
    "name": "CUDA_VISIBLE_DEVICES",
    "valueFrom": {
        "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.annotations['fairlead.dev/gpus']"}
    },
}


def test_helm_has_nothing_to_complain_about(charts: Helm) -> None:
    done = charts.run("lint", "--strict", str(CHART))

    assert done.returncode == 0, done.stdout


# -- rights ----------------------------------------------------------------------------------------


def test_it_has_the_rights_that_it_uses_and_no_others(
    charts: Helm, new_control_plane: Start, tmp_path: Path
) -> None:
    audited, port = Audited(new_control_plane, tmp_path), free_port()
    plane, release = audited.plane, Release(charts, audited.plane)
    release.install()
    plane.create_nodes(2, allocatable={GPU: "4"})

    with slow_to_bind_in(plane, "slow"), release.webhook(port), release.scheduler() as scheduler:
        _give_it_everything_to_do(plane)
        assert ask_as_a_user(plane, scheduler.url) == 200

    for user, name in ((SCHEDULER, "fairlead"), (WEBHOOK, "fairlead-webhook")):
        rights = granted(release.get("clusterrole", name), release.get("role", name))
        queues = granted(release.get("clusterrole", f"{name}-queues"))
        if user == SCHEDULER:
            more = (f"{name}-advance", f"{name}-claims")
            queues |= granted(*(release.get("clusterrole", each) for each in more))
        used = audited.used(user)
        assert audited.refused(user) == []
        assert used - rights - queues == set(), "used, though not granted"
        assert rights - used == set(), "granted, but never used"
        assert used >= {("fairlead.dev", "queues", verb) for verb in ("list", "watch")}


def _give_it_everything_to_do(plane: ControlPlane) -> None:
    pods, slow = Pods(plane, "default"), Pods(plane, "slow")
    kubectl(plane, f"apply -f {DEPLOY / 'test-pods.yaml'}")
    kubectl(plane, f"apply -n slow -f {DEPLOY / 'toyscheduler' / 'test-pods.yaml'}")
    pods.wait_bound("gpu-test")
    assert environment(pods.get("gpu-test")) == [[INJECTED]]
    pods.wait_refused("gpu-test-too-large")
    kubectl(plane, "label pod gpu-test-too-large try=again")
    eventually(lambda: any(one.get("series") for one in pods.events("gpu-test-too-large")))
    have_volumes_bound(plane, pods)
    eventually(lambda: slow.events("toy-test-1"))
    evict_somebody(plane, pods)
    make_room_for_a_gang(plane, pods)
    lock_a_node(plane, pods)
    reserve_a_gpu(plane, pods)
    learn_a_run_time(plane, pods)
    lease = Lease(plane, NAMESPACE)
    assert plane.api("DELETE", lease.path)[0] == 200
    eventually(lambda: lease.spec, what="its leader made the Lease again")


def test_default_spreading_needs_only_the_rights_that_its_value_adds(
    charts: Helm, new_control_plane: Start, tmp_path: Path
) -> None:
    audited = Audited(new_control_plane, tmp_path)
    plane, release = audited.plane, Release(charts, audited.plane)
    profile = {"schedulerName": "like-default", "profile": "default-scheduler"}
    config = {"apiVersion": "fairlead.dev/v1alpha1", "profiles": [profile]}
    release.install({
        "rbac": {"defaultSpreading": True}, "config": config, "webhook": {"enabled": False},
    })  # fmt: skip
    plane.create_nodes(1)
    pods = Pods(plane, "default")

    with release.scheduler():
        pods.create("p", scheduler="like-default")
        pods.wait_bound("p")
        eventually(lambda: pods.events("p"))

    more = granted(release.get("clusterrole", "fairlead-default-spreading"))
    always = _always(release)
    assert audited.refused(SCHEDULER) == []
    assert audited.used(SCHEDULER) - always == more


def _always(release: Release) -> set[Permission]:
    """Rights of the scheduler whatever it does: kinds of our own are part of the chart."""
    roles = ("queues", "advance", "claims")
    kinds = [release.get("clusterrole", f"fairlead-{name}") for name in roles]
    return granted(release.get("clusterrole"), release.get("role"), *kinds)


def test_gangs_need_only_the_rights_of_their_own_role(
    charts: Helm, new_control_plane: Start, tmp_path: Path
) -> None:
    audited = Audited(new_control_plane, tmp_path)
    plane, release = audited.plane, Release(charts, audited.plane)
    release.install({"webhook": {"enabled": False}})
    plane.create_nodes(1, allocatable={GPU: "4"})
    gang_crds.install(plane, "koordinator")
    gang_crds.create(plane, "koordinator", "default", "train", {"minMember": 2})
    pods, label = Pods(plane, "default"), {"pod-group.scheduling.sigs.k8s.io": "train"}
    path = f"{gang_crds.kind_of('koordinator').path('v1alpha1')}?fieldSelector=metadata.name=train"

    with release.scheduler():
        for name in ("a", "b"):
            pods.create(name, gpus=1, metadata={"labels": label})
        pods.wait_bound("a")
        pods.wait_bound("b")
        eventually(lambda: _said_of(plane, path) == ("Scheduled", 2))

    group = "scheduling.sigs.k8s.io"
    more = granted(release.get("clusterrole", "fairlead-gangs"))
    used = audited.used(SCHEDULER)
    assert audited.refused(SCHEDULER) == []
    assert used - _always(release) <= more
    assert {(group, "podgroups", "watch"), (group, "podgroups/status", "patch")} <= used


def _said_of(plane: ControlPlane, path: str) -> tuple[str, int]:
    """The phase of the gang, and how many of its pods have a node."""
    status = plane.api("GET", path)[1]["items"][0].get("status", {})
    return status.get("phase", ""), status.get("scheduled", 0)


def test_claims_need_only_the_rights_of_their_own_role(
    charts: Helm, new_control_plane: Start, tmp_path: Path
) -> None:
    audited = Audited(new_control_plane, tmp_path)
    plane, release = audited.plane, Release(charts, audited.plane)
    release.install({"webhook": {"enabled": False}})
    (node,) = plane.create_nodes(1)
    pods, dra = Pods(plane, "default"), DraObjects(plane, "default")
    dra.a_slice(node, [device(f"gpu-{number}") for number in range(3)])
    device_class = dra.a_class("gpu.example.com", extendedResourceName="nvidia.com/gpu")
    dra.a_claim("c", claim_spec(exactly(device_class)))
    _create_a_claim_with_spaces(plane, dra, device_class, tmp_path / "claim.json")

    with release.scheduler():
        for name in ("c", "spaced"):
            claim = {"name": "gpu", "resourceClaimName": name}
            pods.create(f"p-{name}", resourceClaims=[claim])
        pods.create("plain", gpus=1)
        pods.wait_bound("p-c", "p-spaced", "plain")
        pods.create("shares-c", resourceClaims=uses("c"))
        pods.wait_bound("shares-c")

    group, used = "resource.k8s.io", audited.used(SCHEDULER)
    assert audited.refused(SCHEDULER) == []
    assert used <= _always(release)
    assert {
        (group, "resourceslices", "watch"),
        (group, "resourceclaims", "patch"),
        (group, "resourceclaims", "update"),
        (group, "resourceclaims", "create"),
        (group, "resourceclaims/status", "patch"),
        (group, "resourceclaims/status", "update"),
    } <= used


def _create_a_claim_with_spaces(
    plane: ControlPlane, dra: DraObjects, device_class: str, file: Path
) -> None:
    """As a client in Python writes it."""
    spec = claim_spec(exactly(device_class))
    opaque = {"driver": DRIVER, "parameters": {"kind": "GpuConfig", "sharing": {}}}
    spec["devices"]["config"] = [{"opaque": opaque}]
    kind = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim"}
    file.write_text(json.dumps({**kind, "metadata": {"name": "spaced"}, "spec": spec}))
    kubectl(plane, f"create --raw {dra.claims} -f {file}")


# -- pods ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("deployment", ["fairlead", "fairlead-webhook"])
@pytest.mark.parametrize("configured", [False, True], ids=["plain", "configured"])
def test_its_pods_are_admitted_where_pod_security_is_restricted(
    charts: Helm, control_plane: ControlPlane, deployment: str, configured: bool
) -> None:
    values = {"config": {"port": 8080}, "env": {"A": "b"}, "webhook": {"caBundle": "YQ=="}}
    found = charts.rendered(values if configured else {})
    (template,) = [
        one["spec"]["template"]
        for one in found
        if one["kind"] == "Deployment" and one["metadata"]["name"] == deployment
    ]
    pod = {**template, "metadata": {**template["metadata"], "name": "p"}}
    with enforcing(control_plane, "restricted") as pods:
        path = f"{pods}?dryRun=All"
        assert control_plane.api("POST", path, pod)[0] == 201
        laxer = json.loads(json.dumps(pod))
        del laxer["spec"]["containers"][0]["securityContext"]["capabilities"]
        assert control_plane.api("POST", path, laxer)[0] == 403, "nothing is enforced"


@contextmanager
def enforcing(plane: ControlPlane, level: str) -> Iterator[str]:
    """The path of pods where Pod Security enforces this level.

    Each time another namespace: of one that existed before, an old level could be remembered.
    """
    name = f"enforcing-{level}-{next(_numbers)}"
    labels = {"pod-security.kubernetes.io/enforce": level}
    body = {"metadata": {"name": name, "labels": labels}}
    assert plane.api("POST", "/api/v1/namespaces", body)[0] == 201
    try:
        yield f"/api/v1/namespaces/{name}/pods"
    finally:
        plane.delete_namespace(name)


def test_the_api_server_takes_all_that_can_be_switched_on(
    charts: Helm, control_plane: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    peers = [{"ipBlock": {"cidr": "10.0.0.1/32"}}]
    values = {
        "config": {"port": 8080}, "files": {"p.py": "x"}, "env": {"A": "b"}, "logLevel": "debug",
        "rbac": {"defaultSpreading": True}, "policies": {"inject": True},
        "webhook": {"caBundle": "YQ=="}, "grafanaDashboard": {"enabled": True},
        "networkPolicy": {"schedulerFrom": peers, "egress": [{"to": peers}]},
    }  # fmt: skip
    rendered = tmp_path / "all.yaml"
    rendered.write_text(yaml.safe_dump_all(charts.rendered(values, namespace=namespace)))

    said = kubectl(control_plane, f"apply --dry-run=server -f {rendered}").splitlines()

    assert len(said) == len(charts.rendered(values))
    assert [line for line in said if not line.endswith(" created (server dry run)")] == []


# -- a life ----------------------------------------------------------------------------------------


def test_upgrade_and_uninstall_lose_no_assignment_and_leave_nothing_behind(
    charts: Helm, new_control_plane: Start
) -> None:
    plane, port = new_control_plane(), free_port()
    pods, release = Pods(plane, "default"), Release(charts, plane)
    plane.create_nodes(["n"], annotations=inventory("n", 3), allocatable={GPU: "3"})
    before = _everything(plane)
    release.install()

    with release.webhook(port), release.scheduler():
        first = _placed(pods, "first")
        kept = _kept(release)
    release.upgrade({"replicaCount": 3, "logLevel": "debug"})
    assert release.get("deployment")["spec"]["replicas"] == 3
    assert _kept(release) == kept, "an upgrade leaves alone what the programs wrote"

    with release.scheduler():
        with release.webhook(port):
            second = _placed(pods, "second")
        release.uninstall()

    assert _everything(plane) - before - MADE_BY_THE_SERVER == {
        f"namespace/{NAMESPACE}", "pod/first", "pod/second",
    }  # fmt: skip
    assert _assignment(pods, "first") == first
    assert _assignment(pods, "second") == second

    release.install({"webhook": {"enabled": False}, "policies": {"inject": True}})
    eventually(lambda: injects(plane, "default"), what="the policy works")
    with release.scheduler():
        third = _placed(pods, "third")
        for old in (first, second):
            _wait_refused(plane, old[EPOCH])
    assert environment(pods.get("third")) == [[INJECTED]]
    assert len({one["fairlead.dev/gpus"] for one in (first, second, third)}) == 3


def _wait_refused(plane: ControlPlane, epoch: str) -> None:
    """Sent as the scheduler's user: the policy for assignments refuses all others, and of two
    policies that refuse, the API server names either one."""
    with plane.connect(SCHEDULER) as scheduler:
        eventually(lambda: _is_refused(plane, scheduler, epoch), what="old epochs are refused")


def _is_refused(plane: ControlPlane, scheduler: SyncClient, epoch: str) -> bool:
    """Whether a bind of this epoch is refused; there is no such pod."""
    lease = Lease(plane, "default")
    status, answer = bind(lease, "nobody", "nowhere", client=scheduler, **{EPOCH: epoch})
    return status == 403 and "this bind was decided in epoch" in answer["message"]


def _placed(pods: Pods, name: str) -> dict[str, str]:
    pods.create(name, gpus=1)
    pods.wait_bound(name)
    return _assignment(pods, name)


def _assignment(pods: Pods, name: str) -> dict[str, str]:
    annotations = pods.get(name)["metadata"]["annotations"]
    found = {key: value for key, value in annotations.items() if key.startswith("fairlead.dev/")}
    assert found["fairlead.dev/gpus"]
    return found


def _kept(release: Release) -> list[Any]:
    """What the programs themselves wrote into objects of the chart."""
    bundles = [release.trusts(f"{kind}webhookconfiguration") for kind in ("mutating", "validating")]
    secret = release.get("secret", "fairlead-webhook-tls")["data"]
    transitions = release.get("lease")["spec"]["leaseTransitions"]
    assert all(bundles)
    return [*bundles, secret, transitions]


def _everything(plane: ControlPlane) -> set[str]:
    """Every object in the cluster but events, which go by themselves."""
    kinds = kubectl(plane, "api-resources --verbs=list -o name").split()
    wanted = ",".join(kind for kind in kinds if not kind.startswith("events"))
    return set(kubectl(plane, f"get {wanted} -A -o name").split())
