"""Volcano vGPU: `volcano.sh/vgpu-number`, with memory in MiB or percent, and cores in percent."""

from collections.abc import Mapping
from typing import ClassVar

from fairlead.kube.dialects import vgpu
from fairlead.kube.dialects.api import Asking, Bound, Offering, Silent, Telling, checked, number
from fairlead.kube.dialects.hami import ALLOCATING, rfc3339
from fairlead.model.errors import FairleadError
from fairlead.model.gpus import Card, GpuAsk, Grant, Inventory

REGISTER, HANDSHAKE = "volcano.sh/node-vgpu-register", "volcano.sh/node-vgpu-handshake"
#: The annotation has no prefix: it is the name of the device.
LOCK = "hamivgpu"
NODE, TIME = "volcano.sh/vgpu-node", "volcano.sh/vgpu-time"
IDS, TO_ALLOCATE = "volcano.sh/vgpu-ids-new", "volcano.sh/devices-to-allocate"
PHASE, BIND_TIME = "volcano.sh/bind-phase", "volcano.sh/bind-time"
USE_UUID, NO_UUID = "volcano.sh/vgpu-use-gpuuuid", "volcano.sh/vgpu-nouse-gpuuuid"

_WORDS = vgpu.Words(
    "volcano.sh/vgpu-number",
    "volcano.sh/vgpu-memory",
    "volcano.sh/vgpu-memory-percentage",
    "volcano.sh/vgpu-cores",
)


class Volcano(Silent):
    name: ClassVar[str] = "volcano"
    words: ClassVar[tuple[str, ...]] = (vgpu.USE_TYPE, vgpu.NO_TYPE, USE_UUID, NO_UUID)
    #: Its plugin lists the others.
    resources: ClassVar[tuple[str, ...]] = (_WORDS.percentage,)

    def ask(self, asking: Asking) -> GpuAsk | None:
        said = asking.annotations
        ask = vgpu.read_ask(asking, _WORDS, self.name)
        if ask is None:
            return None
        named = vgpu.with_kinds(ask, said)
        return vgpu.with_cards(named, said, USE_UUID, NO_UUID)

    def inventory(self, offering: Offering) -> Inventory | None:
        raw = offering.annotations.get(REGISTER)
        if raw is None or offering.annotations.get(HANDSHAKE, "").startswith("Deleted"):
            return None
        parts = [part for part in raw.split(":") if part.strip()]
        cards = [_card(part.split(","), index) for index, part in enumerate(parts)]
        spoken = frozenset({self.name})
        return Inventory(checked(cards, REGISTER), dialects=spoken, one_at_a_time=spoken)

    def grant(self, bound: Bound) -> Grant | None:
        text = bound.annotations.get(IDS)
        return vgpu.read_sections(text, bound, self.name) if text else None

    def pending(self, annotations: Mapping[str, str]) -> bool:
        return annotations.get(PHASE) == ALLOCATING

    def tell(self, telling: Telling) -> Mapping[str, str]:
        devices = vgpu.joined(vgpu.sections(telling), closed=False)
        return {
            NODE: telling.node,
            TIME: str(telling.now_s),
            IDS: devices,
            TO_ALLOCATE: devices,
            PHASE: ALLOCATING,
            BIND_TIME: str(telling.now_s),
        }

    def lock(self, telling: Telling) -> tuple[str, str] | None:
        return LOCK, rfc3339(telling.now_s)


def _card(fields: list[str], index: int) -> Card:
    """`uuid,sharers,MiB,type,healthy`, and since 1.12 how it is shared."""
    count, mib = (number(field) for field in fields[1:3]) if len(fields) >= 5 else (None, None)
    if count is None or mib is None:
        raise FairleadError(
            f"its annotation {REGISTER} cannot be read: write uuid,number,MiB,type,healthy,mode:"
        )
    shared = len(fields) < 6 or fields[5] != "mig"
    healthy = fields[4].lower() in ("true", "1", "t") and shared
    return Card(fields[0], index, fields[3], mib, healthy=healthy, sharers=count)
