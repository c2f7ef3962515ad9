"""GPUs one by one: the GPUs of a node, what a pod asks of them, and what it was given."""

from collections.abc import Iterable, Mapping
from dataclasses import field
from enum import IntEnum, StrEnum

from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.map_slots import MapSlot, Member

#: All of a GPU's compute, in thousandths.
WHOLE = 1000
#: The dialect of `nvidia.com/gpu`, which every node with GPUs understands.
PLAIN = "nvidia"
#: Fairlead's own dialect: parts of GPUs by annotation.
FAIRLEAD = "fairlead"
#: The slowest NVLink, one way; paths over PCIe count less, whatever their bus could do.
NVLINK_GBPS = 18

#: GB/s between each two GPUs, by position.
Links = tuple[tuple[int, ...], ...]


class Isolation(StrEnum):
    """What keeps the pods on one GPU apart."""

    ADVISORY = "advisory"  #: nothing but the variables of their containers
    MPS = "mps"  #: NVIDIA's Multi-Process Service limits memory and compute
    MIG = "mig"  #: the hardware: each pod has a slice


def instance_id(start: int, slices: int, slots: int) -> int:
    """The GPU instance that the driver makes at a place of a GPU with so many memory slices.

    Places are numbered like the nodes of a binary tree: the whole GPU is 0, its halves are 1 and
    2, its quarters 3 to 6, its eighths 7 to 13. On an H200 this holds in whatever order they are
    made, so that a slice has a name before it exists.
    """
    return slots // slices - 1 + start // slices


def slice_name(uuid: str, instance: int) -> str:
    """What CUDA_VISIBLE_DEVICES takes for the first compute instance of a GPU instance."""
    return f"MIG-{uuid}/{instance}/0"


@dataclass(frozen=True, slots=True)
class MigProfile:
    """One way to cut a slice from a GPU: how long it is, and where it may start."""

    name: str
    slices: int
    starts: tuple[int, ...]
    #: Where an agent divides the GPU: the memory of such a slice, and memory slices of the GPU.
    memory_mib: int = 0
    slots: int = 0

    @property
    def compute(self) -> int:
        """Compute slices, from its name: 3 of a 3g.40gb; else its length."""
        number = self.name.partition("g.")[0]
        is_number = number.isascii() and number.isdigit() and len(number) < 4
        return int(number) if is_number else self.slices

    def masks(self) -> tuple[int, ...]:
        """The memory slices that it takes at each place, as bits."""
        return tuple(((1 << self.slices) - 1) << start for start in self.starts)


def smallest_cover(kinds: Iterable[MigProfile], ask: "GpuRequest") -> str:
    """The profile of the smallest slice that covers a share; empty if none does, or none is cut.

    Shares are counted in slices, of compute and of memory: a slice has a little less than its part
    of the GPU. Memory in MiB is covered in full.
    """
    fitting = (kind for kind in kinds if kind.slots and _covers(kind, ask))
    found = min(fitting, key=lambda kind: (kind.slices, kind.compute, kind.name), default=None)
    return found.name if found else ""


def _covers(kind: MigProfile, ask: "GpuRequest") -> bool:
    # The large GPUs have eight memory slices and seven of compute, the A30 four of each.
    compute_slices = 7 if kind.slots == 8 else kind.slots
    return (
        kind.compute * WHOLE >= ask.milli * compute_slices
        and kind.slices * WHOLE >= ask.memory_milli * kind.slots
        and kind.memory_mib >= ask.memory_mib
    )


@dataclass(frozen=True, slots=True)
class Gpu:
    """Its identity is the uuid; the index is where it happens to be today."""

    uuid: str
    index: int
    model: str = ""
    memory_mib: int = 0
    #: -1 if it is not known.
    numa: int = -1
    healthy: bool = True
    #: At most this many pods on it at once; 0: as many as fit.
    sharers: int = 0
    #: Slices that it can be cut into; empty unless MIG is on.
    mig: tuple[MigProfile, ...] = ()
    #: Memory slices of a GPU that its agent divides on demand; 0: an administrator divides it.
    slots: int = 0
    #: Clients that its MPS daemon serves at most; 0: there is no healthy one.
    mps: int = 0


@dataclass(frozen=True, slots=True)
class Inventory:
    """The GPUs of a node, what joins them, and the dialects of its device plugin."""

    gpus: tuple[Gpu, ...] = ()
    #: Empty if they are not known.
    links: Links = ()
    #: GPUs of nodes with the same clique are joined by NVLink.
    clique: str = ""
    dialects: frozenset[str] = frozenset()
    #: Dialects whose device plugin guesses which pod it serves: one pod at a time, or it mixes
    #: them up.
    one_at_a_time: frozenset[str] = frozenset()
    #: Dialects whose device plugin picks the GPU: the first by uuid with enough memory.
    first_fit: frozenset[str] = frozenset()
    #: False where labels say what kind of GPUs there are, but not which: they are only counted.
    named: bool = True
    #: Its GPUs are slots of reservation pods, which take them from a device plugin.
    reservable: bool = False
    #: Why none of them is reserved for the time being.
    paused: str = ""
    #: An agent says when the processes of a pod that is gone have ended; and of which it said so.
    confirms: bool = False
    released: frozenset[str] = frozenset()
    #: The uuids of the GPUs that a device plugin picked, by the uid of the pod, as the kubelet
    #: names them; None where it is not asked. No amount depends on it, so it is not compared.
    picked: Mapping[str, tuple[str, ...]] | None = field(default=None, compare=False)
    #: The NUMA node of each GPU; looked at for every placement.
    numa: tuple[int, ...] = field(init=False, repr=False, compare=False)
    #: The model of all of them; empty if there are several.
    model: str = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "numa", tuple(gpu.numa for gpu in self.gpus))
        models = {gpu.model for gpu in self.gpus}
        object.__setattr__(self, "model", models.pop() if len(models) == 1 else "")


@dataclass(frozen=True, slots=True)
class Overcommit:
    """How far shares of one GPU's compute may add up to more than it, and while it is how busy.

    Memory is never given twice: a program that finds none does not wait, it fails.
    """

    #: Thousandths of the GPU.
    limit_milli: int
    #: At its busiest it must have been below this share of the time.
    high_water: float


@dataclass(frozen=True, slots=True)
class GpuRequest:
    """What a pod asks of GPUs: `gpus` of them, and this much of each."""

    gpus: int
    #: No other pod on them.
    whole: bool = True
    #: Thousandths of a GPU's compute.
    milli: int = WHOLE
    memory_mib: int = 0
    #: Thousandths of a GPU's memory, for those who ask by share.
    memory_milli: int = 0
    #: A MIG profile in place of all these.
    profile: str = ""
    #: Any of these models; empty: any at all.
    models: frozenset[str] = frozenset()
    #: Names that must, and must not, be part of the model's; upper or lower case is all one.
    like: tuple[str, ...] = ()
    unlike: tuple[str, ...] = ()
    #: Only these GPUs, never those.
    only: frozenset[str] = frozenset()
    never: frozenset[str] = frozenset()
    #: GPUs that work as one: they should be joined well.
    together: int = 1
    #: Only GPUs that NVLink joins in one ring.
    linked: bool = False
    dialect: str = PLAIN
    #: Which of the GPUs each container gets, in the pod's order; empty: one container, all.
    containers: tuple[tuple[int, ...], ...] = ()
    #: The names of those containers, for dialects that use them.
    names: tuple[str, ...] = ()
    #: Its share may go beyond what a quiet GPU has.
    overcommit: Overcommit | None = None
    #: Its pod shares GPUs with pods of this tenant only; None: with all.
    tenant: str | None = None
    #: The service class whose terms about GPUs hold for it, empty: of no such class; None: there
    #: is nothing that its class, or another one, demands.
    service: str | None = None
    #: A scheduling map has chosen the node and the GPUs already.
    map_slot: MapSlot | None = None
    #: How a share is kept apart from others; None: as the profile says.
    isolation: Isolation | None = None
    #: Admission has injected what an MPS client needs.
    mps_injected: bool = False

    @property
    def particular(self) -> bool:
        """Not any GPU will do."""
        return bool(self.models or self.like or self.unlike or self.only or self.never)

    @property
    def sliced(self) -> bool:
        """It asks for MIG slices: of a profile, or of the smallest that covers its share."""
        return bool(self.profile) or self.isolation is Isolation.MIG

    def profile_of(self, kinds: Iterable[MigProfile]) -> str:
        """The profile of its slices on a GPU that can be divided so; empty if there is none."""
        return self.profile or smallest_cover(kinds, self)

    @property
    def by_memory(self) -> bool:
        """It matters how much memory a GPU has, or has left."""
        return bool(self.memory_mib or self.memory_milli)


@dataclass(frozen=True, slots=True)
class GpuUse:
    """Some of one GPU, for one pod. Without a uuid: of a GPU that a device plugin chooses."""

    uuid: str
    whole: bool = True
    milli: int = WHOLE
    memory_mib: int = 0
    profile: str = ""
    #: The first memory slice, and how many, of a MIG slice.
    start: int = 0
    slices: int = 0

    @property
    def mask(self) -> int:
        """The memory slices as bits; 0 where the GPU is not cut."""
        return ((1 << self.slices) - 1) << self.start


class GrantSource(IntEnum):
    """How it is known which GPUs a bound pod has; a later one takes precedence."""

    ASKED = 0  #: by its request alone: which GPUs it has is not known
    ASSIGNED = 1  #: in the words of another scheduler
    BOUND = 2  #: by Fairlead, which writes it once, with the bind
    TAKEN = 3  #: by a device plugin that picks the GPU itself


@dataclass(frozen=True, slots=True)
class Grant:
    """What was assigned to a pod, and in which dialect."""

    uses: tuple[GpuUse, ...] = ()
    dialect: str = PLAIN
    #: The uses of each container, by position in `uses`, where a dialect distinguishes them. It is
    #: for the device plugin, and makes no difference to what is held.
    containers: tuple[tuple[int, ...], ...] = field(default=(), compare=False)
    #: The device plugin has not taken note of it yet.
    pending: bool = False
    #: Who has it, where a scheduling map lets several pods have the same GPU.
    member: Member | None = None
    #: What keeps its shares apart from those of other pods.
    isolation: Isolation = Isolation.ADVISORY
    #: How it is known, which makes no difference to what is held.
    source: GrantSource = field(default=GrantSource.BOUND, compare=False)

    @property
    def assigned(self) -> bool:
        return self.source > GrantSource.ASKED


def number_of_gpus(gpus: float) -> str:
    """In words: "1 GPU", "0.5 GPUs"."""
    return f"{gpus:g} GPU{'' if gpus == 1 else 's'}"
