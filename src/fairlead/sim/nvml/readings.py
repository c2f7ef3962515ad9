"""What GPUs say about themselves: who they are, what they hold, what they are doing."""

import time
from typing import Any

import pynvml

from fairlead.sim.nvml.machine import NOWHERE, FakeGpu, FakeProcess
from fairlead.sim.nvml.models import MIB
from fairlead.sim.nvml.sessions import CALLS, FakeSlice, Session, call, refuse

#: Facts of a GPU that never change, by the call that asks for them.
_FIXED = {
    "nvmlDeviceGetEnforcedPowerLimit": 700_000,
    "nvmlDeviceGetPowerManagementLimit": 700_000,
    "nvmlDeviceGetPersistenceMode": 1,
    "nvmlDeviceGetBrand": 14,
    "nvmlDeviceGetVirtualizationMode": 1,
    "nvmlDeviceGetCurrPcieLinkGeneration": 5,
    "nvmlDeviceGetCurrPcieLinkWidth": 16,
    "nvmlDeviceGetMaxPcieLinkGeneration": 5,
    "nvmlDeviceGetMaxPcieLinkWidth": 16,
    "nvmlDeviceGetPerformanceState": 0,
    "nvmlDeviceGetSupportedEventTypes": 65_439,
}
_SERIAL = "0000000000000"


def _fixed(value: int) -> Any:
    def answer(session: Session, handle: Any) -> int:
        session.gpu(handle)
        return value

    return answer


CALLS.update({name: _fixed(value) for name, value in _FIXED.items()})


# -- the machine -----------------------------------------------------------------------------------


@call("nvmlSystemGetDriverVersion")
def driver_version(session: Session) -> str:
    return session.machine.driver


@call("nvmlSystemGetNVMLVersion")
def nvml_version(session: Session) -> str:
    return session.machine.nvml


@call("nvmlSystemGetCudaDriverVersion_v2")
def cuda_version(session: Session) -> int:
    return session.machine.cuda


CALLS["nvmlSystemGetCudaDriverVersion"] = cuda_version


@call("nvmlDeviceGetCount")
def count(session: Session) -> int:
    return len(session.machine.gpus)


@call("nvmlDeviceGetHandleByIndex")
def by_index(session: Session, index: int) -> Any:
    if not 0 <= index < len(session.machine.gpus):
        raise refuse(pynvml.NVML_ERROR_INVALID_ARGUMENT)
    return session.device(session.machine.gpus[index])


@call("nvmlDeviceGetHandleByUUID")
def by_uuid(session: Session, uuid: str | bytes) -> Any:
    wanted = uuid.decode() if isinstance(uuid, bytes) else uuid
    for gpu in session.machine.gpus:
        if gpu.uuid == wanted:
            return session.device(gpu)
        for instance in gpu.instances:
            for compute in instance.computes:
                if compute.uuid == wanted:
                    return session.mig_device(gpu, compute)
    raise refuse(pynvml.NVML_ERROR_NOT_FOUND)


@call("nvmlDeviceGetHandleByPciBusId")
def by_bus(session: Session, bus_id: str | bytes) -> Any:
    wanted = bus_id.decode() if isinstance(bus_id, bytes) else bus_id
    for gpu in session.machine.gpus:
        if gpu.bus_id.lower().endswith(wanted.lower()):
            return session.device(gpu)
    raise refuse(pynvml.NVML_ERROR_NOT_FOUND)


# -- identity --------------------------------------------------------------------------------------


@call("nvmlDeviceGetName")
def name(session: Session, handle: Any) -> str:
    found = session.target(handle)
    if not isinstance(found, FakeSlice):
        return found.model
    profile = found.gpu.profile(found.instance.profile_id)
    plain = profile.name.removesuffix("+me") if profile else ""
    return f"{found.gpu.model} MIG {plain}"


@call("nvmlDeviceGetUUID")
def uuid(session: Session, handle: Any) -> str:
    found = session.target(handle)
    return found.compute.uuid if isinstance(found, FakeSlice) else found.uuid


@call("nvmlDeviceGetIndex")
def index(session: Session, handle: Any) -> int:
    return session.machine.gpus.index(session.gpu(handle))


CALLS["nvmlDeviceGetMinorNumber"] = index


@call("nvmlDeviceGetSerial")
def serial(session: Session, handle: Any) -> str:
    session.gpu(handle)
    return _SERIAL


@call("nvmlDeviceGetPciInfo")
def pci_info(session: Session, handle: Any) -> Any:
    return pci(session.gpu(handle))


CALLS["nvmlDeviceGetPciInfo_v3"] = pci_info


def pci(gpu: FakeGpu) -> Any:
    found = pynvml.nvmlPciInfo_t()
    found.busId, found.busIdLegacy = gpu.bus_id.encode(), gpu.bus_id[4:].encode()
    found.domain, found.bus, found.device = 0, 0, gpu.slot
    found.pciDeviceId, found.pciSubSystemId = gpu.kind.pci_id, 415_174_878
    return found


@call("nvmlDeviceGetCudaComputeCapability")
def capability(session: Session, handle: Any) -> tuple[int, int]:
    return session.gpu(handle).kind.capability


@call("nvmlDeviceGetArchitecture")
def architecture(session: Session, handle: Any) -> int:
    return session.gpu(handle).kind.architecture


@call("nvmlDeviceGetNumGpuCores")
def cores(session: Session, handle: Any) -> int:
    return _uncut(session.gpu(handle)).kind.cores


# -- memory and load -------------------------------------------------------------------------------


@call("nvmlDeviceGetMemoryInfo")
def memory(session: Session, handle: Any, version: int | None = None) -> Any:
    found = session.target(handle)
    total, reserved, used = _memory(found)
    if version:
        answer = pynvml.c_nvmlMemory_v2_t(version=version, reserved=reserved)
        answer.used = used
    else:
        answer = pynvml.c_nvmlMemory_t()
        answer.used = used + reserved
    answer.total, answer.free = total, total - used - reserved
    return answer


def _memory(found: FakeGpu | FakeSlice) -> tuple[int, int, int]:
    if isinstance(found, FakeGpu):
        return found.kind.memory_bytes, found.kind.reserved_bytes, found.used_bytes
    gpu, instance = found.gpu, found.instance
    profile = gpu.profile(instance.profile_id)
    inside = sum(one.memory_bytes + one.overhead_bytes for one in gpu.inside(instance))
    total = profile.memory_mib * MIB if profile else 0
    return total, 0, gpu.idle_bytes(instance) + inside


@call("nvmlDeviceGetUtilizationRates")
def utilization(session: Session, handle: Any) -> Any:
    gpu = _uncut(session.gpu(handle))
    answer = pynvml.c_nvmlUtilization_t()
    answer.gpu, answer.memory = gpu.busy, gpu.memory_busy
    return answer


@call("nvmlDeviceGetPowerUsage")
def power(session: Session, handle: Any) -> int:
    return session.gpu(handle).power_mw


@call("nvmlDeviceGetTemperature")
def temperature(session: Session, handle: Any, _sensor: int) -> int:
    return session.gpu(handle).temperature_c


@call("nvmlDeviceGetTotalEnergyConsumption")
def energy(session: Session, handle: Any) -> int:
    return session.gpu(handle).energy_mj


@call("nvmlDeviceGetRemappedRows")
def remapped(session: Session, handle: Any) -> tuple[int, int, int, int]:
    gpu = session.gpu(handle)
    if gpu.instances:
        raise refuse(pynvml.NVML_ERROR_NOT_SUPPORTED)
    return gpu.remapped


@call("nvmlDeviceGetRetiredPagesPendingStatus")
def retired(session: Session, handle: Any) -> int:
    session.gpu(handle)
    raise refuse(pynvml.NVML_ERROR_NOT_SUPPORTED)


@call("nvmlDeviceGetFieldValues")
def fields(session: Session, handle: Any, wanted: list[Any]) -> Any:
    gpu = session.gpu(handle)
    answer = (pynvml.c_nvmlFieldValue_t * len(wanted))()
    for value, field in zip(answer, wanted, strict=True):
        value.fieldId, value.scopeId = field if isinstance(field, tuple) else (field, 0)
        _field(gpu, value)
    return answer


def _field(gpu: FakeGpu, value: Any) -> None:
    known = {pynvml.NVML_FI_DEV_POWER_INSTANT: gpu.power_mw}
    if gpu.links:
        known[pynvml.NVML_FI_DEV_NVLINK_LINK_COUNT] = len(gpu.links)
        sent, received = gpu.link_kib
        known[pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX] = sent
        known[pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX] = received
    wide = value.fieldId >= pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX
    value.valueType = 3 if wide and value.fieldId != pynvml.NVML_FI_DEV_POWER_INSTANT else 1
    if value.fieldId in known:
        value.value.ullVal = known[value.fieldId]
    else:
        value.nvmlReturn = pynvml.NVML_ERROR_NOT_SUPPORTED


# -- processes -------------------------------------------------------------------------------------


def _processes(kind: str) -> Any:
    def answer(session: Session, handle: Any) -> list[Any]:
        found = session.target(handle)
        gpu = found if isinstance(found, FakeGpu) else found.gpu
        inside = gpu.processes if found is gpu else gpu.inside(found.instance)  # type: ignore[union-attr]
        return [_process(one) for one in inside if one.kind == kind]

    return answer


for _kind, _name in (("compute", "Compute"), ("graphics", "Graphics"), ("mps", "MPSCompute")):
    for _version in ("", "_v2", "_v3"):
        CALLS[f"nvmlDeviceGet{_name}RunningProcesses{_version}"] = _processes(_kind)


def _process(one: FakeProcess) -> Any:
    return pynvml.nvmlFriendlyObject(
        {
            "pid": one.pid,
            "usedGpuMemory": one.memory_bytes,
            "gpuInstanceId": one.gpu_instance,
            "computeInstanceId": one.compute_instance,
        }
    )


@call("nvmlDeviceGetProcessUtilization")
def process_utilization(session: Session, handle: Any, since_us: int) -> list[Any]:
    gpu = _uncut(session.gpu(handle))
    found = []
    for one in gpu.processes:
        now_us = time.time_ns() // 1000
        if one.busy and since_us < now_us:
            sample = pynvml.c_nvmlProcessUtilizationSample_t()
            sample.pid, sample.timeStamp = one.pid, now_us
            sample.smUtil, sample.memUtil = one.busy, one.memory_busy
            found.append(sample)
    if not found:
        raise refuse(pynvml.NVML_ERROR_NOT_FOUND)
    return found


# -- events ----------------------------------------------------------------------------------------


@call("nvmlEventSetCreate")
def event_set(session: Session) -> Any:
    return session.pointer(pynvml.c_nvmlEventSet_t, "events", "", session.machine.serial())


@call("nvmlDeviceRegisterEvents")
def register(session: Session, handle: Any, _types: int, events: Any) -> None:
    session.handles.watched.setdefault(session.handles.key(events), []).append(
        session.gpu(handle).uuid
    )


@call("nvmlEventSetFree")
def free(session: Session, events: Any) -> None:
    session.handles.watched.pop(session.handles.key(events), None)


@call("nvmlEventSetPoll")
def poll(session: Session, events: Any) -> Any:
    """One event if there is one. NVML has no such call: `nvmlEventSetWait` is made of it."""
    for uuid in session.handles.watched.get(session.handles.key(events), []):
        gpu = next((one for one in session.machine.gpus if one.uuid == uuid), None)
        if gpu is None:
            raise refuse(pynvml.NVML_ERROR_GPU_IS_LOST)
        if gpu.xids:
            answer = pynvml.c_nvmlEventData_t()
            answer.device = session.device(gpu)
            answer.eventType = pynvml.nvmlEventTypeXidCriticalError
            answer.eventData = gpu.xids.pop(0)
            answer.gpuInstanceId = answer.computeInstanceId = NOWHERE
            return answer
    return None


def _uncut(gpu: FakeGpu) -> FakeGpu:
    """The same GPU; what the driver does not report while MIG is on is not supported."""
    if gpu.mig:
        raise refuse(pynvml.NVML_ERROR_NOT_SUPPORTED)
    return gpu
