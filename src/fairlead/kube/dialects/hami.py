"""HAMi: parts of a GPU by MiB and percent, passed to its device plugin under a lock of the node.

    nvidia.com/gpu: 1            # GPUs
    nvidia.com/gpumem: 4000      # MiB of each; or gpumem-percentage; all of it by default
    nvidia.com/gpucores: 30      # percent of each

On a node of HAMi its plugin also hands out `nvidia.com/gpu` alone, so it gets those, too.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import ClassVar

import msgspec

from fairlead.kube.dialects import vgpu
from fairlead.kube.dialects.api import (
    Assignment,
    Bound,
    DialectDefaults,
    GpuSpec,
    NodeDeclaration,
    checked,
    decoded,
    number,
)
from fairlead.model.errors import FairleadError
from fairlead.model.gpus import PLAIN, Gpu, GpuRequest, Grant, Inventory
from fairlead.model.nodes import GPU

REGISTER, HANDSHAKE = "hami.io/node-nvidia-register", "hami.io/node-handshake"
LOCK = "hami.io/mutex.lock"
NODE, TIME = "hami.io/vgpu-node", "hami.io/vgpu-time"
TO_ALLOCATE, ALLOCATED = "hami.io/vgpu-devices-to-allocate", "hami.io/vgpu-devices-allocated"
PHASE, BIND_TIME = "hami.io/bind-phase", "hami.io/bind-time"
USE_UUID, NO_UUID = "nvidia.com/use-gpuuuid", "nvidia.com/nouse-gpuuuid"
ALLOCATING = "allocating"

_RESOURCES = vgpu.ResourceNames(
    GPU, "nvidia.com/gpumem", "nvidia.com/gpumem-percentage", "nvidia.com/gpucores"
)


class _Device(msgspec.Struct):
    id: str
    index: int = -1
    count: int = 0
    devmem: int = 0
    type: str = ""
    numa: int = -1
    mode: str = ""
    health: bool = False


_devices = msgspec.json.Decoder(list[_Device])


class Hami(DialectDefaults):
    name: ClassVar[str] = "hami"
    annotation_keys: ClassVar[tuple[str, ...]] = (vgpu.USE_TYPE, vgpu.NO_TYPE, USE_UUID, NO_UUID)
    resources: ClassVar[tuple[str, ...]] = (*_RESOURCES.amounts, "nvidia.com/priority")

    def ask(self, gpu_spec: GpuSpec) -> GpuRequest | None:
        said = gpu_spec.annotations
        spoken = any(
            part.amounts.get(word) for part in gpu_spec.parts for word in _RESOURCES.amounts
        )
        if not spoken and not any(word in said for word in self.annotation_keys):
            return None
        ask = vgpu.read_ask(gpu_spec, _RESOURCES, self.name)
        if ask is None:
            return None
        named = vgpu.with_kinds(ask, said)
        return vgpu.with_gpus(named, said, USE_UUID, NO_UUID)

    def inventory(self, declaration: NodeDeclaration) -> Inventory | None:
        raw = declaration.annotations.get(REGISTER)
        if raw is None or declaration.annotations.get(HANDSHAKE, "").startswith("Deleted"):
            return None
        found = (
            decoded(_devices, raw, REGISTER) if raw.lstrip().startswith("[") else _from_colons(raw)
        )
        gpus = checked([_gpu(device, place) for place, device in enumerate(found)], REGISTER)
        spoken = frozenset({self.name})
        return Inventory(gpus, dialects=spoken, one_at_a_time=spoken | {PLAIN})

    def grant(self, bound: Bound) -> Grant | None:
        text = bound.annotations.get(ALLOCATED)
        return vgpu.read_sections(text, bound, self.name) if text else None

    def pending(self, annotations: Mapping[str, str]) -> bool:
        return annotations.get(PHASE) == ALLOCATING

    def annotations_for(self, assignment: Assignment) -> Mapping[str, str]:
        devices = vgpu.joined(vgpu.sections(assignment), closed=True)
        return {
            NODE: assignment.node,
            TIME: str(assignment.now_s),
            TO_ALLOCATE: devices,
            ALLOCATED: devices,
            PHASE: ALLOCATING,
            BIND_TIME: str(assignment.now_s),
        }

    def lock(self, assignment: Assignment) -> tuple[str, str] | None:
        """The plugin serves the pod that the lock names, and takes the lock away after that."""
        pod = assignment.pod
        return LOCK, f"{rfc3339(assignment.now_s)},{pod.namespace},{pod.name}"


def rfc3339(now_s: int) -> str:
    return datetime.fromtimestamp(now_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _from_colons(raw: str) -> list[_Device]:
    """Before version 2.6: `uuid,sharers,MiB,cores,type,numa,healthy:`, since 2.5 `,index,mode`."""
    return [_from_commas(part.split(",")) for part in raw.split(":") if part.strip()]


def _from_commas(fields: list[str]) -> _Device:
    if len(fields) not in (7, 9):
        raise FairleadError(
            f"its annotation {REGISTER} cannot be read: a GPU has {len(fields)} fields, not 7 or 9"
        )
    count, devmem = number(fields[1]), number(fields[2])
    if count is None or devmem is None:
        raise FairleadError(f"its annotation {REGISTER} cannot be read: a value is not a number")
    index = number(fields[7]) if len(fields) == 9 else None
    mode = fields[8] if len(fields) == 9 else ""
    return _Device(
        fields[0], -1 if index is None else index, count, devmem, fields[4],
        number(fields[5]) or 0, mode, fields[6].lower() in ("true", "1", "t"),
    )  # fmt: skip


def _gpu(device: _Device, place: int) -> Gpu:
    """A GPU that HAMi cuts by MIG itself is not ours to give."""
    return Gpu(
        device.id,
        device.index if device.index >= 0 else place,
        device.type,
        device.devmem,
        device.numa,
        device.health and device.mode != "mig",
        max(device.count, 0),
    )
