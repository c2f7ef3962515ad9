"""What a driver knows: GPUs, what they are doing, how they are cut, and what is broken.

Plain values, so that they can lie in a file: a driver outlives the programs that ask it.
"""

from typing import Literal

import msgspec

from fairlead.sim.nvml.models import H200, MODELS, DriverProfile, Model

#: What a process that is in no slice says of its instances.
NOWHERE = 0xFFFFFFFF
#: The other end of an NVLink that is a switch and no GPU.
SWITCH = "switch"
#: What `nvidia-smi topo -m` calls two GPUs that share nothing but the machine.
FAR = "SYS"


class FakeProcess(msgspec.Struct):
    pid: int
    memory_bytes: int = 0
    gpu_instance: int = NOWHERE
    compute_instance: int = NOWHERE
    #: What the driver uses for it besides.
    overhead_bytes: int = 9_240_576
    #: Percent of the GPU's time, as the driver samples it.
    busy: int = 0
    memory_busy: int = 0
    kind: Literal["compute", "graphics", "mps"] = "compute"
    #: It is an MPS server.
    serves: bool = False


class Compute(msgspec.Struct):
    """A compute instance: what a program sees as a device."""

    id: int
    number: int
    start: int
    size: int
    uuid: str
    serial: int


class FakeInstance(msgspec.Struct):
    """A GPU instance: a place that was cut out."""

    id: int
    profile_id: int
    start: int
    size: int
    serial: int
    computes: list[Compute] = []

    @property
    def mask(self) -> int:
        return ((1 << self.size) - 1) << self.start


class FakeGpu(msgspec.Struct):
    uuid: str
    model: str = H200.name
    #: Device number on the PCI bus.
    slot: int = 6
    numa: int = 0
    mig: bool = False
    mig_pending: bool = False
    instances: list[FakeInstance] = []
    processes: list[FakeProcess] = []
    #: Percent.
    busy: int = 0
    memory_busy: int = 0
    power_mw: int = 79_990
    temperature_c: int = 32
    energy_mj: int = 2_449_285
    #: Corrected, uncorrected, pending, failed.
    remapped: tuple[int, int, int, int] = (0, 0, 0, 0)
    #: The other end of each NVLink: a uuid, `switch`, or empty for a link that is down.
    links: list[str] = []
    link_kib: tuple[int, int] = (0, 0)
    #: Xids that were not reported yet.
    xids: list[int] = []
    compute_mode: int = 0

    @property
    def kind(self) -> Model:
        return MODELS[self.model]

    @property
    def bus_id(self) -> str:
        return f"00000000:00:{self.slot:02X}.0"

    def profile(self, profile_id: int) -> DriverProfile | None:
        return next((one for one in self.kind.profiles if one.id == profile_id), None)

    @property
    def used_bytes(self) -> int:
        """Without what the driver keeps for itself."""
        idle = sum(self.idle_bytes(instance) for instance in self.instances)
        return idle + sum(one.memory_bytes + one.overhead_bytes for one in self.processes)

    def idle_bytes(self, instance: FakeInstance) -> int:
        profile = self.profile(instance.profile_id)
        return profile.idle_bytes if profile and instance.computes else 0

    def inside(self, instance: FakeInstance) -> list[FakeProcess]:
        return [one for one in self.processes if one.gpu_instance == instance.id]


class Fault(msgspec.Struct):
    """Calls of this name (empty: all) about this GPU (empty: any) fail, or never return."""

    call: str = ""
    uuid: str = ""
    error: int = 0
    hangs: bool = False
    #: How often it still happens; -1: for ever.
    times: int = -1


class FakeMachine(msgspec.Struct):
    gpus: list[FakeGpu]
    #: What `nvidia-smi topo -m` says between GPUs, by position; empty: nothing but SYS.
    paths: list[list[str]] = []
    driver: str = "580.159.04"
    nvml: str = "13.580.159.04"
    cuda: int = 13_000
    loaded: bool = True
    #: Whether the caller may change anything.
    root: bool = True
    #: Counts restarts of the driver: sessions from before must begin again.
    life: int = 0
    faults: list[Fault] = []
    #: Hexadecimal; empty without a fabric manager.
    cluster_uuid: str = ""
    clique: int = 0
    #: Numbers handles, so that one of something gone means nothing.
    last_serial: int = 0

    def gpu(self, uuid: str) -> FakeGpu:
        return next(gpu for gpu in self.gpus if gpu.uuid == uuid)

    def serial(self) -> int:
        self.last_serial += 1
        return self.last_serial

    def path(self, gpu: FakeGpu, other: FakeGpu) -> str:
        if not self.paths:
            return FAR
        return self.paths[self.gpus.index(gpu)][self.gpus.index(other)]

    def restart(self) -> None:
        """What a reload of the driver, or a new start of the machine, leaves."""
        self.life += 1
        for gpu in self.gpus:
            gpu.instances, gpu.processes, gpu.xids = [], [], []
            # From Hopper on the mode is not kept.
            gpu.mig = gpu.mig_pending = gpu.mig_pending and gpu.kind.resets


def machine_of(
    count: int = 1, model: str = H200.name, *, wiring: Literal["switch", "pcie"] = "pcie"
) -> FakeMachine:
    """GPUs of one model, half of them on each of two NUMA nodes where there are several."""
    half = max(count // 2, 1)
    gpus = [
        FakeGpu(
            f"GPU-{index:08x}-0000-4000-8000-00000000000{index:x}",
            model,
            slot=6 + index,
            numa=min(index // half, 1),
            links=[SWITCH] * MODELS[model].links if wiring == "switch" else [],
        )
        for index in range(count)
    ]
    paths = [
        ["X" if a == b else "NODE" if gpus[a].numa == gpus[b].numa else FAR for b in range(count)]
        for a in range(count)
    ]
    return FakeMachine(gpus, paths)
