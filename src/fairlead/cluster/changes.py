"""Which rows changed since when, so that shared answers can follow at the cost of the change."""

from fairlead.cluster.aspects import Aspect

_KEPT = 8192

#: In place of a row: something changed that belongs to no node, so that any row may be concerned.
ANYWHERE = -1

Mark = tuple[int, int]
Bits = int  # of `Aspect`, as a plain number: flags are slow, and this is asked for every placement


class ChangeLog:
    """Readers keep a mark of their own and ask what happened since."""

    def __init__(self) -> None:
        self._epoch = 0
        self._entries: list[tuple[int, Bits]] = []

    @property
    def mark(self) -> Mark:
        return self._epoch, len(self._entries)

    def add(self, row: int, aspects: Aspect) -> None:
        if len(self._entries) >= _KEPT:
            self.start_over()
        self._entries.append((row, int(aspects)))

    def start_over(self) -> None:
        """Forget the past: every reader must look at everything again."""
        self._epoch += 1
        self._entries.clear()

    def since(self, mark: Mark) -> dict[int, Bits] | None:
        """Aspects changed by row, or by `ANYWHERE`; None when everything may have changed."""
        epoch, position = mark
        if epoch != self._epoch:
            return None
        if position == len(self._entries) - 1:  # the common case: one placement ago
            row, aspects = self._entries[position]
            return {row: aspects}
        changed: dict[int, Bits] = {}
        for row, aspects in self._entries[position:]:
            changed[row] = changed.get(row, aspects) | aspects
        return changed
