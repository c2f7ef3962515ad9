"""Units that have waited for long are tried again, whatever happened or did not."""

from collections import deque
from math import isinf

from fairlead.queue.entries import Entry, Pool
from fairlead.queue.queue import SchedulingQueue

#: How often waiting units are looked through, and how many of them are woken in one turn.
LOOK_EVERY_S = 30.0
_SLICE = 1000


class LongWaits:
    """Finds the units that have waited for five minutes, and wakes some of them in each turn."""

    def __init__(self, queue: SchedulingQueue) -> None:
        self._queue = queue
        self._looked_s = 0.0
        #: Those that are still to be woken, by priority, then by arrival.
        self._found: deque[Entry] = deque()

    def due_s(self) -> float | None:
        """When to look again at the latest."""
        if self._found:
            return 0.0  # at once
        if not self._queue.has_waiting() or isinf(self._queue.retries.longest_wait_s):
            return None
        return self._looked_s + LOOK_EVERY_S

    def wake(self, now: float) -> None:
        if not self._found:
            if now - self._looked_s < LOOK_EVERY_S:
                return
            self._looked_s = now
            self._found = deque(self._find(now))
        for _ in range(min(_SLICE, len(self._found))):
            entry = self._found.popleft()
            if self._is_overdue(entry, now):
                self._queue.wake(entry, "UnschedulableTimeout", now=now)

    def _find(self, now: float) -> list[Entry]:
        if isinf(self._queue.retries.longest_wait_s):
            return []
        found = (entry for entry in self._queue.all_waiting() if self._is_overdue(entry, now))
        return sorted(found, key=lambda entry: -entry.unit.priority)

    def _is_overdue(self, entry: Entry, now: float) -> bool:
        """It may have been woken, or refused again, since it was found."""
        return (
            entry.pool is Pool.WAITING and now - entry.queued_s > self._queue.retries.longest_wait_s
        )
