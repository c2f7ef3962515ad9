"""Plain GPU pods where only a DRA driver has GPUs, with the real API server and controller."""

import os
import signal
from collections.abc import Callable

import pytest

from bind_denials import BindDenials
from claim_audit import ClaimAudit
from dra_objects import DraObjects, Object, device, devices_of
from fairlead.kube.claims.claims import EXTENDED, FINALIZER
from fairlead.sim.controlplane import ControlPlane
from fairleads import Pods, Running, eventually, fairlead

CreateNodes = Callable[..., list[str]]
RESOURCE = "example.com/gpu-of-tests"


@pytest.fixture
def node(dra: DraObjects, create_nodes: CreateNodes) -> str:
    """A node with two devices, and a class of them with the resource."""
    (name,) = create_nodes([f"node-of-{dra.namespace}"[:60].strip("-")])
    dra.a_slice(name, [device("gpu-0"), device("gpu-1")])
    dra.a_class(dra.namespace, extendedResourceName=RESOURCE)
    return name


def create(pods: Pods, name: str) -> Object:
    resources = {"limits": {RESOURCE: "1"}}
    return pods.create(name, container={"resources": resources})


def special(dra: DraObjects) -> list[Object]:
    return [each for each in dra.all_claims() if EXTENDED in each["metadata"]["annotations"]]


def test_pods_have_a_device_each_and_the_next_pod_gets_it_after_them(
    dra: DraObjects, pods: Pods, node: str, running: Running
) -> None:
    audit = ClaimAudit(dra.plane, dra.namespace)
    names = [f"p{number}" for number in range(8)]
    for name in names:
        create(pods, name)
    bound: set[str] = set()

    def all_were_bound() -> bool:
        for name, where in pods.nodes().items():
            if where:
                bound.add(name)
                pods.delete(name)
        return len(bound) == len(names)

    eventually(all_were_bound, what="every pod was bound once")
    assert audit.check() == len(names), "and none shared a device, or started without its claim"


@pytest.mark.real  # a policy denies it
def test_a_denied_bind_leaves_no_claim(
    dra: DraObjects, pods: Pods, node: str, running: Running
) -> None:
    audit = ClaimAudit(dra.plane, dra.namespace)
    denials = BindDenials(dra.plane)
    denials.deny(dra.namespace, "p")
    create(pods, "p")
    pods.wait_refused("p")
    eventually(lambda: not special(dra), what="its devices are free between the attempts")
    denials.allow(dra.namespace, "p")
    pods.wait_bound("p")
    (claim,) = special(dra)
    named = pods.get("p")["status"]["extendedResourceClaimStatus"]["resourceClaimName"]
    assert named == claim["metadata"]["name"]
    assert audit.check() == 1


def test_a_claim_of_an_earlier_scheduler_is_deleted_first(
    dra: DraObjects, pods: Pods, node: str, control_plane: ControlPlane
) -> None:
    """It ended between the claim and the Binding."""
    pod = create(pods, "p")
    owner = {
        "apiVersion": "v1", "kind": "Pod", "name": "p", "uid": pod["metadata"]["uid"],
        "controller": True,
    }  # fmt: skip
    request = {"name": "r", "exactly": {"deviceClassName": dra.namespace}}
    meta = {
        "name": "left", "annotations": {EXTENDED: "true"}, "ownerReferences": [owner],
        "finalizers": [FINALIZER],
    }  # fmt: skip
    dra.make(dra.claims, {"metadata": meta, "spec": {"devices": {"requests": [request]}}})
    user = {"resource": "pods", "name": "p", "uid": pod["metadata"]["uid"]}
    results = [{"request": "r", "driver": "gpu.example.com", "pool": node, "device": "gpu-1"}]
    status = {"allocation": {"devices": {"results": results}}, "reservedFor": [user]}
    dra.patch("left", {"status": status}, "/status")
    audit = ClaimAudit(dra.plane, dra.namespace)

    with fairlead(control_plane):
        pods.wait_bound("p")

    (claim,) = special(dra)
    assert claim["metadata"]["name"] != "left"
    assert devices_of(claim) == [f"{node}/gpu-0"]
    assert audit.check() == 1


def test_a_scheduler_that_is_killed_at_any_moment_leaves_nothing_undone(
    dra: DraObjects, pods: Pods, node: str, control_plane: ControlPlane
) -> None:
    audit = ClaimAudit(dra.plane, dra.namespace)
    for life in range(2):
        with fairlead(control_plane, ends_with=-signal.SIGKILL) as running:
            create(pods, f"p{life}")
            eventually(lambda: special(dra) or any(pods.nodes().values()))
            os.kill(running.process.pid, signal.SIGKILL)
            running.process.wait()
        for name, where in pods.nodes().items():
            if where:
                pods.delete(name)
    with fairlead(control_plane):
        eventually(lambda: all(pods.nodes().values()), what="every pod that is left is bound")
    audit.check()
