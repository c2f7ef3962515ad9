"""What pods above or below a priority take, on every node at once.

For each priority that was asked about there is one table of amounts, by resource and row. It is
made once by looking at every pod concerned, and from then on follows each that comes or goes.
"""

from bisect import bisect_left, insort
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import numpy.typing as npt

from fairlead.cluster.arrays import Rows
from fairlead.cluster.columns import Columns, Vector

AmountsByRow = npt.NDArray[np.int64]  # (resources, rows)
#: Row, priority and amounts of one pod.
Share = tuple[int, int, Vector]

# Tables kept: each is as large as the column of requested amounts.
_KEPT = 8


class PrioritySums:
    """What pods take that are below a priority, or (otherwise) at it or above.

    There are few priorities that pods have, however many are asked for: all that lie between the
    same two of them share a table.
    """

    def __init__(self, columns: Columns, *, below: bool) -> None:
        self._columns = columns
        self._below = below
        self._tables: OrderedDict[int, AmountsByRow] = OrderedDict()
        #: How many pods have each priority, and those priorities in order; None: not asked for yet.
        self._pods: Counter[int] | None = None
        self._priorities: list[int] = []

    def __bool__(self) -> bool:
        """Whether it was asked for yet."""
        return self._pods is not None

    def of(self, priority: int, shares: Callable[[], Iterable[Share]]) -> AmountsByRow:
        """The table for a priority; `shares` lists all pods, should it have to be made."""
        pods: Sequence[Share] | None = None
        if self._pods is None:
            pods = list(shares())
            self._pods = Counter(its for _, its, _ in pods)
            self._priorities = sorted(self._pods)
        bound = self._bound(priority)
        if bound is None:
            return np.zeros_like(self._columns.requested)
        table = self._tables.get(bound)
        if table is None or table.shape != self._columns.requested.shape:
            table = self._tables[bound] = self._summed(
                bound, list(shares()) if pods is None else pods
            )
            if len(self._tables) > _KEPT:
                self._tables.popitem(last=False)
        self._tables.move_to_end(bound)
        return table

    def priorities_below(self, limit: int) -> Sequence[int]:
        """Those of pods, in order; nothing before a table was asked for."""
        return self._priorities[: bisect_left(self._priorities, limit)]

    def follow(self, row: int, its: int, vector: Vector, sign: int) -> None:
        """A pod of this priority came (+1) or went (-1)."""
        if self._pods is None:
            return
        self._count(self._pods, its, sign)
        for bound, table in self._tables.items():
            if self._counts(its, bound) and table.shape == self._columns.requested.shape:
                table[:, row] += sign * vector

    def follow_all(self, shares: Sequence[Share], sign: int) -> None:
        """The same for many pods."""
        if self._pods is None:
            return
        for its, times in Counter(its for _, its, _ in shares).items():
            self._count(self._pods, its, sign * times)
        for bound, table in self._tables.items():
            if table.shape != self._columns.requested.shape:
                continue
            counted = [(row, vector) for row, its, vector in shares if self._counts(its, bound)]
            if counted:
                rows, amounts = sums_of_rows(counted)
                table[: len(amounts), rows] += sign * amounts

    def forget(self) -> None:
        """Every table is to be made again."""
        self._tables.clear()
        self._pods = None

    def clear_row(self, row: int) -> None:
        """The priorities of its pods are forgotten when the pods are."""
        for table in self._tables.values():
            if row < table.shape[1]:
                table[:, row] = 0

    def _count(self, pods: Counter[int], its: int, sign: int) -> None:
        if its not in pods:
            insort(self._priorities, its)
        pods[its] += sign
        if not pods[its]:
            del pods[its]
            del self._priorities[bisect_left(self._priorities, its)]

    def _bound(self, priority: int) -> int | None:
        """The last priority of any pod that counts."""
        at = bisect_left(self._priorities, priority) - self._below
        return self._priorities[at] if 0 <= at < len(self._priorities) else None

    def _counts(self, its: int, bound: int) -> bool:
        return its <= bound if self._below else its >= bound

    def _summed(self, bound: int, shares: Sequence[Share]) -> AmountsByRow:
        self._columns.work.pods += len(shares)
        counted = [(row, vector) for row, its, vector in shares if self._counts(its, bound)]
        return sum_by_row(self._columns, counted)


def sum_by_row(columns: Columns, counted: Sequence[tuple[int, Vector]]) -> AmountsByRow:
    """The sum of the amounts of each row."""
    table = np.zeros_like(columns.requested)
    if counted:
        rows, amounts = sums_of_rows(counted)
        table[: len(amounts), rows] = amounts
    return table


def sums_of_rows(counted: Sequence[tuple[int, Vector]]) -> tuple[Rows, AmountsByRow]:
    """Each row once, in order, with the sum of its amounts as a column."""
    distinct = {id(vector): vector for _, vector in counted}  # few: equal amounts share one
    place = {key: at for at, key in enumerate(distinct)}
    rows = np.array([row for row, _ in counted])
    order = np.argsort(rows, kind="stable")
    which = np.array([place[id(vector)] for _, vector in counted])[order]
    amounts, rows = np.stack(list(distinct.values()))[which], rows[order]
    first = np.flatnonzero(np.diff(rows, prepend=-1))
    return rows[first], np.add.reduceat(amounts, first, axis=0).T
