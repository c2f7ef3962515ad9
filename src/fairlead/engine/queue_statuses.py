"""Which statuses of queues are to be written: at most one each half a minute, and few at a time.

While units are to be started, binds go first: the statuses are spread over the half minute.
"""

from collections.abc import Callable
from heapq import heappop, heappush

from fairlead.model.queues import GPUS, QueueStatus

#: A queue's status is written at most so often.
EVERY_S = 30.0
#: Statuses of all queues that are written in one second.
MOST_A_SECOND = 40


class QueueStatuses:
    def __init__(self, status_of: Callable[[str], QueueStatus | None]) -> None:
        """`status_of` a queue; None if there is no such queue."""
        self._status_of = status_of
        #: When each is to be looked at, and the soonest first.
        self._due_s: dict[str, float] = {}
        self._heap: list[tuple[float, str]] = []
        #: What was last written of each, and when.
        self._written: dict[str, tuple[float, QueueStatus]] = {}
        self._next_s = 0.0

    def touch(self, key: str, now: float) -> None:
        """Something about the queue has changed."""
        if key in self._due_s:
            return
        written = self._written.get(key)
        due_s = self._due_s[key] = max(now, written[0] + EVERY_S) if written else now
        heappush(self._heap, (due_s, key))

    def forget(self, key: str) -> None:
        """The queue is gone."""
        self._written.pop(key, None)

    def due_s(self) -> float | None:
        return max(self._heap[0][0], self._next_s) if self._heap else None

    def tend(self, now: float, *, is_busy: bool = False) -> list[tuple[str, QueueStatus]]:
        """Those that are due and have changed. `is_busy`: units are to be started."""
        found: list[tuple[str, QueueStatus]] = []
        if now < self._next_s:
            return found
        most = self._fewest() if is_busy else MOST_A_SECOND
        while self._heap and self._heap[0][0] <= now and len(found) < most:
            _, key = heappop(self._heap)
            del self._due_s[key]
            status = self._status_of(key)
            written = self._written.get(key)
            if status is not None and (written is None or written[1] != status):
                self._written[key] = now, status
                found.append((key, status))
                if any(name == GPUS for name, _ in status.used):  # its past use goes on
                    self.touch(key, now)
        if found:
            self._next_s = now + 1.0
        return found

    def _fewest(self) -> int:
        """So many in one second that each queue has its turn in half a minute."""
        known = len(self._heap) + len(self._written)
        return min(MOST_A_SECOND, 1 + int(known / EVERY_S))
