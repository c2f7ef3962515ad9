"""What was missing of GPUs, in words: GPU by GPU, and how near any node came."""

import math
from collections.abc import Sequence

import numpy as np

from fairlead.cluster.devices import GpuMask
from fairlead.cluster.gpu_rows import GpuRows
from fairlead.cluster.nodes import Nodes
from fairlead.model.gpus import WHOLE, Gpu, GpuRequest
from fairlead.plugins.api import GpuDetail
from fairlead.plugins.gpu_isolation import missing_on, slice_of

#: What a node needs to serve requests of a dialect, and how it gets that.
_SERVED_WITH = {
    "fairlead": ("fairlead.dev/inventory", "the Fairlead agent"),
    "kai": ("fairlead.dev/inventory", "the Fairlead agent"),
    "hami": ("hami.io/node-nvidia-register", "HAMi's device plugin"),
    "volcano": ("volcano.sh/node-vgpu-register", "Volcano's device plugin"),
    "alnair": ("ai.centaurus.io/physical-gpu-uuids", "Alnair's device plugin"),
}
#: Of a GPU that a device plugin hands out, where labels do not say how large it is.
UNKNOWN_MEMORY = (
    "the size of its memory is not known: it is in the label nvidia.com/gpu.memory of NVIDIA's "
    "feature discovery, or listed by the Fairlead agent"
)


def not_served(ask: GpuRequest) -> str:
    """What the nodes lack that cannot serve the dialect of the ask, for an event."""
    if ask.dialect in _SERVED_WITH:
        return f"their GPUs are not listed in {_SERVED_WITH[ask.dialect][0]}"
    return f"no device plugin of {ask.dialect}"


def how_to_serve(ask: GpuRequest) -> str:
    """The same about one node, with what to do."""
    if ask.dialect not in _SERVED_WITH:
        return f"needs the device plugin of {ask.dialect}"
    annotation, writer = _SERVED_WITH[ask.dialect]
    sentence = f"needs the annotation {annotation}, which {writer} writes"
    if annotation != "fairlead.dev/inventory":
        return sentence
    return f"{sentence}; or, beside NVIDIA's device plugin, reservations (--reservation-image)"


def gpu_details(ask: GpuRequest, node: Nodes) -> tuple[GpuDetail, ...]:
    """About each GPU of the single node given; none where GPUs are only counted."""
    gpus = _listed(node)
    usable, free = node.gpus.usable(ask)[0], node.gpus.milli_free()[0]
    free_mib, users = node.gpus.memory_free()[0], node.gpus.users()[0]
    used_mib, ages_s = node.load.memory_used()[0], node.load.age_s()[0]
    utilisation = node.load.utilisation()[0]
    return tuple(
        GpuDetail(
            uuid=gpu.uuid,
            index=gpu.index,
            model=gpu.model,
            memory_mib=gpu.memory_mib,
            free_share=max(0, int(free[slot])) / WHOLE,
            free_mib=max(0, int(free_mib[slot])),
            pods=int(users[slot]),
            missing="" if usable[slot] else _missing(ask, node, slot, gpu),
            utilisation=_rounded(utilisation[slot], 2),
            memory_used_mib=_rounded(used_mib[slot]),
            reading_age_s=_rounded(ages_s[slot], 1),
        )
        for slot, gpu in enumerate(gpus)
    )


def nearest(ask: GpuRequest, gpus: GpuRows) -> str:
    """How near the nodes come that cannot serve the ask, one sentence; "" without one."""
    known = (gpus.known() if ask.whole else gpus.slotted()) & gpus.serve(ask)
    wanted = gpus.there() & gpus.wanted(ask) & known[:, None]
    if not wanted.any():
        return ""
    if ask.sliced:
        served = wanted & gpus.cut_for(ask)
        room = int(np.where(served, gpus.room_for(ask), 0).sum(axis=1).max())
        return _of_slices(ask, room)
    if ask.whole:
        free = (gpus.usable(ask) & wanted).sum(axis=1) - gpus.elsewhere()
        most = int(np.where(known, free, 0).max())
        return "" if most >= ask.gpus else _of_whole(ask, max(0, most))
    offered = wanted & gpus.offer(ask)
    if not offered.any():
        return ""
    return _of_shares(ask, gpus, offered & (gpus.wholes() == 0) & gpus.unmixed(ask))


def _of_slices(ask: GpuRequest, room: int) -> str:
    kind = f"{ask.profile} slice" if ask.profile else slice_of(ask)
    if room:
        kinds = kind.replace("slice", "slices", 1)
        return f"No node can fit more than {room} {kinds}, requested {ask.gpus}."
    return f"No node can fit a {kind}."


def _of_whole(ask: GpuRequest, most: int) -> str:
    return f"Of {ask.gpus} requested GPUs, at most {most} are free on one node."


def _of_shares(ask: GpuRequest, gpus: GpuRows, shared: np.ndarray) -> str:
    if not shared.any():
        return "All GPUs are assigned whole."
    share = max(0, int(gpus.milli_open(ask)[shared].max()))
    mib, asked_mib = max(0, int(gpus.memory_free()[shared].max())), gpus.memory_asked(ask)[shared]
    sentences = []
    if ask.milli > share:
        sentences.append(f"The largest free share of a GPU is {share / WHOLE:g}, "
                    f"requested {ask.milli / WHOLE:g}.")  # fmt: skip
    # A share includes the memory, as documented.
    if int(asked_mib.min()) > mib and not (sentences and ask.memory_milli):
        sentences.append(
            f"At most {mib} MiB are free on one GPU, requested {int(asked_mib.min())}."
        )
    return " ".join(sentences)


def _listed(node: Nodes) -> Sequence[Gpu]:
    inventory = next(iter(node.inventories()), None)
    listed = inventory is not None and (inventory.named or inventory.reservable)
    return inventory.gpus if inventory and listed else ()


def too_busy(ask: GpuRequest, node: Nodes, among: GpuMask) -> str:
    """What keeps the quietest of these GPUs (of a single node) from being overcommitted."""
    if ask.overcommit is None:
        return ""
    could = among & (node.gpus.milli_open(ask, if_quiet=True)[0] >= ask.milli)
    could &= node.gpus.milli_open(ask)[0] < ask.milli
    if not could.any():
        return ""
    fresh = could & node.load.fresh()[0]
    if not fresh.any():
        return " and its utilisation was not measured in the last minute"
    quietest = float(node.load.busiest()[0][fresh].min())
    return f" while {quietest:.0%} busy, overcommitted below {ask.overcommit.high_water:.0%}"


def _rounded(value: float, digits: int = 0) -> float | None:
    return round(float(value), digits) if math.isfinite(value) else None


def _missing(ask: GpuRequest, node: Nodes, slot: int, gpu: Gpu) -> str:
    """The first thing that keeps the GPU from serving a part of the ask."""
    gpus = node.gpus
    if not gpu.healthy:
        return "unhealthy"
    if not gpus.wanted(ask)[0, slot]:
        return "not of the requested kind"
    if ask.tenant is not None and not gpus.of_tenant(ask)[0, slot]:
        return f"has pods of {gpus.tenant_on(slot)}"
    if not gpus.quiet_for(ask)[0, slot]:
        return f"too busy for service class {ask.service}"
    if not gpus.open_to(ask)[0, slot]:
        return f"has pods of {gpus.service_on(slot, ask)}"
    if ask.sliced:
        return _missing_slice(ask, gpus, slot, gpu)
    if gpus.wholes()[0, slot]:
        return "assigned whole"
    if gpu.mig:
        return "divided into MIG slices"
    return _missing_part(ask, node, slot, gpu)


def _missing_slice(ask: GpuRequest, gpus: GpuRows, slot: int, gpu: Gpu) -> str:
    if not gpu.mig:
        return "not divided into MIG slices"
    if not gpus.cut_for(ask)[0, slot]:
        return (
            "divided by the agent, which serves fairlead.dev/gpu-slice"
            if gpu.slots
            else "not divided by the agent; a device plugin serves nvidia.com/mig-… there"
        )
    profile = ask.profile_of(gpu.mig)
    if not profile:
        return f"has no {slice_of(ask)}"
    if gpus.room_for(ask, emptied=True)[0, slot] == 0:
        return f"cannot be divided into {profile}"
    return f"no placement for a {profile}; slices {_in_use(gpus, slot)} are in use"


def _in_use(gpus: GpuRows, slot: int) -> str:
    used = int(gpus.slices_used()[0, slot])
    return ", ".join(str(place) for place in range(8) if used >> place & 1) or "of others"


def _missing_part(ask: GpuRequest, node: Nodes, slot: int, gpu: Gpu) -> str:
    gpus = node.gpus
    pods, free_mib = int(gpus.users()[0, slot]), int(gpus.memory_free()[0, slot])
    asked_mib = int(gpus.memory_asked(ask)[0, slot])
    free = int(gpus.milli_open(ask)[0, slot])
    if asked_mib and not gpu.memory_mib:
        return UNKNOWN_MEMORY
    if asked_mib > gpu.memory_mib:
        return f"{gpu.memory_mib} MiB in total"
    if ask.whole and pods:
        return f"shared by {pods} pod{'s' * (pods > 1)}"
    if not ask.whole and (missing := missing_on(ask, node, slot)):
        return missing
    if 0 < gpu.sharers <= pods:
        return f"{pods} pods on it, the maximum"
    if free < ask.milli:
        this = np.arange(gpus.there().shape[1]) == slot
        return f"{max(0, free) / WHOLE:g} of it free{too_busy(ask, node, this)}"
    if free_mib < asked_mib:
        return f"{max(0, free_mib)} of {gpu.memory_mib} MiB free"
    return "its device plugin would choose another GPU first"
