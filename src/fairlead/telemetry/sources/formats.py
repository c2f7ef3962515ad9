"""What series and their labels can mean: the words in which exporters are described."""

from collections.abc import Mapping
from dataclasses import field

from fairlead.model.lazy_dataclass import dataclass
from fairlead.telemetry.sources.exposition import LabelCache

#: Readings that add up where a pod has several GPUs; of the others the mean counts.
SUMS = ("memory_used_mib", "power_w", "nvlink_bytes_s")


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a series says: `scale` turns its unit into ours, `most` is the largest there can be."""

    reading: str
    scale: float = 1.0
    most: float = 1.0
    #: Of two series for one reading, the one with the higher rank is believed.
    rank: int = 0
    #: Whether several series make up the reading together, such as what is sent and received.
    adds: bool = False
    #: Whether it means something for a slice of a GPU.
    of_slices: bool = False
    #: Whether it is about the pod alone, and says nothing of the GPU.
    of_pod: bool = False
    #: Whether it only grows, and the reading is how fast.
    grows: bool = False


#: How long ago the values of a node were measured, as a reading of its own.
AGE = "age_s"


@dataclass(frozen=True, slots=True)
class SeriesTarget:
    """What a label block names. `gpu` is a uuid or an index, "" if it is about no single GPU."""

    gpu: str
    node: str = ""
    #: "namespace/name" or uid, where a pod has the GPU.
    pod: str = ""
    #: How much of the GPU it is about: less than 1 for a slice.
    part: float = 1.0
    index: int | None = None


@dataclass(frozen=True, slots=True)
class ExporterFormat:
    """How one kind of exporter speaks."""

    series: Mapping[str, Meaning]
    #: What its labels mean. Kept for as long as the program runs: GPUs seldom change.
    book: LabelCache[SeriesTarget]
    #: The series by their names as they stand in a text.
    meanings: Mapping[bytes, Meaning] = field(init=False)

    def __post_init__(self) -> None:
        meanings = {name.encode(): meaning for name, meaning in self.series.items()}
        object.__setattr__(self, "meanings", meanings)


def parse_gpu_index(text: str) -> int | None:
    """What a label such as gpu="3" says."""
    return int(text) if text.isdecimal() and len(text) < _INDEX_DIGITS else None


_INDEX_DIGITS = 5
