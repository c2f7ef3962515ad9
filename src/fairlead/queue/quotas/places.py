"""Queues that have active units, as a tree in which each knows which of its children is next."""

from collections.abc import Mapping
from heapq import heapify, heappop, heappush

from fairlead.queue.entries import Entry
from fairlead.queue.quotas.rank import Rank
from fairlead.queue.quotas.unit_order import UnitPool

_FEWEST = 64


class QueuePlace:
    """A queue in the tree, with its active units and the queues beneath that have some."""

    __slots__ = (
        "_full", "asked", "below", "depth", "first", "key", "parent", "rank", "stamp", "units",
    )  # fmt: skip

    def __init__(self, key: str, parent: "QueuePlace | None", units: UnitPool) -> None:
        self.key, self.parent, self.units = key, parent, units
        self.depth: int = parent.depth + 1 if parent else 0
        #: A heap of rank, stamp and place; those with an older stamp are void.
        self.below: list[tuple[Rank, int, QueuePlace]] = []
        self._full = _FEWEST
        #: The next unit, its own or of a queue beneath, and what that asks for.
        self.first: Entry | None = None
        self.asked: Mapping[str, int] = {}
        self.rank: Rank = ()
        self.stamp = 0

    def best(self) -> "QueuePlace | None":
        """The child that is next."""
        while self.below:
            _, stamp, place = self.below[0]
            if place.stamp == stamp:
                return place
            heappop(self.below)
        return None

    def push(self, place: "QueuePlace") -> None:
        if len(self.below) >= self._full:
            self.below = [each for each in self.below if each[2].stamp == each[1]]
            heapify(self.below)
            self._full = max(_FEWEST, 2 * len(self.below))
        heappush(self.below, (place.rank, place.stamp, place))
