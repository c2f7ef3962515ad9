"""Units of which queues may be evicted for a unit of a queue, counted as they are taken.

Two queues are compared at the first level where their paths differ. The queue of the unit that
waits must be within its guarantee or its share with it, at every level below that one; so what it
reclaims can not be reclaimed from it in turn while shares stay as they are. The other queue must be
above what it is due before each unit that it loses.
"""

from collections import Counter
from collections.abc import Iterable, Mapping

from fairlead.model.pods import Amounts
from fairlead.model.queues import QueueSpec, Sharing, Victims
from fairlead.queue.quotas.share_node import ShareNode
from fairlead.queue.quotas.shares import FairShares
from fairlead.queue.quotas.sums import TreeSums, amount_of
from fairlead.queue.quotas.tree import QueueTree

#: Shares are compared with amounts that are whole numbers.
_NEAR = 1e-6
_NOTHING: Counter[str] = Counter()


class Reclaim:
    """For one unit that waits: its queue, what it asks for, and its priority."""

    def __init__(
        self,
        tree: QueueTree,
        shares: FairShares,
        used: TreeSums,
        key: str,
        asked: Mapping[str, int],
        priority: int,
    ) -> None:
        self._tree = tree
        self._shares = shares
        self._used = used
        self.key = key
        self.asked = {name: amount for name, amount in asked.items() if amount > 0}
        self._priority = priority
        own = tree.get(key)
        self._multiplier = own.saturation_multiplier if own else 1.0
        self._taken: dict[str, Counter[str]] = {}
        #: By the key of another queue: the queues that are compared, and whether any may go.
        self._pairs: dict[str, tuple[str, str] | None] = {}
        self._due: dict[str, bool] = {}
        #: What units that room is held for will use, less what their victims use, by queue.
        self._promised: dict[str, Counter[str]] = {}
        #: As it was when the search began: trials change what is used.
        self._used_by: dict[tuple[str, str], int] = {}
        self._share_of: dict[tuple[str, str], float] = {}

    def promise(self, key: str, amounts: Iterable[tuple[str, int]], sign: int) -> None:
        """A unit of the queue will have this much more (+1), or less (-1), by what was decided."""
        for each in self._tree.lineage(key):
            promised = self._promised.setdefault(each, Counter())
            for name, amount in amounts:
                promised[name] += sign * amount

    # -- which queues ------------------------------------------------------------------------

    def may_evict(self, key: str, priority: int) -> bool:
        """Whether a unit of the queue may go at all, whatever was taken."""
        spec, own = self._tree.get(key), self._tree.get(self.key)
        if spec is None or own is None:
            return priority < self._priority
        if key == self.key:
            return own.within is not Victims.NEVER and priority < self._priority
        pair = self.pair(key)
        if pair is None:
            return priority < self._priority
        if own.reclaims is Victims.NEVER or not self._is_reclaimable(key, pair[1]):
            return False
        if own.reclaims is Victims.LOWER_PRIORITY and priority >= self._priority:
            return False
        return self.is_due(pair[0])

    def has_victims(self, groups: Mapping[str, Iterable[int]]) -> bool:
        """Whether a unit may go, of queues with these priorities of pods; as `may_evict` says."""
        if self.is_due(self.key):
            candidates: Iterable[str] = groups
        else:  # none of a queue that shares with this one
            unknown = groups.keys() - self._tree.keys()
            related = (*self._tree.lineage(self.key), *self._tree.beneath(self.key))
            candidates = (*unknown, *(key for key in related if key in groups))
        return any(self.may_evict(key, its) for key in candidates for its in groups[key])

    def pair(self, key: str) -> tuple[str, str] | None:
        """This queue, or one above it, and the same of the other, under the same parent."""
        if key not in self._pairs:
            ours, theirs = self._tree.lineage(self.key)[::-1], self._tree.lineage(key)[::-1]
            both = zip(ours, theirs, strict=False)
            self._pairs[key] = next((pair for pair in both if pair[0] != pair[1]), None)
        return self._pairs[key]

    def _is_reclaimable(self, key: str, above: str) -> bool:
        return all(spec.reclaimable for spec in self._specs(key, above))

    def least_run_s(self, key: str) -> float:
        """How long a unit of the queue must have run; of the nearest queue that says it.

        For KAI, what is said beneath the first level where the paths differ is for others there.
        """
        if key == self.key:
            times = (spec.min_run_s for spec in self._specs(key, ""))
            return next(filter(None, times), 0.0)
        pair, spec = self.pair(key), self._tree.get(key)
        theirs = pair[1] if pair else key
        if spec is not None and spec.sharing is Sharing.KAI:
            specs = self._specs(theirs, "")
        else:
            specs = self._specs(key, theirs)
        return next((each.min_run_reclaim_s for each in specs if each.min_run_reclaim_s), 0.0)

    def _specs(self, key: str, above: str) -> list[QueueSpec]:
        """From the queue up to another one, that one included."""
        lineage = self._tree.lineage(key)
        upto = lineage[: lineage.index(above) + 1] if above in lineage else lineage
        return [spec for each in upto if (spec := self._tree.get(each)) is not None]

    # -- what is due -------------------------------------------------------------------------

    def is_due(self, above: str) -> bool:
        """Whether this queue, and all up to that one, have no more than they are due with it."""
        found = self._due.get(above)
        if found is None:
            lineage = self._tree.lineage(self.key)
            upto = lineage[: lineage.index(above) + 1]
            node = self._shares.node(above)
            kai = node is not None and node.parent is not None and node.parent.rule is Sharing.KAI
            levels = upto[:1] if kai else upto
            found = self._due[above] = all(map(self._is_within, levels))
        return found

    def _is_within(self, key: str) -> bool:
        return self.is_guaranteed(key) or all(
            self._with(key, name) <= self._share(key, name) + _NEAR for name in self._divided()
        )

    def is_guaranteed(self, key: str) -> bool:
        """Whether the queue is within its guarantee with the unit."""
        names = list(self._divided())
        return bool(names) and all(
            self._with(key, name) <= self._guaranteed(key, name) for name in names
        )

    def _divided(self) -> list[str]:
        """Resources that the unit asks for and that are divided among queues."""
        return [name for name in self.asked if name in self._shares.totals]

    def _with(self, key: str, name: str) -> int:
        return self._in_use(key, name) + self.asked[name]

    def _in_use(self, key: str, name: str) -> int:
        found = self._used_by.get((key, name))
        if found is None:
            used = amount_of(self._used.of(key), name)
            found = used + self._promised.get(key, _NOTHING)[name]
            self._used_by[key, name] = found
        return found

    def _share(self, key: str, name: str) -> float:
        found = self._share_of.get((key, name))
        if found is None:
            found = self._share_of[key, name] = self._shares.of(key).get(name, 0.0)
        return found

    def _guaranteed(self, key: str, name: str) -> float:
        node: ShareNode | None = self._shares.node(key)
        return node.guaranteed.get(name, 0.0) if node else 0.0

    def _left(self, key: str, name: str) -> int:
        return self._in_use(key, name) - self._taken.get(key, _NOTHING)[name]

    # -- one unit after another --------------------------------------------------------------

    def allows(self, key: str, priority: int, amounts: Amounts) -> bool:
        """Whether a unit of the queue may go, after those that were taken."""
        if not self.may_evict(key, priority):
            return False
        pair = self.pair(key) if key in self._tree and self.key in self._tree else None
        if key == self.key or pair is None:
            return True
        ours, theirs = pair
        lost = {name: amount for name, amount in amounts if name in self._divided()}
        over = [name for name in lost if self._left(theirs, name) > self._guaranteed(theirs, name)]
        if self.is_guaranteed(ours) and over:
            return True
        above = any(self._left(theirs, n) > self._share(theirs, n) + _NEAR for n in lost)
        keeps = all(
            self._left(theirs, name) - amount >= self._guaranteed(theirs, name)
            for name, amount in lost.items()
        )
        return above and keeps and not self._is_saturated(ours, theirs, lost)

    def _is_saturated(self, ours: str, theirs: str, lost: Mapping[str, int]) -> bool:
        """Whether this queue would be further above its share than the other one."""
        for name, amount in lost.items():
            share, other = self._share(ours, name), self._share(theirs, name)
            ratio = self._with(ours, name) / share if share else 0.0
            left = (self._left(theirs, name) - amount) / other if other else 0.0
            if ratio > 1 + _NEAR and other and self._multiplier * ratio >= left:
                return True
        return False

    def take(self, key: str, amounts: Amounts, sign: int) -> None:
        pair = self.pair(key) if key in self._tree and self.key in self._tree else None
        if pair is not None:
            taken = self._taken.setdefault(pair[1], Counter())
            for name, amount in amounts:
                taken[name] += sign * amount

    def weight(self, key: str) -> float:
        """Less for units of queues that are further above their share."""
        pair = self.pair(key) if key in self._tree and self.key in self._tree else None
        if pair is None:
            return 1.0
        ratios = (
            self._share(pair[1], name) / used
            for name in self._divided()
            if (used := self._in_use(pair[1], name))
        )
        return min(1.0, max(0.05, min(ratios, default=1.0)))
