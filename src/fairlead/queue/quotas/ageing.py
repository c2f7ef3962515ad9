"""So that no unit waits for ever: room that becomes free is kept for one that has waited long.

A large unit never starts if small ones take each part of the cluster that becomes free. So the
oldest unit that waits for room holds the cluster after an hour: other units are not tried until it
has started, except those of a higher priority, those within what is guaranteed to their queue, and
those that ask for no GPU if it asks for one. At most one unit holds at a time, and one of each
queue in an hour.

A hold ends in vain after half an hour; then the cluster rests for six times as long, and the next
hold of that queue is twice as long, five times at most. So units that can never start delay others
for at most a seventh of the time. If no unit runs for longer than R, and q queues have units that
wait, the first unit of each that fits an empty cluster and its limits starts within
q · (1 hour + 14 · max(R, half an hour)), R being at most eight hours.
"""

from collections.abc import Iterable
from math import inf
from typing import Protocol

from fairlead.cluster.aspects import Aspect
from fairlead.queue.entries import Entry, Pool
from fairlead.queue.units import Unit

AGED_S = 3600.0
FIRST_HOLD_S = 1800.0
REST = 6.0
MOST_FAILURES = 5

_LOOK_EVERY_S = 60.0
_FORGET_S = 4 * 86400.0
_ROOM = Aspect.USAGE | Aspect.DEVICES


class WaitingUnits(Protocol):
    def waiting(self) -> Iterable[Entry]:
        """All units that were refused."""
        ...

    def queue_of(self, unit: Unit) -> str:
        """The key of its queue; empty: it has none."""
        ...

    def could_fit(self, unit: Unit) -> bool:
        """Whether an empty cluster has as much as it asks for, and the limits of its queues."""
        ...


class Ageing:
    """Which unit holds the cluster, if any does."""

    def __init__(self, units: WaitingUnits) -> None:
        self._units = units
        self._holder: Entry | None = None
        self._queue = ""
        self._until_s = self._next_s = -inf
        #: By queue: when a unit of it last held, and how often in a row that was in vain.
        self._held_s: dict[str, float] = {}
        self._failures: dict[str, int] = {}

    def holder(self, now: float) -> Entry | None:
        if self._holder is not None:
            self._look_at_holder(self._holder, now)
        if self._holder is None and now >= self._next_s:
            self._next_s = now + _LOOK_EVERY_S
            self._holder = self._choose(now)
        return self._holder

    def _look_at_holder(self, entry: Entry, now: float) -> None:
        if entry.pool in (Pool.NONE, Pool.GATED):  # it has started, or is gone
            self._failures.pop(self._queue, None)
            self._end(now, rest_s=0.0)
        elif now >= self._until_s:
            length = self._hold_s(self._queue)
            self._failures[self._queue] = self._failures.get(self._queue, 0) + 1
            self._end(now, rest_s=REST * length)

    def _end(self, now: float, rest_s: float) -> None:
        self._holder = None
        self._held_s[self._queue] = now
        self._next_s = now + rest_s

    def _hold_s(self, queue: str) -> float:
        return FIRST_HOLD_S * 2.0 ** self._failures.get(queue, 0)

    def _choose(self, now: float) -> Entry | None:
        """The one whose queue has waited longest for it, of those that could start."""
        oldest = self._oldest(now)
        self._forget(now)
        for since, _, queue, entry in sorted(oldest.values(), key=lambda each: each[:3]):
            if now - since >= AGED_S and self._units.could_fit(entry.unit):
                self._queue, self._until_s = queue, now + self._hold_s(queue)
                return entry
        return None

    def _oldest(self, now: float) -> dict[str, tuple[float, float, str, Entry]]:
        """By queue, the unit that came first of those that wait for room."""
        oldest: dict[str, tuple[float, float, str, Entry]] = {}
        for entry in self._units.waiting():
            came = entry.first_queued_s
            if entry.held_back_by is not None or not entry.woken_by & _ROOM:
                continue
            if now - came < AGED_S:
                continue
            queue = self._units.queue_of(entry.unit)
            if self._failures.get(queue, 0) >= MOST_FAILURES:
                continue
            known = oldest.get(queue)
            if known is None or came < known[1]:
                since = max(came, self._held_s.get(queue, -inf))
                oldest[queue] = since, came, queue, entry
        return oldest

    def _forget(self, now: float) -> None:
        """Queues whose last hold is long ago are as those that never had one."""
        for queue in [queue for queue, at in self._held_s.items() if now - at > _FORGET_S]:
            del self._held_s[queue]
            self._failures.pop(queue, None)
