"""What NVIDIA's DRA driver publishes of a GPU beyond the inventory, as NVML answers it."""

from collections.abc import Iterator
from typing import Any

import msgspec

from fairlead.model.machines import geometry_of
from fairlead.telemetry.nvml.calls import Library, maybe, text
from fairlead.telemetry.nvml.gpus import MOST_PROFILES, places

_BRANDS = {
    0: "Unknown", 1: "Quadro", 2: "Tesla", 3: "NVS", 4: "Grid", 5: "GeForce", 6: "Titan",
    7: "NvidiaVApps", 8: "NvidiaVPC", 9: "NvidiaVCS", 10: "NvidiaVWS", 11: "NvidiaCloudGaming",
    12: "QuadroRTX", 13: "NvidiaRTX", 14: "Nvidia", 15: "GeForceRTX", 16: "TitanRTX",
}  # fmt: skip
_ARCHITECTURES = {
    2: "Kepler", 3: "Maxwell", 4: "Pascal", 5: "Volta", 6: "Turing", 7: "Ampere",
    8: "Ada Lovelace", 9: "Hopper", 10: "Blackwell",
}  # fmt: skip
_ADDRESSING = {0: "None", 1: "HMM", 2: "ATS"}
#: Of Ampere, MIG is switched on by a reset: such a GPU is whole, or it is divided.
_SWITCHES_MIG_AT_ONCE = 9


class MigProfileFacts(msgspec.Struct, frozen=True, rename="camel"):
    """A profile of MIG: where a slice of it can be, and what the slice has."""

    name: str
    id: int
    size: int
    starts: tuple[int, ...]
    memory_mib: int
    multiprocessors: int
    copy_engines: int
    decoders: int
    encoders: int
    jpegs: int
    ofas: int


class DeviceFacts(msgspec.Struct, frozen=True, rename="camel"):
    """A GPU as a DRA driver describes it."""

    uuid: str
    #: The number of its device file, which names the device: it survives a new order of GPUs.
    minor: int
    memory_bytes: int
    brand: str = "Unknown"
    architecture: str = "Unknown"
    #: Such as 9.0; empty where NVML does not report it.
    capability: str = ""
    #: How it addresses the memory of the machine; empty where NVML does not report it.
    addressing: str = ""
    #: Empty where it cannot be divided now.
    profiles: tuple[MigProfileFacts, ...] = ()
    #: It can be given as a whole: not while Ampere's MIG mode is on.
    whole: bool = True


def device(library: Library, uuid: str) -> DeviceFacts:
    """Raises NVMLError if the GPU is lost."""
    handle = library.nvmlDeviceGetHandleByUUID(uuid)
    major, minor = maybe(library, "nvmlDeviceGetCudaComputeCapability", handle) or (0, 0)
    mode = maybe(library, "nvmlDeviceGetMigMode", handle)
    is_on, at_once = bool(mode and mode[0]), major >= _SWITCHES_MIG_AT_ONCE
    is_divisible = mode is not None and (is_on or at_once)
    return DeviceFacts(
        uuid,
        int(library.nvmlDeviceGetMinorNumber(handle)),
        int(library.nvmlDeviceGetMemoryInfo(handle).total),
        _BRANDS.get(maybe(library, "nvmlDeviceGetBrand", handle), "Unknown"),
        _ARCHITECTURES.get(maybe(library, "nvmlDeviceGetArchitecture", handle), "Unknown"),
        f"{major}.{minor}" if major else "",
        _ADDRESSING.get(maybe(library, "nvmlDeviceGetAddressingMode", handle), ""),
        tuple(_profiles(library, handle)) if is_divisible else (),
        whole=not is_on or at_once,
    )


def _profiles(library: Library, handle: Any) -> Iterator[MigProfileFacts]:
    """Those that can be created, media engines included: counters show that there is one of it."""
    known = _known_places(library, handle)
    for number in range(MOST_PROFILES):
        info = maybe(library, "nvmlDeviceGetGpuInstanceProfileInfo", handle, number)
        if info is None:
            continue
        name = text(info.name).removeprefix("MIG ")
        spots = places(library, handle, info.id) or known.get(name.partition("+")[0], [])
        if spots:
            yield MigProfileFacts(
                name,
                int(info.id),
                spots[0][1],
                tuple(sorted(start for start, _ in spots)),
                int(info.memorySizeMB),
                int(info.multiprocessorCount),
                int(info.copyEngineCount),
                int(info.decoderCount),
                int(info.encoderCount),
                int(info.jpegCount),
                int(info.ofaCount),
            )


def _known_places(library: Library, handle: Any) -> dict[str, list[tuple[int, int]]]:
    """Places of the model, by profile: some drivers list them only while MIG is on."""
    model = text(maybe(library, "nvmlDeviceGetName", handle) or "")
    memory_mib = int(library.nvmlDeviceGetMemoryInfo(handle).total) >> 20
    return {
        cut.name: [(start, cut.slices) for start in cut.starts]
        for cut in geometry_of(model, memory_mib)
    }
