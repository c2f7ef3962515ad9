"""What one call sees: the machine, and the handles that its library has given out.

Handles are pointers, as with the real library: they cannot be sent to another process, and one of
something that is gone is an invalid argument.
"""

import ctypes
from collections.abc import Callable
from dataclasses import field
from typing import Any

import pynvml

from fairlead.model.lazy_dataclass import dataclass
from fairlead.sim.nvml.machine import Compute, FakeGpu, FakeInstance, FakeMachine

Answer = Callable[..., Any]
#: Every function that is imitated, by its name in nvidia-ml-py.
CALLS: dict[str, Answer] = {}

_FIRST_ADDRESS = 0x1000


def call(name: str) -> Callable[[Answer], Answer]:
    def keep(answer: Answer) -> Answer:
        CALLS[name] = answer
        return answer

    return keep


def refuse(error: int) -> Exception:
    return pynvml.NVMLError(error)  # type: ignore[no-any-return]


@dataclass(frozen=True)
class FakeSlice:
    """A MIG device: a compute instance of a GPU."""

    gpu: FakeGpu
    instance: FakeInstance
    compute: Compute


@dataclass
class Handles:
    """What an address stands for: a kind and a key that lasts longer than a state."""

    known: list[tuple[str, str, int]] = field(default_factory=list)
    #: The GPUs of each set of events.
    watched: dict[tuple[str, str, int], list[str]] = field(default_factory=dict)

    #: Compute instances that this program has seen, by GPU, GPU instance and number.
    remembered: dict[tuple[str, int, int], int] = field(default_factory=dict)

    def forget(self, uuid: str, instance: int) -> None:
        """What a program destroys itself it does not remember."""
        kept = {key: one for key, one in self.remembered.items() if key[:2] != (uuid, instance)}
        self.remembered = kept

    def address(self, kind: str, uuid: str, serial: int = 0) -> int:
        key = (kind, uuid, serial)
        if key not in self.known:
            self.known.append(key)
        return _FIRST_ADDRESS + 16 * self.known.index(key)

    def key(self, handle: Any) -> tuple[str, str, int]:
        address = ctypes.cast(handle, ctypes.c_void_p).value or 0
        number, rest = divmod(address - _FIRST_ADDRESS, 16)
        if rest or not 0 <= number < len(self.known):
            raise refuse(pynvml.NVML_ERROR_INVALID_ARGUMENT)
        return self.known[number]


@dataclass
class Session:
    machine: FakeMachine
    handles: Handles

    def pointer(self, type_: Any, kind: str, uuid: str, serial: int = 0) -> Any:
        return ctypes.cast(ctypes.c_void_p(self.handles.address(kind, uuid, serial)), type_)

    def device(self, gpu: FakeGpu) -> Any:
        return self.pointer(pynvml.c_nvmlDevice_t, "gpu", gpu.uuid)

    def gpu_instance(self, gpu: FakeGpu, instance: FakeInstance) -> Any:
        return self.pointer(pynvml.c_nvmlGpuInstance_t, "gpu", gpu.uuid, instance.serial)

    def compute_instance(self, gpu: FakeGpu, compute: Compute) -> Any:
        return self.pointer(pynvml.c_nvmlComputeInstance_t, "compute", gpu.uuid, compute.serial)

    def mig_device(self, gpu: FakeGpu, compute: Compute) -> Any:
        return self.pointer(pynvml.c_nvmlDevice_t, "slice", gpu.uuid, compute.serial)

    def target(self, handle: Any) -> FakeGpu | FakeSlice:
        """What a device handle means: a GPU, or a slice of one."""
        kind, uuid, serial = self.handles.key(handle)
        if kind == "gpu":
            return self._gpu(uuid)
        if kind != "slice":
            raise refuse(pynvml.NVML_ERROR_INVALID_ARGUMENT)
        return FakeSlice(*self._compute(uuid, serial))

    def gpu(self, handle: Any) -> FakeGpu:
        """A GPU; what only GPUs have is not supported for a slice."""
        found = self.target(handle)
        if isinstance(found, FakeSlice):
            raise refuse(pynvml.NVML_ERROR_NOT_SUPPORTED)
        return found

    def instance(self, handle: Any) -> tuple[FakeGpu, FakeInstance]:
        kind, uuid, serial = self.handles.key(handle)
        gpu = self._gpu(uuid)
        found = next((one for one in gpu.instances if one.serial == serial), None)
        if kind != "gpu" or found is None:
            raise refuse(pynvml.NVML_ERROR_INVALID_ARGUMENT)
        return gpu, found

    def compute(self, handle: Any) -> tuple[FakeGpu, FakeInstance, Compute]:
        kind, uuid, serial = self.handles.key(handle)
        if kind != "compute":
            raise refuse(pynvml.NVML_ERROR_INVALID_ARGUMENT)
        return self._compute(uuid, serial)

    def _gpu(self, uuid: str) -> FakeGpu:
        found = next((gpu for gpu in self.machine.gpus if gpu.uuid == uuid), None)
        if found is None:
            raise refuse(pynvml.NVML_ERROR_GPU_IS_LOST)
        return found

    def _compute(self, uuid: str, serial: int) -> tuple[FakeGpu, FakeInstance, Compute]:
        gpu = self._gpu(uuid)
        for instance in gpu.instances:
            for compute in instance.computes:
                if compute.serial == serial:
                    return gpu, instance, compute
        raise refuse(pynvml.NVML_ERROR_INVALID_ARGUMENT)


def refer(reference: Any) -> Any:
    """What `byref(x)` refers to; arrays and structures may be given as they are."""
    return getattr(reference, "_obj", reference)
