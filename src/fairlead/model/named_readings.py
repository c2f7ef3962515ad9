"""Readings that an administrator names: any number about nodes or GPUs, from a query."""

from collections.abc import Mapping
from dataclasses import field

from fairlead.model.lazy_dataclass import dataclass

#: Readings of one configuration.
MOST_READINGS = 32
#: Values of one reading; beyond that the rest is left out.
MOST_VALUES = 100_000


@dataclass(frozen=True, slots=True)
class ReadingTerms:
    """What a reading is about, and what counts where it has no value."""

    name: str
    unit: str = ""
    #: Values are by UUID of a GPU, not by name of a node.
    by_gpu: bool = False
    #: None: goals count the median, limits do not apply, and rules do not see the reading.
    fallback: float | None = None


@dataclass(frozen=True, slots=True)
class SeenReading:
    """Values of one reading that are new or changed, and the keys that have none any more."""

    terms: ReadingTerms
    #: By name of the node, or by UUID of the GPU.
    values: Mapping[str, float] = field(default_factory=dict)
    gone: tuple[str, ...] = ()
