"""Defects that an object meets, on the real API server: nobody else notices."""

import asyncio

import pytest

from fairlead.cluster.cluster import Cluster
from fairlead.kube.access.kubeconfig import load_access
from fairlead.kube.http.client import Client
from fairlead.sim.controlplane.client import MERGE_PATCH
from fairleads import PATIENCE_S, Pods
from test_faults import audit, scheduling, until

pytestmark = pytest.mark.server


@pytest.fixture
def pods(control_plane, namespace) -> Pods:
    return Pods(control_plane, namespace)


@pytest.fixture
def _defect(monkeypatch) -> None:
    """No ledger can take a pod whose name begins with `bad`."""
    hold = Cluster._hold

    def _hold(self, held) -> None:
        if held.pod.name.startswith("bad"):
            raise ArithmeticError(held.pod.name)
        hold(self, held)

    monkeypatch.setattr(Cluster, "_hold", _hold)


def value(scheduler, name: str, **labels: str) -> float:
    return scheduler.metrics.registry.get_sample_value(name, labels) or 0.0


@pytest.mark.usefixtures("_defect")
async def test_pods_that_break_the_ledger_cost_nobody_else_anything(
    control_plane, create_nodes, pods
) -> None:
    create_nodes(["c1", "c2"], allocatable={"nvidia.com/gpu": "8"})
    async with scheduling(control_plane) as (_, scheduler):
        await asyncio.to_thread(pods.create, "before", 1)
        await until(lambda: pods.node("before"))
        await asyncio.to_thread(pods.create, "bad-and-bound", 1, nodeName="c1")
        await until(lambda: value(scheduler, "fairlead_objects_left_out") == 1)
        await asyncio.to_thread(pods.create, "bad-and-pending", 1)
        await until(lambda: value(scheduler, "fairlead_objects_left_out") == 2)
        await until(lambda: pods.events("bad-and-pending", "FailedScheduling"))
        for number in range(7):
            await asyncio.to_thread(pods.create, f"after-{number}", 1)
        await until(lambda: all(pods.node(f"after-{number}") == "c2" for number in range(7)))
        await until(lambda: scheduler.unready_because() == "")
        assert scheduler.standing.startswith("internal errors: 2 objects are left out")
        assert value(scheduler, "fairlead_internal_errors_total", doing="reading") >= 2
        assert value(scheduler, "fairlead_internal_errors_total", doing="deciding") == 2
        assert value(scheduler, "fairlead_engine_rebuilds_total") <= 5
        await asyncio.to_thread(audit, pods)


@pytest.mark.slow
async def test_a_pod_nested_as_deeply_as_the_api_server_takes_it_stops_nobody(
    control_plane, create_nodes, pods
) -> None:
    """A user may write any managed fields into a pod of theirs; what reads pods skips them."""
    create_nodes(["c1", "c2"], allocatable={"nvidia.com/gpu": "8"})
    await asyncio.to_thread(pods.create, "deep", 8, nodeName="c1")
    deep = b'{"f:a":' * 9000 + b"{}" + b"}" * 9000
    fields = b'{"manager":"m","operation":"Update","apiVersion":"v1","time":"2026-01-01T00:00:00Z",'
    fields += b'"fieldsType":"FieldsV1","fieldsV1":' + deep + b"}"
    client = Client(load_access(str(control_plane.kubeconfig_for())))

    async def patch(managed_fields: bytes) -> None:
        body = b'{"metadata":{"managedFields":[' + managed_fields + b"]}}"
        path = f"{pods.path}/deep"
        reply = await client.request(
            "PATCH", path, body=body, content_type=MERGE_PATCH, timeout_s=PATIENCE_S
        )
        assert reply.status == 200, reply.message

    try:
        async with scheduling(control_plane):
            await asyncio.to_thread(pods.create, "before", 1)
            await until(lambda: pods.node("before"))
            await patch(fields)
            await asyncio.to_thread(pods.create, "after", 1)
            await until(lambda: pods.node("after") == "c2")
        async with scheduling(control_plane):  # lists it
            await asyncio.to_thread(pods.create, "later", 1)
            await until(lambda: pods.node("later") == "c2")
    finally:
        await patch(b"{}")
        await client.close()
