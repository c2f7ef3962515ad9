"""Claims allocated and reserved on a real API server: conflicts, lost replies, taking back."""

import asyncio
import contextlib
import json
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from typing import Any

import pytest

import faultproxy as faults
from builders import a_pod
from dra_objects import DRIVER, DraObjects, claim_spec, devices_of, exactly, users_of
from fairlead.cluster.device_claims import ClaimWrite
from fairlead.engine.events import Prepared, PrepareFailed
from fairlead.engine.instructions import AnnounceNotice, Prepare
from fairlead.kube.access.kubeconfig import load_access
from fairlead.kube.claims.claims import FINALIZER, decode_claim
from fairlead.kube.claims.protobuf import PROTOBUF, with_finalizer
from fairlead.kube.http.client import Client
from fairlead.kube.writes import claim_settlement
from fairlead.kube.writes.claim_writer import ClaimWriter
from fairlead.kube.writes.device_readiness import DeviceReadiness
from fairlead.kube.writes.preparer import PrepareOutcome, Preparer
from fairlead.kube.writes.special_claims import SpecialClaims
from fairlead.model.claims import AllocatedDevice, Allocation, ResourceClaim
from fairlead.model.pods import NodeTerm, Pod
from fairlead.model.selectors import Requirement
from fairlead.plugins.claim_step import ClaimStep
from fairlead.sim.controlplane import ControlPlane
from fairleads import PATIENCE_S
from faultproxy import FaultProxy
from scene import wait_for

pytestmark = pytest.mark.server

FAILED = 'running PreBind plugin "DynamicResources": '
NODE = "n1"
#: 2026-01-01, as the time of day.
NOW_S = 1767225600.0


@pytest.fixture
def dra(control_plane: ControlPlane, namespace: str) -> Iterator[DraObjects]:
    made = DraObjects(control_plane, namespace)
    yield made
    made.remove_all()


@pytest.fixture
async def proxy(control_plane: ControlPlane) -> AsyncIterator[FaultProxy]:
    # With kube-scheduler's own rights: no more must be needed.
    access = load_access(str(control_plane.kubeconfig_for("system:kube-scheduler")))
    async with FaultProxy(access) as proxy:
        yield proxy


class Bench:
    """A writer of claims at work, and what it reported."""

    def __init__(self, client: Client) -> None:
        self.outcomes: asyncio.Queue[PrepareOutcome] = asyncio.Queue()
        self.seen: list[ResourceClaim] = []
        #: As a watch would show them.
        self.shown: dict[str, ResourceClaim] = {}
        self.announced: list[AnnounceNotice] = []
        readiness = DeviceReadiness(self.shown.get, self.announced.append)
        special = SpecialClaims(client, self.shown.get)
        self.writer = ClaimWriter(client, self.seen.append, lambda: NOW_S, readiness, special)
        self.preparer = Preparer(self.outcomes.put_nowait, {ClaimStep: self.writer})

    async def outcome(self) -> PrepareOutcome:
        async with asyncio.timeout(PATIENCE_S):
            return await self.outcomes.get()


@contextlib.asynccontextmanager
async def a_bench(proxy: FaultProxy) -> AsyncIterator[Bench]:
    client = Client(proxy.access)
    bench = Bench(client)
    yield bench
    bench.writer.stop()
    await bench.preparer.stop()
    await client.close()


def on(*devices: str, **more: Any) -> Allocation:
    """These devices of the node."""
    term = NodeTerm(fields=(Requirement("metadata.name", "In", (NODE,)),))
    results = tuple(AllocatedDevice("gpu", DRIVER, NODE, each, **more) for each in devices)
    return Allocation(results, node_terms=(term,))


def read(dra: DraObjects, name: str = "c") -> ResourceClaim:
    return decode_claim(json.dumps(dra.claim(name)).encode())


def pod_of(dra: DraObjects, name: str = "p") -> Pod:
    return a_pod(name, namespace=dra.namespace, uid=f"uid-of-{name}")


def work(pod: Pod, *writes: ClaimWrite) -> Prepare:
    return Prepare(pod, NODE, (ClaimStep(writes),))


def a_claim(dra: DraObjects, name: str = "c") -> ResourceClaim:
    dra.a_claim(name, claim_spec(exactly("gpus")))
    return read(dra, name)


async def test_a_claim_is_protected_allocated_and_reserved(
    dra: DraObjects, proxy: FaultProxy
) -> None:
    claim, pod = a_claim(dra), pod_of(dra)
    async with a_bench(proxy) as bench:
        bench.preparer.submit(work(pod, ClaimWrite(claim, on("gpu-0"))))
        assert await bench.outcome() == Prepared(pod.uid)

    found = dra.claim("c")
    assert found["metadata"]["finalizers"] == [FINALIZER]
    assert devices_of(found) == [f"{NODE}/gpu-0"]
    assert found["status"]["reservedFor"] == [
        {"resource": "pods", "name": pod.name, "uid": pod.uid}
    ]
    assert found["status"]["allocation"]["allocationTimestamp"] == "2026-01-01T00:00:00Z"
    assert read(dra).allocation == replace(on("gpu-0"), allocated_at=NOW_S)
    writes = [each.split()[0] for each in proxy.requests if not each.startswith("GET")]
    assert writes == ["PATCH", "PUT"], "one for the finalizer, one for the status"
    assert bench.seen[-1] == read(dra)


async def test_what_is_known_of_a_claim_stays_when_its_status_is_replaced(
    dra: DraObjects, proxy: FaultProxy
) -> None:
    """As of a claim that was made from a template."""
    names = {"name": "c", "generateName": "made-from-", "labels": {"a": "b"}}
    annotations = {"resource.kubernetes.io/pod-claim-name": "gpu"}
    metadata = {**names, "annotations": annotations}
    dra.make(dra.claims, {"metadata": metadata, "spec": claim_spec(exactly("gpus"))})
    before, pod = dra.claim("c"), pod_of(dra)
    async with a_bench(proxy) as bench:
        bench.preparer.submit(work(pod, ClaimWrite(read(dra), on("gpu-0"))))
        assert await bench.outcome() == Prepared(pod.uid)

    found = dra.claim("c")
    changed = {"resourceVersion", "finalizers", "managedFields"}
    kept = [{name: value for name, value in each["metadata"].items() if name not in changed}
            for each in (before, found)]  # fmt: skip
    assert kept[0] == kept[1]
    assert found["spec"] == before["spec"]


#: As clients in Python write them; in JSON the API server shows them without spaces.
PARAMETERS = json.dumps({"kind": "GpuConfig", "sharing": {"strategy": "<a & b>"}})


async def a_spaced_claim(dra: DraObjects, proxy: FaultProxy) -> ResourceClaim:
    opaque = {"driver": DRIVER, "parameters": json.loads(PARAMETERS)}
    spec = claim_spec(exactly("gpus"))
    spec["devices"]["config"] = [{"opaque": opaque}]
    kind = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim"}
    body = json.dumps({**kind, "metadata": {"name": "c"}, "spec": spec})
    assert PARAMETERS in body
    client = Client(proxy.access)
    reply = await client.request("POST", dra.claims, body=body.encode())
    await client.close()
    assert reply.status == 201, reply.message
    return read(dra)


async def stored(dra: DraObjects, proxy: FaultProxy) -> bytes:
    client = Client(proxy.access)
    reply = await client.request("GET", f"{dra.claims}/c", accept=PROTOBUF)
    await client.close()
    return reply.body


@pytest.mark.parametrize(
    ("method", "fault"),
    [
        ("", None),
        ("PUT", faults.lose_reply),
        ("PUT", faults.refuse_connection),
        ("PUT", faults.answer(409, "changed")),
        ("GET", faults.answer(503, "not now")),
    ],
    ids=["calm", "lost reply", "no connection", "conflict", "busy"],
)
async def test_parameters_with_spaces_stay_as_they_were_written(
    dra: DraObjects, proxy: FaultProxy, method: str, fault: Any
) -> None:
    claim, pod = await a_spaced_claim(dra, proxy), pod_of(dra)
    if fault is not None:
        proxy.on_request(fault, method=method, path="resourceclaims/c")
    async with a_bench(proxy) as bench:
        bench.preparer.submit(work(pod, ClaimWrite(claim, on("gpu-0"))))
        assert await bench.outcome() == Prepared(pod.uid)
    assert dra.claim("c")["metadata"]["finalizers"] == [FINALIZER]
    assert users_of(dra.claim("c")) == [pod.name]
    assert PARAMETERS.encode() in await stored(dra, proxy)
    assert proxy.count("PUT") >= 1


async def test_a_claim_with_spaces_that_changes_meanwhile_is_read_again(
    dra: DraObjects, proxy: FaultProxy
) -> None:
    claim, pod = await a_spaced_claim(dra, proxy), pod_of(dra)
    body = with_finalizer(await stored(dra, proxy), claim, FINALIZER)
    assert body is not None
    assert with_finalizer(await stored(dra, proxy), replace(claim, version="1"), FINALIZER) is None
    assert with_finalizer(await stored(dra, proxy), replace(claim, uid="u"), FINALIZER) is None
    async with a_bench(proxy) as bench:
        bench.preparer.submit(work(pod, ClaimWrite(replace(claim, version="1"), on("gpu-0"))))
        assert await bench.outcome() == Prepared(pod.uid)
    assert users_of(dra.claim("c")) == [pod.name]


async def test_every_field_of_an_allocation_arrives(dra: DraObjects, proxy: FaultProxy) -> None:
    claim, pod = a_claim(dra), pod_of(dra)
    share = {"share_id": "", "consumed_capacity": (("memory", 40 << 30),)}
    async with a_bench(proxy) as bench:
        bench.preparer.submit(work(pod, ClaimWrite(claim, on("gpu-0", **share))))
        assert await bench.outcome() == Prepared(pod.uid)
    (result,) = dra.claim("c")["status"]["allocation"]["devices"]["results"]
    assert result["consumedCapacity"] == {"memory": "40Gi"}
    assert len(result["shareID"]) == 36


async def test_pods_that_share_a_claim_reserve_it_at_the_same_time(
    dra: DraObjects, proxy: FaultProxy
) -> None:
    claim = a_claim(dra)
    pods = [pod_of(dra, f"p{number}") for number in range(20)]
    async with a_bench(proxy) as bench:
        for pod in pods:
            bench.preparer.submit(work(pod, ClaimWrite(claim, on("gpu-0"))))
        outcomes = {(await bench.outcome()).uid for _ in pods}
    assert outcomes == {pod.uid for pod in pods}
    assert sorted(users_of(dra.claim("c"))) == sorted(pod.name for pod in pods)
    writes = Counter(each.split()[0] for each in proxy.requests)
    assert writes == {"PATCH": len(pods), "PUT": 1}, "no conflicts among our own"


@pytest.mark.parametrize(
    "fault",
    [faults.lose_reply, faults.refuse_connection, faults.answer(503, "not now")],
    ids=["lost reply", "no connection", "busy"],
)
@pytest.mark.parametrize("method", ["PATCH", "PUT"], ids=["finalizer", "status"])
async def test_a_write_that_goes_astray_is_settled(
    dra: DraObjects, proxy: FaultProxy, fault: Any, method: str
) -> None:
    claim, pod = a_claim(dra), pod_of(dra)
    proxy.on_request(fault, method=method, path="resourceclaims/c")
    async with a_bench(proxy) as bench:
        bench.preparer.submit(work(pod, ClaimWrite(claim, on("gpu-0"))))
        assert await bench.outcome() == Prepared(pod.uid)
        assert users_of(dra.claim("c")) == [pod.name]
        await bench.writer.take_back(pod.uid)
    assert read(dra).allocation is None, "what a lost write did can be taken back, too"


async def test_a_lost_reply_is_looked_for_until_the_claim_can_be_read(
    dra: DraObjects, proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim, pod = a_claim(dra), pod_of(dra)
    monkeypatch.setattr(claim_settlement, "IN_FLIGHT_S", 0.0)
    monkeypatch.setattr(claim_settlement, "_LONGEST_PAUSE_S", 0.01)
    proxy.on_request(faults.lose_reply, method="PUT", path="/status")
    proxy.on_request(faults.answer(503, "not now"), method="PUT", path="/status", times=None)
    proxy.on_request(faults.answer(503, "not now"), method="GET", path="/c", times=8)
    async with a_bench(proxy) as bench:
        bench.preparer.submit(work(pod, ClaimWrite(claim, on("gpu-0"))))
        assert await bench.outcome() == Prepared(pod.uid), "else its devices would be free"
    assert users_of(dra.claim("c")) == [pod.name]


async def test_a_reservation_that_is_being_taken_back_is_not_relied_on(
    dra: DraObjects, proxy: FaultProxy
) -> None:
    claims, pod, other = [a_claim(dra, name) for name in "ab"], pod_of(dra), pod_of(dra, "other")
    async with a_bench(proxy) as bench:
        for each in (other, pod):
            writes = (ClaimWrite(claim, on(f"gpu-{claim.name}")) for claim in claims)
            bench.preparer.submit(work(each, *writes))
            await bench.outcome()
        reserved = [ClaimWrite(read(dra, name)) for name in "ab"]
        bench.writer.release(pod.uid)
        bench.preparer.submit(work(pod, *reserved))
        outcome = await bench.outcome()
    users = [users_of(dra.claim(name)) for name in "ab"]
    assert isinstance(outcome, PrepareFailed), users
    assert users == [["other"], ["other"]]


async def test_a_conflict_with_a_driver_keeps_the_devices(
    dra: DraObjects, proxy: FaultProxy
) -> None:
    claim, pod = a_claim(dra), pod_of(dra)
    dra.patch("c", {"metadata": {"labels": {"changed": "meanwhile"}}})
    async with a_bench(proxy) as bench:
        bench.preparer.submit(work(pod, ClaimWrite(claim, on("gpu-0"))))
        assert await bench.outcome() == Prepared(pod.uid)
    assert devices_of(dra.claim("c")) == [f"{NODE}/gpu-0"]
    assert dra.claim("c")["metadata"]["labels"] == {"changed": "meanwhile"}


async def test_a_claim_that_another_scheduler_allocated_is_given_up_whole(
    dra: DraObjects, proxy: FaultProxy
) -> None:
    first, second = a_claim(dra, "first"), a_claim(dra, "second")
    pod, other = pod_of(dra), pod_of(dra, "other")
    async with a_bench(proxy) as bench:
        bench.preparer.submit(work(other, ClaimWrite(second, on("gpu-7"))))
        assert await bench.outcome() == Prepared(other.uid)
        both = (ClaimWrite(first, on("gpu-0")), ClaimWrite(second, on("gpu-1")))
        bench.preparer.submit(work(pod, *both))
        failed = await bench.outcome()
    said = f"claim {dra.namespace}/second got allocated elsewhere in the meantime"
    assert failed == PrepareFailed(pod.uid, FAILED + said)
    assert read(dra, "first").allocation is None, "its devices are free again"
    assert read(dra, "first").reserved_for == ()
    assert users_of(dra.claim("second")) == ["other"]
    assert bench.seen[-1] == read(dra, "first"), "the engine knows before it decides again"


async def test_a_claim_that_was_freed_meanwhile_is_not_reserved(
    dra: DraObjects, proxy: FaultProxy
) -> None:
    claim, pod, other = a_claim(dra), pod_of(dra), pod_of(dra, "other")
    async with a_bench(proxy) as bench:
        bench.preparer.submit(work(other, ClaimWrite(claim, on("gpu-0"))))
        await bench.outcome()
        allocated = read(dra)
        await bench.writer.take_back(other.uid)
        bench.preparer.submit(work(pod, ClaimWrite(allocated, None)))
        failed = await bench.outcome()
    said = f"claim {dra.namespace}/c got deallocated elsewhere in the meantime"
    assert failed == PrepareFailed(pod.uid, FAILED + said)


async def test_a_claim_that_was_made_again_is_another_one(
    dra: DraObjects, proxy: FaultProxy
) -> None:
    claim, pod = a_claim(dra), pod_of(dra)
    dra.remove_all()
    a_claim(dra)
    async with a_bench(proxy) as bench:
        bench.preparer.submit(work(pod, ClaimWrite(claim, on("gpu-0"))))
        failed = await bench.outcome()
    said = f"claim {dra.namespace}/c got deleted in the meantime"
    assert failed == PrepareFailed(pod.uid, FAILED + said)
    assert read(dra).allocation is None


async def test_a_claim_that_is_being_deleted_gets_no_more_users(
    dra: DraObjects, proxy: FaultProxy
) -> None:
    claim, pod = a_claim(dra), pod_of(dra)
    dra.patch("c", {"metadata": {"finalizers": ["example.com/keep"]}})
    dra.plane.api("DELETE", f"{dra.claims}/c")
    async with a_bench(proxy) as bench:
        bench.preparer.submit(work(pod, ClaimWrite(claim, on("gpu-0"))))
        failed = await bench.outcome()
    said = f"claim {dra.namespace}/c got deleted in the meantime"
    assert failed == PrepareFailed(pod.uid, FAILED + said)


async def test_a_claim_that_is_reserved_already_needs_no_write(
    dra: DraObjects, proxy: FaultProxy
) -> None:
    """The state after a restart between the write and the Binding."""
    claim, pod = a_claim(dra), pod_of(dra)
    async with a_bench(proxy) as bench:
        bench.preparer.submit(work(pod, ClaimWrite(claim, on("gpu-0"))))
        await bench.outcome()
    before = len(proxy.requests)
    async with a_bench(proxy) as bench:
        bench.preparer.submit(work(pod, ClaimWrite(read(dra), None)))
        assert await bench.outcome() == Prepared(pod.uid)
        await bench.writer.take_back(pod.uid)
    assert len(proxy.requests) == before, "nothing was written, so nothing is taken back"


async def test_a_pod_that_goes_during_the_write_leaves_nothing_allocated(
    dra: DraObjects, proxy: FaultProxy
) -> None:
    claim, pod = a_claim(dra), pod_of(dra)
    held = asyncio.Event()

    async def hold(forward: faults.Forward) -> Any:
        answer = await forward()
        await held.wait()
        return answer

    proxy.on_request(hold, method="PUT", path="/status")
    async with a_bench(proxy) as bench:
        bench.preparer.submit(work(pod, ClaimWrite(claim, on("gpu-0"))))
        await wait_for(lambda: devices_of(dra.claim("c")))
        bench.preparer.abandon(pod.uid)
        await asyncio.sleep(0)
        assert bench.outcomes.empty(), "nothing is reported while the write has no answer"
        held.set()
        assert isinstance(await bench.outcome(), PrepareFailed)
        assert read(dra).allocation is None
        assert bench.seen[-1].allocation is None


async def test_a_reservation_is_taken_back_without_the_allocation_of_others(
    dra: DraObjects, proxy: FaultProxy
) -> None:
    claim, pod, other = a_claim(dra), pod_of(dra), pod_of(dra, "other")
    async with a_bench(proxy) as bench:
        for each in (pod, other):
            bench.preparer.submit(work(each, ClaimWrite(claim, on("gpu-0"))))
            await bench.outcome()
        await bench.writer.take_back(pod.uid)
        assert users_of(dra.claim("c")) == ["other"]
        assert devices_of(dra.claim("c")) == [f"{NODE}/gpu-0"]
        await bench.writer.take_back(other.uid)
    assert read(dra).allocation is None


async def test_nothing_is_bound_on_a_reservation_that_is_being_taken_back(
    dra: DraObjects, proxy: FaultProxy
) -> None:
    claim, pod = a_claim(dra), pod_of(dra)
    async with a_bench(proxy) as bench:
        bench.preparer.submit(work(pod, ClaimWrite(claim, on("gpu-0"))))
        await bench.outcome()
        reserved = read(dra)
        bench.writer.release(pod.uid)
        bench.preparer.submit(work(pod, ClaimWrite(reserved, None)))
        failed = await bench.outcome()
        assert read(dra).allocation is None, "it was taken back first"
    said = "claims of an earlier attempt were taken back in the meantime"
    assert failed == PrepareFailed(pod.uid, FAILED + said)


@pytest.mark.parametrize("ends", ["ready", "failed", "pod gone"])
async def test_devices_that_a_driver_prepares_first_are_waited_for(
    dra: DraObjects, proxy: FaultProxy, ends: str
) -> None:
    claim, pod = a_claim(dra), pod_of(dra)
    conditions = {"binding_conditions": ("Ready",), "binding_failure_conditions": ("Broken",)}
    async with a_bench(proxy) as bench:
        bench.preparer.submit(work(pod, ClaimWrite(claim, on("gpu-0", **conditions))))
        await wait_for(lambda: bench.announced)  # the claim is shown before its writer knows
        assert users_of(dra.claim("c")) == [pod.name]
        assert bench.outcomes.empty(), "the driver has not reported anything"
        if ends == "pod gone":
            bench.preparer.abandon(pod.uid)
        else:
            kind = "Ready" if ends == "ready" else "Broken"
            dra.patch("c", {"status": {"devices": [report(kind)]}}, "/status")
            bench.shown[claim.key] = read(dra)
            bench.writer.look(claim.key)
        outcome = await bench.outcome()
    (notice,) = bench.announced
    told = f"waiting for binding conditions for device on node {NODE}"
    assert (notice.pod, notice.message) == (pod, told)
    if ends == "ready":
        assert outcome == Prepared(pod.uid)
        return
    assert isinstance(outcome, PrepareFailed)
    assert read(dra).allocation is None, "it is free again"
    said = 'device binding failed: claim=c, reason=R, message="M"'
    assert ends == "pod gone" or outcome.message == FAILED + said


def report(kind: str) -> dict[str, Any]:
    """What a driver reports about the device."""
    condition = {"type": kind, "status": "True", "reason": "R", "message": "M",
                 "lastTransitionTime": "2026-01-01T00:00:00Z"}  # fmt: skip
    return {"driver": DRIVER, "pool": NODE, "device": "gpu-0", "conditions": [condition]}


async def test_a_claim_is_freed_unless_another_pod_uses_it(
    dra: DraObjects, proxy: FaultProxy
) -> None:
    claim, pod, other = a_claim(dra), pod_of(dra), pod_of(dra, "other")
    async with a_bench(proxy) as bench:
        bench.preparer.submit(work(other, ClaimWrite(claim, on("gpu-0"))))
        await bench.outcome()
        before = len(proxy.requests)
        await bench.writer.free(pod.uid, read(dra))
        assert len(proxy.requests) == before
        await bench.writer.free(other.uid, read(dra))
    assert read(dra).allocation is None
    assert read(dra).reserved_for == ()
