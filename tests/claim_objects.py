"""Slices, classes and claims in as few words as a test needs."""

from typing import Any

from builders import a_pod
from fairlead.model.claim_uses import ClaimUse
from fairlead.model.claims import (
    AllocatedDevice,
    Allocation,
    ClaimUser,
    DeviceNeed,
    DeviceRequest,
    ResourceClaim,
)
from fairlead.model.devices import (
    AttributeValue,
    Device,
    DeviceClass,
    DeviceForm,
    DeviceNodes,
    ResourceSlice,
)
from fairlead.model.pods import NodeTerm, Pod
from fairlead.model.selectors import Requirement

DRIVER = "gpu.nvidia.com"
GPU_CLASS = DeviceClass("gpu", (f"device.driver == '{DRIVER}'",))


def a_device(name: str, **attributes: AttributeValue) -> Device:
    return Device(DeviceForm(name), tuple(sorted(attributes.items())))


def a_gpu_device(name: str, uuid: str, **more: AttributeValue) -> Device:
    """As NVIDIA's driver publishes it."""
    return a_device(name, **{"type": "gpu", "uuid": uuid, **more})


def a_slice(node: str = "n1", *devices: Device | str, **more: Any) -> ResourceSlice:
    """A pool of one slice, with the name of its node. Devices by name have the UUID of the node."""
    given = tuple(
        a_gpu_device(each, f"GPU-{node}-{each.removeprefix('gpu-')}")
        if isinstance(each, str)
        else each
        for each in devices
    )
    fields = {"name": f"{node}-slice", "driver": DRIVER, "pool": node, "generation": 1, **more}
    return ResourceSlice(nodes=DeviceNodes(node), devices=given, **fields)


def a_claim(name: str = "c", count: int = 1, **more: Any) -> ResourceClaim:
    """A claim of one request, for so many devices of the class of GPUs."""
    need = DeviceNeed(GPU_CLASS.name, count=count)
    fields = {"uid": f"u-{name}", "requests": (DeviceRequest("r", need),), **more}
    return ResourceClaim("default", name, **fields)


def an_allocation(node: str, *devices: str) -> Allocation:
    results = tuple(AllocatedDevice("r", DRIVER, node, device) for device in devices)
    return Allocation(results, node_terms=on_node(node))


def on_node(name: str) -> tuple[NodeTerm, ...]:
    return (NodeTerm(fields=(Requirement("metadata.name", "In", (name,)),)),)


def a_claim_user(pod: Pod) -> ClaimUser:
    return ClaimUser(pod.uid, pod.name)


def a_claiming_pod(name: str, *claims: str, **more: Any) -> Pod:
    """A pod that uses these claims by their names."""
    uses = tuple(ClaimUse(each, f"default/{each}") for each in claims)
    return a_pod(name, claims=uses, **more)
