"""The active units of one queue, in the order that the queue asks for.

None starves another for ever by its order alone, except by a higher priority or a smaller service:
estimates and deadlines of units that came later count for less and less.
"""

from collections.abc import Callable, Iterator
from itertools import chain
from typing import Protocol

from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.queues import UnitOrder
from fairlead.queue.entries import Entry, Pool
from fairlead.queue.heap import EntryHeap
from fairlead.queue.order import OrderKey
from fairlead.queue.quotas.estimates import UNKNOWN_S, deadline_s
from fairlead.queue.service_order import service_key
from fairlead.queue.units import Unit

#: Ten seconds of waiting count for as much as an estimate that is shorter by one second.
_AGEING = 0.1

#: How much of the queue the units of a namespace use.
NamespaceUse = Callable[[str], float]


class UnitPool(Protocol):
    """Active units of one queue. Those that moved on are dropped when they come up."""

    def push(self, key: OrderKey, entry: Entry) -> None:
        """`key` is that of the scheduling queue's own order."""
        ...

    def first(self) -> Entry | None: ...

    def __iter__(self) -> Iterator[Entry]: ...

    def moved(self, entry: Entry) -> None:
        """A unit of this queue waits, or does no longer."""
        ...

    def permits(self, entry: Entry) -> bool:
        """Whether a unit in backoff may be tried before its time."""
        ...


@dataclass(frozen=True, slots=True)
class UnitGoal:
    """By when a unit is to start, on the clock of the queue; None: it has no goal, or no more."""

    start_by_s: float | None = None
    #: It has missed all its goals.
    is_late: bool = False


class UnitTimes(Protocol):
    """What orders by time must know."""

    def wall_offset_s(self) -> float:
        """The time since 1970 at which the clock of the queue is 0."""
        ...

    def expected_s(self, unit: Unit) -> float | None:
        """How long it will run; None: nothing is known."""
        ...

    def goal_of(self, unit: Unit) -> UnitGoal:
        """By when it is to start."""
        ...


def unit_key(order: UnitOrder, key: OrderKey, entry: Entry, times: UnitTimes) -> OrderKey:
    """`key` if the order of the queue has no other."""
    came = entry.first_queued_s
    if order in (UnitOrder.FIFO, UnitOrder.STRICT_FIFO):
        return (came,)
    if order is UnitOrder.SHORTEST_FIRST:
        return _AGEING * came + (times.expected_s(entry.unit) or UNKNOWN_S), came
    if order is UnitOrder.SMALLEST_FIRST:
        return service_key(entry, times.expected_s)
    if order is UnitOrder.DEADLINE:
        deadline = deadline_s(entry.unit)
        return UNKNOWN_S + came if deadline is None else deadline - times.wall_offset_s(), came
    if order is UnitOrder.SLACK:
        return _slack_key(entry, times.goal_of(entry.unit))
    return key


def _slack_key(entry: Entry, goal: UnitGoal) -> OrderKey:
    """By priority. All units lose slack alike, so the earliest time by which to start decides."""
    came = entry.first_queued_s
    if goal.is_late:
        return -entry.unit.priority, 1, came, came
    start_by_s = UNKNOWN_S + came if goal.start_by_s is None else goal.start_by_s
    return -entry.unit.priority, 0, start_by_s, came


#: In queues with these orders, equal units that wait for room are woken by the order, too.
ORDERED_WAITING = frozenset({UnitOrder.DEADLINE, UnitOrder.SLACK})


class ByKey:
    """By a key that does not change."""

    def __init__(self, tickets: Iterator[int], order: UnitOrder, times: UnitTimes) -> None:
        self._heap = EntryHeap(tickets)
        self._order, self._times = order, times

    def push(self, key: OrderKey, entry: Entry) -> None:
        self._heap.push(unit_key(self._order, key, entry, self._times), entry)

    def first(self) -> Entry | None:
        head = self._heap.head()
        return head[1] if head else None

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._heap)

    def moved(self, entry: Entry) -> None:
        pass

    def permits(self, entry: Entry) -> bool:
        return True


class InTurn(ByKey):
    """None before the one that came first has started: not while that one waits for room."""

    def __init__(self, tickets: Iterator[int], times: UnitTimes) -> None:
        super().__init__(tickets, UnitOrder.STRICT_FIFO, times)
        self._refused: set[Entry] = set()

    def first(self) -> Entry | None:
        found = super().first()
        return found if found is not None and self.permits(found) else None

    def moved(self, entry: Entry) -> None:
        # One that no change of the cluster lets start does not wait for room.
        waits = entry.pool is Pool.BACKOFF or (entry.pool is Pool.WAITING and bool(entry.woken_by))
        (self._refused.add if waits else self._refused.discard)(entry)

    def permits(self, entry: Entry) -> bool:
        return all(other.first_queued_s >= entry.first_queued_s for other in self._refused)


class ByNamespace:
    """Units of the namespace that uses least of the queue come first."""

    def __init__(self, tickets: Iterator[int], use_of: NamespaceUse) -> None:
        self._tickets, self._use_of = tickets, use_of
        self._heaps: dict[str, EntryHeap] = {}

    def push(self, key: OrderKey, entry: Entry) -> None:
        namespace = entry.unit.pod.namespace
        heap = self._heaps.get(namespace)
        if heap is None:
            heap = self._heaps[namespace] = EntryHeap(self._tickets)
        heap.push(key, entry)

    def first(self) -> Entry | None:
        heads = {name: heap.head() for name, heap in self._heaps.items()}
        for name in [name for name, head in heads.items() if head is None]:
            del self._heaps[name], heads[name]
        found = [
            (self._use_of(name), head[1].first_queued_s, name, head[1])
            for name, head in heads.items()
            if head is not None
        ]
        return min(found)[-1] if found else None

    def __iter__(self) -> Iterator[Entry]:
        return chain.from_iterable(self._heaps.values())

    def moved(self, entry: Entry) -> None:
        pass

    def permits(self, entry: Entry) -> bool:
        return True
