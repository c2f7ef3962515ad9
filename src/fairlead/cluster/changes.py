"""Which rows changed since when, so that shared answers can follow at the cost of the change."""

from fairlead.cluster.aspects import Aspect

#: Changes that are kept at least; at most twice as many.
KEPT = 8192

#: In place of a row: something changed that belongs to no node, so that any row may be concerned.
ANYWHERE = -1

#: A position in the log, counted from its beginning.
Mark = int
#: Older than every change.
NEVER = -1
Bits = int  # of `Aspect`, as a plain number: flags are slow, and this is asked for every placement


class ChangeLog:
    """Readers keep a mark of their own and ask what happened since.

    The log is a window over the latest changes. A reader that is older than the window must look at
    everything again; the others follow.
    """

    def __init__(self) -> None:
        #: The position of the first change that is kept.
        self._first: Mark = 0
        self._rows: list[int] = []
        #: What changed of each of these rows.
        self._aspects: list[Bits] = []

    @property
    def mark(self) -> Mark:
        return self._first + len(self._rows)

    def add(self, row: int, aspects: Aspect) -> None:
        self._rows.append(row)
        self._aspects.append(int(aspects))
        if len(self._rows) > 2 * KEPT:
            del self._rows[:KEPT], self._aspects[:KEPT]
            self._first += KEPT

    def start_over(self) -> None:
        """Forget the past: every reader must look at everything again."""
        self._first = self.mark + 1
        self._rows.clear()
        self._aspects.clear()

    def since(self, mark: Mark) -> dict[int, Bits] | None:
        """Aspects changed by row, or by `ANYWHERE`; None when everything may have changed."""
        start = mark - self._first
        if start < 0:
            return None
        if start == len(self._rows) - 1:  # the common case: one placement ago
            return {self._rows[start]: self._aspects[start]}
        rows, aspects = self._rows[start:], self._aspects[start:]
        kinds = set(aspects)
        if len(kinds) == 1:  # pods came and went, and no more
            return dict.fromkeys(rows, kinds.pop())
        changed: dict[int, Bits] = {}
        for row, bits in zip(rows, aspects, strict=True):
            changed[row] = changed.get(row, bits) | bits
        return changed
