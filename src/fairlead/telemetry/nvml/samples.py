"""One GPU at one moment."""

from collections.abc import Iterator
from typing import Any

from fairlead.telemetry.nvml.calls import NOT_FOUND, Library, maybe, no_answer, text
from fairlead.telemetry.nvml.facts import GpuProcess, GpuSample, SliceSample

_KIB = 1 << 10
#: What NVML says of a process that is in no GPU instance.
_NO_INSTANCE = 0xFFFFFFFF
#: NVLink payload in KiB, of all links together.
_NVLINK_FIELDS = {"tx": 138, "rx": 139}
_ALL_LINKS = 0xFFFFFFFF
#: One process may be on several lists; one that is only on the last only draws.
_GRAPHICS = "nvmlDeviceGetGraphicsRunningProcesses"
_MPS = "nvmlDeviceGetMPSComputeRunningProcesses"
_LISTS = (_MPS, "nvmlDeviceGetComputeRunningProcesses", _GRAPHICS)
_MOST_SLICES = 8


class Sampler:
    """Remembers up to when the use of each GPU by its processes has been read."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._seen_us: dict[str, int] = {}

    def sample(self, uuid: str) -> GpuSample:
        """Raises NVMLError if the GPU is lost."""
        library = self._library
        handle = library.nvmlDeviceGetHandleByUUID(uuid)
        rates = maybe(library, "nvmlDeviceGetUtilizationRates", handle)
        power_mw = maybe(library, "nvmlDeviceGetPowerUsage", handle)
        memory = _state(library, handle)
        return GpuSample(
            uuid=uuid,
            utilization=None if rates is None else rates.gpu / 100,
            memory_busy=None if rates is None else rates.memory / 100,
            memory_used_bytes=memory and int(memory.used),
            memory_total_bytes=memory and int(memory.total),
            power_w=None if power_mw is None else power_mw / 1000,
            temperature_c=maybe(library, "nvmlDeviceGetTemperature", handle, 0),
            nvlink_bytes=_nvlink_bytes(library, handle),
            slices=tuple(_slices(library, handle)),
            processes=tuple(self._processes(uuid, handle)),
        )

    def _processes(self, uuid: str, handle: Any) -> Iterator[GpuProcess]:
        used = self._use_by_process(uuid, handle)
        found: dict[int, GpuProcess] = {}
        for name in _LISTS:
            for each in maybe(self._library, name, handle) or ():
                busy = None if used is None else used.get(each.pid, 0.0)
                found.setdefault(each.pid, _process(each, busy, name))
        yield from found.values()

    def _use_by_process(self, uuid: str, handle: Any) -> dict[int, float] | None:
        """The latest reading of each process since the last time; None where NVML takes none."""
        since = self._seen_us.get(uuid, 0)
        try:
            read = self._library.nvmlDeviceGetProcessUtilization(handle, since)
        except self._library.NVMLError as error:
            no_answer(error)
            return {} if error.value == NOT_FOUND else None  # not found: nothing ran
        latest = sorted((each for each in read if each.pid), key=lambda each: int(each.timeStamp))
        if latest:
            self._seen_us[uuid] = int(latest[-1].timeStamp)
        return {each.pid: min(each.smUtil, 100) / 100 for each in latest}


def _process(process: Any, utilization: float | None, listed: str) -> GpuProcess:
    instance = getattr(process, "gpuInstanceId", None)
    return GpuProcess(
        process.pid,
        process.usedGpuMemory,
        utilization,
        None if instance == _NO_INSTANCE else instance,
        draws=listed == _GRAPHICS,
        mps=listed == _MPS,
    )


def _state(library: Library, handle: Any) -> Any:
    """As `nvidia-smi` counts it: what the driver keeps for itself is not in use."""
    version = getattr(library, "nvmlMemory_v2", None)
    newer = None if version is None else maybe(library, "nvmlDeviceGetMemoryInfo", handle, version)
    return newer or maybe(library, "nvmlDeviceGetMemoryInfo", handle)


def _nvlink_bytes(library: Library, handle: Any) -> dict[str, int]:
    asked = [(field, _ALL_LINKS) for field in _NVLINK_FIELDS.values()]
    fields = maybe(library, "nvmlDeviceGetFieldValues", handle, asked) or ()
    return {
        way: int(field.value.ullVal) * _KIB
        for way, field in zip(_NVLINK_FIELDS, fields, strict=False)
        if field.nvmlReturn == 0
    }


def _slices(library: Library, handle: Any) -> Iterator[SliceSample]:
    mode = maybe(library, "nvmlDeviceGetMigMode", handle)
    for place in range(_MOST_SLICES if mode is not None and mode[0] else 0):
        part = maybe(library, "nvmlDeviceGetMigDeviceHandleByIndex", handle, place)
        if part is not None:
            memory = _state(library, part)
            yield SliceSample(
                text(library.nvmlDeviceGetUUID(part)),
                text(library.nvmlDeviceGetName(part)).rpartition(" ")[2],
                int(library.nvmlDeviceGetGpuInstanceId(part)),
                memory and int(memory.used),
                memory and int(memory.total),
            )
