"""The search for units to evict so that others have room: one search, in one trial.

First by amounts alone, row by row (`room_rows`): that is cheap, and shows at once when evicting
cannot help. What was found is tried: the units leave, the pods are placed, and then units come back
while the pods still fit, the costliest first. If amounts were not enough to go by, whole rows are
cleared, more and more of them, until the pods fit. Nothing is evicted here: the result is a plan.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial, reduce
from typing import Generic, TypeVar

import numpy as np

from fairlead.cluster.arrays import NodeMask, PerNode, Rows
from fairlead.cluster.claim_room import freed_by
from fairlead.cluster.cluster import Cluster
from fairlead.cluster.priority_sums import AmountsByRow
from fairlead.cluster.topology_levels import LevelCodes
from fairlead.cluster.trial import Trial
from fairlead.model.pods import Pod
from fairlead.placement.disruption_units import NO_COST, Cost, DisruptionUnit, DisruptionUnits
from fairlead.placement.room_rows import FreeAmounts, PodKind, RoomLeft, RoomRows, fitting_pods

P = TypeVar("P")

#: What one search may cost (see `Work.spent`) before it takes what it has, or says that it was cut
#: short.
_MOST_WORK = 70_000
#: Rows that are looked at first, and how many more for each pod.
_FIRST_ROWS = 256
_ROWS_PER_POD = 4
#: Domains that are looked into.
_MOST_REGIONS = 8
#: What a step of the search for devices costs, in the same unit as the work.
_STEP = 10
#: Pods that are evicted in one trial.
_MOST_EVICTED = 2000


@dataclass(frozen=True, slots=True)
class RoomPlan(Generic[P]):
    """Units that go, and where the pods are then."""

    units: tuple[DisruptionUnit, ...]
    placed: P

    @property
    def cost(self) -> Cost:
        return _total(self.units)


@dataclass(frozen=True, slots=True)
class RoomOutcome(Generic[P]):
    plan: RoomPlan[P] | None
    #: Why there is none.
    why: str = ""
    #: Whether another search may find one, though nothing changes.
    cut_short: bool = False


class RoomSearch(Generic[P]):
    """One search. `place` puts the pods into the trial; None: they do not fit."""

    def __init__(
        self,
        cluster: Cluster,
        units: DisruptionUnits,
        kinds: Sequence[PodKind],
        place: Callable[[Trial], P | None],
        *,
        domains: LevelCodes | None = None,
        reserved: tuple[Rows, AmountsByRow] | None = None,
        frees_for: Pod | None = None,
    ) -> None:
        """`domains`: of each row, -1 for none; the pods go into one of them. None: anywhere.
        `reserved`: what nominated pods of others are to have. `frees_for`: of the pods, if they may
        have devices of claims that no pod uses when the units are gone.
        """
        self._cluster = cluster
        self._units = units
        self._kinds = kinds
        self._place = place
        self._frees_for = frees_for
        self._amounts = FreeAmounts(cluster, kinds, reserved, frees_for)
        present = cluster.nodes.present()
        self._domains = np.where(present, 0 if domains is None else domains, -1)
        self._start = cluster.work.spent
        self._barren: set[int] = set()

    def search(self, trial: Trial) -> RoomOutcome[P]:
        """The trial is left as it was.

        One that was cut short goes on if it is called again while nothing has changed: rows that
        were of no use are not looked at again, and units that were weighed are known.
        """
        self._start = self._cluster.work.spent
        levels = [self._amounts.with_evicted(table) for table in self._units.rule.levels()]
        room = [self._room(levels[-1], at) for at in range(len(self._kinds))]
        sums = [self._by_domain(each) for each in room]
        enough = reduce(np.logical_and, map(_is_enough, sums, self._kinds))
        if not enough.any():
            return RoomOutcome(None, self._too_little(sums))
        reachable = reduce(np.logical_or, [each > 0 for each in room])
        for rows, chosen in self._packed(np.flatnonzero(enough), reachable, self._ranks(levels)):
            mask = self._domains == self._domains[rows[0]]
            plan = self._tried(trial, chosen, mask) or self._cleared(trial, rows, mask)
            if plan is not None or self._is_spent:
                break
        else:
            plan = None
        if plan is not None:
            return RoomOutcome(plan)
        cut_short = self._is_spent or self._units.left_out
        return RoomOutcome(None, "" if cut_short else "no set of them is enough", cut_short)

    @property
    def may_go_on(self) -> bool:
        """Not if units were left out that may come back without a change of anything else."""
        return not self._units.left_out

    @property
    def _is_spent(self) -> bool:
        return self._cluster.work.spent - self._start > _MOST_WORK

    # -- by amounts --------------------------------------------------------------------------

    def _room(self, free: AmountsByRow, kind: int) -> PerNode:
        found = fitting_pods(free, self._amounts.needs[kind], self._kinds[kind].count)
        return np.where(self._kinds[kind].rows, found, 0)

    def _by_domain(self, room: PerNode) -> PerNode:
        inside = self._domains >= 0
        sums = np.bincount(self._domains[inside], weights=room[inside], minlength=1)
        return sums.astype(np.int64)

    def _too_little(self, sums: Sequence[PerNode]) -> str:
        """The most that any domain would have room for."""
        for kind, each in zip(self._kinds, sums, strict=True):
            if (most := int(each.max())) < kind.count:
                return f"without them there would be room for {most} of {kind.count} pods"
        return "without them no domain would have room for all"

    def _ranks(self, levels: Sequence[AmountsByRow]) -> PerNode:
        """Rows by the least of their pods that must go, then by how much one pod lacks there."""
        needs = self._amounts.needs[0]
        lack = np.zeros(self._amounts.free.shape[1])
        for at, need in enumerate(needs):
            if need > 0:
                lack += np.clip((need - self._amounts.free[at]) / need, 0.0, 1.0)
        level = np.full(len(lack), len(levels), dtype=np.int64)
        for at in reversed(range(len(levels))):
            level[fitting_pods(levels[at], needs, 1) > 0] = at
        return level * 1000 + (lack * (999 / max(1, len(needs)))).astype(np.int64)

    def _packed(
        self, domains: Rows, reachable: NodeMask, ranks: PerNode
    ) -> Iterator[tuple[Rows, Sequence[DisruptionUnit]]]:
        """Rows of domains with the units to evict there, the cheapest first.

        Last come domains where pods that differ took each other's rows: there are no units yet.
        """
        count = sum(kind.count for kind in self._kinds)
        found: list[tuple[Cost, int, Sequence[DisruptionUnit]]] = []
        regions = self._best_regions(domains, reachable, ranks, count)
        for at, rows in enumerate(regions):
            packed = self._pack(rows, count)
            if packed is not None:
                found.append((_total(packed), at, packed))
            if self._is_spent:
                break
        for _, at, units in sorted(found, key=lambda each: each[:2]):
            yield regions[at], units
        packed_at = {at for _, at, _ in found}
        yield from ((rows, ()) for at, rows in enumerate(regions) if at not in packed_at)

    def _best_regions(
        self, domains: Rows, reachable: NodeMask, ranks: PerNode, count: int
    ) -> list[Rows]:
        """Rows by rank, of the domains that lack least."""
        rows = _ranked(np.flatnonzero(reachable & (self._domains >= 0)), ranks)
        if len(domains) == 1:
            return [rows[self._domains[rows] == domains[0]]]
        by_domain = rows[np.argsort(self._domains[rows], kind="stable")]
        cuts = np.flatnonzero(np.diff(self._domains[by_domain])) + 1
        parts = [part for part in np.split(by_domain, cuts) if self._domains[part[0]] in domains]
        parts.sort(key=lambda part: int(ranks[part[:count]].sum()))
        return parts[:_MOST_REGIONS]

    def _pack(self, rows: Rows, count: int) -> Sequence[DisruptionUnit] | None:
        most = _FIRST_ROWS + _ROWS_PER_POD * count
        while True:
            packing = RoomRows(
                self._cluster,
                self._units,
                self._amounts,
                work_until=self._start + _MOST_WORK,
                most=_MOST_EVICTED,
                barren=self._barren,
            )
            is_enough = packing.pack(self._kinds, rows[:most])
            packing.release()
            if is_enough:
                return tuple(packing.chosen.values())
            if most >= len(rows) or self._is_spent:
                return None
            most *= 4

    # -- in the trial ------------------------------------------------------------------------

    def _tried(
        self, trial: Trial, units: Sequence[DisruptionUnit], mask: NodeMask
    ) -> RoomPlan[P] | None:
        placed = self._placed(trial, units)
        return None if placed is None else self._filled_back(trial, units, placed, mask)

    def _placed(self, trial: Trial, units: Sequence[DisruptionUnit]) -> P | None:
        start = trial.checkpoint()
        with counted_work(self._cluster):
            evict_units(trial, units, self._cluster, self._frees_for)
            placed = self._place(trial)
            trial.rollback(start)
        return placed

    def _cleared(self, trial: Trial, rows: Rows, mask: NodeMask) -> RoomPlan[P] | None:
        """By all units that may go on more and more rows."""
        count = max(1, sum(kind.count for kind in self._kinds))
        while not self._is_spent:
            units = self._all_on(rows[:count])
            if sum(len(unit.held) for unit in units) > _MOST_EVICTED:
                return None
            placed = self._placed(trial, units)
            if placed is not None:
                return self._filled_back(trial, units, placed, mask)
            if count >= len(rows):
                return None
            count *= 2
        return None

    def _all_on(self, rows: Rows) -> Sequence[DisruptionUnit]:
        rule = self._units.rule
        found: dict[str, DisruptionUnit] = {}
        for row in rows:
            for unit in self._units.on(int(row)):
                if unit.key not in found and rule.allows(unit):
                    rule.take(unit, +1)
                    found[unit.key] = unit
        for unit in found.values():
            rule.take(unit, -1)
        whole = {unit.gang for unit in found.values() if unit.key == unit.gang}
        return [u for u in found.values() if u.key == u.gang or u.gang not in whole]

    def _filled_back(
        self, trial: Trial, units: Sequence[DisruptionUnit], placed: P, mask: NodeMask
    ) -> RoomPlan[P]:
        """Units come back while the pods still fit, the costliest first."""
        gone = {unit.key: unit for unit in units}
        left = RoomLeft(self._cluster, self._amounts, self._kinds, mask)
        left.evict(units)
        is_known = not self._share_claims(units)
        for unit in sorted(units, key=_cost, reverse=True):
            if unit.is_leaving or self._is_spent:
                break
            self._cluster.work.pods += len(unit.held)
            if is_known and not left.may_return(unit):
                continue
            again = self._placed(trial, [each for each in gone.values() if each is not unit])
            if again is not None:
                del gone[unit.key]
                left.give_back(unit)
                placed = again
        return RoomPlan(tuple(gone.values()), placed)

    def _share_claims(self, units: Iterable[DisruptionUnit]) -> bool:
        """Whether claims are free only if several pods go: what one of them frees is not known."""
        if self._frees_for is None:
            return False
        freed = partial(freed_by, cluster=self._cluster, preemptor=self._frees_for)
        pods = [held.pod for unit in units for held in unit.held]
        return sum(1 for pod in pods for _ in freed((pod,))) < sum(1 for _ in freed(pods))


@contextmanager
def counted_work(cluster: Cluster) -> Iterator[None]:
    """What a search for devices takes counts as work, too."""
    before = cluster.claims.work
    yield
    cluster.work.terms += _STEP * (cluster.claims.work - before)


def evict_units(
    trial: Trial, units: Iterable[DisruptionUnit], cluster: Cluster, frees_for: Pod | None
) -> None:
    """The units leave; a preemptor may have claims that no other pod uses."""
    gone = [held.pod for unit in units for held in unit.held]
    claims = list(freed_by(gone, cluster, frees_for)) if frees_for else []
    for pod in gone:
        trial.evict(pod.uid)
    if claims:
        trial.free_claims(claim.uid for claim in claims)


def _is_enough(sums: PerNode, kind: PodKind) -> NodeMask:
    found: NodeMask = sums >= kind.count
    return found


def _ranked(rows: Rows, ranks: PerNode) -> Rows:
    return rows[np.argsort(ranks[rows], kind="stable")]


def _cost(unit: DisruptionUnit) -> Cost:
    return unit.cost


def _total(units: Iterable[DisruptionUnit]) -> Cost:
    return reduce(Cost.plus, map(_cost, units), NO_COST)
