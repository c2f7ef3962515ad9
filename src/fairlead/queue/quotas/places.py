"""Queues that have active units, as a tree in which each knows which of its children is next."""

from collections.abc import Callable, Iterator, Mapping
from heapq import heapify, heappop, heappush
from itertools import count

from fairlead.queue.entries import Entry
from fairlead.queue.quotas.rank import Rank
from fairlead.queue.quotas.tree import QueueTree
from fairlead.queue.quotas.unit_order import UnitPool

_FEWEST = 64


class QueuePlace:
    """A queue in the tree, with its active units and the queues beneath that have some."""

    __slots__ = (
        "_full", "asked", "below", "depth", "first", "key", "lone", "parent", "rank", "stamp",
        "units",
    )  # fmt: skip

    def __init__(self, key: str, parent: "QueuePlace | None", units: UnitPool) -> None:
        self.key, self.parent, self.units = key, parent, units
        self.depth: int = parent.depth + 1 if parent else 0
        #: A heap of rank, stamp and place; those with an older stamp are void.
        self.below: list[tuple[Rank, int, QueuePlace]] = []
        self._full = _FEWEST
        #: The only queue beneath that has a unit: it needs no rank, and `below` is empty.
        self.lone: QueuePlace | None = None
        #: The next unit, its own or of a queue beneath, and what that asks for.
        self.first: Entry | None = None
        self.asked: Mapping[str, int] = {}
        #: None: it has none, since it is alone.
        self.rank: Rank | None = None
        self.stamp = 0

    def best(self) -> "QueuePlace | None":
        """The child that is next."""
        while self.below:
            _, stamp, place = self.below[0]
            if place.stamp == stamp:
                return place
            heappop(self.below)
        return self.lone

    @property
    def is_alone(self) -> bool:
        """Whether no other unit of its parent is to be compared with its own."""
        assert self.parent is not None
        best = self.parent.best()
        return (best is None or best is self) and self.parent.units.first() is None

    def push(self, place: "QueuePlace") -> None:
        if len(self.below) >= self._full:
            self.below = [each for each in self.below if each[2].stamp == each[1]]
            heapify(self.below)
            self._full = max(_FEWEST, 2 * len(self.below))
        assert place.rank is not None
        heappush(self.below, (place.rank, place.stamp, place))


class QueuePlaces:
    """The places of those queues that have, or had, active units; they follow the tree."""

    def __init__(self, tree: QueueTree, pool_of: Callable[[str], UnitPool]) -> None:
        """`pool_of` makes the pool for the units of a queue; of "" that of units without one."""
        self._tree, self._pool_of = tree, pool_of
        self.root = QueuePlace("", None, pool_of(""))
        self._known = {"": self.root}
        self.stamps = count(1)
        #: Those whose next unit is to be chosen again.
        self.changed: set[QueuePlace] = set()

    def __iter__(self) -> Iterator[QueuePlace]:
        return iter(self._known.values())

    def get(self, key: str) -> QueuePlace | None:
        return self._known.get(key)

    def of(self, key: str) -> QueuePlace:
        """Of a queue that does not exist the root."""
        place = self._known.get(key)
        if place is None:
            if key not in self._tree:
                return self.root
            place = self._known[key] = QueuePlace(key, self._above(key), self._pool_of(key))
        return place

    def _above(self, key: str) -> QueuePlace:
        above = self._tree.lineage(key)[1:]
        return self.of(above[0]) if above else self.root

    def touch(self, key: str) -> None:
        place = self._known.get(key)
        if place is not None:
            self.changed.add(place)

    def follow(self, key: str) -> None:
        """A queue may have another parent; those above it are as in the tree."""
        place = self._known.get(key)
        if place is None or place.parent is None:
            return
        before, parent = place.parent, self._above(key)
        place.depth = parent.depth + 1
        if before is not parent:
            self._leave(place, before)
            place.parent = parent
            self.changed.add(place)

    def forget(self, key: str) -> QueuePlace | None:
        """The queue is gone."""
        place = self._known.pop(key, None)
        if place is not None and place.parent is not None:
            self._leave(place, place.parent)
            self.changed.discard(place)
        return place

    def _leave(self, place: QueuePlace, parent: QueuePlace) -> None:
        place.stamp = next(self.stamps)
        if parent.lone is place:
            parent.lone = None
        if self._known.get(parent.key) is parent:
            self.changed.add(parent)
