"""Resource claims with a running scheduler, the real API server and the real controller."""

import json
import os
import signal
from collections.abc import Callable
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from bind_denials import BindDenials
from claim_audit import ClaimAudit
from dra_objects import (
    DRIVER,
    DraObjects,
    Object,
    claim_spec,
    device,
    devices_of,
    exactly,
    users_of,
    uses,
)
from fairlead.kube.claims.claims import FINALIZER
from fairlead.kube.kept_records import DEVICES_KEPT
from fairlead.sim.controlplane import ControlPlane, served
from fairleads import FAIRLEAD, PATIENCE_S, Pods, Running, eventually, fairlead
from preloaded import run

CreateNodes = Callable[..., list[str]]


@pytest.fixture
def node(dra: DraObjects, create_nodes: CreateNodes) -> str:
    """A node with two devices, and the class of all of them."""
    (name,) = create_nodes([f"node-of-{dra.namespace}"[:60].strip("-")])
    dra.a_slice(name, gpus(2))
    dra.a_class(dra.namespace)
    return name


def gpus(count: int) -> list[Object]:
    return [device(f"gpu-{number}", attributes={"index": {"int": number}})
            for number in range(count)]  # fmt: skip


def one(dra: DraObjects) -> Object:
    return claim_spec(exactly(dra.namespace))


def allocation_on(node: str, device_name: str) -> Object:
    result = {"request": "gpu", "driver": DRIVER, "pool": node, "device": device_name}
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    selector = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    return {"devices": {"results": [result]}, "nodeSelector": selector}


def test_pods_with_a_template_have_a_device_each_and_the_next_pod_gets_it_after_them(
    dra: DraObjects, pods: Pods, node: str, running: Running
) -> None:
    audit = ClaimAudit(dra.plane, dra.namespace)
    dra.a_template("gpu", one(dra))
    names = [f"p{number}" for number in range(12)]
    for name in names:
        pods.create(name, resourceClaims=uses("gpu", template=True))
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
def test_a_denied_bind_frees_what_was_allocated_for_it(
    dra: DraObjects, pods: Pods, node: str, running: Running
) -> None:
    dra.a_claim("c", one(dra))
    denials = BindDenials(dra.plane)
    denials.deny(dra.namespace, "p")
    pods.create("p", resourceClaims=uses("c"))
    pods.wait_refused("p")
    eventually(lambda: not devices_of(dra.claim("c")) and not users_of(dra.claim("c")),
               what="its devices are free between the attempts")  # fmt: skip

    audit = ClaimAudit(dra.plane, dra.namespace)
    denials.allow(dra.namespace, "p")
    pods.wait_bound("p")
    assert users_of(dra.claim("c")) == ["p"]
    assert audit.check() >= 1


def test_pods_are_evicted_for_the_devices_of_their_claims(
    dra: DraObjects, pods: Pods, node: str, control_plane: ControlPlane, tmp_path: Path
) -> None:
    """Only of lower priority, once, and the devices change hands after the deallocation."""
    config = tmp_path / "fairlead.yaml"
    config.write_text("profiles: [{schedulerName: gpu-scheduler, claims: {preempts: true}}]")
    audit = ClaimAudit(dra.plane, dra.namespace)
    dra.a_template("gpu", one(dra))
    for name in ("low-0", "low-1"):
        pods.create(name, resourceClaims=uses("gpu", template=True))
    admin, high = control_plane.kubeconfig_for(), {"needs-devices": 1000}
    with (
        served.priority_classes(control_plane, high),
        fairlead(control_plane, "--config", str(config), kubeconfig=admin),
    ):
        pods.wait_bound("low-0", "low-1")
        asking = uses("gpu", template=True)
        pods.create("high", priorityClassName="needs-devices", resourceClaims=asking)
        eventually(lambda: len(terminating(pods)) == 1, what="one pod is being evicted")
        (victim,) = terminating(pods)
        pods.delete(victim)  # as its kubelet does
        assert pods.wait_bound("high") == {"high": node}
        assert eventually(lambda: pods.events(victim, "Preempted"))
    assert audit.check() == 3
    (other,) = {"low-0", "low-1"} - {victim}
    assert pods.node(other) == node
    assert not pods.get(other)["metadata"].get("deletionTimestamp")


def test_a_gang_has_the_devices_for_which_pods_were_evicted(
    dra: DraObjects, pods: Pods, node: str, control_plane: ControlPlane, tmp_path: Path
) -> None:
    """A pod of the same priority that comes while they leave does not get one of them."""
    config = tmp_path / "fairlead.yaml"
    config.write_text("profiles: [{schedulerName: gpu-scheduler, claims: {preempts: true}}]")
    audit = ClaimAudit(dra.plane, dra.namespace)
    dra.a_template("gpu", one(dra))
    low, gang, asking = ("low-0", "low-1"), ("g-0", "g-1"), uses("gpu", template=True)
    for name in low:
        pods.create(name, resourceClaims=asking)
    admin, high = control_plane.kubeconfig_for(), {"gang-needs-devices": 1000}
    with (
        served.priority_classes(control_plane, high),
        fairlead(control_plane, "--config", str(config), kubeconfig=admin),
    ):
        pods.wait_bound(*low)
        said = {"fairlead.dev/gang": "g", "fairlead.dev/gang-min": "2"}
        of = {"priorityClassName": "gang-needs-devices", "resourceClaims": asking}
        for name in gang:
            pods.create(name, metadata={"annotations": said}, **of)
        eventually(lambda: {*terminating(pods)} == {*low}, what="both are being evicted")
        pods.delete("low-0")  # as its kubelet does
        pods.create("other", **of)
        pods.wait_refused("other")
        pods.delete("low-1")
        assert pods.wait_bound(*gang) == dict.fromkeys(gang, node)
        assert not pods.node("other")
    assert audit.check() == 4


@pytest.mark.parametrize("point", ["they are leaving", "all is free"])
def test_a_gang_has_its_devices_although_the_scheduler_is_killed(
    dra: DraObjects,
    pods: Pods,
    node: str,
    control_plane: ControlPlane,
    tmp_path: Path,
    point: str,
) -> None:
    """While the pods leave, or after it; a pod of the same priority is tried first by the next."""
    config = tmp_path / "fairlead.yaml"
    config.write_text("profiles: [{schedulerName: gpu-scheduler, claims: {preempts: true}}]")
    audit = ClaimAudit(dra.plane, dra.namespace)
    dra.a_template("gpu", one(dra))
    low, gang, asking = ("low-0", "low-1"), ("g-0", "g-1"), uses("gpu", template=True)
    said = {"fairlead.dev/gang": "g", "fairlead.dev/gang-min": "2"}
    admin, high = control_plane.kubeconfig_for(), {f"restarts-{point.replace(' ', '-')}": 1000}
    (level,) = high
    of = {"priorityClassName": level, "resourceClaims": asking}
    for name in low:
        pods.create(name, resourceClaims=asking)
    with served.priority_classes(control_plane, high):
        run = partial(fairlead, control_plane, "--config", str(config), kubeconfig=admin)
        with run(ends_with=-signal.SIGKILL) as first:
            pods.wait_bound(*low)
            for name in gang:
                pods.create(name, metadata={"annotations": said}, **of)
            eventually(lambda: {*terminating(pods)} == {*low}, what="both are being evicted")
            eventually(lambda: any(kept_for(pods, name) for name in gang), what="it is written")
            os.kill(first.process.pid, signal.SIGKILL)
            first.process.wait()
        pods.create("a-first", **of)
        pods.delete("low-0")  # as its kubelet does
        if point == "all is free":
            pods.delete("low-1")
            eventually(lambda: not any(devices_of(each) for each in dra.all_claims()),
                       what="all claims are deallocated")  # fmt: skip
        with run():
            if point != "all is free":
                pods.wait_refused("a-first")
                pods.delete("low-1")
            assert pods.wait_bound(*gang) == dict.fromkeys(gang, node)
            assert not pods.node("a-first")
    assert audit.check() == 4


@pytest.mark.parametrize("alternatives", ["first", "gangs"])
def test_a_gang_has_halves_of_a_card_only_where_the_profile_says_so(
    dra: DraObjects,
    pods: Pods,
    create_nodes: CreateNodes,
    control_plane: ControlPlane,
    tmp_path: Path,
    alternatives: str,
) -> None:
    """Each pod prefers the whole card. As with kube-scheduler, the first one would take it."""
    config = tmp_path / "fairlead.yaml"
    claims = f"{{alternatives: {alternatives}}}"
    config.write_text(f"profiles: [{{schedulerName: gpu-scheduler, claims: {claims}}}]")
    audit = ClaimAudit(dra.plane, dra.namespace)
    (name,) = create_nodes([f"card-of-{dra.namespace}"[:60].strip("-")])
    a_card(dra, name)
    wanted = [{"name": size, "deviceClassName": f"{dra.namespace}-{size}"}
              for size in ("whole", "half")]  # fmt: skip
    dra.a_template("card", claim_spec({"name": "card", "firstAvailable": wanted}))
    said = {"fairlead.dev/gang": "g", "fairlead.dev/gang-min": "2"}
    gang, admin = ("g-0", "g-1"), control_plane.kubeconfig_for()
    for each in gang:
        asking = uses("card", template=True)
        pods.create(each, metadata={"annotations": said}, resourceClaims=asking)
    with fairlead(control_plane, "--config", str(config), kubeconfig=admin):
        if alternatives == "first":
            pods.wait_refused(gang[0])
            pods.wait_refused(gang[1])
            assert not any(devices_of(each) for each in dra.all_claims())
            return
        assert pods.wait_bound(*gang) == dict.fromkeys(gang, name)
    found = [device for each in dra.all_claims() for device in devices_of(each)]
    assert sorted(found) == [f"{name}/half-0", f"{name}/half-1"]
    assert audit.check() == 2


def a_card(dra: DraObjects, node: str) -> None:
    """It can be used whole, or as two halves."""
    sizes = {"whole": 2, "half-0": 1, "half-1": 1}
    pool = {"name": node, "generation": 1, "resourceSliceCount": 2}
    devices = [
        device(
            name,
            attributes={"size": {"string": name.partition("-")[0]}},
            consumesCounters=[{"counterSet": "card", "counters": {"slots": {"value": str(slots)}}}],
        )
        for name, slots in sizes.items()
    ]
    dra.a_slice(node, devices, pool=pool)
    counters = [{"name": "card", "counters": {"slots": {"value": "2"}}}]
    dra.a_slice(node, (), pool=pool, sharedCounters=counters)
    for size in ("whole", "half"):
        own = f"device.driver == '{DRIVER}' && device.attributes['{DRIVER}'].size == '{size}'"
        dra.a_class(f"{dra.namespace}-{size}", own)


def kept_for(pods: Pods, name: str) -> bool:
    conditions = (pods.get(name) or {}).get("status", {}).get("conditions", [])
    return any(each["type"] == DEVICES_KEPT for each in conditions)


def terminating(pods: Pods) -> list[str]:
    found = (pods.get(name) for name in pods.nodes())
    return [each["metadata"]["name"] for each in found
            if each and each["metadata"].get("deletionTimestamp")]  # fmt: skip


@pytest.mark.parametrize("written", ["finalizer", "allocation", "reservation"])
def test_what_an_earlier_scheduler_wrote_is_used(
    dra: DraObjects, pods: Pods, node: str, control_plane: ControlPlane, written: str
) -> None:
    """It ended after the first write, after another pod's use, or just before the Binding."""
    dra.a_claim("c", one(dra))
    pod = pods.create("p", resourceClaims=uses("c"))
    dra.patch("c", {"metadata": {"finalizers": [FINALIZER]}})
    if written != "finalizer":
        status: Object = {"allocation": allocation_on(node, "gpu-1")}
        if written == "reservation":
            user = {"resource": "pods", "name": "p", "uid": pod["metadata"]["uid"]}
            status["reservedFor"] = [user]
        dra.patch("c", {"status": status}, "/status")
    before = dra.claim("c")["metadata"]["resourceVersion"]

    with fairlead(control_plane):
        assert pods.wait_bound("p") == {"p": node}

    found = dra.claim("c")
    first = written == "finalizer"
    assert devices_of(found) == [f"{node}/{'gpu-0' if first else 'gpu-1'}"]
    assert users_of(found) == ["p"]
    if written == "reservation":
        assert found["metadata"]["resourceVersion"] == before, "nothing was left to write"


def test_a_scheduler_that_is_killed_at_any_moment_leaves_nothing_undone(
    dra: DraObjects, pods: Pods, node: str, control_plane: ControlPlane
) -> None:
    audit = ClaimAudit(dra.plane, dra.namespace)
    dra.a_template("gpu", one(dra))
    for life in range(2):  # as many as there are devices: none may have been bound before
        with fairlead(control_plane, ends_with=-signal.SIGKILL) as running:
            pods.create(f"p{life}", resourceClaims=uses("gpu", template=True))
            eventually(lambda: any(dra.claim(each["metadata"]["name"])["metadata"].get("finalizers")
                                   for each in dra.all_claims()))  # fmt: skip
            os.kill(running.process.pid, signal.SIGKILL)
            running.process.wait()
        for name, where in pods.nodes().items():
            if where:
                pods.delete(name)
    with fairlead(control_plane):
        eventually(lambda: all(pods.nodes().values()), what="every pod that is left is bound")
    assert audit.check() == 2


def test_a_claim_on_a_node_that_the_pod_cannot_use_is_freed(
    dra: DraObjects, pods: Pods, node: str, running: Running, create_nodes: CreateNodes
) -> None:
    dra.a_claim("c", one(dra))
    dra.patch("c", {"metadata": {"finalizers": [FINALIZER]}})
    dra.patch("c", {"status": {"allocation": allocation_on("gone", "gpu-0")}}, "/status")
    pods.create("p", resourceClaims=uses("c"))
    pods.wait_bound("p")
    assert devices_of(dra.claim("c")) == [f"{node}/gpu-0"]


def test_what_if_of_pods_with_claims_equals_what_then_happens(
    dra: DraObjects, pods: Pods, node: str, running: Running, tmp_path: Path
) -> None:
    """Claims of templates are made in a look ahead, and freed when their pods end there."""
    dra.a_template("gpu", one(dra))
    asking = {"resourceClaims": uses("gpu", template=True)}
    for name, run_time in (("short", "10m"), ("long", "2h")):
        said = asked(dra.plane, pods, tmp_path, name, **asking)
        assert (said["start"], said["nodes"]) == (said["now"], [node])
        pods.create(name, metadata={"annotations": {RUN_TIME: run_time}}, **asking)
        assert pods.wait_bound(name) == {name: node}
    later = asked(dra.plane, pods, tmp_path, "next", **asking)
    assert later["nodes"] == [node]
    pods.create("next", **asking)
    pods.wait_refused("next")
    pods.delete("short")  # it has ended
    assert pods.wait_bound("next") == {"next": node}
    assert minutes(later) == pytest.approx(10, abs=3)


RUN_TIME = "fairlead.dev/run-time"


def asked(
    plane: ControlPlane, pods: Pods, tmp_path: Path, name: str, **spec: Any
) -> dict[str, Any]:
    """When and where this pod would start, and the time of the answer."""
    container = {"name": "main", "image": "x"}
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": pods.namespace},
        "spec": {"schedulerName": "gpu-scheduler", "containers": [container], **spec},
    }
    file = tmp_path / f"{name}.json"
    file.write_text(json.dumps(body))
    done = run(
        [str(FAIRLEAD), "what-if", "-f", str(file), "-o", "json", "-n", pods.namespace,
         "--kubeconfig", str(plane.kubeconfig_for())], timeout=PATIENCE_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    answer = json.loads(done.stdout)
    units = {each["unit"]: each["after"] for each in answer["units"]}
    return {"now": answer["time"], **units[f"{pods.namespace}/{name}"]}


def minutes(said: dict[str, Any]) -> float:
    times = (datetime.fromisoformat(said[key]) for key in ("now", "start"))
    now, start = times
    return (start - now).total_seconds() / 60
