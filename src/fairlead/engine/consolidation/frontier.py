"""Sets of units that are still to be tried, the cheapest first."""

from collections.abc import Callable, Iterable, Iterator
from heapq import heappop, heappush
from itertools import chain, count, islice

from fairlead.cluster.arrays import NodeMask
from fairlead.engine.consolidation.movable import MovableUnit
from fairlead.engine.consolidation.rooms import Room
from fairlead.model.lazy_dataclass import dataclass

Units = frozenset[MovableUnit]

#: GPUs moved, pods still without a node, work lost, pods moved, and a number that breaks ties.
_Order = tuple[float, int, float, int, int]
#: Rooms that are looked at, for each pod without a node, to make room for all of them at once.
_LOOKED_AT = 8
#: With up to so many pods without a node, one room may be for several of them.
_FEW = 2
_MOST_COPIES = 8


@dataclass(slots=True)
class Candidate:
    """Units to move; `within` limits where further units are looked for."""

    units: Units
    within: NodeMask | None = None


@dataclass(slots=True)
class _Branch:
    """A set that was not enough, and the rooms that could be added to it."""

    base: Units
    rooms: Iterator[Room]
    missing: int
    within: NodeMask | None
    #: What each pod without a node will cost at least.
    each: float = 0.0


class Frontier:
    def __init__(
        self, allows: Callable[[Units], bool], is_spent: Callable[[], bool] = lambda: False
    ) -> None:
        """`allows` says whether a set is worth a trial, `is_spent` when to stop."""
        self._allows = allows
        self._is_spent = is_spent
        self._heap: list[tuple[_Order, Units, _Branch, bool]] = []
        self._numbers = count()
        self._seen: set[Units] = set()
        #: Thousandths of GPUs that must move at least; None before there is any room.
        self.least: float | None = None

    def extend(
        self, base: Units, rooms: Iterable[Room], missing: int, within: NodeMask | None
    ) -> None:
        """Adds sets with one more room each, and one with room for all missing pods."""
        branch = _Branch(base, iter(rooms), missing, within)
        first = list(islice(branch.rooms, _LOOKED_AT * missing if missing > 1 else 1))
        if not first:
            return
        branch.rooms = chain(first, branch.rooms)
        branch.each = first[0].milli / (_MOST_COPIES if missing <= _FEW else 1)
        if not base:
            least = first[0].milli + (missing - 1) * branch.each
            self.least = min(least, self.least or least)
        if missing > 1:
            self._push(branch, base.union(*_disjoint(first, missing)), 0, single=False)
        self._push_next(branch)

    def pop(self) -> Candidate | None:
        """The cheapest set that was not tried and is worth a trial."""
        while self._heap and not self._is_spent():
            _, units, branch, single = heappop(self._heap)
            if single:
                self._push_next(branch)
            if units not in self._seen:
                self._seen.add(units)
                if self._allows(units):
                    return Candidate(units, branch.within)
        return None

    def _push_next(self, branch: _Branch) -> None:
        room = next(branch.rooms, None)
        if room is not None:
            self._push(branch, branch.base.union(room.units), branch.missing - 1, single=True)

    def _push(self, branch: _Branch, units: Units, missing: int, *, single: bool) -> None:
        order = (
            sum(unit.milli for unit in units) + missing * branch.each,
            missing,
            sum(unit.lost_gpu_s for unit in units),
            sum(len(unit.members) for unit in units),
            next(self._numbers),
        )
        heappush(self._heap, (order, units, branch, single))


def _disjoint(rooms: list[Room], most: int) -> list[tuple[MovableUnit, ...]]:
    """The first rooms on as many nodes."""
    found: list[tuple[MovableUnit, ...]] = []
    nodes: set[str] = set()
    for room in rooms:
        if len(found) < most and room.node not in nodes:
            nodes.add(room.node)
            found.append(room.units)
    return found
