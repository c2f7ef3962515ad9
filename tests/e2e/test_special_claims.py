"""Claims for extended resources on a real API server: made once, named in pods, deleted again."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

import faultproxy as faults
from dra_objects import DRIVER, DraObjects, Object, devices_of, users_of
from fairlead.claims.extended import extended_requests
from fairlead.cluster.device_claims import ClaimWrite
from fairlead.cluster.extended_classes import in_flight_uid
from fairlead.engine.events import Prepared, PrepareFailed
from fairlead.engine.instructions import AnnounceNotice, Prepare
from fairlead.kube.access.kubeconfig import load_access
from fairlead.kube.claims.claims import decode_claim
from fairlead.kube.codec import decode_pod
from fairlead.kube.http.client import Client
from fairlead.kube.writes.claim_writer import ClaimWriter
from fairlead.kube.writes.device_readiness import DeviceReadiness
from fairlead.kube.writes.preparer import PrepareOutcome, Preparer
from fairlead.kube.writes.special_claims import SpecialClaims
from fairlead.model.claims import AllocatedDevice, Allocation, ResourceClaim
from fairlead.model.extended import UNNAMED
from fairlead.model.nodes import GPU
from fairlead.model.pods import Pod
from fairlead.plugins.claim_step import ClaimStep
from fairlead.sim.controlplane import ControlPlane
from fairleads import Pods
from faultproxy import FaultProxy
from scene import wait_for

pytestmark = pytest.mark.server

CLASS, NODE = "gpus", "n1"
REQUEST = "container-0-request-0"
_FOR_EVER_S = 100_000.0


@pytest.fixture
def dra(control_plane: ControlPlane, namespace: str) -> Iterator[DraObjects]:
    made = DraObjects(control_plane, namespace)
    yield made
    for claim in made.all_claims():
        made.patch(claim["metadata"]["name"], {"metadata": {"finalizers": None}})


@pytest.fixture
async def proxy(control_plane: ControlPlane) -> AsyncIterator[FaultProxy]:
    # With kube-scheduler's own rights: no more must be needed.
    access = load_access(str(control_plane.kubeconfig_for("system:kube-scheduler")))
    async with FaultProxy(access) as proxy:
        yield proxy


@pytest.fixture
def pod(pods: Pods) -> Pod:
    return decode_pod(json.dumps(pods.create("p", gpus=1, scheduler="none")).encode())


class Bench:
    """A writer of claims at work. What a watch would show is read from the API server."""

    def __init__(self, client: Client, dra: DraObjects) -> None:
        self._dra = dra
        self.outcomes: asyncio.Queue[PrepareOutcome] = asyncio.Queue()
        self.seen: list[ResourceClaim] = []
        self.announced: list[AnnounceNotice] = []
        #: Otherwise the watch has not shown claims, or has shown that they are gone.
        self.shows = True
        special = SpecialClaims(client, self._latest, wait_s=_FOR_EVER_S)
        readiness = DeviceReadiness(self._latest, self.announced.append, wait_s=_FOR_EVER_S)
        self.writer = ClaimWriter(client, self.seen.append, lambda: 0.0, readiness, special)
        self.preparer = Preparer(self.outcomes.put_nowait, {ClaimStep: self.writer})

    def _latest(self, key: str) -> ResourceClaim | None:
        if not self.shows:
            return None
        name = key.partition("/")[2]
        status, found = self._dra.plane.api("GET", f"{self._dra.claims}/{name}")
        return decode_claim(json.dumps(found).encode()) if status == 200 else None

    async def outcome(self) -> PrepareOutcome:
        async with asyncio.timeout(180):
            return await self.outcomes.get()


@contextlib.asynccontextmanager
async def a_bench(proxy: FaultProxy, dra: DraObjects) -> AsyncIterator[Bench]:
    client = Client(proxy.access)
    bench = Bench(client, dra)
    yield bench
    bench.writer.stop()
    await bench.preparer.stop()
    await client.close()


def work(pod: Pod, **device: Any) -> Prepare:
    requests, mappings = extended_requests(pod.request.extended, ((GPU, CLASS),))
    claim = ResourceClaim(
        pod.namespace, UNNAMED, in_flight_uid(pod.uid),
        requests=requests, owner=pod.uid, for_extended_resources=True,
    )  # fmt: skip
    allocation = Allocation((AllocatedDevice(REQUEST, DRIVER, NODE, "gpu-0", **device),))
    return Prepare(pod, NODE, (ClaimStep((ClaimWrite(claim, allocation, mappings),)),))


def status_of(pods: Pods) -> Object:
    found: Object = pods.get("p")["status"].get("extendedResourceClaimStatus", {})
    return found


@pytest.mark.parametrize(
    "fault",
    [faults.lose_reply, faults.refuse_connection, faults.answer(503, "not now")],
    ids=["lost reply", "no connection", "busy"],
)
@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", "resourceclaims"), ("PUT", "resourceclaims"), ("PATCH", "pods/p/status")],
    ids=["claim", "allocation", "pod"],
)
async def test_one_claim_is_made_whatever_goes_astray(
    dra: DraObjects, pods: Pods, pod: Pod, proxy: FaultProxy, fault: Any, method: str, path: str
) -> None:
    proxy.on_request(fault, method=method, path=path)
    async with a_bench(proxy, dra) as bench:
        bench.preparer.submit(work(pod))
        assert await bench.outcome() == Prepared(pod.uid)
    (claim,) = dra.all_claims()
    assert devices_of(claim) == [f"{NODE}/gpu-0"]
    assert users_of(claim) == ["p"]
    mapping = {"containerName": "main", "resourceName": GPU, "requestName": REQUEST}
    assert status_of(pods) == {
        "resourceClaimName": claim["metadata"]["name"],
        "requestMappings": [mapping],
    }
    assert bench.seen[-1].allocation is not None


async def test_what_was_made_is_deleted_with_its_finalizer(
    dra: DraObjects, pod: Pod, proxy: FaultProxy
) -> None:
    async with a_bench(proxy, dra) as bench:
        bench.preparer.submit(work(pod))
        await bench.outcome()
        await bench.writer.take_back(pod.uid)
        assert dra.all_claims() == []
        bench.preparer.submit(work(pod))
        assert await bench.outcome() == Prepared(pod.uid), "the next attempt makes another"


@pytest.mark.parametrize(
    ("method", "path", "words"),
    [
        ("POST", "resourceclaims", "create claim for extended resources {namespace}/: no"),
        ("PATCH", "pods/p/status", "update pod {namespace}/p ExtendedResourceClaimStatus: no"),
    ],
    ids=["claim", "pod"],
)
async def test_a_write_that_is_refused_leaves_no_claim(
    dra: DraObjects, pod: Pod, proxy: FaultProxy, method: str, path: str, words: str
) -> None:
    proxy.on_request(faults.answer(403, "no"), method=method, path=path)
    async with a_bench(proxy, dra) as bench:
        bench.preparer.submit(work(pod))
        said = words.format(namespace=dra.namespace)
        expected = f'running PreBind plugin "DynamicResources": {said}'
        assert await bench.outcome() == PrepareFailed(pod.uid, expected)
    assert dra.all_claims() == []


async def test_a_pod_that_goes_meanwhile_leaves_no_claim(
    dra: DraObjects, pod: Pod, proxy: FaultProxy
) -> None:
    held = asyncio.Event()
    arrived = asyncio.Event()

    async def hold(forward: faults.Forward) -> Any:
        answer = await forward()
        arrived.set()
        await held.wait()
        return answer

    proxy.on_request(hold, method="POST", path="resourceclaims")
    async with a_bench(proxy, dra) as bench:
        bench.preparer.submit(work(pod))
        async with asyncio.timeout(180):
            await arrived.wait()
        bench.preparer.abandon(pod.uid)
        held.set()
        assert isinstance(await bench.outcome(), PrepareFailed)
    assert dra.all_claims() == []


async def test_a_pod_that_goes_before_a_watch_has_shown_its_claim_leaves_nothing(
    dra: DraObjects, pods: Pods, pod: Pod, proxy: FaultProxy
) -> None:
    """Its claim may be gone as well by then, and is never shown."""
    async with a_bench(proxy, dra) as bench:
        bench.shows = False
        bench.preparer.submit(work(pod))
        await wait_for(lambda: status_of(pods))
        bench.preparer.abandon(pod.uid)
        assert isinstance(await bench.outcome(), PrepareFailed)
    assert dra.all_claims() == []


async def test_a_pod_that_goes_after_the_claim_that_it_waits_for_leaves_nothing(
    dra: DraObjects, pod: Pod, proxy: FaultProxy
) -> None:
    async with a_bench(proxy, dra) as bench:
        conditions = {"binding_conditions": ("Ready",), "binding_failure_conditions": ("Broken",)}
        bench.preparer.submit(work(pod, **conditions))
        await wait_for(lambda: bench.announced)
        bench.shows = False
        bench.writer.look(bench.seen[-1].key)
        await asyncio.sleep(0)
        assert bench.outcomes.empty(), "the pod is there"
        bench.preparer.abandon(pod.uid)
        assert isinstance(await bench.outcome(), PrepareFailed)
    assert dra.all_claims() == []
