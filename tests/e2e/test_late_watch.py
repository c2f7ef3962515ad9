"""A watch that is late, and an etcd that was set back: no pod is bound twice, lost or leaked."""

import asyncio
import json

import pytest

from fairlead.engine import events
from fairleads import Pods
from faultproxy import FaultProxy, answer
from scene import wait_for
from test_faults import scheduling, until
from test_ledger_faults import mismatches

pytestmark = pytest.mark.server


@pytest.fixture
def pods(control_plane, namespace) -> Pods:
    return Pods(control_plane, namespace)


def held_back(late: asyncio.Event, later: asyncio.Event):
    """Pending versions that were patched wait for `late`, and those on a node for `later`."""

    async def fault(chunks):
        async for line in chunks:
            event = json.loads(line)
            if event["type"] == "MODIFIED" and event["object"]["spec"].get("nodeName"):
                await later.wait()
            elif event["type"] == "MODIFIED":
                await late.wait()
            yield line

    return fault


def label_before_the_bind(proxy: FaultProxy, pods: Pods, name: str) -> None:
    """A user patches a label of the pod when its bind is on its way."""

    async def fault(forward):
        patch = {"metadata": {"labels": {"patched": "yes"}}}
        path, kind = f"{pods.path}/{name}", "application/merge-patch+json"
        await asyncio.to_thread(pods.plane.api, "PATCH", path, patch, content_type=kind)
        return await forward()

    proxy.on_request(fault, method="POST", path="/binding")


async def test_a_pod_that_is_patched_while_it_is_bound_is_decided_once(
    control_plane, create_nodes, pods
) -> None:
    create_nodes(["w1"], allocatable={"nvidia.com/gpu": "8"})
    seen: list[events.Event] = []
    late, later = asyncio.Event(), asyncio.Event()
    async with scheduling(control_plane, on_event=seen.append) as (proxy, scheduler):
        proxy.on_watch(held_back(late, later), path="/pods")
        label_before_the_bind(proxy, pods, "first")
        await asyncio.to_thread(pods.create, "first", 1)
        await until(lambda: any(isinstance(event, events.BindDone) for event in seen))
        late.set()
        await until(lambda: any(_is_patched(event) for event in seen))
        decided_s = scheduler._deciding.alive_at_s
        await until(lambda: scheduler._deciding.alive_at_s > decided_s)
        later.set()
        await asyncio.to_thread(pods.create, "second", 1)
        await until(lambda: pods.node("second"))
        assert proxy.count("/pods/first/binding") == 1
        await wait_for(lambda: not scheduler.engine.in_flight.unconfirmed())


def _is_patched(event: events.Event) -> bool:
    return isinstance(event, events.PodSeen) and "patched" in event.pod.labels


async def test_a_bind_that_a_restored_etcd_does_not_know_is_made_again(
    control_plane, create_nodes, pods
) -> None:
    """The bind is reported as done, and no watch ever shows a change of the pod."""
    create_nodes(["w2"], allocatable={"nvidia.com/gpu": "8"})
    async with scheduling(control_plane, verify_every_s=0.5) as (proxy, scheduler):
        proxy.on_request(answer(201), method="POST", path="/binding")
        await asyncio.to_thread(pods.create, "first", 1)
        await until(lambda: pods.node("first"))
        assert proxy.count("/pods/first/binding") == 2
        assert mismatches(scheduler, "pods") == 1
        holdings = scheduler.engine.cluster.holdings
        await until(lambda: [held.assumed for held in holdings.values()] == [False])
