"""Which statuses of queues are to be written: at most one each half a minute, and few at a time.

While units are to be started, binds go first: what has changed waits for a quarter of a minute, and
is then spread over another. So what is written is as old as half a minute at most, as otherwise.
"""

from collections.abc import Callable
from heapq import heappop, heappush
from typing import NamedTuple

from fairlead.model.queues import GPUS, QueueStatus

#: A queue's status is written at most so often.
EVERY_S = 30.0
#: So long a change waits while units are to be started.
PATIENCE_S = EVERY_S / 2
#: Statuses of all queues that are written in one second.
MOST_A_SECOND = 40
_FEWEST = 64


class _Due(NamedTuple):
    """When a status is to be looked at: while nothing is to be started, and otherwise."""

    idle_s: float
    busy_s: float


class QueueStatuses:
    def __init__(self, status_of: Callable[[str], QueueStatus | None]) -> None:
        """`status_of` a queue; None if there is no such queue."""
        self._status_of = status_of
        self._due: dict[str, _Due] = {}
        #: The soonest first, by each of the two; those that are not due at that time are void.
        self._idle: list[tuple[float, str]] = []
        self._busy: list[tuple[float, str]] = []
        #: What was last written of each, and when.
        self._written: dict[str, tuple[float, QueueStatus]] = {}
        self._next_s = 0.0

    def touch(self, key: str, now: float) -> None:
        """Something about the queue has changed."""
        if key in self._due:
            return
        written = self._written.get(key)
        again_s = written[0] + EVERY_S if written else now
        due = self._due[key] = _Due(max(now, again_s), max(now + PATIENCE_S, again_s))
        heappush(self._idle, (due.idle_s, key))
        heappush(self._busy, (due.busy_s, key))
        for is_busy, heap in enumerate((self._idle, self._busy)):
            if len(heap) > 2 * len(self._due) + _FEWEST:
                heap[:] = sorted((due[is_busy], key) for key, due in self._due.items())

    def forget(self, key: str) -> None:
        """The queue is gone."""
        self._written.pop(key, None)

    def due_s(self) -> float | None:
        head = self._head(is_busy=False)
        return max(head[0], self._next_s) if head else None

    def tend(self, now: float, *, is_busy: bool = False) -> list[tuple[str, QueueStatus]]:
        """Those that are due and have changed. `is_busy`: units are to be started."""
        found: list[tuple[str, QueueStatus]] = []
        if now < self._next_s:
            return found
        most = self._fewest() if is_busy else MOST_A_SECOND
        while (head := self._head(is_busy)) and head[0] <= now and len(found) < most:
            key = head[1]
            del self._due[key]
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

    def _head(self, is_busy: bool) -> tuple[float, str] | None:
        heap = self._busy if is_busy else self._idle
        while heap:
            due = self._due.get(heap[0][1])
            if due is not None and due[is_busy] == heap[0][0]:
                return heap[0]
            heappop(heap)
        return None

    def _fewest(self) -> int:
        """So many in one second that each queue has its turn in a quarter of a minute."""
        return min(
            MOST_A_SECOND, 1 + int(len(self._due.keys() | self._written.keys()) / PATIENCE_S)
        )
