"""Queues that have active units, as a tree in which each knows which of its children is next."""

from heapq import heapify, heappop, heappush

from fairlead.queue.entries import Entry
from fairlead.queue.quotas.rank import Rank
from fairlead.queue.quotas.unit_order import UnitPool

_FEWEST = 64


class QueuePlace:
    """A queue in the tree, with its active units and the queues beneath that have some."""

    __slots__ = ("below", "depth", "first", "key", "parent", "rank", "stamp", "units")

    def __init__(self, key: str, parent: "QueuePlace | None", units: UnitPool) -> None:
        self.key, self.parent, self.units = key, parent, units
        self.depth: int = parent.depth + 1 if parent else 0
        #: A heap of rank, stamp and place; those with an older stamp are void.
        self.below: list[tuple[Rank, int, QueuePlace]] = []
        self.first: Entry | None = None
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
        if len(self.below) > _FEWEST:
            valid = [each for each in self.below if each[2].stamp == each[1]]
            if 2 * len(valid) < len(self.below):
                self.below = valid
                heapify(self.below)
        heappush(self.below, (place.rank, place.stamp, place))
