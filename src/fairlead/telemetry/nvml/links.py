"""What joins two GPUs, in the words of `nvidia-smi topo -m`."""

from collections.abc import Sequence

from fairlead.telemetry.nvml.calls import Library, maybe
from fairlead.telemetry.nvml.facts import GpuFacts

SELF, FAR = "X", "SYS"
#: Levels of nvmlDeviceGetTopologyCommonAncestor; the first is two chips on one board.
_LEVELS = {0: "PIX", 10: "PIX", 20: "PXB", 30: "PHB", 40: "NODE", 50: "SYS"}
_SWITCH = ""

#: Words by the uuids of two GPUs.
Paths = dict[str, dict[str, str]]


def bus_words(library: Library, uuids: Sequence[str]) -> Paths:
    """How each two GPUs would meet without NVLink."""
    handles = {uuid: library.nvmlDeviceGetHandleByUUID(uuid) for uuid in uuids}
    found: Paths = {uuid: {} for uuid in uuids}
    for place, one in enumerate(uuids):
        for other in uuids[place + 1 :]:
            level = maybe(
                library, "nvmlDeviceGetTopologyCommonAncestor", handles[one], handles[other]
            )
            found[one][other] = found[other][one] = _LEVELS.get(level, FAR)
    return found


def nvlink_word(one: GpuFacts, other: GpuFacts) -> str:
    """NV18 for eighteen links, straight or by a switch; empty without any."""
    by_switch = min(one.nvlinks.get(_SWITCH, 0), other.nvlinks.get(_SWITCH, 0))
    straight = one.nvlinks.get(other.pci, 0) if other.pci else 0
    count = by_switch + straight
    return f"NV{count}" if count else ""


def fabric(gpus: Sequence[GpuFacts]) -> str:
    """What the machine is built around; empty for a single GPU without NVLink."""
    if any(gpu.nvlinks.get(_SWITCH) for gpu in gpus):
        return "nvswitch"
    if any(gpu.nvlinks for gpu in gpus):
        return "nvlink"
    return "pcie" if len(gpus) > 1 else ""
