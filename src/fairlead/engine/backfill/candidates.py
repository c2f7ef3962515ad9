"""Waiting units that no node fits now, in their order: the first ones get a planned start."""

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from itertools import count

from fairlead.engine.backfill.futures import UnitKey
from fairlead.queue.entries import Entry, Pool
from fairlead.queue.queue import SchedulingQueue

#: Entries that are kept without a look at whether they still wait.
_FEW = 64


class Candidates:
    def __init__(self, queue: SchedulingQueue) -> None:
        self._queue = queue
        self._heap: list[tuple[UnitKey, str]] = []
        self._known: dict[str, tuple[Entry, int]] = {}
        self._tickets = count()

    def __len__(self) -> int:
        return len(self._known)

    def ticket(self, entry: Entry) -> float:
        """Which of two units was refused first; one that was not is after all others."""
        known = self._known.get(entry.unit.key)
        return known[1] if known and known[0] is entry else float("inf")

    def add(self, entry: Entry, order_of: Callable[[Entry], UnitKey]) -> bool:
        """A unit was refused; whether it is a new one."""
        key = entry.unit.key
        known = self._known.get(key)
        if known and known[0] is entry:
            return False
        self._known[key] = entry, next(self._tickets)
        if known is None:
            heappush(self._heap, (order_of(entry), key))
        if len(self._heap) > 2 * len(self._queue.entries()) + _FEW:
            self._forget()
        return True

    def first(self, most: int) -> list[tuple[UnitKey, Entry]]:
        """The first ones that still wait."""
        found: list[tuple[UnitKey, Entry]] = []
        while self._heap and len(found) < most:
            order, key = heappop(self._heap)
            entry, _ = self._known[key]
            if self.waits(entry):
                found.append((order, entry))
            else:
                del self._known[key]
        for order, entry in found:
            heappush(self._heap, (order, entry.unit.key))
        return found

    def waits(self, entry: Entry) -> bool:
        """Whether it is pending, is not being bound, and could start if there were room."""
        unit = entry.unit
        if entry.needs_no_room:
            return False
        known = self._queue.gang(unit.key) or self._queue.get(unit.key)
        return known is entry and entry.pool not in (Pool.NONE, Pool.GATED) and unit.is_ready

    def _forget(self) -> None:
        self._known = {key: known for key, known in self._known.items() if self.waits(known[0])}
        self._heap = [each for each in self._heap if each[1] in self._known]
        heapify(self._heap)
