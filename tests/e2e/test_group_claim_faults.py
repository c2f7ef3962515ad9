"""Faults between the writes for claims of PodGroups: lost replies, conflicts, restarts, denials.

At every revision a bound pod has its claim reserved for its group, and no device is held twice.
"""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import faultproxy as faults
from bind_denials import BindDenials
from claim_audit import ClaimAudit
from dra_objects import claim_spec, devices_of, exactly
from fairlead.sim.controlplane import ControlPlane
from fairleads import PATIENCE_S
from faultproxy import FaultProxy
from gang_planes import GangPlane, shared_gang_plane
from test_faults import scheduling, until
from test_group_claims import FOR_GROUP, GATE, JUDGED, Stage, from_template, reserved_for

pytestmark = pytest.mark.server

MEMBERS = ("p0", "p1")
#: The writes for a group, in order: method and a part of the path.
WRITES = {
    "finalizer": ("PATCH", "/resourceclaims/shared"),
    "allocation": ("PUT", "/resourceclaims/shared/status"),
    "binding": ("POST", "/binding"),
}
FAULTS = {
    "lost reply": faults.lose_reply,
    "busy": faults.answer(503, "not now"),
    "conflict": faults.answer(409, "the object has been modified"),
}
#: Of a bind, a conflict means that the pod has a node.
ASTRAY = [(write, fault) for write in WRITES for fault in FAULTS
          if (write, fault) != ("binding", "conflict")]  # fmt: skip


@pytest.fixture(scope="module")
def gangs(planes: Callable[..., ControlPlane], assets: Path) -> Iterator[GangPlane]:
    """With the controllers of claims and PodGroups; schedulers are started by tests."""
    found = shared_gang_plane(planes, assets, [GATE])
    controllers = ["resourceclaim-controller", "garbage-collector-controller"]
    with found.plane.start_controller_manager(controllers, flags=[found.gates]):
        yield found


@pytest.fixture
def stage(gangs: GangPlane) -> Iterator[Stage]:
    """A group of two with a claim that is made; its pods are not there yet."""
    found = Stage(gangs, JUDGED[1], gpus=1)
    found.dra.a_claim("shared", found.claim_for_one())
    found.group("g", 2, {"name": "shared", "resourceClaimName": "shared"})
    yield found
    found.remove()


def create_members(stage: Stage) -> None:
    for name in MEMBERS:
        stage.member(name, "g", {"name": "shared", "resourceClaimName": "shared"})


async def until_bound(stage: Stage) -> None:
    await until(lambda: all(stage.pods.node(name) for name in MEMBERS))


def check(stage: Stage, audit: ClaimAudit) -> None:
    """Both are where the claim is, and it is reserved for the group, once."""
    where = {stage.pods.node(name) for name in MEMBERS}
    claim = stage.dra.claim("shared")
    assert devices_of(claim) == [f"{node}/gpu-0" for node in where]
    assert reserved_for(claim) == FOR_GROUP
    assert audit.check() == len(MEMBERS)


@pytest.mark.parametrize(("write", "fault"), ASTRAY, ids="-".join)
async def test_a_write_that_goes_astray(stage: Stage, write: str, fault: str) -> None:
    audit = ClaimAudit(stage.plane, stage.name)
    async with scheduling(stage.plane) as (proxy, _):
        arm(proxy, write, FAULTS[fault])
        await asyncio.to_thread(create_members, stage)
        await until_bound(stage)
    assert proxy.count(WRITES[write][1]) >= 1
    check(stage, audit)


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("write", WRITES)
async def test_a_scheduler_that_ends_before_or_after_any_write(
    stage: Stage, write: str, moment: str
) -> None:
    audit = ClaimAudit(stage.plane, stage.name)
    reached = asyncio.Event()

    async def never_answer(forward: faults.Forward) -> Any:
        if moment == "after":
            await forward()
        reached.set()
        await asyncio.Event().wait()

    async with scheduling(stage.plane) as (proxy, _):
        arm(proxy, write, never_answer, times=None)
        await asyncio.to_thread(create_members, stage)
        async with asyncio.timeout(PATIENCE_S):
            await reached.wait()
    async with scheduling(stage.plane):
        await until_bound(stage)
    check(stage, audit)


async def test_a_denied_bind_is_tried_again_where_the_claim_is(stage: Stage) -> None:
    audit, denials = ClaimAudit(stage.plane, stage.name), BindDenials(stage.plane)
    await asyncio.to_thread(denials.deny, stage.name, "p0")
    async with scheduling(stage.plane):
        await asyncio.to_thread(create_members, stage)
        await until(lambda: "not this one" in stage.pods.condition("p0").get("message", ""))
        await asyncio.to_thread(denials.allow, stage.name, "p0")
        await until_bound(stage)
    check(stage, audit)


async def test_a_denied_group_that_goes_leaves_nothing_held(stage: Stage) -> None:
    denials = BindDenials(stage.plane)
    await asyncio.to_thread(denials.deny, stage.name, "p0")
    async with scheduling(stage.plane):
        await asyncio.to_thread(create_members, stage)
        await until(lambda: "not this one" in stage.pods.condition("p0").get("message", ""))
        await asyncio.to_thread(remove_group, stage)
        await until(lambda: not devices_of(stage.dra.claim("shared")))
        await asyncio.to_thread(ask_for_all, stage)
        await until(lambda: all(stage.pods.node(name) for name in ("q0", "q1")))


def remove_group(stage: Stage) -> None:
    for name in MEMBERS:
        stage.pods.delete(name)
    path, kind = stage.gangs.path(stage.name, "g"), "application/merge-patch+json"
    stage.plane.api("DELETE", path)
    stage.plane.api("PATCH", path, {"metadata": {"finalizers": None}}, content_type=kind)


def ask_for_all(stage: Stage) -> None:
    """One device on each node: no one else may hold any."""
    stage.dra.a_template("one", claim_spec(exactly(stage.name)))
    for name in ("q0", "q1"):
        stage.pods.create(
            name,
            schedulerName=stage.scheduler,
            nodeSelector={"stage": stage.name},
            resourceClaims=[from_template("gpu", "one")],
        )


def arm(proxy: FaultProxy, write: str, fault: Any, times: int | None = 1) -> None:
    """The finalizer is written to the claim itself, and not to its status."""
    method, path = WRITES[write]
    if write != "finalizer":
        proxy.on_request(fault, method=method, path=path, times=times)
        return

    async def pass_on(forward: faults.Forward) -> Any:
        return await forward()

    proxy.on_request(pass_on, method=method, path=f"{path}/status", times=None)
    proxy.on_request(fault, method=method, path=path, times=times)
