"""What a pod will do with its GPUs, as far as it says."""

from fairlead.model.lazy_dataclass import dataclass

#: How busy a GPU is taken to be, or to be kept by a pod, of which nothing is known.
MIDDLING = 0.5


@dataclass(frozen=True, slots=True)
class PodLoad:
    """Of each of its GPUs; None where it does not say."""

    #: Share of the time in which something of it runs there, at its busiest.
    busy: float | None = None
    #: Whether that comes and goes in a rhythm, as training does, or in bursts.
    cyclic: bool | None = None
    memory_mib: float | None = None


UNKNOWN = PodLoad()


def expected_busy(load: PodLoad) -> float:
    return MIDDLING if load.busy is None else load.busy
