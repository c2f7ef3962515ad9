"""Volcano vGPU: `volcano.sh/vgpu-number`, with memory in MiB or percent, and cores in percent."""

from collections.abc import Mapping
from typing import ClassVar

from fairlead.kube.dialects import vgpu
from fairlead.kube.dialects.api import (
    Assignment,
    Bound,
    DialectDefaults,
    GpuSpec,
    NodeDeclaration,
    checked,
    number,
)
from fairlead.kube.dialects.hami import ALLOCATING, rfc3339
from fairlead.model.errors import FairleadError
from fairlead.model.gpus import Gpu, GpuRequest, Grant, Inventory

REGISTER, HANDSHAKE = "volcano.sh/node-vgpu-register", "volcano.sh/node-vgpu-handshake"
#: The annotation has no prefix: it is the name of the device.
LOCK = "hamivgpu"
NODE, TIME = "volcano.sh/vgpu-node", "volcano.sh/vgpu-time"
IDS, TO_ALLOCATE = "volcano.sh/vgpu-ids-new", "volcano.sh/devices-to-allocate"
PHASE, BIND_TIME = "volcano.sh/bind-phase", "volcano.sh/bind-time"
USE_UUID, NO_UUID = "volcano.sh/vgpu-use-gpuuuid", "volcano.sh/vgpu-nouse-gpuuuid"

_RESOURCES = vgpu.ResourceNames(
    "volcano.sh/vgpu-number",
    "volcano.sh/vgpu-memory",
    "volcano.sh/vgpu-memory-percentage",
    "volcano.sh/vgpu-cores",
)


class Volcano(DialectDefaults):
    name: ClassVar[str] = "volcano"
    annotation_keys: ClassVar[tuple[str, ...]] = (vgpu.USE_TYPE, vgpu.NO_TYPE, USE_UUID, NO_UUID)
    #: Its plugin lists the others.
    resources: ClassVar[tuple[str, ...]] = (_RESOURCES.percentage,)

    def ask(self, gpu_spec: GpuSpec) -> GpuRequest | None:
        said = gpu_spec.annotations
        ask = vgpu.read_ask(gpu_spec, _RESOURCES, self.name)
        if ask is None:
            return None
        named = vgpu.with_kinds(ask, said)
        return vgpu.with_gpus(named, said, USE_UUID, NO_UUID)

    def inventory(self, declaration: NodeDeclaration) -> Inventory | None:
        raw = declaration.annotations.get(REGISTER)
        if raw is None or declaration.annotations.get(HANDSHAKE, "").startswith("Deleted"):
            return None
        parts = [part for part in raw.split(":") if part.strip()]
        gpus = [_gpu(part.split(","), index) for index, part in enumerate(parts)]
        spoken = frozenset({self.name})
        return Inventory(checked(gpus, REGISTER), dialects=spoken, one_at_a_time=spoken)

    def grant(self, bound: Bound) -> Grant | None:
        text = bound.annotations.get(IDS)
        return vgpu.read_sections(text, bound, self.name) if text else None

    def pending(self, annotations: Mapping[str, str]) -> bool:
        return annotations.get(PHASE) == ALLOCATING

    def annotations_for(self, assignment: Assignment) -> Mapping[str, str]:
        devices = vgpu.joined(vgpu.sections(assignment), closed=False)
        return {
            NODE: assignment.node,
            TIME: str(assignment.now_s),
            IDS: devices,
            TO_ALLOCATE: devices,
            PHASE: ALLOCATING,
            BIND_TIME: str(assignment.now_s),
        }

    def lock(self, assignment: Assignment) -> tuple[str, str] | None:
        return LOCK, rfc3339(assignment.now_s)


def _gpu(fields: list[str], index: int) -> Gpu:
    """`uuid,sharers,MiB,type,healthy`, and since 1.12 how it is shared."""
    count, mib = (number(field) for field in fields[1:3]) if len(fields) >= 5 else (None, None)
    if count is None or mib is None:
        raise FairleadError(
            f"its annotation {REGISTER} cannot be read: write uuid,number,MiB,type,healthy,mode:"
        )
    shared = len(fields) < 6 or fields[5] != "mig"
    healthy = fields[4].lower() in ("true", "1", "t") and shared
    return Gpu(fields[0], index, fields[3], mib, healthy=healthy, sharers=count)
