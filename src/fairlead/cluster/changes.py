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
        self._entries: list[tuple[int, Bits]] = []

    @property
    def mark(self) -> Mark:
        return self._first + len(self._entries)

    def add(self, row: int, aspects: Aspect) -> None:
        self._entries.append((row, int(aspects)))
        if len(self._entries) > 2 * KEPT:
            del self._entries[:KEPT]
            self._first += KEPT

    def start_over(self) -> None:
        """Forget the past: every reader must look at everything again."""
        self._first = self.mark + 1
        self._entries.clear()

    def since(self, mark: Mark) -> dict[int, Bits] | None:
        """Aspects changed by row, or by `ANYWHERE`; None when everything may have changed."""
        start = mark - self._first
        if start < 0:
            return None
        if start == len(self._entries) - 1:  # the common case: one placement ago
            row, aspects = self._entries[start]
            return {row: aspects}
        changed: dict[int, Bits] = {}
        for row, aspects in self._entries[start:]:
            changed[row] = changed.get(row, aspects) | aspects
        return changed
