"""Alnair: GiB of one GPU by `alnair/vgpu-memory`, percent by `alnair/vgpu-compute`.

Its device plugin picks the GPU: the first by uuid with enough memory. It gets nothing but a
time, so the book must foresee the pick; what it really took is on the pod afterwards.
"""

from collections import Counter
from collections.abc import Mapping
from typing import ClassVar

from fairlead.kube.dialects.api import (
    UUID,
    Assignment,
    Bound,
    DialectDefaults,
    GpuSpec,
    NodeDeclaration,
    asked_mib,
    checked,
    number,
    only_container,
)
from fairlead.model.errors import FairleadError
from fairlead.model.gpus import WHOLE, Gpu, GpuRequest, GpuUse, Grant, GrantSource, Inventory

MEMORY, COMPUTE = "alnair/vgpu-memory", "alnair/vgpu-compute"
PREFIX = "ai.centaurus.io/"
TIME, TAKEN = PREFIX + "scheduler-timestamp", PREFIX + "alnair-gpu-id"
UUIDS = PREFIX + "physical-gpu-uuids"
#: Its plugin writes the first, its scheduler reads the second.
CHUNKS = (PREFIX + "vitual-gpu-count", PREFIX + "virtual-gpu-count")

_GIB = 1024


class Alnair(DialectDefaults):
    name: ClassVar[str] = "alnair"

    def ask(self, gpu_spec: GpuSpec) -> GpuRequest | None:
        why = "its device plugin serves one container of a pod"
        part = only_container(gpu_spec, MEMORY, why)
        compute = only_container(gpu_spec, COMPUTE, why)
        if compute is not None and compute is not part:
            raise FairleadError(f"it requests {COMPUTE} without {MEMORY}; request both")
        if part is None:
            return None
        percent = part.amounts.get(COMPUTE, 0)
        if percent > 100:
            raise FairleadError(f"it requests {percent} {COMPUTE}; one GPU has 100")
        milli, mib = percent * WHOLE // 100, asked_mib(part.amounts[MEMORY], _GIB)
        return GpuRequest(1, whole=False, milli=milli, memory_mib=mib, dialect=self.name)

    def inventory(self, declaration: NodeDeclaration) -> Inventory | None:
        said = declaration.annotations
        chunks = next((said[key] for key in CHUNKS if key in said), None)
        if chunks is None or UUIDS not in said:
            return None
        uuids = [uuid.strip() for uuid in said[UUIDS].split(",") if uuid.strip()]
        gib = [number(count.strip()) for count in chunks.split(",") if count.strip()]
        if len(gib) != len(uuids) or None in gib:
            raise FairleadError(f"{UUIDS} and {CHUNKS[0]} do not fit together; restart its plugin")
        gpus = [
            Gpu(uuid, index, memory_mib=(count or 0) * _GIB)
            for index, (uuid, count) in enumerate(zip(uuids, gib, strict=True))
        ]
        spoken = frozenset({self.name})
        return Inventory(
            checked(gpus, UUIDS), dialects=spoken, one_at_a_time=spoken, first_fit=spoken
        )

    def grant(self, bound: Bound) -> Grant | None:
        """The plugin's own word, which is `<uuid>_<chunk>` for every GiB."""
        taken = bound.annotations.get(TAKEN)
        if not taken:
            return None
        chunks = [chunk for chunk in taken.split(",") if chunk]
        counted = Counter(chunk.rpartition("_")[0] for chunk in dict.fromkeys(chunks))
        if not counted or not all(UUID.fullmatch(uuid) for uuid in counted):
            return None
        ask = bound.ask
        milli = ask.milli if ask and ask.dialect == self.name else 0
        uses = (GpuUse(uuid, False, milli, gib * _GIB) for uuid, gib in sorted(counted.items()))
        return Grant(tuple(uses), self.name, source=GrantSource.TAKEN)

    def pending(self, annotations: Mapping[str, str]) -> bool:
        return TIME in annotations and TAKEN not in annotations

    def annotations_for(self, assignment: Assignment) -> Mapping[str, str]:
        """Its plugin compares times as texts, so they must be equally long."""
        return {TIME: f"{assignment.now_ns:019d}"}
