"""gpushare: GiB of one GPU by `aliyun.com/gpu-mem`; GPUs are known by their index alone."""

from collections.abc import Mapping
from typing import ClassVar

from fairlead.kube.dialects.api import (
    Assignment,
    Bound,
    DialectDefaults,
    GpuSpec,
    NodeDeclaration,
    asked_mib,
    number,
    only_container,
)
from fairlead.model.errors import FairleadError
from fairlead.model.gpus import Gpu, GpuRequest, GpuUse, Grant, GrantSource, Inventory
from fairlead.model.limits import MOST_GPUS

MEMORY, COUNT = "aliyun.com/gpu-mem", "aliyun.com/gpu-count"
INDEX, POD, DEVICE = "ALIYUN_COM_GPU_MEM_IDX", "ALIYUN_COM_GPU_MEM_POD", "ALIYUN_COM_GPU_MEM_DEV"
ASSIGNED, ASSUMED = "ALIYUN_COM_GPU_MEM_ASSIGNED", "ALIYUN_COM_GPU_MEM_ASSUME_TIME"

_GIB = 1024


class Gpushare(DialectDefaults):
    name: ClassVar[str] = "gpushare"

    def ask(self, gpu_spec: GpuSpec) -> GpuRequest | None:
        why = "its device plugin serves one container of a pod"
        part = only_container(gpu_spec, MEMORY, why)
        if part is None:
            return None
        if part.amounts.get(COUNT, 1) != 1:
            raise FairleadError(
                f"it requests {part.amounts[COUNT]} {COUNT}; the device plugin of gpushare assigns "
                "one GPU to a pod"
            )
        mib = asked_mib(part.amounts[MEMORY], _GIB)
        return GpuRequest(1, whole=False, milli=0, memory_mib=mib, dialect=self.name)

    def inventory(self, declaration: NodeDeclaration) -> Inventory | None:
        count, total = (declaration.allocatable.get(name, 0) for name in (COUNT, MEMORY))
        if not count or not total:
            return None
        each = total // count
        if count > MOST_GPUS or each >= _GIB:
            raise FairleadError(
                f"its {MEMORY} are {total} for {count} GPUs, which cannot be GiB; run the device "
                "plugin with --memory-unit=GiB"
            )
        gpus = (Gpu(str(n), n, memory_mib=each * _GIB) for n in range(count))
        spoken = frozenset({self.name})
        return Inventory(tuple(gpus), dialects=spoken, one_at_a_time=spoken)

    def grant(self, bound: Bound) -> Grant | None:
        index, gib = (number(bound.annotations.get(key, "")) for key in (INDEX, POD))
        if index is None or gib is None:
            return None
        use = GpuUse(str(index), False, 0, gib * _GIB)
        return Grant((use,), self.name, source=GrantSource.ASSIGNED)

    def pending(self, annotations: Mapping[str, str]) -> bool:
        return annotations.get(ASSIGNED) == "false"

    def annotations_for(self, assignment: Assignment) -> Mapping[str, str]:
        use = assignment.grant.uses[0]
        gpu = _gpu(use.uuid, assignment.inventory)
        return {
            INDEX: str(gpu.index),
            POD: str(use.memory_mib // _GIB),
            DEVICE: str(gpu.memory_mib // _GIB),
            ASSIGNED: "false",
            ASSUMED: str(assignment.now_ns),
        }


def _gpu(uuid: str, inventory: Inventory | None) -> Gpu:
    gpus = inventory.gpus if inventory else ()
    found = next((gpu for gpu in gpus if gpu.uuid == uuid), None)
    if found is None:
        raise FairleadError(f"GPU {uuid} is no longer on the node")
    return found
