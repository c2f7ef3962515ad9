"""What free parts of GPUs are worth to the pods that come to this cluster."""

from fairlead.model.lazy_dataclass import dataclass

#: A GPU's free share is priced by hundredths.
STEP = 10


@dataclass(frozen=True, slots=True)
class PodShape:
    """What a pod asks for, as far as the worth of gaps is concerned."""

    cpu_milli: int
    memory_bytes: int = 0
    #: None for a pod without GPUs.
    gpus: int = 0
    #: Thousandths of each GPU.
    milli: int = 0
    models: frozenset[str] = frozenset()

    @property
    def total_milli(self) -> int:
        return self.gpus * self.milli


@dataclass(frozen=True, slots=True)
class Basis:
    """What prices are computed from: pods seen by shape, and how many GPUs of which model."""

    pods: tuple[tuple[PodShape, int], ...]
    gpus: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Prices:
    """The shape of the demand, as policies need it."""

    #: Pods that they were learned from.
    pods: int
    #: The value of a GPU by its free hundredths, 0 to 100; rising.
    values: tuple[float, ...]
    #: What GPU pods bring along for each GPU they ask for.
    cpu_milli_per_gpu: float
    memory_bytes_per_gpu: float
    #: The share of pods that request 2, 4 or 8 GPUs at once.
    blocks: tuple[tuple[int, float], ...]
    #: How short each model is for those who insist on it.
    pressure: tuple[tuple[str, float], ...]
    #: The most frequent shapes and their shares, which add up to one.
    typical: tuple[tuple[PodShape, float], ...]
