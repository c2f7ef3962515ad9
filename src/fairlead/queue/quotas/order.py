"""The active units where there are queues of teams: which queue is next, and which of its units.

At each level of the tree the child with the smallest rank is next, down to a queue, whose own order
says which unit. A rank changes with what the queue uses, with its share and with its next unit; the
ranks of a queue and of those above it are computed again when one of these has changed, and only
then: a change costs O(depth · log n).

Units without a queue, and those whose queue does not exist, are beside the queues at the top.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from fairlead.model.queues import GPUS, Sharing, UnitOrder
from fairlead.queue.entries import Entry, Pool
from fairlead.queue.order import OrderKey
from fairlead.queue.quotas.ageing import Ageing
from fairlead.queue.quotas.facts import QueueFacts
from fairlead.queue.quotas.places import QueuePlace, QueuePlaces
from fairlead.queue.quotas.rank import Rank, is_over, outside_rank, rank
from fairlead.queue.quotas.share_node import ShareNode
from fairlead.queue.quotas.shares import FairShares
from fairlead.queue.quotas.sums import TreeSums
from fairlead.queue.quotas.tree import QueueTree
from fairlead.queue.quotas.unit_order import (
    ORDERED_WAITING,
    ByKey,
    ByNamespace,
    InTurn,
    UnitPool,
    unit_key,
)

_WAITS = (Pool.WAITING, Pool.BACKOFF)


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
        #: The time, and which unit others must not overtake.
        self.now = 0.0
        self._ageing = Ageing(facts)
        self._holder: Entry | None = None
        self._beside_holder: Entry | None = None
        self._version = tree.version
        self._places = QueuePlaces(tree, self._unit_pool)
        #: Where each active unit is, and the key by which it came.
        self._units: dict[Entry, tuple[QueuePlace, OrderKey]] = {}
        #: Units that wait and that others must not overtake.
        self._waiting: dict[Entry, QueuePlace] = {}
        #: Active units whose queue does not exist.
        self._missing: dict[Entry, str] = {}
        #: Queues whose units have another order than before.
        self._reordered: set[str] = set()

    # -- units -------------------------------------------------------------------------------

    def push(self, key: OrderKey, entry: Entry) -> None:
        self._look_at_tree()
        if self._waiting and (waited := self._waiting.pop(entry, None)) is not None:
            waited.units.moved(entry)
        self._untry_outside(entry)
        queue = self._facts.queue_of(entry.unit)
        place = self._places.of(queue)
        if queue and place is self._places.root:
            self._missing[entry] = queue
        self._units[entry] = place, key
        place.units.push(key, entry)
        self._places.changed.add(place)

    def moved(self, entry: Entry) -> None:
        """A unit entered a pool, or left it."""
        if entry.pool is Pool.ACTIVE:
            return  # it is pushed
        if (found := self._units.pop(entry, None)) is not None:
            self._places.changed.add(found[0])
            if found[0] is self._places.root:
                self._missing.pop(entry, None)
                if entry.pool is Pool.NONE:
                    self._try_outside(entry)
        elif entry.pool is not Pool.NONE:
            self._untry_outside(entry)
        if entry.pool in _WAITS:
            self._wait(entry)
        elif (place := self._waiting.pop(entry, None)) is not None:
            place.units.moved(entry)
            self._places.changed.add(place)

    def _try_outside(self, entry: Entry) -> None:
        """A unit without a queue counts as used until it is known how that went."""
        asked = self._tried[entry] = self._facts.asked_by(entry.unit)
        self._outside.update(asked)

    def _untry_outside(self, entry: Entry) -> None:
        if entry in self._tried:
            self._outside.subtract(self._tried.pop(entry))

    def _wait(self, entry: Entry) -> None:
        """Only a queue with a strict order must know."""
        place = self._places.of(self._facts.queue_of(entry.unit))
        if isinstance(place.units, InTurn):
            self._waiting[entry] = place
            place.units.moved(entry)
            self._places.changed.add(place)

    def waiting_key(self, entry: Entry) -> OrderKey | None:
        """By which it waits among units with equal requests; None: by arrival."""
        spec = self._tree.get(self._facts.queue_of(entry.unit))
        if spec is None or spec.order not in ORDERED_WAITING:
            return None
        return unit_key(spec.order, (), entry, self._facts)

    def touch(self, key: str) -> None:
        """What the queue uses has changed."""
        self._places.touch(key)

    def set_outside(self, used: Mapping[str, int]) -> None:
        """What pods without a queue use now."""
        self._outside = Counter(used)
        self._tried.clear()
        self._places.changed.add(self._places.root)

    def sort_again(self) -> None:
        """Units may belong to other queues than before."""
        self._version = -1

    def order_changed(self, key: str) -> None:
        if self._places.get(key) is not None:
            self._reordered.add(key)

    def permits(self, entry: Entry) -> bool:
        """Whether a unit in backoff may be tried before its time."""
        place = self._waiting.get(entry)
        if self._holder is not None and not self._may_overtake(entry, self._holder):
            return False
        return place is None or place.units.permits(entry)

    def head(self) -> tuple[Any, Entry] | None:
        """Nothing, and the next unit."""
        self._look_at_tree()
        self._shares.refresh()
        self._note_shares()
        changed = bool(self._places.changed)
        if changed:
            self._refresh()
        holder = self._ageing.holder(self.now)
        if holder is None:
            self._holder, first = None, self._places.root.first
        else:
            first = self._first_beside(holder, changed=changed)
        return None if first is None else (None, first)

    def has_next(self) -> bool:
        """Of some active units; which one is next is not computed unless units hold others back."""
        if not self._waiting and self._holder is None:
            return True
        return self.head() is not None

    def _first_beside(self, holder: Entry, *, changed: bool) -> Entry | None:
        """The unit that holds the cluster, or one that need not wait for it."""
        if holder.pool is Pool.ACTIVE:
            self._holder = None
            return holder
        if changed or self._holder is not holder:
            self._holder = holder
            firsts = (place.units.first() for place in self._places)
            able = [each for each in firsts if each and self._may_overtake(each, holder)]
            # One behind the holder in its own queue, too: its room is not the holder's.
            able += [each for each in self._facts.nominated() if each.pool is Pool.ACTIVE]
            self._beside_holder = min(able, key=_came, default=None)
        return self._beside_holder

    def _may_overtake(self, entry: Entry, holder: Entry) -> bool:
        if entry is holder or self._facts.is_nominated(entry.unit):
            return True
        asked = self._facts.asked_by(entry.unit)
        if GPUS in self._facts.asked_by(holder.unit) and GPUS not in asked:
            return True
        key, held_by = (self._facts.queue_of(each.unit) for each in (entry, holder))
        if key == held_by:
            return entry.unit.priority > holder.unit.priority
        node, other = self._shares.node(key), self._shares.node(held_by)
        if node is None:
            return False
        if other is not None and node.spec.priority > other.spec.priority:
            return True
        found = rank(node, self._used.of(key), asked, self._shares.totals, ())
        return not found[1]

    # -- ranks -------------------------------------------------------------------------------

    def _note_shares(self) -> None:
        for key in self._shares.changed:
            place = self._places.get(key)
            if place is not None and place.first is not None and self._may_differ(place):
                self._places.changed.add(place)
        self._shares.changed.clear()

    def _may_differ(self, place: QueuePlace) -> bool:
        """By our rule only whether a queue is over its share depends on the share."""
        node = self._shares.node(place.key)
        if node is None or node.parent is None or node.parent.rule is Sharing.KAI:
            return True
        if place.rank is None:
            return False
        assert place.first is not None
        asked = self._facts.asked_by(place.first.unit)
        over = is_over(node.shares, self._used.of(place.key), asked)
        return bool(over != place.rank[0])

    def _refresh(self) -> None:
        """From the deepest places up to the top."""
        if len(self._places.changed) == 1:
            only: QueuePlace | None = self._places.changed.pop()
            while only is not None:
                self._choose(only)
                only = only.parent
            return
        levels: dict[int, set[QueuePlace]] = {}
        for place in self._places.changed:
            levels.setdefault(place.depth, set()).add(place)
        self._places.changed.clear()
        for depth in range(max(levels), -1, -1):
            for place in levels.get(depth, ()):
                self._choose(place)
                if place.parent is not None:
                    levels.setdefault(depth - 1, set()).add(place.parent)

    def _choose(self, place: QueuePlace) -> None:
        own, best = place.units.first(), place.best()
        if own is not None and (best is None or self._own_rank(place, own) <= self._rank(best)):
            place.first, place.asked = own, self._facts.asked_by(own.unit)
        elif best is not None:
            place.first, place.asked = best.first, best.asked
        else:
            place.first = None
        place.rank, place.stamp = None, next(self._places.stamps)
        if place.parent is not None:
            self._show(place, place.parent)

    def _show(self, place: QueuePlace, parent: QueuePlace) -> None:
        """Puts it among its siblings; it is ranked only if there are some."""
        lone, parent.lone = parent.lone, None
        if place.first is None:
            parent.lone = lone if lone is not place else None
        elif lone in (None, place) and place.is_alone:
            parent.lone = place
        else:
            for each in (place,) if lone in (None, place) else (place, lone):
                self._rank(each)
                parent.push(each)

    def _rank(self, place: QueuePlace) -> Rank:
        if place.rank is None:
            assert place.first is not None
            node = self._shares.divided(place.key)
            assert node is not None, f"{place.key} is in the tree"
            used, totals = self._used.of(place.key), self._shares.totals
            place.rank = rank(node, used, place.asked, totals, _came(place.first))
        return place.rank

    def _own_rank(self, place: QueuePlace, own: Entry) -> Rank:
        asked = self._facts.asked_by(own.unit)
        used = self._used.own(place.key) if place.parent else self._outside
        node: ShareNode = self._shares.node(place.key) or self._shares.root
        return outside_rank(node, used, asked, self._shares.totals, _came(own))

    # -- the tree ----------------------------------------------------------------------------

    def _look_at_tree(self) -> None:
        version = self._tree.version
        if self._version == version and not self._reordered:
            return
        moved = self._tree.moved_since(self._version) if self._version >= 0 else None
        self._version = version
        reordered, self._reordered = self._reordered, set()
        if moved is None:
            self._build()
            return
        for key in moved:
            self._follow(key)
        if self._missing:
            self._push_again([e for e, key in self._missing.items() if key in self._tree])
        for place in filter(None, map(self._places.get, reordered)):
            units, place.units = place.units, self._unit_pool(place.key)
            self._take_again(place, units)

    def _build(self) -> None:
        units, waiting = self._units, self._waiting
        self._units, self._waiting, self._missing = {}, {}, {}
        self._places = QueuePlaces(self._tree, self._unit_pool)
        for entry, (_, key) in units.items():
            self.push(key, entry)
        for entry in waiting:
            self._wait(entry)

    def _follow(self, key: str) -> None:
        if key in self._tree:
            self._places.follow(key)
        elif (place := self._places.forget(key)) is not None:
            self._take_again(place, place.units)

    def _take_again(self, place: QueuePlace, units: UnitPool) -> None:
        """Units that were at a place, to where they belong now."""
        self._push_again(sorted(units, key=_came))
        for entry in [entry for entry, where in self._waiting.items() if where is place]:
            del self._waiting[entry]
            self._wait(entry)

    def _push_again(self, entries: Iterable[Entry]) -> None:
        for entry in entries:
            self._missing.pop(entry, None)
            self.push(self._units[entry][1], entry)

    def _unit_pool(self, key: str) -> UnitPool:
        spec = self._tree.get(key)
        order = spec.order if spec else UnitOrder.PRIORITY
        if order is UnitOrder.STRICT_FIFO:
            return InTurn(self._tickets, self._facts)
        if order is UnitOrder.FAIR:
            return ByNamespace(self._tickets, lambda name: self._facts.used_in(key, name))
        return ByKey(self._tickets, order, self._facts)


def _came(entry: Entry) -> tuple[float, int]:
    """Of two units that came at the same time, the one that became active first."""
    return entry.first_queued_s, entry.ticket
