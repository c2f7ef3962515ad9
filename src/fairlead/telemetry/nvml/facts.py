"""What crosses the pipe from the process that asks NVML: plain values."""

import msgspec


class System(msgspec.Struct, frozen=True, rename="camel"):
    """The driver, and how many GPUs it sees now."""

    count: int
    driver: str = ""
    #: As `nvidia-smi` says it: 13.0.
    cuda: str = ""


class Cut(msgspec.Struct, frozen=True, rename="camel"):
    """One MIG profile: its length in memory slices, where it may start, and its memory."""

    name: str
    size: int
    starts: tuple[int, ...]
    memory_mib: int = 0


class GpuFacts(msgspec.Struct, frozen=True, rename="camel"):
    """One GPU, as far as it does not change from moment to moment."""

    index: int
    uuid: str
    model: str = ""
    memory_mib: int = 0
    #: -1 where NVML does not report it.
    numa: int = -1
    #: PCI address as sysfs spells it.
    pci: str = ""
    #: It can be cut, it is, and how.
    mig: bool = False
    mig_on: bool = False
    cuts: tuple[Cut, ...] = ()
    #: Active NVLinks by the PCI address of the GPU at their other end; "" for switches.
    nvlinks: dict[str, int] = {}
    #: NVLink domain: cluster uuid and clique.
    clique: str = ""
    #: What is wrong with it, in words; empty while nothing is.
    trouble: str = ""


class GpuInstance(msgspec.Struct, frozen=True):
    """One GPU instance, its compute instances, and who is on it."""

    id: int
    profile: str
    start: int
    size: int
    computes: tuple[int, ...] = ()
    pids: tuple[int, ...] = ()


class Partition(msgspec.Struct, frozen=True):
    """How a GPU is cut now."""

    uuid: str
    on: bool = False
    #: It will be on after the next reset.
    pending: bool = False
    cuts: tuple[Cut, ...] = ()
    instances: tuple[GpuInstance, ...] = ()
    #: All processes on the GPU.
    pids: tuple[int, ...] = ()


class GpuProcess(msgspec.Struct, frozen=True, rename="camel"):
    """One process on a GPU, or on a slice of it."""

    pid: int
    #: None where NVML does not report it.
    memory_bytes: int | None = None
    utilization: float | None = None
    #: The GPU instance of a GPU that is cut.
    instance: int | None = None
    #: It only draws, as an X server does.
    draws: bool = False
    #: It uses the GPU through MPS.
    mps: bool = False


class SliceSample(msgspec.Struct, frozen=True, rename="camel"):
    """One MIG device: where it is, and how full."""

    uuid: str
    name: str
    instance: int
    memory_used_bytes: int | None = None
    memory_total_bytes: int | None = None


class GpuSample(msgspec.Struct, frozen=True, rename="camel"):
    """One GPU at one moment; None for what NVML does not report."""

    uuid: str
    utilization: float | None = None
    memory_busy: float | None = None
    memory_used_bytes: int | None = None
    memory_total_bytes: int | None = None
    power_w: float | None = None
    temperature_c: float | None = None
    #: Since the driver started, by direction: tx, rx.
    nvlink_bytes: dict[str, int] = {}
    slices: tuple[SliceSample, ...] = ()
    processes: tuple[GpuProcess, ...] = ()


class Xid(msgspec.Struct, frozen=True, rename="camel"):
    """The driver reported an error of this number."""

    uuid: str
    number: int
