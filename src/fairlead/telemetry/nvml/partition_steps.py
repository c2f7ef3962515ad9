"""How a GPU is cut, and the steps that cut it: each is one question to the process that asks NVML.

Killed between any two calls it leaves a GPU instance without a compute instance at worst, which
the next look finds.

NVML remembers instances that it has shown to a process, even when another process has destroyed
them. So every look starts over, and these questions need a process that asks nothing else.
"""

import ctypes
from collections.abc import Iterator
from typing import Any

from fairlead.telemetry.nvml.calls import Library, maybe, text
from fairlead.telemetry.nvml.facts import GpuInstance, Partition
from fairlead.telemetry.nvml.gpus import cuts_of

IN_USE = 19
#: Invalid Argument, Not Found.
_GONE = frozenset({2, 6})
_MOST_PROFILES = 18
_MOST_COMPUTE = 8
_MOST_INSTANCES = 16
_OFF, _ON = 0, 1
_SHARED_ENGINES = 0
_LISTS = (
    "nvmlDeviceGetComputeRunningProcesses",
    "nvmlDeviceGetGraphicsRunningProcesses",
    "nvmlDeviceGetMPSComputeRunningProcesses",
)


def partition(library: Library, uuid: str) -> Partition:
    """How the GPU is cut now, by whomever, and who is on it. Raises NVMLError if it is lost."""
    library.nvmlShutdown()
    library.nvmlInit()
    handle = library.nvmlDeviceGetHandleByUUID(uuid)
    mode = maybe(library, "nvmlDeviceGetMigMode", handle) or (_OFF, _OFF)
    on = mode[0] == _ON
    pids = _pids(library, handle)
    return Partition(
        uuid,
        on=on,
        pending=mode[1] == _ON,
        cuts=cuts_of(library, handle) if on else (),
        instances=tuple(_instances(library, handle, pids)) if on else (),
        pids=tuple(sorted({pid for found in pids.values() for pid in found})),
    )


def switch(library: Library, uuid: str, on: bool) -> bool:
    """Whether MIG is on afterwards. NVML does not check for processes, so we look first."""
    handle = library.nvmlDeviceGetHandleByUUID(uuid)
    if _pids(library, handle):
        raise library.NVMLError(IN_USE)
    library.nvmlDeviceSetMigMode(handle, _ON if on else _OFF)
    return bool(library.nvmlDeviceGetMigMode(handle)[0] == _ON)


def make(library: Library, uuid: str, profile: str, start: int, size: int) -> int:
    """Cuts out one place, and says which GPU instance it has become."""
    handle = library.nvmlDeviceGetHandleByUUID(uuid)
    numbers = {name: id_ for id_, name, _ in _profiles(library, handle)}
    if profile not in numbers:
        raise library.NVMLError(library.NVML_ERROR_NOT_SUPPORTED)
    place = library.c_nvmlGpuInstancePlacement_t(start, size)
    made = library.nvmlDeviceCreateGpuInstanceWithPlacement(
        handle, numbers[profile], ctypes.byref(place)
    )
    return int(library.nvmlGpuInstanceGetInfo(made).id)


def complete(library: Library, uuid: str, instance: int) -> int:
    """Gives all of a GPU instance to one compute instance, and says which that is."""
    handle = library.nvmlDeviceGetHandleByUUID(uuid)
    found = library.nvmlDeviceGetGpuInstanceById(handle, instance)
    profile = library.nvmlGpuInstanceGetInfo(found).profileId
    slices = {id_: count for id_, _, count in _profiles(library, handle)}.get(profile)
    for number in range(_MOST_COMPUTE):
        info = maybe(
            library, "nvmlGpuInstanceGetComputeInstanceProfileInfo", found, number, _SHARED_ENGINES
        )
        if info is not None and info.sliceCount == slices:
            made = library.nvmlGpuInstanceCreateComputeInstance(found, info.id)
            return int(library.nvmlComputeInstanceGetInfo_v2(made).id)
    raise library.NVMLError(library.NVML_ERROR_NOT_SUPPORTED)


def drop(library: Library, uuid: str, instance: int, start: int, size: int) -> bool:
    """Destroys that GPU instance if it is still the one at that place and no process is on it."""
    handle = library.nvmlDeviceGetHandleByUUID(uuid)
    found = library.nvmlDeviceGetGpuInstanceById(handle, instance)
    place = library.nvmlGpuInstanceGetInfo(found).placement
    if (place.start, place.size) != (start, size):
        raise library.NVMLError(library.NVML_ERROR_NOT_FOUND)
    if _pids(library, handle).get(instance):
        raise library.NVMLError(IN_USE)
    for number in _computes(library, handle).get(instance, ()):
        _destroy(library, found, number)
    library.nvmlGpuInstanceDestroy(found)
    return True


def _destroy(library: Library, instance: Any, number: int) -> None:
    """One that is not there after all is ignored: something else was faster."""
    try:
        compute = library.nvmlGpuInstanceGetComputeInstanceById(instance, number)
        library.nvmlComputeInstanceDestroy(compute)
    except library.NVMLError as error:
        if error.value not in _GONE:
            raise


def _profiles(library: Library, handle: Any) -> Iterator[tuple[int, str, int]]:
    """Id, name and compute slices of each profile."""
    for number in range(_MOST_PROFILES):
        info = maybe(library, "nvmlDeviceGetGpuInstanceProfileInfo", handle, number)
        if info is not None:
            yield int(info.id), text(info.name).removeprefix("MIG "), int(info.sliceCount)


def _instances(
    library: Library, handle: Any, pids: dict[int | None, set[int]]
) -> Iterator[GpuInstance]:
    computes = _computes(library, handle)
    for profile, name, _ in _profiles(library, handle):
        array = (library.c_nvmlGpuInstance_t * _MOST_INSTANCES)()
        count = ctypes.c_uint(_MOST_INSTANCES)
        maybe(
            library, "nvmlDeviceGetGpuInstances", handle, profile, array, ctypes.byref(count)
        )  # fmt: skip
        for found in array[: count.value if count.value <= _MOST_INSTANCES else 0]:
            info = maybe(library, "nvmlGpuInstanceGetInfo", found) if found else None
            if info is not None:
                yield GpuInstance(
                    int(info.id),
                    name,
                    int(info.placement.start),
                    int(info.placement.size),
                    tuple(sorted(computes.get(int(info.id), ()))),
                    tuple(sorted(pids.get(int(info.id), ()))),
                )


def _computes(library: Library, handle: Any) -> dict[int, set[int]]:
    """Compute instances of each GPU instance.

    By the devices that programs see: to ask each GPU instance for each number takes seconds.
    """
    found: dict[int, set[int]] = {}
    for index in range(maybe(library, "nvmlDeviceGetMaxMigDeviceCount", handle) or 0):
        device = maybe(library, "nvmlDeviceGetMigDeviceHandleByIndex", handle, index)
        if device is not None:
            instance = int(library.nvmlDeviceGetGpuInstanceId(device))
            found.setdefault(instance, set()).add(
                int(library.nvmlDeviceGetComputeInstanceId(device))
            )
    return found


def _pids(library: Library, handle: Any) -> dict[int | None, set[int]]:
    """Processes by the GPU instance that they are in."""
    found: dict[int | None, set[int]] = {}
    for name in _LISTS:
        for process in maybe(library, name, handle) or ():
            found.setdefault(getattr(process, "gpuInstanceId", None), set()).add(process.pid)
    return found
