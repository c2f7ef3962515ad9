"""Volumes bound on a real API server: what is written, what comes in between, and lost replies."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

import faultproxy as faults
from builders import a_pod
from fairlead.engine.events import Prepared, PrepareFailed
from fairlead.engine.instructions import Prepare
from fairlead.kube.access.kubeconfig import Access, load_access
from fairlead.kube.http.client import Client
from fairlead.kube.mirror.reflector import Reflector
from fairlead.kube.storage_codec import CLAIMS, VOLUMES, decode_volume, decode_volume_claim
from fairlead.kube.writes.preparer import PrepareOutcome, Preparer
from fairlead.kube.writes.volume_binder import VolumeBinder
from fairlead.model.storage import Volume, VolumeClaim, VolumePlan
from fairlead.plugins.volume_step import VolumeStep
from fairlead.sim.controlplane import ControlPlane
from fairleads import PATIENCE_S
from faultproxy import FaultProxy
from scene import wait_for
from storages import BIND_COMPLETED, SELECTED_NODE, Storage

pytestmark = pytest.mark.server

MERGE = "application/merge-patch+json"
PATCH = {"method": "PATCH"}
FAILED = 'running PreBind plugin "VolumeBinding": '


@pytest.fixture
def storage(control_plane: ControlPlane, namespace: str):
    made = Storage(control_plane, namespace)
    yield made
    made.remove_all()


@pytest.fixture
async def proxy(control_plane: ControlPlane) -> AsyncIterator[FaultProxy]:
    # With kube-scheduler's own rights: no more must be needed.
    access: Access = load_access(str(control_plane.kubeconfig_for("system:kube-scheduler")))
    async with FaultProxy(access) as proxy:
        yield proxy


class Bench:
    """A volume binder at work, with watches of its own."""

    def __init__(self, client: Client, **options: Any) -> None:
        self.outcomes: asyncio.Queue[PrepareOutcome] = asyncio.Queue()
        self._claims = Reflector(client, CLAIMS, decode_volume_claim, lambda _: self.binder.look())
        self._volumes = Reflector(client, VOLUMES, decode_volume, lambda _: self.binder.look())
        self.binder = VolumeBinder(client, self._claims.objects, self._volumes.objects, **options)
        self.preparer = Preparer(self.outcomes.put_nowait, {VolumeStep: self.binder})
        self._tasks = [asyncio.create_task(each.run()) for each in (self._claims, self._volumes)]

    async def synced(self) -> None:
        await wait_for(lambda: self._claims.synced and self._volumes.synced)

    async def outcome(self) -> PrepareOutcome:
        async with asyncio.timeout(PATIENCE_S):
            return await self.outcomes.get()

    async def stop(self) -> None:
        await self.preparer.stop()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


@contextlib.asynccontextmanager
async def a_bench(proxy: FaultProxy, **options: Any) -> AsyncIterator[Bench]:
    client = Client(proxy.access)
    bench = Bench(client, **options)
    await bench.synced()
    yield bench
    await bench.stop()
    await client.close()


def work(storage: Storage, *, volume: str = "", node: str = "n1") -> Prepare:
    """Bind the claim "data" to the volume, or have it provisioned on the node."""
    claim = read_claim(storage)
    bindings = ((claim, read_volume(storage, volume)),) if volume else ()
    plan = VolumePlan(bindings, () if volume else (claim,))
    return Prepare(a_pod("user", uid="the-pod"), node, (VolumeStep(plan),))


def read_claim(storage: Storage) -> VolumeClaim:
    return decode_volume_claim(json.dumps(storage.claim("data")).encode())


def read_volume(storage: Storage, name: str) -> Volume:
    return decode_volume(json.dumps(storage.volume(name)).encode())


def patch(storage: Storage, path: str, body: dict[str, Any]) -> None:
    status, answer = storage.plane.api("PATCH", path, body, content_type=MERGE)
    assert status == 200, answer


def claim_path(storage: Storage) -> str:
    return f"/api/v1/namespaces/{storage.namespace}/persistentvolumeclaims/data"


async def promised(storage: Storage, volume: str) -> None:
    await wait_for(lambda: "claimRef" in storage.volume(volume)["spec"])


async def sent(storage: Storage) -> None:
    await wait_for(
        lambda: SELECTED_NODE in storage.claim("data")["metadata"].get("annotations", {})
    )


def complete(storage: Storage, volume: str) -> None:
    """What the PV controller does in the end."""
    body = {
        "metadata": {"annotations": {BIND_COMPLETED: "yes"}},
        "spec": {"volumeName": volume},
    }
    patch(storage, claim_path(storage), body)


async def test_a_volume_is_promised_and_awaited(storage: Storage, proxy: FaultProxy) -> None:
    name = f"{storage.namespace}-v"
    storage.a_claim("data")
    storage.a_volume(name)
    async with a_bench(proxy) as bench:
        bench.preparer.submit(work(storage, volume=name))
        await promised(storage, name)
        reference = storage.volume(name)["spec"]["claimRef"]
        assert reference["uid"] == storage.claim("data")["metadata"]["uid"]
        assert (reference["kind"], reference["name"]) == ("PersistentVolumeClaim", "data")
        assert bench.outcomes.empty(), "not bound yet"

        complete(storage, name)
        assert await bench.outcome() == Prepared("the-pod")


async def test_a_volume_that_somebody_else_took_first_is_left_alone(
    storage: Storage, proxy: FaultProxy
) -> None:
    name = f"{storage.namespace}-v"
    storage.a_claim("data")
    storage.a_volume(name)
    decided = work(storage, volume=name)
    taken = {"namespace": storage.namespace, "name": "faster", "uid": "x"}
    patch(storage, f"{VOLUMES}/{name}", {"spec": {"claimRef": taken}})
    async with a_bench(proxy) as bench:
        bench.preparer.submit(decided)
        failed = await bench.outcome()

    assert isinstance(failed, PrepareFailed)
    assert failed.message == (
        f'{FAILED}Operation cannot be fulfilled on persistentvolumes "{name}": the object has been '
        "modified; please apply your changes to the latest version and try again"
    )
    assert storage.volume(name)["spec"]["claimRef"]["name"] == "faster"


@pytest.mark.parametrize(
    "fault",
    [faults.lose_reply, faults.refuse_connection, faults.answer(503, "not now")],
    ids=["lost reply", "no connection", "busy"],
)
@pytest.mark.parametrize("way", ["promised", "sent"])
async def test_a_write_that_goes_astray_is_settled_by_looking(
    storage: Storage, proxy: FaultProxy, fault: Any, way: str
) -> None:
    name = f"{storage.namespace}-v"
    storage.a_claim("data")
    storage.a_volume(name)
    proxy.on_request(fault, **PATCH)
    async with a_bench(proxy) as bench:
        bench.preparer.submit(work(storage, volume=name if way == "promised" else ""))
        if way == "promised":
            await promised(storage, name)
        else:
            await sent(storage)
        complete(storage, name)
        assert await bench.outcome() == Prepared("the-pod")
    looks = (f"GET {VOLUMES}/{name}", f"GET {claim_path(storage)}")
    assert any(request.startswith(looks) for request in proxy.requests)


async def test_what_is_written_already_is_not_written_again(
    storage: Storage, proxy: FaultProxy
) -> None:
    name = f"{storage.namespace}-v"
    storage.a_claim("data", meta={"annotations": {SELECTED_NODE: "n1"}})
    storage.a_volume(name)
    async with a_bench(proxy) as bench:
        bench.preparer.submit(work(storage))
        complete(storage, name)
        assert await bench.outcome() == Prepared("the-pod")
    assert not [request for request in proxy.requests if request.startswith("PATCH")]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (
            {"metadata": {"annotations": {SELECTED_NODE: None}}},
            'binding volumes: provisioning failed for PVC "data"',
        ),
        (None, 'binding volumes: failed to check provisioning pvc: persistentvolumeclaims "'),
    ],
    ids=["the provisioner gave up", "the claim is gone"],
)
async def test_waiting_in_vain_ends_at_once(
    storage: Storage, proxy: FaultProxy, change: dict[str, Any] | None, says: str
) -> None:
    storage.a_claim("data", meta={"annotations": {SELECTED_NODE: "n1"}})
    async with a_bench(proxy) as bench:
        bench.preparer.submit(work(storage))
        if change:
            patch(storage, claim_path(storage), change)
        else:
            storage.remove_all()
        failed = await bench.outcome()
    assert isinstance(failed, PrepareFailed)
    assert failed.message.startswith(FAILED + says)


async def test_a_volume_that_lost_its_claim_again_is_found_out(
    storage: Storage, proxy: FaultProxy
) -> None:
    name = f"{storage.namespace}-v"
    storage.a_claim("data")
    storage.a_volume(name)
    async with a_bench(proxy) as bench:
        bench.preparer.submit(work(storage, volume=name))
        await promised(storage, name)
        patch(storage, f"{VOLUMES}/{name}", {"spec": {"claimRef": None}})
        failed = await bench.outcome()
    assert failed == PrepareFailed(
        "the-pod", f'{FAILED}binding volumes: ClaimRef got reset for pv "{name}"'
    )


async def test_patience_ends(storage: Storage, proxy: FaultProxy) -> None:
    storage.a_claim("data")
    async with a_bench(proxy, wait_s=0.2) as bench:
        bench.preparer.submit(work(storage))
        failed = await bench.outcome()
    assert failed == PrepareFailed("the-pod", f"{FAILED}binding volumes: context deadline exceeded")


async def test_a_pod_that_is_gone_is_not_waited_for(storage: Storage, proxy: FaultProxy) -> None:
    storage.a_claim("data")
    async with a_bench(proxy) as bench:
        bench.preparer.submit(work(storage))
        await sent(storage)
        bench.preparer.abandon("the-pod")
        assert isinstance(await bench.outcome(), PrepareFailed)
