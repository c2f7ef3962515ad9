"""MIG: how a GPU is cut, with the rules and refusals of a real driver."""

from typing import Any
from uuid import UUID, uuid5

import pynvml

from fairlead.model.gpus import instance_id
from fairlead.sim.nvml.machine import Compute, FakeGpu, FakeInstance
from fairlead.sim.nvml.models import DriverProfile
from fairlead.sim.nvml.sessions import CALLS, FakeSlice, Session, call, refer, refuse

#: Profiles that the driver of the recording knows the numbers of.
_NUMBERS = 17
_COMPUTE_NUMBERS = 9
#: Compute slices of each kind of compute instance, by its number, and the kind besides.
_COMPUTE_SLICES = {0: 1, 1: 2, 2: 3, 3: 4, 4: 7}
_SECOND_KIND = 7
_UUIDS = UUID("5f3c1a42-7a0e-4d7b-9d7b-0c6a2a3c9b11")


# -- the mode --------------------------------------------------------------------------------------


@call("nvmlDeviceGetMigMode")
def mode(session: Session, handle: Any) -> list[int]:
    gpu = _cuttable(session.gpu(handle))
    return [int(gpu.mig), int(gpu.mig_pending)]


@call("nvmlDeviceSetMigMode")
def set_mode(session: Session, handle: Any, wanted: int) -> int:
    """It comes on under running programs without a word; it goes off only without slices."""
    gpu = _cuttable(session.gpu(handle))
    _allowed(session)
    if gpu.instances and not wanted:
        raise refuse(pynvml.NVML_ERROR_IN_USE)
    gpu.mig_pending = bool(wanted)
    if gpu.kind.resets and gpu.processes:
        return int(pynvml.NVML_ERROR_IN_USE)  # the reset has to wait
    gpu.mig = gpu.mig_pending
    return 0


@call("nvmlDeviceGetMaxMigDeviceCount")
def most_devices(session: Session, handle: Any) -> int:
    gpu = session.gpu(handle)
    return max((one.instances for one in gpu.kind.profiles), default=0) if gpu.mig else 0


# -- profiles --------------------------------------------------------------------------------------


@call("nvmlDeviceGetGpuInstanceProfileInfo")
def profile_info(session: Session, handle: Any, number: int, version: int = 2) -> Any:
    gpu = _cuttable(session.gpu(handle))
    if not 0 <= number < _NUMBERS:
        raise refuse(pynvml.NVML_ERROR_INVALID_ARGUMENT)
    found = next((one for one in gpu.kind.profiles if one.number == number), None)
    if found is None:
        raise refuse(pynvml.NVML_ERROR_NOT_SUPPORTED)
    return _profile_info(found)


def _profile_info(profile: DriverProfile) -> Any:
    answer = pynvml.c_nvmlGpuInstanceProfileInfo_v2_t()
    answer.id, answer.name = profile.id, f"MIG {profile.name}".encode()
    answer.sliceCount, answer.instanceCount = profile.compute, profile.instances
    answer.multiprocessorCount, answer.memorySizeMB = profile.multiprocessors, profile.memory_mib
    answer.copyEngineCount, answer.decoderCount = profile.copy_engines, profile.decoders
    answer.jpegCount, answer.ofaCount = profile.jpegs, profile.ofas
    return answer


@call("nvmlDeviceGetGpuInstancePossiblePlacements")
def placements(session: Session, handle: Any, profile_id: int, array: Any, count: Any) -> int:
    gpu = _cut(session.gpu(handle))
    profile = _profile(gpu, profile_id)
    if array is not None:
        for place, start in zip(refer(array), profile.starts, strict=False):
            place.start, place.size = start, profile.size
    refer(count).value = len(profile.starts)
    return 0


@call("nvmlDeviceGetGpuInstanceRemainingCapacity")
def capacity(session: Session, handle: Any, profile_id: int) -> int:
    gpu = _cut(session.gpu(handle))
    profile = _profile(gpu, profile_id)
    free = [start for start in profile.starts if not _overlaps(gpu, start, profile.size)]
    return min(len(free), profile.instances - _made(gpu, profile))


# -- GPU instances ---------------------------------------------------------------------------------


@call("nvmlDeviceCreateGpuInstanceWithPlacement")
def create(session: Session, handle: Any, profile_id: int, placement: Any) -> Any:
    gpu = _cut(session.gpu(handle))
    _allowed(session)
    profile, place = _profile(gpu, profile_id), refer(placement)
    if place.start not in profile.starts or place.size != profile.size:
        raise refuse(pynvml.NVML_ERROR_INVALID_ARGUMENT)
    if _overlaps(gpu, place.start, place.size, smaller_than=place.size):
        raise refuse(pynvml.NVML_ERROR_INVALID_ARGUMENT)  # a part of the place is taken
    if _overlaps(gpu, place.start, place.size) or _made(gpu, profile) >= profile.instances:
        raise refuse(pynvml.NVML_ERROR_INSUFFICIENT_RESOURCES)
    number = instance_id(place.start, place.size, _slots(gpu))
    made = FakeInstance(number, profile.id, place.start, place.size, session.machine.serial())
    gpu.instances.append(made)
    return session.gpu_instance(gpu, made)


@call("nvmlDeviceCreateGpuInstance")
def create_anywhere(session: Session, handle: Any, profile_id: int) -> Any:
    gpu = _cut(session.gpu(handle))
    profile = _profile(gpu, profile_id)
    for start in profile.starts:
        if not _overlaps(gpu, start, profile.size):
            place = pynvml.c_nvmlGpuInstancePlacement_t()
            place.start, place.size = start, profile.size
            return create(session, handle, profile_id, place)
    raise refuse(pynvml.NVML_ERROR_INSUFFICIENT_RESOURCES)


@call("nvmlGpuInstanceDestroy")
def destroy(session: Session, handle: Any) -> int:
    gpu, instance = session.instance(handle)
    _allowed(session)
    if instance.computes:
        raise refuse(pynvml.NVML_ERROR_IN_USE)
    gpu.instances.remove(instance)
    session.handles.forget(gpu.uuid, instance.id)
    return 0


@call("nvmlDeviceGetGpuInstances")
def instances(session: Session, handle: Any, profile_id: int, array: Any, count: Any) -> int:
    gpu = _cut(session.gpu(handle))
    _profile(gpu, profile_id)
    found = [one for one in gpu.instances if one.profile_id == profile_id]
    for number, one in enumerate(found):
        refer(array)[number] = session.gpu_instance(gpu, one)
    refer(count).value = len(found)
    return 0


@call("nvmlDeviceGetGpuInstanceById")
def instance_by_id(session: Session, handle: Any, wanted: int) -> Any:
    gpu = _cut(session.gpu(handle))
    for one in gpu.instances:
        if one.id == wanted:
            return session.gpu_instance(gpu, one)
    raise refuse(pynvml.NVML_ERROR_NOT_FOUND)


@call("nvmlGpuInstanceGetInfo")
def instance_info(session: Session, handle: Any) -> Any:
    gpu, found = session.instance(handle)
    answer = pynvml.c_nvmlGpuInstanceInfo_t()
    answer.device, answer.id = session.device(gpu), found.id
    answer.profileId = found.profile_id
    answer.placement.start, answer.placement.size = found.start, found.size
    return answer


# -- compute instances -----------------------------------------------------------------------------


@call("nvmlGpuInstanceGetComputeInstanceProfileInfo")
def compute_profile_info(
    session: Session, handle: Any, number: int, _engine: int, version: int = 2
) -> Any:
    gpu, instance = session.instance(handle)
    if not 0 <= number < _COMPUTE_NUMBERS:
        raise refuse(pynvml.NVML_ERROR_INVALID_ARGUMENT)
    profile = _profile(gpu, instance.profile_id)
    slices, processors, instances_ = _compute_kind(profile, number)
    answer = pynvml.c_nvmlComputeInstanceProfileInfo_v2_t()
    answer.id, answer.sliceCount, answer.instanceCount = number, slices, instances_
    answer.multiprocessorCount = processors
    answer.sharedCopyEngineCount, answer.sharedDecoderCount = profile.copy_engines, profile.decoders
    answer.sharedJpegCount, answer.sharedOfaCount = profile.jpegs, profile.ofas
    part = "" if slices == profile.compute else f"{slices}c."
    answer.name = f"MIG {part}{profile.name}".encode()
    return answer


def _compute_kind(profile: DriverProfile, number: int) -> tuple[int, int, int]:
    """Compute slices, multiprocessors and how many fit; not supported where it does not exist."""
    if number == _SECOND_KIND and profile.second_kind != (0, 0):
        processors, count = profile.second_kind
        return 1, processors, count
    slices = _COMPUTE_SLICES.get(number, 0)
    if not 0 < slices <= profile.compute:
        raise refuse(pynvml.NVML_ERROR_NOT_SUPPORTED)
    whole = slices == profile.compute
    processors = profile.multiprocessors if whole else 16 * slices
    return slices, processors, profile.compute // slices


@call("nvmlGpuInstanceCreateComputeInstance")
def create_compute(session: Session, handle: Any, number: int) -> Any:
    gpu, instance = session.instance(handle)
    _allowed(session)
    profile = _profile(gpu, instance.profile_id)
    slices, _, _ = _compute_kind(profile, number)
    taken = sum(_COMPUTE_SLICES.get(one.number, 1) for one in instance.computes)
    if taken + slices > profile.compute:
        raise refuse(pynvml.NVML_ERROR_INSUFFICIENT_RESOURCES)
    ids = {one.id for one in instance.computes}
    id_ = next(free for free in range(8) if free not in ids)
    size = instance.size if slices == profile.compute else slices
    made = Compute(id_, number, taken, size, _uuid(gpu, instance, id_), session.machine.serial())
    instance.computes.append(made)
    return session.compute_instance(gpu, made)


def _uuid(gpu: FakeGpu, instance: FakeInstance, id_: int) -> str:
    """The name depends on the instances beside it, too, not on the place alone."""
    beside = sorted(one.id for one in gpu.instances if one is not instance)
    return f"MIG-{uuid5(_UUIDS, f'{gpu.uuid}/{instance.id}/{id_}/{beside}')}"


@call("nvmlComputeInstanceDestroy")
def destroy_compute(session: Session, handle: Any) -> int:
    gpu, instance, compute = session.compute(handle)
    _allowed(session)
    if any(one.compute_instance == compute.id for one in gpu.inside(instance)):
        raise refuse(pynvml.NVML_ERROR_IN_USE)
    instance.computes.remove(compute)
    session.handles.forget(gpu.uuid, instance.id)
    return 0


@call("nvmlGpuInstanceGetComputeInstances")
def computes(session: Session, handle: Any, number: int, array: Any, count: Any) -> int:
    gpu, instance = session.instance(handle)
    _compute_kind(_profile(gpu, instance.profile_id), number)
    found = [one for one in instance.computes if one.number == number]
    for position, one in enumerate(found):
        refer(array)[position] = session.compute_instance(gpu, one)
    refer(count).value = len(found)
    return 0


@call("nvmlGpuInstanceGetComputeInstanceById")
def compute_by_id(session: Session, handle: Any, wanted: int) -> Any:
    gpu, instance = session.instance(handle)
    remembered, key = session.handles.remembered, (gpu.uuid, instance.id, wanted)
    for one in instance.computes:
        if one.id == wanted:
            remembered[key] = one.serial
    if key not in remembered:
        raise refuse(pynvml.NVML_ERROR_NOT_FOUND)
    # Of one that another process has destroyed, the real library still shows a handle.
    serial = remembered[key]
    return session.pointer(pynvml.c_nvmlComputeInstance_t, "compute", gpu.uuid, serial)


@call("nvmlComputeInstanceGetInfo_v2")
def compute_info(session: Session, handle: Any) -> Any:
    gpu, instance, compute = session.compute(handle)
    answer = pynvml.c_nvmlComputeInstanceInfo_t()
    answer.device, answer.gpuInstance = session.device(gpu), session.gpu_instance(gpu, instance)
    answer.id, answer.profileId = compute.id, compute.number
    answer.placement.start, answer.placement.size = compute.start, compute.size
    return answer


CALLS["nvmlComputeInstanceGetInfo"] = compute_info


# -- MIG devices -----------------------------------------------------------------------------------


@call("nvmlDeviceGetMigDeviceHandleByIndex")
def mig_device(session: Session, handle: Any, index: int) -> Any:
    gpu = session.gpu(handle)
    found = [
        compute
        for instance in sorted(gpu.instances, key=lambda one: one.id)
        for compute in instance.computes
    ]
    if not 0 <= index < len(found):
        raise refuse(pynvml.NVML_ERROR_NOT_FOUND)
    return session.mig_device(gpu, found[index])


@call("nvmlDeviceGetDeviceHandleFromMigDeviceHandle")
def parent(session: Session, handle: Any) -> Any:
    return session.device(_slice(session, handle).gpu)


@call("nvmlDeviceIsMigDeviceHandle")
def is_mig_device(session: Session, handle: Any) -> int:
    return int(isinstance(session.target(handle), FakeSlice))


@call("nvmlDeviceGetGpuInstanceId")
def gpu_instance_id(session: Session, handle: Any) -> int:
    return _slice(session, handle).instance.id


@call("nvmlDeviceGetComputeInstanceId")
def compute_instance_id(session: Session, handle: Any) -> int:
    return _slice(session, handle).compute.id


@call("nvmlDeviceGetAttributes_v2")
def attributes(session: Session, handle: Any) -> Any:
    found = _slice(session, handle)
    profile = _profile(found.gpu, found.instance.profile_id)
    slices, processors, _ = _compute_kind(profile, found.compute.number)
    answer = pynvml.c_nvmlDeviceAttributes()
    answer.multiprocessorCount, answer.memorySizeMB = processors, profile.memory_mib
    answer.sharedCopyEngineCount, answer.sharedDecoderCount = profile.copy_engines, profile.decoders
    answer.sharedJpegCount, answer.sharedOfaCount = profile.jpegs, profile.ofas
    answer.gpuInstanceSliceCount, answer.computeInstanceSliceCount = profile.compute, slices
    return answer


CALLS["nvmlDeviceGetAttributes"] = attributes


# -- rules -----------------------------------------------------------------------------------------


def _slice(session: Session, handle: Any) -> FakeSlice:
    found = session.target(handle)
    if isinstance(found, FakeGpu):
        raise refuse(pynvml.NVML_ERROR_INVALID_ARGUMENT)
    return found


def _cuttable(gpu: FakeGpu) -> FakeGpu:
    if not gpu.kind.profiles:
        raise refuse(pynvml.NVML_ERROR_NOT_SUPPORTED)
    return gpu


def _cut(gpu: FakeGpu) -> FakeGpu:
    if not gpu.mig:
        raise refuse(pynvml.NVML_ERROR_NOT_SUPPORTED)
    return gpu


def _profile(gpu: FakeGpu, profile_id: int) -> DriverProfile:
    found = gpu.profile(profile_id)
    if found is None:
        raise refuse(pynvml.NVML_ERROR_INVALID_ARGUMENT)
    return found


def _overlaps(gpu: FakeGpu, start: int, size: int, smaller_than: int = 99) -> bool:
    mask = ((1 << size) - 1) << start
    return any(one.mask & mask and one.size < smaller_than for one in gpu.instances)


def _made(gpu: FakeGpu, profile: DriverProfile) -> int:
    return sum(one.profile_id == profile.id for one in gpu.instances)


def _slots(gpu: FakeGpu) -> int:
    return max(one.size for one in gpu.kind.profiles)


def _allowed(session: Session) -> None:
    if not session.machine.root:
        raise refuse(pynvml.NVML_ERROR_NO_PERMISSION)
