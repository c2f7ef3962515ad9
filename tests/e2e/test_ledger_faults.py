"""What goes wrong with the books is found and put right, with the real API server as the judge."""

import asyncio
import json

import pytest

from fairleads import Pods
from faultproxy import a, drop
from test_faults import scheduling, until

pytestmark = pytest.mark.server

SHARE = "fairlead.dev/gpu-share"
GPUS = json.dumps({
    "version": 2,
    "gpus": [{"uuid": "GPU-0", "index": 0, "model": "H100", "memoryMib": 16_000}],
})  # fmt: skip


@pytest.fixture
def pods(control_plane, namespace) -> Pods:
    return Pods(control_plane, namespace)


def ask(pods: Pods, name: str, share: str) -> None:
    pods.create(name, metadata={"annotations": {SHARE: share}})


def mismatches(scheduler, what: str) -> float:
    found = scheduler.metrics.registry.get_sample_value(
        "fairlead_cache_mismatches_total", {"what": what}
    )
    return found or 0.0


async def test_a_share_whose_end_the_watch_lost_is_found_and_freed(
    control_plane, create_nodes, pods
) -> None:
    create_nodes(["l1"], annotations={"fairlead.dev/inventory": GPUS})
    async with scheduling(control_plane, verify_every_s=0.5) as (proxy, scheduler):
        proxy.on_watch(drop(a("DELETED", "first")), times=None, path="/pods")
        await asyncio.to_thread(ask, pods, "first", "0.8")
        await until(lambda: pods.node("first"))
        proxy.cut()  # the watch that follows has the fault
        await asyncio.to_thread(pods.delete, "first")
        await asyncio.to_thread(ask, pods, "second", "0.8")
        await until(lambda: pods.node("second"))
        assert mismatches(scheduler, "objects") >= 1
        assert scheduler.engine.cluster.columns.devices.milli_free[0, 0] == 200


async def test_a_gpu_that_is_booked_wrongly_is_booked_anew(
    control_plane, create_nodes, pods
) -> None:
    """Whatever the defect was that did it: the pod that waits for the GPU gets it."""
    create_nodes(["l2"], annotations={"fairlead.dev/inventory": GPUS})
    async with scheduling(control_plane, verify_every_s=0.5) as (_, scheduler):
        await until(lambda: scheduler.unready_because() == "")
        devices = scheduler.engine.cluster.columns.devices
        devices.milli_free[0, 0] = 100
        await asyncio.to_thread(ask, pods, "waits", "0.8")
        await until(lambda: pods.node("waits"))
        assert mismatches(scheduler, "ledger") == 1
        assert mismatches(scheduler, "pods") == 0


async def test_a_pod_that_is_not_booked_is_booked(control_plane, create_nodes, pods) -> None:
    create_nodes(["l3"], annotations={"fairlead.dev/inventory": GPUS})
    async with scheduling(control_plane, verify_every_s=0.5) as (_, scheduler):
        await asyncio.to_thread(ask, pods, "first", "0.8")
        await until(lambda: pods.node("first"))
        cluster = scheduler.engine.cluster
        await until(lambda: any(not held.assumed for held in cluster.holdings.values()))
        cluster.remove(next(iter(cluster.holdings)))
        await until(lambda: mismatches(scheduler, "pods") == 1)
        await until(lambda: cluster.columns.devices.milli_free[0, 0] == 200)
