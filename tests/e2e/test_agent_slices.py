"""The agent publishes ResourceSlices on a real API server, where no driver does."""

import copy
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fairlead.claims.allocator import Allocator
from fairlead.claims.inventory import DeviceInventory
from fairlead.claims.usage import DeviceUsage
from fairlead.kube.claims.slices import decode_slice
from fairlead.model.claims import DeviceNeed, DeviceRequest, ResourceClaim
from fairlead.model.devices import DeviceClass
from fairlead.sim.controlplane import ControlPlane
from fairlead.sim.nvml import machine_of
from fairleads import eventually
from test_agent import RULES, Machine
from user_rights import granted

pytestmark = pytest.mark.server

PATH = "/apis/resource.k8s.io/v1/resourceslices"
LABEL = "fairlead.dev/publisher"
WHO = "fairlead-agent-with-slices"
SLICE_RULE = {
    "apiGroups": ["resource.k8s.io"],
    "resources": ["resourceslices"],
    "verbs": ["create", "delete", "list", "update", "watch"],
}


@pytest.fixture
def rights(control_plane: ControlPlane) -> Iterator[Path]:
    with granted(control_plane, WHO, [*RULES, SLICE_RULE]) as access:
        yield access


class Node:
    """A GPU machine whose agent publishes devices."""

    def __init__(self, machine: Machine) -> None:
        self.machine, self.plane, self.name = machine, machine.plane, machine.node

    def slices(self) -> list[dict[str, Any]]:
        """In the order of their names."""
        found = self.plane.api("GET", f"{PATH}?fieldSelector=spec.nodeName={self.name}")[1]
        return sorted(found["items"], key=lambda each: each["metadata"]["name"])

    def published(self, count: int) -> list[dict[str, Any]]:
        """All slices of a complete pool with so many, once there is one."""
        return eventually(lambda: complete(self.slices(), count))

    def devices(self) -> dict[str, dict[str, Any]]:
        parts = [part["spec"].get("devices", ()) for part in self.slices()]
        return {device["name"]: device for part in parts for device in part}

    def taints(self) -> dict[str, str]:
        """The key of the taint of each whole GPU that has one."""
        return {
            name: device["taints"][0]["key"]
            for name, device in self.devices().items()
            if "taints" in device and "mig" not in name
        }

    def versions(self) -> list[str]:
        return [each["metadata"]["resourceVersion"] for each in self.slices()]

    def remove(self, slice_: dict[str, Any]) -> None:
        self.plane.api("DELETE", f"{PATH}/{slice_['metadata']['name']}")


def complete(slices: list[dict[str, Any]], count: int) -> list[dict[str, Any]]:
    """The slices, if they are all of one generation."""
    pools = {
        (p["generation"], p["resourceSliceCount"]) for p in (s["spec"]["pool"] for s in slices)
    }
    is_complete = len(slices) == count and len(pools) == 1 and {n for _, n in pools} == {count}
    return slices if is_complete else []


@pytest.fixture
def node(
    control_plane: ControlPlane,
    create_nodes: Callable[..., list[str]],
    rights: Path,
    tmp_path: Path,
) -> Iterator[Node]:
    name = f"dra-{uuid.uuid4().hex[:8]}"
    create_nodes([name], allocatable={"cpu": "8", "pods": "110"})
    found = Node(Machine(control_plane, tmp_path, name, rights))
    yield found
    for slice_ in found.slices():
        found.remove(slice_)


def of_driver(node: Node) -> dict[str, Any]:
    """What NVIDIA's driver writes when it starts on the node."""
    device = {"name": "gpu-0", "attributes": {"type": {"string": "gpu"}}}
    pool = {"name": node.name, "generation": 1, "resourceSliceCount": 1}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"0-gpu.nvidia.com-{node.name}-x7k2p"},
        "spec": {
            "driver": "gpu.nvidia.com", "nodeName": node.name, "pool": pool, "devices": [device],
        },
    }  # fmt: skip


def test_whole_gpus_are_published_as_nvidia_s_driver_does(node: Node) -> None:
    with node.machine.agent("--resource-slices", "whole") as agent:
        (found,) = node.published(1)
        eventually(lambda: agent.get("/readyz") == (200, "ok"))

    spec, meta = found["spec"], found["metadata"]
    assert (spec["driver"], spec["pool"]["name"], spec["nodeName"]) == (
        "gpu.nvidia.com", node.name, node.name,
    )  # fmt: skip
    (owner,) = meta["ownerReferences"]
    assert (owner["kind"], owner["uid"]) == ("Node", node.machine.read()["metadata"]["uid"])
    assert [device["name"] for device in spec["devices"]] == ["gpu-0", "gpu-1"]
    assert spec["devices"][1]["capacity"] == {"memory": {"value": "143771Mi"}}
    shown = {
        name.rpartition("/")[2]: next(iter(value.values()))
        for name, value in spec["devices"][1]["attributes"].items()
    }
    assert shown == {
        "type": "gpu", "uuid": node.machine.uuids[1], "productName": "NVIDIA H200",
        "brand": "Nvidia", "architecture": "Hopper", "cudaComputeCapability": "9.0.0",
        "driverVersion": "580.159.4", "cudaDriverVersion": "13.0.0",
        "pciBusID": "0000:00:07.0", "numaNode": 1, "publisher": "agent",
    }  # fmt: skip


def test_a_restart_writes_nothing_and_withdraw_deletes_what_was_published(node: Node) -> None:
    with node.machine.agent("--resource-slices", "mig"):
        node.published(3)
    versions = node.versions()

    with node.machine.agent("--resource-slices", "mig") as agent:
        eventually(lambda: agent.get("/readyz") == (200, "ok"))
    assert node.versions() == versions

    with node.machine.agent("--resource-slices", "withdraw"):
        eventually(lambda: not node.slices())


def test_partitions_share_the_counters_of_their_gpu(node: Node) -> None:
    """A whole GPU and its slices exclude each other, as the allocator counts them."""
    with node.machine.agent("--resource-slices", "mig"):
        counters, *parts = node.published(3)

    assert [each["name"] for each in counters["spec"]["sharedCounters"]] == [
        "gpu-0-counter-set", "gpu-1-counter-set",
    ]  # fmt: skip
    assert [len(part["spec"]["devices"]) for part in parts] == [26, 26]
    assert _drained(node, "type == 'gpu'") == ["gpu-0", "gpu-1"]
    assert len(set(_drained(node, "type == 'mig'"))) == 14


def _drained(node: Node, condition: str) -> list[str]:
    """The devices that claims for one device each get until nothing is left."""
    inventory, usage = DeviceInventory(), DeviceUsage()
    for slice_ in node.slices():
        inventory.put(decode_slice(msgspec.json.encode(slice_)))
    selector = f"device.attributes['gpu.nvidia.com'].{condition}"
    allocator = Allocator(inventory, {"any": DeviceClass("any", (selector,))}, usage)
    need = DeviceRequest("r", DeviceNeed("any"))
    found = []
    for number in range(100):
        claim = ResourceClaim("default", f"c-{number}", uid=f"u-{number}", requests=(need,))
        allocations = allocator.allocate(node.name, {}, [claim])
        if allocations is None:
            break
        usage.hold(allocations[0])
        found.append(allocations[0].devices[0].device)
    return found


def test_slices_that_a_starting_kubelet_deletes_are_published_again(node: Node) -> None:
    with node.machine.agent("--resource-slices", "mig"):
        for slice_ in node.published(3):
            node.remove(slice_)
        generation = node.published(3)[0]["spec"]["pool"]["generation"]
        node.remove(node.slices()[1])
        assert node.published(3)[0]["spec"]["pool"]["generation"] == generation


def test_a_lost_gpu_is_tainted_and_what_a_plugin_serves_is_withdrawn(node: Node) -> None:
    with node.machine.agent("--resource-slices", "whole"):
        node.published(1)
        with node.machine.driver.open() as driver:
            lost = driver.gpus.pop(1)
        eventually(lambda: node.taints() == {"gpu-1": "gpu.nvidia.com/gpu-lost"})
        with node.machine.driver.open() as driver:
            driver.gpus.append(lost)
        eventually(lambda: node.taints() == {})
        with node.machine.driver.open() as driver:
            driver.gpus[0].xids.append(79)
        eventually(lambda: node.taints() == {"gpu-0": "fairlead.dev/unhealthy"})
        assert len(node.published(1)) == 1

        # A device plugin that is installed now serves the GPUs.
        body = {"status": {"capacity": {"nvidia.com/gpu": "2"}}}
        path, merge = f"/api/v1/nodes/{node.name}/status", "application/merge-patch+json"
        assert node.plane.api("PATCH", path, body, content_type=merge)[0] == 200
        with node.machine.driver.open() as driver:
            driver.gpus.pop(1)
        eventually(lambda: not node.slices())


def test_a_driver_that_does_not_answer_taints_all_gpus(node: Node) -> None:
    with node.machine.agent("--resource-slices", "mig"):
        node.published(3)
        with node.machine.driver.open() as driver:
            driver.loaded = False
        eventually(lambda: node.taints().keys() == {"gpu-0", "gpu-1"})
        assert all("taints" in device for device in node.devices().values())

    # An agent that starts then knows nothing about them.
    with node.machine.agent("--resource-slices", "mig"):
        eventually(lambda: not node.slices())


def test_more_gpus_raise_the_generation(node: Node) -> None:
    with node.machine.agent("--resource-slices", "mig"):
        node.published(3)
        with node.machine.driver.open() as driver:
            driver.gpus.append(machine_of(3).gpus[2])
        slices = node.published(4)
        assert {part["spec"]["pool"]["generation"] for part in slices} == {2}
        assert "gpu-2" in node.devices()


def test_a_driver_that_appears_later_takes_over(node: Node) -> None:
    with node.machine.agent("--resource-slices", "mig") as agent:
        node.published(3)
        assert node.plane.api("POST", PATH, of_driver(node))[0] == 201
        (left,) = eventually(lambda: node.slices() if len(node.slices()) == 1 else [])
        assert LABEL not in left["metadata"].get("labels", {})
        eventually(lambda: agent.get("/readyz") == (200, "ok"))
        said = [one.get("reason") for one in agent.records if "withdrawn" in one["event"]]
        assert said == ["the driver gpu.nvidia.com publishes this node"]

        node.remove(left)
        node.published(3)


def test_a_slice_that_a_driver_took_over_is_left_to_it(node: Node) -> None:
    """The library of drivers changes slices of its pool that it finds."""
    with node.machine.agent("--resource-slices", "whole"):
        (ours,) = node.published(1)
        taken = copy.deepcopy(ours)
        taken["spec"] = of_driver(node)["spec"]
        path = f"{PATH}/{ours['metadata']['name']}"
        assert node.plane.api("PUT", path, taken)[0] == 200
        with node.machine.driver.open() as driver:
            driver.gpus[0].xids.append(79)
        eventually(lambda: node.machine.health()[0].startswith("Xid"))
        (left,) = node.slices()
        assert [device["name"] for device in left["spec"]["devices"]] == ["gpu-0"]
        assert "taints" not in left["spec"]["devices"][0]


def test_a_new_node_of_the_same_name_owns_its_slices(node: Node) -> None:
    with node.machine.agent("--resource-slices", "mig"):
        node.published(3)
        path = f"/api/v1/nodes/{node.name}"
        node.plane.api("DELETE", path)
        node.plane.create_nodes([node.name])
        uid = node.machine.read()["metadata"]["uid"]
        for slice_ in node.slices():
            node.remove(slice_)  # as the garbage collector does
        eventually(
            lambda: (
                {part["metadata"]["ownerReferences"][0]["uid"] for part in node.slices()} == {uid}
            )
        )
        node.published(3)
