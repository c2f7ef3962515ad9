"""What pods above or below a priority take, on every node at once.

For each priority somebody asked about there is one table of amounts, by resource and row. It is
made once by looking at every pod concerned, and from then on follows each that comes or goes.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable

import numpy as np
import numpy.typing as npt

from fairlead.cluster.columns import Columns, Vector

AmountsByRow = npt.NDArray[np.int64]  # (resources, rows)
#: Row, priority and amounts of one pod.
Share = tuple[int, int, Vector]

# Tables kept: each is as large as the column of requested amounts.
_KEPT = 8


class PrioritySums:
    """`counts(its, asked)` says whether a pod of one priority counts when another is asked for."""

    def __init__(self, columns: Columns, counts: Callable[[int, int], bool]) -> None:
        self._columns = columns
        self._counts = counts
        self._tables: OrderedDict[int, AmountsByRow] = OrderedDict()

    def __bool__(self) -> bool:
        """Did anybody ask yet?"""
        return bool(self._tables)

    def of(self, priority: int, shares: Callable[[], Iterable[Share]]) -> AmountsByRow:
        """The table for a priority; `shares` tells of all pods, should it have to be made."""
        table = self._tables.get(priority)
        if table is None or table.shape != self._columns.requested.shape:
            table = self._tables[priority] = np.zeros_like(self._columns.requested)
            for row, its, vector in shares():
                if self._counts(its, priority):
                    table[: len(vector), row] += vector
            if len(self._tables) > _KEPT:
                self._tables.popitem(last=False)
        self._tables.move_to_end(priority)
        return table

    def follow(self, row: int, its: int, vector: Vector, sign: int) -> None:
        """A pod of this priority came (+1) or went (-1)."""
        for priority, table in self._tables.items():
            if self._counts(its, priority) and table.shape == self._columns.requested.shape:
                table[:, row] += sign * vector

    def forget(self) -> None:
        """Every table is to be made anew."""
        self._tables.clear()

    def clear_row(self, row: int) -> None:
        for table in self._tables.values():
            if row < table.shape[1]:
                table[:, row] = 0
