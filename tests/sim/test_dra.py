"""The simulated DRA driver, the controller of claims, and the kubelet's side of them."""

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace

import msgspec
import pytest

from fairlead.claims.allocator import Allocator
from fairlead.claims.inventory import DeviceInventory
from fairlead.claims.usage import DeviceUsage
from fairlead.kube.claims.classes import decode_device_class
from fairlead.kube.claims.slices import decode_slice
from fairlead.model.claims import DeviceNeed, DeviceRequest, ResourceClaim
from fairlead.sim.apiserver.api import ApiState
from fairlead.sim.apiserver.bootstrap import bootstrap
from fairlead.sim.apiserver.call import Call
from fairlead.sim.apiserver.controllers import Controllers
from fairlead.sim.apiserver.controllers.claims import CLAIMS, PROTECTION, TEMPLATES
from fairlead.sim.apiserver.creating import create
from fairlead.sim.apiserver.deleting import delete
from fairlead.sim.apiserver.store import Store
from fairlead.sim.apiserver.strategy import strategy_for
from fairlead.sim.apiserver.updating import modify
from fairlead.sim.dra import shapes
from fairlead.sim.kubelets import Kubelets
from fairlead.sim.machines import machines

MACHINES = {each.name: each for each in shapes.with_drivers(machines(12))}
WHOLE, DIVIDED, EXAMPLE = MACHINES["h100-01"], MACHINES["h100-02"], MACHINES["a10-01"]


def published(machine):
    return [decode_slice(msgspec.json.encode(each)) for each in shapes.slices(machine, "u")]


def allocator(*there):
    inventory = DeviceInventory()
    for machine in there:
        for part in published(machine):
            inventory.put(part)
    classes = [decode_device_class(msgspec.json.encode(each)) for each in shapes.classes()]
    return Allocator(inventory, {each.name: each for each in classes}, DeviceUsage())


def a_claim(class_name, *selectors, count=1):
    need = DeviceNeed(class_name, selectors, count=count)
    return ResourceClaim("default", "c", uid="u", requests=(DeviceRequest("gpu", need),))


def devices(found):
    return [each.device for each in found[0].devices] if found else None


@pytest.mark.parametrize(
    ("machine", "slices", "per_slice"), [(WHOLE, 1, 8), (DIVIDED, 9, 26), (EXAMPLE, 1, 4)]
)
def test_what_a_driver_publishes_is_a_complete_pool_that_can_be_read(machine, slices, per_slice):
    parts = published(machine)
    assert len(parts) == slices == parts[0].slice_count
    assert not any(part.problem for part in parts)
    assert {len(part.devices) for part in parts if part.devices} == {per_slice}
    assert [part.name for part in parts] == sorted(part.name for part in parts)
    assert {part.nodes.node_name for part in parts} == {machine.name}


@pytest.mark.parametrize(
    ("machine", "class_name", "profiles", "count"),
    [
        (WHOLE, "gpu.nvidia.com", None, 8),
        (EXAMPLE, "gpu.example.com", None, 4),
        (DIVIDED, "gpu.nvidia.com", None, 8),
        (DIVIDED, "mig.nvidia.com", "1g.10gb", 7),
        (DIVIDED, "mig.nvidia.com", "1g.10gb+me", 1),
        (DIVIDED, "mig.nvidia.com", "3g.40gb", 2),
        (DIVIDED, "mig.nvidia.com", "7g.80gb", 1),
    ],
)
def test_so_many_devices_of_a_class_fit_at_once_and_no_more(machine, class_name, profiles, count):
    """Of slices of MIG, on each GPU; counted on the first one."""
    rules = []
    if profiles:
        domain = "device.attributes['gpu.nvidia.com']"
        uuid = shapes.inventory(machine).gpus[0].uuid
        rules = [f"{domain}.profile == '{profiles}' && {domain}.parentUUID == '{uuid}'"]
    found = allocator(machine)
    fits = found.allocate(machine.name, {}, [a_claim(class_name, *rules, count=count)])
    assert len(devices(fits)) == count
    more = [a_claim(class_name, *rules, count=count + 1)]
    assert found.allocate(machine.name, {}, more) is None


class World:
    """An API without a server, with controllers and kubelets; the claims are allocated by hand."""

    def __init__(self):
        self.now = 1000.0
        self.api = ApiState(Store())
        bootstrap(self.api)
        self.kubelets = Kubelets(self.api, clock=lambda: self.now)

    async def begin(self):
        await self.kubelets.register([WHOLE])
        for each in shapes.slices(WHOLE, "u"):
            await self.make("resourceslices.resource.k8s.io", each, namespace="")
        self.kubelets.follow()

    async def make(self, resource, obj, namespace="default"):
        kind = self.api.kinds.plural(resource)
        obj = {"apiVersion": kind.api_version, "kind": kind.kind, **obj}
        strategy_for(kind).default(obj)
        return await create(self.api, Call(kind, namespace), obj)

    async def pod(self, name, **use):
        spec = {
            "containers": [{"name": "main", "image": "x"}],
            "resourceClaims": [{"name": "gpu", **use}],
            "nodeName": "h100-01",
        }
        made = await self.make("pods", {"metadata": {"name": name}, "spec": spec})
        return made.uid

    async def claim(self, name):
        need = {"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}
        await self.make(
            CLAIMS, {"metadata": {"name": name}, "spec": {"devices": {"requests": [need]}}}
        )

    async def allocate(self, name, device, *pods):
        """As a scheduler would."""
        result = {"request": "gpu", "driver": "gpu.nvidia.com", "pool": "h100-01", "device": device}
        users = [{"resource": "pods", "name": pod, "uid": uid} for pod, uid in pods]
        status = {"allocation": {"devices": {"results": [result]}}, "reservedFor": users}
        call = Call(self.api.kinds.plural(CLAIMS), "default", name)
        protected = {"finalizers": [PROTECTION]}
        await modify(self.api, call, lambda old: {**old, "metadata": old["metadata"] | protected})
        call = Call(self.api.kinds.plural(CLAIMS), "default", name, "status")
        await modify(self.api, call, lambda old: {**old, "status": status})

    async def delete(self, resource, name):
        await delete(self.api, Call(self.api.kinds.plural(resource), "default", name), {})

    def pass_s(self, seconds):
        until = self.now + seconds
        while self.now < until:
            self.now += 0.05
            while (due := self.kubelets.step()) is not None and due <= self.now:
                pass

    def phase(self, name):
        return self.api.find("pods", f"default/{name}")["status"]["phase"]

    def stored(self, name):
        return self.api.find(CLAIMS, f"default/{name}")

    def claims(self):
        return [each.object() for each in self.api.store.collection(CLAIMS).entries.values()]


@asynccontextmanager
async def controlled(world):
    async with Controllers(world.api).running():
        yield


async def until(holds):
    async with asyncio.timeout(60):
        while not holds():
            await asyncio.sleep(0.005)


async def test_a_pod_starts_when_its_claim_is_reserved_for_it_and_not_before():
    world = World()
    await world.begin()
    await world.claim("c")
    uid = await world.pod("p", resourceClaimName="c")
    world.pass_s(3)
    assert world.phase("p") == "Pending"
    await world.allocate("c", "gpu-3", ("p", uid))
    world.pass_s(3)
    assert world.phase("p") == "Running"
    busy = [gpu.index for gpu in world.kubelets.readings("h100-01") if gpu.pod]
    assert busy == [3]
    assert world.kubelets.refused_devices == []


async def test_a_plain_gpu_pod_gets_the_device_of_the_claim_that_was_made_for_it():
    world = World()
    await world.begin()
    await world.claim("c")
    limits = {"limits": {"nvidia.com/gpu": "1"}}
    container = {"name": "main", "image": "x", "resources": limits}
    spec = {"containers": [container], "nodeName": "h100-01"}
    made = await world.make("pods", {"metadata": {"name": "p"}, "spec": spec})
    mapping = {"containerName": "main", "requestName": "gpu", "resourceName": "nvidia.com/gpu"}
    said = {"resourceClaimName": "c", "requestMappings": [mapping]}
    call = Call(world.api.kinds.plural("pods"), "default", "p", "status")
    status = {"extendedResourceClaimStatus": said, "phase": "Pending"}
    await modify(world.api, call, lambda old: {**old, "status": status})
    world.pass_s(3)
    assert world.phase("p") == "Pending", "the claim is not reserved for it"
    await world.allocate("c", "gpu-3", ("p", made.uid))
    world.pass_s(3)
    assert world.phase("p") == "Running"
    assert [gpu.index for gpu in world.kubelets.readings("h100-01") if gpu.pod] == [3]


async def test_a_device_that_two_claims_have_is_prepared_for_the_first_and_counted():
    world = World()
    await world.begin()
    for name in ("a", "b"):
        await world.claim(name)
        await world.allocate(name, "gpu-0", (name, await world.pod(name, resourceClaimName=name)))
    world.pass_s(2)
    assert sorted(world.phase(name) for name in ("a", "b")) == ["Pending", "Running"]
    assert "device gpu.nvidia.com/h100-01/gpu-0 of claim" in world.kubelets.refused_devices[0]
    first = next(name for name in ("a", "b") if world.phase(name) == "Running")
    await world.delete("pods", first)
    world.pass_s(3)
    second = {"a": "b", "b": "a"}[first]
    assert world.phase(second) == "Running", "the first is not prepared any more"


async def test_pods_that_share_a_claim_start_on_the_same_device():
    world = World()
    await world.begin()
    await world.claim("c")
    users = [(name, await world.pod(name, resourceClaimName="c")) for name in ("a", "b")]
    await world.allocate("c", "gpu-0", *users)
    world.pass_s(2)
    assert [world.phase(name) for name in ("a", "b")] == ["Running", "Running"]
    assert world.kubelets.refused_devices == []


async def test_claims_are_made_from_templates_and_go_with_their_pods():
    world = World()
    await world.begin()
    async with controlled(world):
        uid = await world.pod("p", resourceClaimTemplateName="t")
        need = {"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}
        spec = {"spec": {"devices": {"requests": [need]}}}
        await world.make(TEMPLATES, {"metadata": {"name": "t"}, "spec": spec})
        await until(lambda: world.claims() and "resourceClaimStatuses" in str(
            world.api.find("pods", "default/p")["status"]))  # fmt: skip
        (claim,) = world.claims()
        metadata = claim["metadata"]
        assert metadata["name"].startswith("p-gpu-")
        assert metadata["annotations"] == {"resource.kubernetes.io/pod-claim-name": "gpu"}
        assert metadata["ownerReferences"][0]["uid"] == uid
        assert claim["spec"]["devices"]["requests"][0]["exactly"]["count"] == 1
        await world.allocate(metadata["name"], "gpu-0", ("p", uid))
        world.pass_s(2)
        assert world.phase("p") == "Running"
        await world.delete("pods", "p")
        world.pass_s(2)
        await until(lambda: not world.claims())


async def test_a_claim_of_a_user_is_freed_with_its_last_pod_and_stays():
    world = World()
    await world.begin()
    async with controlled(world):
        await world.claim("c")
        users = [(name, await world.pod(name, resourceClaimName="c")) for name in ("a", "b")]
        await world.allocate("c", "gpu-0", *users)
        world.pass_s(2)
        await world.delete("pods", "a")
        world.pass_s(2)
        await until(lambda: len(world.stored("c")["status"]["reservedFor"]) == 1)
        assert "allocation" in world.stored("c")["status"]
        await world.delete("pods", "b")
        world.pass_s(2)
        await until(lambda: not world.stored("c").get("status"))
        await until(lambda: not world.stored("c")["metadata"].get("finalizers"))


def mig(profile, count=1):
    """Slices of the first GPU."""
    domain = "device.attributes['gpu.nvidia.com']"
    uuid = shapes.inventory(DIVIDED).gpus[0].uuid
    rule = f"{domain}.profile == '{profile}' && {domain}.parentUUID == '{uuid}'"
    return a_claim("mig.nvidia.com", rule, count=count)


def on_first_gpu():
    uuid = shapes.inventory(DIVIDED).gpus[0].uuid
    return a_claim("gpu.nvidia.com", f"device.attributes['gpu.nvidia.com'].uuid == '{uuid}'")


def hold(found, claim):
    """Allocates the claim, and holds what it gets."""
    (allocation,) = found.allocate(DIVIDED.name, {}, [claim])
    found._usage.hold(allocation)
    return [each.device for each in allocation.devices]


def test_slices_of_a_gpu_and_the_gpu_exclude_each_other_by_their_counters():
    """Case 6: the whole GPU, seven slices of it, and a slice in the place of a larger one."""
    found = allocator(DIVIDED)
    assert hold(found, a_claim("gpu.nvidia.com")) == ["gpu-0"], "a class alone gets the GPU"
    assert found.allocate(DIVIDED.name, {}, [mig("1g.10gb")]) is None

    found = allocator(DIVIDED)
    hold(found, mig("1g.10gb", count=7))
    assert found.allocate(DIVIDED.name, {}, [on_first_gpu()]) is None


def test_a_small_slice_keeps_larger_ones_from_its_place_alone():
    found = allocator(DIVIDED)
    four = hold(found, mig("1g.10gb", count=4))
    starts = [device.rsplit("-", 1)[1] for device in four]
    assert starts == ["0", "1", "2", "3"]
    found = allocator(DIVIDED)
    (allocation,) = found.allocate(DIVIDED.name, {}, [mig("1g.10gb", count=4)])
    found._usage.hold(replace(allocation, devices=allocation.devices[3:]))  # the one at 3
    assert hold(found, mig("3g.40gb"))[0].endswith("-4")
    assert found.allocate(DIVIDED.name, {}, [mig("3g.40gb")]) is None
