"""Things break, and no pod is lost and no GPU given twice."""

import asyncio
import contextlib
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator

import pytest

from bind_denials import BindDenials
from builders import SCHEDULER
from dra_objects import DraObjects, claim_spec, device, exactly, uses
from fairlead.apps.config.profiles import built_in
from fairlead.apps.run.options import SchedulerOptions
from fairlead.apps.run.scheduler import Scheduler
from fairlead.kube.access.kubeconfig import load_access
from fairlead.kube.http.client import Client
from fairlead.kube.leadership.election import Terms
from fairlead.sim.controlplane import served
from fairlead.telemetry.metrics import Metrics
from fairleads import PATIENCE_S, Pods, eventually, fairlead
from faultproxy import (
    FaultProxy,
    a,
    answer,
    cut_inside,
    drop,
    expired,
    hold_reply,
    insert,
    lose_reply,
    never_answer,
)

GPUS = 8


@pytest.fixture
def pods(control_plane, namespace) -> Pods:
    return Pods(control_plane, namespace)


LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"


def audit(pods: Pods) -> Counter[str]:
    """GPUs taken on each node, from what the API server says and nothing else."""
    _, found = pods.plane.api("GET", "/api/v1/pods")
    taken: Counter[str] = Counter()
    for pod in found["items"]:
        if pod["spec"].get("nodeName") and pod["status"]["phase"] not in ("Succeeded", "Failed"):
            for container in pod["spec"]["containers"]:
                limits = container.get("resources", {}).get("limits", {})
                taken[pod["spec"]["nodeName"]] += int(limits.get("nvidia.com/gpu", 0))
    assert not {node: n for node, n in taken.items() if n > GPUS}, "a GPU was given twice"
    return taken


def test_the_api_server_is_killed_and_comes_back(new_control_plane) -> None:
    plane = new_control_plane()
    plane.create_nodes(["n1", "n2"], allocatable={"nvidia.com/gpu": "8"})
    pods = Pods(plane, "default")
    with fairlead(plane) as running:
        pods.create("before", 1)
        pods.wait_bound("before")
        plane.kill_apiserver()
        eventually(lambda: running.get("/readyz")[0] == 503, what="not ready without the server")
        assert running.get("/livez")[0] == 200
        plane.restart_apiserver()
        for number in range(20):
            pods.create(f"after-{number}", 1)
        # 15 of 16 GPUs are left for 20 pods
        eventually(lambda: sum(map(bool, pods.nodes().values())) == 16)
        assert audit(pods) == {"n1": 8, "n2": 8}
        eventually(lambda: running.get("/readyz")[0] == 200)
        pods.delete("before")
        eventually(lambda: sum(map(bool, pods.nodes().values())) == 16)


def test_a_killed_scheduler_starts_again_where_it_was(control_plane, create_nodes, pods) -> None:
    create_nodes([f"r{number}" for number in range(5)], allocatable={"nvidia.com/gpu": "8"})
    for number in range(60):
        pods.create(f"p{number}", 1)
    with contextlib.suppress(AssertionError), fairlead(control_plane) as running:
        eventually(lambda: sum(map(bool, pods.nodes().values())) >= 5)
        running.process.send_signal(signal.SIGKILL)
        running.process.wait()
    with fairlead(control_plane):
        eventually(lambda: sum(map(bool, pods.nodes().values())) == 40)
        left = [name for name, node in pods.nodes().items() if not node]
        for name in left:
            pods.wait_refused(name)
    assert audit(pods).total() == 40


def test_a_pod_that_is_denied_every_bind_starves_nobody(control_plane, create_nodes, pods) -> None:
    create_nodes(["a"], allocatable={"nvidia.com/gpu": "8"})
    BindDenials(control_plane).deny(pods.namespace, "doomed")
    # It would evict those of the others that are bound while it waits for its next attempt.
    served.priority_class(control_plane, "patient", 1000, preemptionPolicy="Never")
    with (
        served.priority_classes(control_plane, {"patient": 1000}),
        fairlead(control_plane) as running,
    ):
        began_s = time.monotonic()
        pods.create("doomed", 8, priorityClassName="patient")
        eventually(lambda: "not this one" in pods.condition("doomed").get("message", ""))
        for number in range(4):
            pods.create(f"p{number}", 2)
        pods.wait_bound(*(f"p{number}" for number in range(4)))
        attempts = running.metric("scheduler_schedule_attempts_total", result="scheduled")
        # It waits for 1, 2, 4, 8, and then 10 seconds.
        doomed_at_most = 4 + (time.monotonic() - began_s) / 8
        assert attempts <= 4 + doomed_at_most, "it backs off"


@contextlib.asynccontextmanager
async def scheduling(
    control_plane, on_event=lambda _: None, max_connections=128, profile=None, **options
) -> AsyncIterator[tuple[FaultProxy, Scheduler]]:
    """A scheduler in this process that reaches the real API server through a fault proxy."""
    access = load_access(str(control_plane.kubeconfig_for()))
    async with FaultProxy(access) as proxy:
        client = Client(proxy.access, max_connections=max_connections)
        scheduler = Scheduler(
            client,
            {SCHEDULER: profile or built_in(SCHEDULER)},
            SchedulerOptions(**options),
            metrics=Metrics(),
            on_event=on_event,
        )
        task = asyncio.create_task(scheduler.run())
        try:
            yield proxy, scheduler
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
            await client.close()


async def until(holds, timeout_s: float = PATIENCE_S) -> None:
    async with asyncio.timeout(timeout_s):
        while not await asyncio.to_thread(holds):
            await asyncio.sleep(0.05)


def bound(pods: Pods) -> int:
    return sum(map(bool, pods.nodes().values()))


def refused(pods: Pods) -> int:
    conditions = [pods.condition(name) for name, node in pods.nodes().items() if not node]
    return [each.get("status") for each in conditions].count("False")


FAULTS = {
    "every reply to a bind is lost": lambda proxy: proxy.on_request(
        lose_reply, times=None, method="POST", path="/binding"
    ),
    "the server is too busy now and then": lambda proxy: proxy.on_request(
        answer(429, "slow down", **{"Retry-After": "1"}), times=10, method="POST"
    ),
    "the server breaks down now and then": lambda proxy: proxy.on_request(
        answer(503, "not now"), times=10, method="POST"
    ),
    "watches are cut in mid-object": lambda proxy: proxy.on_watch(
        cut_inside(a("MODIFIED")), times=3, path="/pods"
    ),
    "watches expire": lambda proxy: proxy.on_watch(
        insert(expired(), after=a("MODIFIED")), times=3, path="/pods"
    ),
    "events cannot be written": lambda proxy: proxy.on_request(
        answer(500, "no"), times=None, method="POST", path="/events"
    ),
}


@pytest.mark.parametrize("inject", FAULTS.values(), ids=FAULTS.keys())
async def test_a_backlog_is_drained_exactly_in_spite_of(
    inject, control_plane, create_nodes, pods
) -> None:
    create_nodes(["f1", "f2", "f3"], allocatable={"nvidia.com/gpu": "8"})
    async with scheduling(control_plane) as (proxy, scheduler):
        inject(proxy)
        for number in range(30):
            await asyncio.to_thread(pods.create, f"p{number}", 1)
        await until(lambda: bound(pods) == 24 and refused(pods) == 6)
        assert await asyncio.to_thread(audit, pods) == {"f1": 8, "f2": 8, "f3": 8}
        proxy.heal()
        first = next(name for name, node in pods.nodes().items() if node)
        await asyncio.to_thread(pods.delete, first)
        await until(lambda: bound(pods) == 24)
        await until(lambda: len(scheduler.engine.cluster.holdings) == 24)


async def test_binds_that_are_never_answered_do_not_cost_the_lease(
    control_plane, create_nodes, pods
) -> None:
    """They have all connections that there are, except those that the lease is renewed on."""
    create_nodes(["n1", "n2"], allocatable={"nvidia.com/gpu": "8"})
    terms = Terms(name=f"of-{pods.namespace}", lease_s=60.0, renew_s=40.0, retry_s=0.5)
    async with scheduling(control_plane, max_connections=4, terms=terms) as (proxy, scheduler):
        await until(lambda: not scheduler.standby)
        proxy.on_request(never_answer, times=None, path="/binding")
        for number in range(8):
            await asyncio.to_thread(pods.create, f"p-{number}", 1)
        await until(lambda: proxy.count("/binding") >= 4)  # they are sent again after a while
        renewed = proxy.count(f"PUT {LEASES}/{terms.name}")
        await until(lambda: proxy.count(f"PUT {LEASES}/{terms.name}") > renewed + 10)


async def test_an_event_that_the_watch_lost_is_found_by_comparing(
    control_plane, create_nodes, pods
) -> None:
    create_nodes(["v1"], allocatable={"nvidia.com/gpu": "8"})
    async with scheduling(control_plane, verify_every_s=0.5) as (proxy, _):
        proxy.on_watch(drop(a("DELETED", "first")), times=None, path="/pods")
        await asyncio.to_thread(pods.create, "first", 8)
        await until(lambda: pods.node("first"))
        proxy.cut()  # the watch that follows has the fault
        await asyncio.to_thread(pods.delete, "first")
        await asyncio.to_thread(pods.create, "second", 8)
        await until(lambda: pods.node("second"))


async def test_a_pod_deleted_in_mid_bind_frees_its_gpus(control_plane, create_nodes, pods) -> None:
    create_nodes(["w1"], allocatable={"nvidia.com/gpu": "8"})
    async with scheduling(control_plane) as (proxy, scheduler):
        await until(lambda: scheduler.unready_because() == "")

        async def delete_first(forward):
            await asyncio.to_thread(pods.delete, "victim")
            return await forward()

        proxy.on_request(delete_first, method="POST", path="/binding")
        await asyncio.to_thread(pods.create, "victim", 8)
        await until(lambda: not pods.get("victim"))
        await asyncio.to_thread(pods.create, "victim", 8)
        await until(lambda: pods.node("victim"))
        assert await asyncio.to_thread(audit, pods) == {"w1": 8}


async def test_pods_wait_in_the_queue_while_claims_are_written_for_as_many_as_may_be_bound_at_once(
    control_plane, create_nodes, dra: DraObjects, pods
) -> None:
    at_once, names = 4, [f"p{number}" for number in range(40)]
    (node,) = create_nodes(["claimed"])
    dra.a_slice(node, [device(f"gpu-{number}") for number in range(len(names))])
    dra.a_class(dra.namespace)
    for name in names:
        dra.a_claim(name, claim_spec(exactly(dra.namespace)))
        pods.create(name, resourceClaims=uses(name))
    answered = asyncio.Event()
    async with scheduling(control_plane, max_binds_in_flight=at_once) as (proxy, scheduler):
        proxy.on_request(hold_reply(answered), times=None, method="PATCH", path="/resourceclaims")
        await until(lambda: proxy.count("PATCH") >= at_once)
        assert proxy.count("PATCH") <= 2 * at_once, "what one more turn decided before they began"
        assert scheduler.engine.queue.has_active(), "the others can still be decided otherwise"
        answered.set()
        await until(lambda: bound(pods) == len(names))
