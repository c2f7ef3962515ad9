"""One GPU as NVML describes it."""

import ctypes
import re
from collections import Counter
from typing import Any
from uuid import UUID

from fairlead.telemetry.nvml.calls import Library, maybe, text
from fairlead.telemetry.nvml.facts import Cut, GpuFacts, System
from fairlead.telemetry.nvml.xids import recovery

_MIB = 1 << 20
#: 64 NUMA nodes in each word.
_NODE_WORDS = 4
_OF_NODE = 0
#: NVLinks of a GPU, more than any has.
_MOST_LINKS = 36
_SWITCH = 2
#: MIG profiles are numbered; NVML refuses the first number that it does not know.
MOST_PROFILES = 18
_MOST_PLACES = 32
_PROFILE = re.compile(r"(?:MIG )?(\d+g\.\d+gb)")
#: The driver has joined the GPU to its NVLink domain.
_FABRIC_COMPLETED = 3


def system(library: Library) -> System:
    cuda = maybe(library, "nvmlSystemGetCudaDriverVersion_v2") or 0
    return System(
        count=int(library.nvmlDeviceGetCount()),
        driver=text(maybe(library, "nvmlSystemGetDriverVersion") or ""),
        cuda=f"{cuda // 1000}.{cuda % 1000 // 10}" if cuda else "",
    )


def describe(library: Library, index: int) -> GpuFacts:
    """Raises NVMLError if the GPU is lost."""
    handle = library.nvmlDeviceGetHandleByIndex(index)
    mode = maybe(library, "nvmlDeviceGetMigMode", handle)
    mig_on = mode is not None and mode[0] == 1
    return GpuFacts(
        index=index,
        uuid=text(library.nvmlDeviceGetUUID(handle)),
        model=text(maybe(library, "nvmlDeviceGetName", handle) or ""),
        memory_mib=int(library.nvmlDeviceGetMemoryInfo(handle).total) // _MIB,
        numa=_numa(library, handle),
        pci=pci_address(maybe(library, "nvmlDeviceGetPciInfo", handle)),
        mig=mode is not None,
        mig_on=mig_on,
        cuts=cuts_of(library, handle) if mig_on else (),
        nvlinks=_nvlinks(library, handle),
        clique=_clique(library, handle),
        trouble=_trouble(library, handle),
    )


def pci_address(pci: Any) -> str:
    """`00000000:1B:00.0` as sysfs spells it: `0000:1b:00.0`."""
    if pci is None:
        return ""
    domain, _, rest = text(pci.busId).lower().partition(":")
    return f"{domain[-4:]}:{rest}"


def _numa(library: Library, handle: Any) -> int:
    """The node of its memory, if there is exactly one."""
    words = maybe(library, "nvmlDeviceGetMemoryAffinity", handle, _NODE_WORDS, _OF_NODE)
    near = sum(int(word) << (64 * place) for place, word in enumerate(words or ()))
    return near.bit_length() - 1 if near and near & (near - 1) == 0 else -1


def cuts_of(library: Library, handle: Any) -> tuple[Cut, ...]:
    """Slices with media engines and the like (`+me`) are left out.

    There is at most one of them on a GPU, which their places do not show.
    """
    found = []
    for number in range(MOST_PROFILES):
        profile = maybe(library, "nvmlDeviceGetGpuInstanceProfileInfo", handle, number)
        named = profile and _PROFILE.fullmatch(text(profile.name))
        spots = places(library, handle, profile.id) if named else []
        if named and spots:
            starts = tuple(sorted(start for start, _ in spots))
            found.append(Cut(named[1], spots[0][1], starts, int(profile.memorySizeMB)))
    return tuple(sorted(found, key=lambda cut: (cut.size, cut.name)))


def places(library: Library, handle: Any, profile: int) -> list[tuple[int, int]]:
    """First memory slice and length of each place that the driver allows."""
    places = (library.c_nvmlGpuInstancePlacement_t * _MOST_PLACES)()
    count = ctypes.c_uint(_MOST_PLACES)
    maybe(
        library,
        "nvmlDeviceGetGpuInstancePossiblePlacements",
        handle,
        profile,
        places,
        ctypes.byref(count),
    )
    known = places[: count.value] if count.value <= _MOST_PLACES else ()
    return [(place.start, place.size) for place in known if place.size]


def _nvlinks(library: Library, handle: Any) -> dict[str, int]:
    ends: Counter[str] = Counter()
    for link in range(_MOST_LINKS):
        active = maybe(library, "nvmlDeviceGetNvLinkState", handle, link)
        if active is None and link == 0:
            break  # it has none
        if active:
            ends[_other_end(library, handle, link)] += 1
    return dict(ends)


def _other_end(library: Library, handle: Any, link: int) -> str:
    """PCI address of the GPU there; a switch has none of interest."""
    if maybe(library, "nvmlDeviceGetNvLinkRemoteDeviceType", handle, link) == _SWITCH:
        return ""
    return pci_address(maybe(library, "nvmlDeviceGetNvLinkRemotePciInfo", handle, link))


def _clique(library: Library, handle: Any) -> str:
    """Empty unless the GPU has been joined to a domain that has a name."""
    fabric = library.c_nvmlGpuFabricInfoV_t()
    asked = maybe(library, "nvmlDeviceGetGpuFabricInfoV", handle, ctypes.byref(fabric))
    domain = bytes(fabric.clusterUuid)
    if asked is None or fabric.state != _FABRIC_COMPLETED or fabric.status or not any(domain):
        return ""
    return f"{UUID(bytes=domain)}.{fabric.cliqueId}"


def _trouble(library: Library, handle: Any) -> str:
    """What the driver itself says is wrong with the GPU."""
    rows = maybe(library, "nvmlDeviceGetRemappedRows", handle)
    if rows is not None and rows[3]:
        return "a row of its memory could not be replaced; have the GPU replaced"
    if rows is not None and rows[2]:
        return "rows of its memory wait to be replaced; reset the GPU when it is empty"
    if maybe(library, "nvmlDeviceGetRetiredPagesPendingStatus", handle):
        return "pages of its memory wait to be retired; reset the GPU when it is empty"
    return recovery(library, handle)
