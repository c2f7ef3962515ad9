"""ResourceSlices and DeviceClasses as drivers publish them, for the machines of the simulator.

NVIDIA's driver publishes whole GPUs, or with DynamicMIG also each slice that a GPU could have.
The example driver of Kubernetes publishes GPUs that do not exist.
"""

import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from random import Random
from typing import Any

from fairlead.base import nvidia_devices
from fairlead.model.device_gpus import NVIDIA
from fairlead.model.nodes import GPU
from fairlead.sim.dra.mig_layout import H100_LAYOUT
from fairlead.sim.machines import H100, GpuDriver, Machine, inventory

Object = dict[str, Any]

EXAMPLE = "gpu.example.com"
_API = "resource.k8s.io/v1"
#: The domain of attributes that all drivers have.
_STANDARD = "resource.kubernetes.io"
_ARCHITECTURES: Mapping[str, tuple[str, str]] = {
    "hopper": ("Hopper", "9.0.0"),
    "ampere": ("Ampere", "8.0.0"),
    "ada-lovelace": ("Ada Lovelace", "8.9.0"),
    "volta": ("Volta", "7.0.0"),
}


def with_drivers(machines: Iterable[Machine]) -> list[Machine]:
    """The machines with a DRA driver each, of all kinds, in place of the device plugin."""
    return [replace(machine, driver=_driver_of(machine)) for machine in machines]


def _driver_of(machine: Machine) -> GpuDriver:
    if machine.shape.short == "a10":
        return "example"
    divided = machine.shape.gpu is H100 and int(machine.name.rpartition("-")[2]) % 2 == 0
    return "mig" if divided else "whole"


def classes() -> list[Object]:
    """Those that the charts of the drivers install."""
    nvidia = f"device.driver == '{NVIDIA}' && device.attributes['{NVIDIA}'].type == "
    return [
        _class(NVIDIA, f"{nvidia}'gpu'", extendedResourceName=GPU),
        _class("mig.nvidia.com", f"{nvidia}'mig'"),
        _class(EXAMPLE, f"device.driver == '{EXAMPLE}'"),
    ]


def slices(machine: Machine, node_uid: str) -> list[Object]:
    """All slices of a machine: one pool, with the name of the node."""
    if machine.driver == "mig":
        parts = list(_divided(machine))
    else:
        parts = [{"devices": list(_WHOLE_GPUS[machine.driver](machine))}]
    driver = EXAMPLE if machine.driver == "example" else NVIDIA
    return [_slice(machine, node_uid, driver, parts, index) for index in range(len(parts))]


def _class(name: str, expression: str, **more: str) -> Object:
    spec = {"selectors": [{"cel": {"expression": expression}}], **more}
    return {
        "apiVersion": _API,
        "kind": "DeviceClass",
        "metadata": {"name": name},
        "spec": spec,
    }


def _slice(machine: Machine, node_uid: str, driver: str, parts: list[Object], index: int) -> Object:
    """Named as the helper of Kubernetes names them: the index in hex, and five letters."""
    width, node = len(f"{len(parts):x}"), machine.name
    suffix = f"{zlib.crc32(f'{driver}/{node}/{index}'.encode()):08x}"[:5]
    owner = {
        "apiVersion": "v1", "kind": "Node", "name": node, "uid": node_uid, "controller": True,
    }  # fmt: skip
    pool = {"name": node, "generation": 1, "resourceSliceCount": len(parts)}
    return {
        "apiVersion": _API,
        "kind": "ResourceSlice",
        "metadata": {
            "name": f"{index:0{width}x}-{driver}-{node}-{suffix}",
            "ownerReferences": [owner],
        },
        "spec": {"driver": driver, "nodeName": node, "pool": pool, **parts[index]},
    }


def _whole(machine: Machine) -> Iterator[Object]:
    """In any order: NVIDIA's driver publishes them in that of a Go map."""
    memory = machine.shape.gpu.memory_mib << 20
    devices = [
        nvidia_devices.whole_device(index, _gpu(common, uuid), memory)
        for index, (uuid, common) in enumerate(_common(machine))
    ]
    Random(machine.name).shuffle(devices)
    yield from devices


def _divided(machine: Machine) -> Iterator[Object]:
    """Counters first, then a slice for each GPU: the GPU itself and all its places."""
    gpus = list(_common(machine))
    sets = [nvidia_devices.counter_set(minor, H100_LAYOUT) for minor in range(len(gpus))]
    yield {"sharedCounters": sets}
    for minor, (uuid, common) in enumerate(gpus):
        part = {"type": {"string": "mig"}, "parentUUID": {"string": uuid}} | common
        whole = nvidia_devices.divisible_device(minor, _gpu(common, uuid), H100_LAYOUT)
        slices = nvidia_devices.slice_devices(minor, part, H100_LAYOUT)
        yield {"devices": [whole, *slices]}


def _gpu(common: Object, uuid: str) -> Object:
    return {"type": {"string": "gpu"}, "uuid": {"string": uuid}} | common


def _common(machine: Machine) -> Iterator[tuple[str, Object]]:
    """The UUID of each GPU, and the attributes that its slices have, too."""
    gpu = machine.shape.gpu
    architecture, capability = _ARCHITECTURES[gpu.family]
    for entry in inventory(machine).gpus:
        yield entry.uuid, {
            "productName": {"string": gpu.model},
            "brand": {"string": "Tesla" if "Tesla" in gpu.model else "Nvidia"},
            "architecture": {"string": architecture},
            "cudaComputeCapability": {"version": capability},
            "driverVersion": {"version": "580.95.5"},
            "cudaDriverVersion": {"version": "13.0.0"},
            f"{_STANDARD}/pciBusID": {"string": f"0000:{0x1B + 8 * entry.index:02x}:00.0"},
            f"{_STANDARD}/pcieRoot": {"string": f"pci0000:{0x15 + 8 * entry.index:02x}"},
            f"{_STANDARD}/numaNode": {"int": max(0, entry.numa)},
        }  # fmt: skip


def _examples(machine: Machine) -> Iterator[Object]:
    """As dra-example-driver publishes them."""
    for entry in inventory(machine).gpus:
        yield {
            "name": f"gpu-{entry.index}",
            "attributes": {
                "index": {"int": entry.index},
                "uuid": {"string": entry.uuid.lower()},
                "model": {"string": "LATEST-GPU-MODEL"},
                "driverVersion": {"version": "1.0.0"},
            },
            "capacity": {"memory": {"value": "80Gi"}, "compute": {"value": "100"}},
        }


_WHOLE_GPUS = {"whole": _whole, "example": _examples}
