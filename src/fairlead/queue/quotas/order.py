"""The active units where there are queues of teams: which queue is next, and which of its units.

At each level of the tree the child with the smallest rank is next, down to a queue, whose own order
says which unit. A rank changes with what the queue uses, with its share and with its next unit; the
ranks of a queue and of those above it are computed again when one of these has changed, and only
then: a change costs O(depth · log n).

Units without a queue, and those whose queue does not exist, are beside the queues at the top.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Any, Protocol

from fairlead.model.queues import Sharing, UnitOrder
from fairlead.queue.entries import Entry, Pool
from fairlead.queue.order import OrderKey
from fairlead.queue.quotas.rank import Rank, is_over, outside_rank, rank
from fairlead.queue.quotas.share_node import ShareNode
from fairlead.queue.quotas.shares import FairShares
from fairlead.queue.quotas.sums import TreeSums
from fairlead.queue.quotas.tree import QueueTree
from fairlead.queue.quotas.unit_order import ByKey, ByNamespace, InTurn, UnitPool
from fairlead.queue.units import Unit

_FEWEST = 64
_WAITS = (Pool.WAITING, Pool.BACKOFF)


class QueueFacts(Protocol):
    """What the order must know of the units and of the queues."""

    def queue_of(self, unit: Unit) -> str:
        """The key of its queue; empty: it has none."""
        ...

    def asked_by(self, unit: Unit) -> Mapping[str, int]:
        """What it would use, in the amounts of a queue."""
        ...

    def used_in(self, key: str, namespace: str) -> float:
        """How much of a queue the units of a namespace use."""
        ...

    def wall_offset_s(self) -> float:
        """The time since 1970 at which the clock of the queue is 0."""
        ...


class _Place:
    """A queue in the tree, with its active units and the queues beneath that have some."""

    __slots__ = ("below", "depth", "first", "key", "parent", "rank", "stamp", "units")

    def __init__(self, key: str, parent: "_Place | None", units: UnitPool) -> None:
        self.key, self.parent, self.units = key, parent, units
        self.depth: int = parent.depth + 1 if parent else 0
        #: A heap of rank, stamp and place; those with an older stamp are void.
        self.below: list[tuple[Rank, int, _Place]] = []
        self.first: Entry | None = None
        self.rank: Rank = ()
        self.stamp = 0

    def best(self) -> "_Place | None":
        """The child that is next."""
        while self.below:
            _, stamp, place = self.below[0]
            if place.stamp == stamp:
                return place
            heappop(self.below)
        return None

    def push(self, place: "_Place") -> None:
        if len(self.below) > _FEWEST:
            valid = [each for each in self.below if each[2].stamp == each[1]]
            if 2 * len(valid) < len(self.below):
                self.below = valid
                heapify(self.below)
        heappush(self.below, (place.rank, place.stamp, place))


class QueuePool:
    """Takes the place of the heap of active entries while there are queues."""

    def __init__(
        self, tickets: Iterator[int], tree: QueueTree, shares: FairShares, used: TreeSums,
        facts: QueueFacts,
    ) -> None:  # fmt: skip
        self._tickets, self._tree, self._shares = tickets, tree, shares
        self._used, self._facts = used, facts
        #: What pods without a queue use, and what was added for those that are being tried.
        self._outside: Counter[str] = Counter()
        self._tried: dict[Entry, Mapping[str, int]] = {}
        self._stamps = count(1)
        self._version = -1
        self._places: dict[str, _Place] = {}
        #: Where each active unit is, and the key by which it came.
        self._units: dict[Entry, tuple[_Place, OrderKey]] = {}
        #: Units that wait and that others must not overtake.
        self._waiting: dict[Entry, _Place] = {}
        self._changed: set[_Place] = set()
        self._root = self._begin()

    def _begin(self) -> _Place:
        self._version = self._tree.version
        self._changed.clear()
        root = self._root = _Place(
            "", None, ByKey(self._tickets, UnitOrder.PRIORITY, self._facts.wall_offset_s)
        )
        self._places = {"": root}
        return root

    # -- units -------------------------------------------------------------------------------

    def push(self, key: OrderKey, entry: Entry) -> None:
        self._look_at_tree()
        if self._waiting and (waited := self._waiting.pop(entry, None)) is not None:
            waited.units.moved(entry)
        self._untry_outside(entry)
        place = self._place(self._facts.queue_of(entry.unit))
        self._units[entry] = place, key
        place.units.push(key, entry)
        self._changed.add(place)

    def moved(self, entry: Entry) -> None:
        """A unit entered a pool, or left it."""
        if entry.pool is Pool.ACTIVE:
            return  # it is pushed
        if (found := self._units.pop(entry, None)) is not None:
            self._changed.add(found[0])
            if found[0] is self._root and entry.pool is Pool.NONE:
                self._try_outside(entry)
        elif entry.pool is not Pool.NONE:
            self._untry_outside(entry)
        if entry.pool in _WAITS:
            self._wait(entry)
        elif (place := self._waiting.pop(entry, None)) is not None:
            place.units.moved(entry)
            self._changed.add(place)

    def _try_outside(self, entry: Entry) -> None:
        """A unit without a queue counts as used until it is known how that went."""
        asked = self._tried[entry] = self._facts.asked_by(entry.unit)
        self._outside.update(asked)

    def _untry_outside(self, entry: Entry) -> None:
        if entry in self._tried:
            self._outside.subtract(self._tried.pop(entry))

    def _wait(self, entry: Entry) -> None:
        """Only a queue with a strict order must know."""
        place = self._place(self._facts.queue_of(entry.unit))
        if isinstance(place.units, InTurn):
            self._waiting[entry] = place
            place.units.moved(entry)
            self._changed.add(place)

    def touch(self, key: str) -> None:
        """What the queue uses has changed."""
        place = self._places.get(key)
        if place is not None:
            self._changed.add(place)

    def set_outside(self, used: Mapping[str, int]) -> None:
        """What pods without a queue use now."""
        self._outside = Counter(used)
        self._tried.clear()
        self._changed.add(self._root)

    def sort_again(self) -> None:
        """Units may belong to other queues than before, or queues have another order."""
        self._version = -1

    def permits(self, entry: Entry) -> bool:
        """Whether a unit in backoff may be tried before its time."""
        place = self._waiting.get(entry)
        return place is None or place.units.permits(entry)

    def head(self) -> tuple[Any, Entry] | None:
        """Nothing, and the next unit."""
        self._look_at_tree()
        self._shares.refresh()
        self._note_shares()
        if self._changed:
            self._refresh()
        first = self._root.first
        return None if first is None else (None, first)

    # -- ranks -------------------------------------------------------------------------------

    def _note_shares(self) -> None:
        for key in self._shares.changed:
            place = self._places.get(key)
            if place is not None and place.first is not None and self._may_differ(place):
                self._changed.add(place)
        self._shares.changed.clear()

    def _may_differ(self, place: _Place) -> bool:
        """By our rule only whether a queue is over its share depends on the share."""
        node = self._shares.node(place.key)
        if node is None or node.parent is None or node.parent.rule is Sharing.KAI:
            return True
        assert place.first is not None
        asked = self._facts.asked_by(place.first.unit)
        over = is_over(node.shares, self._used.of(place.key), asked)
        return bool(over != place.rank[0])

    def _refresh(self) -> None:
        """From the deepest places up to the top."""
        if len(self._changed) == 1:
            only: _Place | None = self._changed.pop()
            while only is not None:
                self._choose(only)
                only = only.parent
            return
        levels: dict[int, set[_Place]] = {}
        for place in self._changed:
            levels.setdefault(place.depth, set()).add(place)
        self._changed.clear()
        for depth in range(max(levels), -1, -1):
            for place in levels.get(depth, ()):
                self._choose(place)
                if place.parent is not None:
                    levels.setdefault(depth - 1, set()).add(place.parent)

    def _choose(self, place: _Place) -> None:
        own, best = place.units.first(), place.best()
        place.first = own if best is None else best.first
        if own is not None and best is not None and self._own_rank(place, own) <= best.rank:
            place.first = own
        place.stamp = next(self._stamps)
        if place.parent is not None and place.first is not None:
            place.rank = self._rank(place, place.first)
            place.parent.push(place)

    def _rank(self, place: _Place, first: Entry) -> Rank:
        node = self._shares.node(place.key)
        assert node is not None, f"{place.key} is in the tree"
        asked = self._facts.asked_by(first.unit)
        used = self._used.of(place.key)
        return rank(node, used, asked, self._shares.totals, _came(first))

    def _own_rank(self, place: _Place, own: Entry) -> Rank:
        asked = self._facts.asked_by(own.unit)
        used = self._used.own(place.key) if place.parent else self._outside
        node: ShareNode = self._shares.node(place.key) or self._shares.root
        return outside_rank(node, used, asked, self._shares.totals, _came(own))

    # -- the tree ----------------------------------------------------------------------------

    def _look_at_tree(self) -> None:
        if self._version == self._tree.version:
            return
        units, waiting = self._units, self._waiting
        self._units, self._waiting = {}, {}
        self._begin()
        for entry, (_, key) in units.items():
            self.push(key, entry)
        for entry in waiting:
            self._wait(entry)

    def _place(self, key: str) -> _Place:
        place = self._places.get(key)
        if place is None:
            if key not in self._tree:
                return self._root
            above = self._tree.lineage(key)[1:]
            parent = self._place(above[0]) if above else self._root
            place = self._places[key] = _Place(key, parent, self._unit_pool(key))
        return place

    def _unit_pool(self, key: str) -> UnitPool:
        spec = self._tree.get(key)
        order = spec.order if spec else UnitOrder.PRIORITY
        if order is UnitOrder.STRICT_FIFO:
            return InTurn(self._tickets)
        if order is UnitOrder.FAIR:
            return ByNamespace(self._tickets, lambda name: self._facts.used_in(key, name))
        return ByKey(self._tickets, order, self._facts.wall_offset_s)


def _came(entry: Entry) -> tuple[float, int]:
    """Of two units that came at the same time, the one that became active first."""
    return entry.first_queued_s, entry.ticket
