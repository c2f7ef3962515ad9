"""How many on each row, in little room: most terms are held on a few nodes, some on nearly all."""

import numpy as np

from fairlead.cluster.arrays import PerNode, Rows

# A row in a dictionary takes about as much memory as this many in an array.
_ROOM = 12


class RowCounts:
    """Counts by row; 0 where nothing was added."""

    __slots__ = ("_dense", "_few", "_rows")

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self._few: dict[int, int] = {}
        self._dense: PerNode | None = None

    def __bool__(self) -> bool:
        return bool(self._few) if self._dense is None else bool(self._dense.any())

    def add(self, row: int, step: int) -> None:
        if self._dense is not None:
            self._dense[row] += step
            return
        count = self._few.get(row, 0) + step
        if count:
            self._few[row] = count
        else:
            del self._few[row]
        if len(self._few) * _ROOM > self._rows:
            self._dense = self.dense(self._rows)
            self._few = {}

    def grow(self, rows: int) -> None:
        self._rows = rows
        if self._dense is not None:
            more = np.zeros(rows - len(self._dense), dtype=np.int64)
            self._dense = np.concatenate([self._dense, more])

    def rows(self) -> Rows:
        """Where there are any."""
        if self._dense is not None:
            return np.flatnonzero(self._dense)
        return np.fromiter(self._few, dtype=np.intp, count=len(self._few))

    def add_to(self, counts: PerNode) -> None:
        """Adds them to an array that has a place for every row with any."""
        if self._dense is not None:
            counts += self._dense[: len(counts)]
        else:
            for row, count in self._few.items():
                counts[row] += count

    def dense(self, rows: int) -> PerNode:
        counts = np.zeros(rows, dtype=np.int64)
        self.add_to(counts)
        return counts
