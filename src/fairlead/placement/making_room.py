"""The search for units to evict so that others have room: one search, in one trial.

First by amounts alone, row by row (`room_rows`): that is cheap, and shows at once when evicting
cannot help. What was found is tried: the units leave, the pods are placed, and then units come back
while the pods still fit, the costliest first. If amounts were not enough to go by, whole rows are
cleared, more and more of them, until the pods fit. Nothing is evicted here: the result is a plan.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial, reduce
from typing import Generic, TypeVar

import numpy as np

from fairlead.cluster.arrays import NodeMask, PerNode, Rows
from fairlead.cluster.claim_room import freed_by
from fairlead.cluster.cluster import Cluster
from fairlead.cluster.priority_sums import AmountsByRow
from fairlead.cluster.topology_levels import LevelCodes
from fairlead.cluster.trial import Trial
from fairlead.model.errors import FairleadError
from fairlead.model.lazy_dataclass import dataclass
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
#: Pods that are evicted in one trial; and where their claims are freed, too.
_MOST_EVICTED = 2000
_MOST_FREED = 1000
#: Where devices are searched for each pod of a trial, the search stops before the next trial when
#: so much is done, and goes on in its next part.
_WORK_WITH_DEVICES = 30_000
#: Parts of a search, after which units that could come back are evicted all the same.
_MOST_PARTS = 4


TOO_LONG = "to search devices for its pods takes too long"


class TrialTooLong(FairleadError):
    """Whether the pods would fit is not known: it takes too long to find out."""


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
    """One search. `place` puts the pods into the trial, and counts its work; None: no room."""

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
        self._most = _MOST_WORK if frees_for is None else _WORK_WITH_DEVICES
        self._most_evicted = _MOST_EVICTED if frees_for is None else _MOST_FREED
        present = cluster.nodes.present()
        self._domains = np.where(present, 0 if domains is None else domains, -1)
        self._start = cluster.work.spent
        self._barren: set[int] = set()
        #: The rest of the search, and why it found nothing.
        self._course: Iterator[RoomPlan[P] | None] | None = None
        self._why = ""
        self._took_long = False
        self._parts = 0
        #: Units that are enough by amounts, or by a trial.
        self._known: Sequence[DisruptionUnit] = ()

    def search(self, trial: Trial) -> RoomOutcome[P]:
        """The trial is left as it was.

        One that was cut short goes on where it stopped if it is called again while nothing has
        changed.
        """
        self._start, self._trial = self._cluster.work.spent, trial
        self._parts += 1
        self._course = self._course or self._steps()
        for plan in self._course:
            if plan is not None:
                return RoomOutcome(plan)
            if self._is_over:
                return RoomOutcome(None, cut_short=True)
        self._course = None
        cut_short, why = self._units.left_out, TOO_LONG if self._took_long else self._why
        return RoomOutcome(None, "" if cut_short else why, cut_short)

    def follow(self, before: "RoomSearch[P]") -> None:
        """Something changed while another search went on: what it had found is tried first."""
        self._parts, self._known = before._parts, before._known

    def _steps(self) -> Iterator[RoomPlan[P] | None]:
        """The plan, if there is one; None wherever the search may stop and go on later."""
        if known := self._still_there():
            yield from self._tried(known, self._domains == 0)
        levels = [self._amounts.with_evicted(table) for table in self._units.rule.levels()]
        room = [self._room(levels[-1], at) for at in range(len(self._kinds))]
        sums = [self._by_domain(each) for each in room]
        enough = reduce(np.logical_and, map(_is_enough, sums, self._kinds))
        if not enough.any():
            self._why = self._too_little(sums)
            return
        reachable = reduce(np.logical_or, [each > 0 for each in room])
        for rows, chosen in self._packed(np.flatnonzero(enough), reachable, self._ranks(levels)):
            if self._frees_for is not None:
                self._known = tuple(chosen)
                yield None
            mask = self._domains == self._domains[rows[0]]
            if chosen or self._frees_for is None:  # without evictions there were no devices
                yield from self._tried(chosen, mask)
            yield from self._cleared(rows, mask)
        self._why = "no set of them is enough"

    def _still_there(self) -> Sequence[DisruptionUnit]:
        """Units that were found before something changed, if all of them may go now."""
        if self._domains.max(initial=-1) > 0:
            return ()
        rule, row_of = self._units.rule, self._cluster.row_of
        found: list[DisruptionUnit] = []
        for before in self._known:
            row = row_of.get(before.held[0].node)
            units = () if row is None else self._units.on(row)
            unit = next((each for each in units if each.key == before.key), None)
            if unit is not None and rule.allows(unit):
                rule.take(unit, +1)
                found.append(unit)
        for unit in found:
            rule.take(unit, -1)
        return found if len(found) == len(self._known) else ()

    @property
    def may_go_on(self) -> bool:
        """Not if units were left out that may come back without a change of anything else."""
        return not self._units.left_out

    @property
    def _is_spent(self) -> bool:
        return self._cluster.work.spent - self._start > _MOST_WORK

    @property
    def _is_over(self) -> bool:
        """Whether the next trial belongs to the next part."""
        return self._cluster.work.spent - self._start > self._most

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
                most=self._most_evicted,
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
        self, units: Sequence[DisruptionUnit], mask: NodeMask
    ) -> Iterator[RoomPlan[P] | None]:
        placed = self._placed(units)
        if placed is None:
            yield None
        else:
            yield from self._filled_back(units, placed, mask)

    def _placed(self, units: Sequence[DisruptionUnit]) -> P | None:
        start = self._trial.checkpoint()
        evict_units(self._trial, units, self._cluster, self._frees_for)
        try:
            return self._place(self._trial)
        except TrialTooLong:
            self._took_long = True
            return None
        finally:
            self._trial.rollback(start)

    def _cleared(self, rows: Rows, mask: NodeMask) -> Iterator[RoomPlan[P] | None]:
        """By all units that may go on more and more rows."""
        count = max(1, sum(kind.count for kind in self._kinds))
        while True:
            units = self._all_on(rows[:count])
            if sum(len(unit.held) for unit in units) > self._most_evicted:
                return
            yield from self._tried(units, mask)
            if count >= len(rows):
                return
            count *= 2

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
        self, units: Sequence[DisruptionUnit], placed: P, mask: NodeMask
    ) -> Iterator[RoomPlan[P] | None]:
        """Units come back while the pods still fit, the costliest first; then there is a plan."""
        gone = {unit.key: unit for unit in units}
        left = RoomLeft(self._cluster, self._amounts, self._kinds, mask)
        left.evict(units)
        is_known = not self._share_claims(units)
        for unit in sorted(units, key=_cost, reverse=True):
            if unit.is_leaving or self._takes_what_it_has:
                break
            self._cluster.work.pods += len(unit.held)
            if is_known and not left.may_return(unit):
                continue
            self._known = tuple(gone.values())
            yield None
            again = self._placed([each for each in gone.values() if each is not unit])
            if again is not None:
                del gone[unit.key]
                left.give_back(unit)
                placed = again
        yield RoomPlan(tuple(gone.values()), placed)

    @property
    def _takes_what_it_has(self) -> bool:
        """Whether units that could come back are evicted all the same."""
        return self._is_over and (self._frees_for is None or self._parts >= _MOST_PARTS)

    def _share_claims(self, units: Iterable[DisruptionUnit]) -> bool:
        """Whether claims are free only if several pods go: what one of them frees is not known."""
        if self._frees_for is None:
            return False
        freed = partial(freed_by, cluster=self._cluster, preemptor=self._frees_for)
        pods = [held.pod for unit in units for held in unit.held]
        return sum(1 for pod in pods for _ in freed((pod,))) < sum(1 for _ in freed(pods))


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
