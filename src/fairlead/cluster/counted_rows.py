"""Rows whose layers have enough left of one counted resource, kept for some amounts."""

from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt

from fairlead.cluster.arrays import NodeMask
from fairlead.cluster.counted_layers import CountedLayers
from fairlead.model.counted import CountedMode

#: Amounts for which rows are kept.
_MOST_AMOUNTS = 16

PerLayer = npt.NDArray[np.int64]  # (places or more,) by place of a layer


class RowsWithEnough:
    """Thousands of layers may change between two decisions: they are counted when rows are read."""

    def __init__(self, layers: CountedLayers, used: Mapping[str, int]) -> None:
        self._layers = layers
        self._used = used
        #: How many there are, and how many of them are left.
        self._counts: PerLayer = np.zeros(0, dtype=np.int64)
        self._left: PerLayer = np.zeros(0, dtype=np.int64)
        #: Layers that are new, or of which more or less is used than when `_left` was counted.
        self.changed: set[str] = set()
        self._rows: dict[int, NodeMask | None] = {}
        self.put(layers.known())

    def put(self, new: Iterable[str]) -> None:
        """A row has other layers than before, some of which are new."""
        self._rows.clear()
        if len(self.changed) > 2 * self._layers.rows.size:  # most of them are of no node any more
            self.changed &= self._layers.rows.places.keys()
        missing = self._layers.rows.size - len(self._counts)
        if missing > 0:  # twice as many, since thousands may come one by one
            more = np.zeros(len(self._counts) + missing, dtype=np.int64)
            self._counts, self._left = (np.append(a, more) for a in (self._counts, self._left))
        for name in new:
            self._counts[self._layers.rows.places[name]] = self._layers.count_of(name)
            self.changed.add(name)

    def of(self, amount: int, mode: CountedMode, size: int) -> NodeMask | None:
        """Of so many rows, those whose layers have so many left; None: all."""
        if self.changed:
            self._count()
        if amount not in self._rows:
            if len(self._rows) >= _MOST_AMOUNTS:
                self._rows.clear()
            self._rows[amount] = self._with(amount, mode, size)
        return self._rows[amount]

    def _count(self) -> None:
        """Rows are kept for amounts of which each layer still has enough, or still too little."""
        places = self._layers.rows.places
        names = [name for name in self.changed if name in places]
        at = np.array([places[name] for name in names], dtype=np.intp)
        used = np.array([self._used.get(name, 0) for name in names], dtype=np.int64)
        before, left = self._left[at], self._counts[at] - used
        self._left[at] = left
        for needed in list(self._rows):
            if ((before < needed) != (left < needed)).any():
                del self._rows[needed]
        self.changed.clear()

    def _with(self, amount: int, mode: CountedMode, size: int) -> NodeMask | None:
        enough = self._left >= amount
        if mode is CountedMode.ANY:
            return self._layers.rows.covered_by_any(enough, size)
        found = self._layers.rows.covered_by_all(enough, size)
        return None if found.all() else found
