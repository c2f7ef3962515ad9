"""The first time in the future at which a waiting unit has room, and where.

First by amounts alone, for all rows at once: that is cheap, and shows the first time at which the
unit could start. Then in a trial: what has ended by then is gone, and the unit is placed by the
same rules as any other. Nothing changes: the result is a plan.
"""

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from fairlead.claims.errors import LookUnfinished
from fairlead.cluster.arrays import NodeMask, PerNode, Rows
from fairlead.cluster.cluster import Cluster
from fairlead.cluster.trial import Trial
from fairlead.engine.backfill.claim_ends import ClaimEnds
from fairlead.engine.backfill.ending_pods import first_of
from fairlead.engine.backfill.ends import Ends
from fairlead.engine.backfill.freed_rows import FreedRows, is_enough
from fairlead.engine.backfill.futures import (
    Futures,
    Plan,
    UnitKey,
    evictor_of,
    places_of,
    pods_by_node,
)
from fairlead.engine.backfill.planned_claims import (
    PlacedPod,
    distant_pools,
    own_claims,
    placed_pod,
    writes_of,
)
from fairlead.engine.backfill.start_search import ReservedRows, StartSearch, StartSearches
from fairlead.engine.consolidation.gang_fills import GangFills
from fairlead.engine.gang_trials import BeyondQuota, KnowsPlaces
from fairlead.model.backfill import BackfillTerms, PlannedStart
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.pods import Pod
from fairlead.placement.place import Placement
from fairlead.placement.room_rows import PodKind
from fairlead.queue.entries import Entry
from fairlead.queue.units import Gang, Unit

#: Larger gangs get no planned start: that would take too long in one turn.
MOST_PODS = 1000
#: What one plan may cost (see `Work.spent`).
_MOST_WORK = 70_000
#: Rows that are looked at beyond those that are needed.
_MORE_ROWS = 16
#: Pods that end for a unit in one trial, at most: rows with more of them are left out.
_MOST_FREED = 5000
#: The same where claims are freed, which count as well; and pods of a gang with claims.
_MOST_FREED_CLAIMS = 2000
_MOST_CLAIMING = 128
#: Pods of other planned units, and pods on their nodes, that a trial moves, at most: beyond that,
#: nodes of planned units are left to these whole.
_MOST_BESIDE = 2000
#: For how many pods one of a unit with claims counts there.
_WEIGHT_OF_CLAIMS = 4


@dataclass(frozen=True, slots=True)
class _RunTime:
    """Of a unit, as it is planned."""

    start_s: float
    #: None: it does not end.
    end_s: float | None
    now: float

    def includes(self, at_s: float) -> bool:
        """Whether it starts before that, and still runs then."""
        return self.start_s < at_s and (self.end_s is None or at_s < self.end_s)

    def meets(self, plan: Plan) -> bool:
        """Whether both run at some time."""
        return plan.overlaps(self.start_s) or self.includes(plan.start_s)


class Planner:
    """It looks, and changes nothing."""

    def __init__(
        self,
        cluster: Cluster,
        placements: Mapping[str, Placement],
        beyond_quota: BeyondQuota,
        ends: Ends,
        terms: BackfillTerms,
        reserved: ReservedRows,
        claim_ends: ClaimEnds,
    ) -> None:
        self._reserved = reserved
        self._cluster = cluster
        self._placements = placements
        self._beyond_quota = beyond_quota
        self.gangs = GangFills(cluster, placements, beyond_quota)
        self.ends = ends
        self._terms = terms
        self.futures = Futures(cluster, placements, ends, claim_ends)
        self._searches = StartSearches(cluster, placements, ends, terms, reserved, claim_ends)

    def plan(
        self,
        entry: Entry,
        order: UnitKey,
        ahead: Sequence[Plan],
        now: float,
        *,
        at_once: bool = False,
    ) -> Plan | None:
        """The first start that delays none of `ahead`; None if there is none within the window.

        `at_once`: it may fit now.
        """
        search = self.search(entry, order, ahead, now, at_once=at_once)
        if search is None:
            return None
        return self.found(self.listed(search, len(self._cluster.claims.held)), in_parts=False)

    def search(
        self,
        entry: Entry,
        order: UnitKey,
        ahead: Sequence[Plan],
        now: float,
        *,
        at_once: bool = False,
    ) -> StartSearch | None:
        """What `found` looks for, then or in a later turn; None if there is no start.

        Raises LookUnfinished: the unit has so many claims that a trial would take too long.
        """
        pods = entry.unit.pods
        if not 0 < len(pods) <= MOST_PODS:
            return None
        if len(pods) > _MOST_CLAIMING and any(pod.request.claims for pod in pods):
            raise LookUnfinished
        return self._searches.of(entry, order, ahead, now, at_once=at_once)

    def listed(self, search: StartSearch, most: int) -> StartSearch:
        """The search with up to so many more claims that end; before `found`, all are listed."""
        return self._searches.listed(search, most)

    def found(self, search: StartSearch, *, in_parts: bool) -> Plan | None:
        """The plan, by trials of what is there now.

        Raises TrialUnfinished: it goes on in the next turn. Not unless it may have parts.
        """
        parts = search.parts
        parts.begin_turn(in_parts=in_parts)

        def found_at(at_s: float) -> Plan | None:
            if at_s not in parts.found:
                parts.note(at_s, self._at(search, at_s))
            return parts.found[at_s]

        return first_of(search.times, found_at)

    def fits_now(self, unit: Unit) -> bool:
        """Whether it would be placed now."""
        with self._cluster.trial() as trial:
            return bool(self._filled(trial, unit))

    def is_ready(self, now: float) -> bool:
        """Whether a plan takes no longer than a turn may."""
        return self.ends.is_warm(now)

    # -- in a trial --------------------------------------------------------------------------

    def _at(self, search: StartSearch, at_s: float) -> Plan | None:
        """The plan to start at this time, if the unit fits then, and that is found in time."""
        if search.parts.is_spent(_MOST_WORK):
            return None
        entry, ending = search.entry, search.ending
        room, count = self._searches.room(search, at_s), ending.count(at_s)
        time = _RunTime(at_s, self._end_s(entry.unit, at_s), search.now)
        if large := self._large([plan for plan in search.ahead if time.meets(plan)]):
            theirs = self._cluster.nodes.named(node for plan in large for node in plan.on)
            room = [np.where(theirs[: len(each)], 0, each) for each in room]
            if not is_enough(room, search.kinds):
                return None
        freed = search.claims.with_rows(ending.rows[:count], at_s)
        most_freed = _MOST_FREED_CLAIMS if search.claims.uids else _MOST_FREED
        for rows in search.parts.left(self._rows(room, search.kinds, freed, most_freed)):
            gone = np.flatnonzero(rows[ending.rows[:count]]).tolist()
            claims = search.claims.ended(at_s, rows)
            with search.parts.trial() as (trial, known):
                free = partial(_end, trial, [ending.uids[at] for at in gone], claims)
                placed = self._placed(trial, free, entry.unit, search.ahead, time, known=known)
            if placed:
                return self._made(search, time, placed, gone)
            if search.parts.is_spent(_MOST_WORK):
                return None
        return None

    def _made(
        self, search: StartSearch, time: _RunTime, placed: Sequence[PlacedPod], gone: Sequence[int]
    ) -> Plan:
        entry, ending, at_s = search.entry, search.ending, time.start_s
        rows = {self._cluster.row_of[each.place.node] for each in placed}
        basis = [at for at in gone if int(ending.rows[at]) in rows]
        nodes = tuple((each.pod.uid, each.place.node) for each in placed)
        bounded = all(ending.bounded[at] for at in basis)
        uids = tuple(ending.uids[at] for at in basis)
        planned = PlannedStart(entry.unit.key, at_s, time.end_s, nodes, uids, bounded)
        on, places, freed = pods_by_node(placed), places_of(placed), self._freed(search, at_s)
        made = Plan(entry, planned, search.order, on, places, freed, search.now, at_s)
        made.claims = own_claims(entry.unit.pods, self._cluster)
        made.asking = self._asking(entry.unit)
        made.distant = distant_pools(places, self._cluster)
        return made

    def _asking(self, unit: Unit) -> tuple[Pod, ...]:
        """One pod for each kind of those that have claims."""
        pods = (pod for pod in unit.pods if pod.request.claims)
        found = {self._placements[pod.scheduler].settled_request(pod): pod for pod in pods}
        return tuple(found.values())

    def _end_s(self, unit: Unit, start_s: float) -> float | None:
        run_s = self.ends.run_s(unit)
        return None if run_s is None else start_s + run_s

    def _freed(self, search: StartSearch, at_s: float) -> FreedRows:
        """Without devices: what is free of these is known only in a trial."""
        unit, freed = search.entry.unit, search.ending.freed(at_s, search.amounts.free.shape)
        kinds = [replace(kind, devices=()) if kind.devices else kind for kind in search.kinds]
        freed = freed[: len(search.amounts.names)]
        return FreedRows(
            self._cluster, self.ends, kinds, evictor_of(unit), at_s, freed, search.mark
        )

    def moved(
        self, trial: Trial, plan: Plan, others: Sequence[Plan], now: float, staying: Container[str]
    ) -> Plan | None:
        """The plan on other nodes at the same start, beside what is in the trial; None: nowhere.

        Pods that are `staying` still run then. `others` are all other plans.
        """
        room = plan.freed.room(now, staying)
        if room is None or not is_enough(room, plan.freed.kinds):
            return None
        unit, start = plan.entry.unit, trial.checkpoint()
        for nodes in self._nodes(plan, room):
            gone: list[str] = []

            def free(nodes: Sequence[str] = nodes, gone: list[str] = gone) -> None:
                gone[:] = self.futures.advance(trial, plan, nodes, plan.start_s, now, staying)

            time = _RunTime(plan.start_s, plan.planned.end_s, now)
            placed = self._placed(trial, free, unit, others, time, staying)
            trial.rollback(start)
            if placed:
                return self._on(plan, placed, gone, now)
        return None

    def _on(self, plan: Plan, placed: Sequence[PlacedPod], gone: Sequence[str], now: float) -> Plan:
        holdings, nodes = self._cluster.holdings, {each.place.node for each in placed}
        basis = [holdings[uid] for uid in gone if holdings[uid].node in nodes]
        ends = [self.ends.of(held, now, plan.evictor) for held in basis]
        bounded = all(end is not None and end.bounded for end in ends)
        distant = distant_pools(places_of(placed), self._cluster)
        uids = tuple(held.pod.uid for held in basis)
        return plan.on_nodes(placed, uids, distant, bounded=bounded)

    def _nodes(self, plan: Plan, room: Sequence[PerNode]) -> Iterator[list[str]]:
        """Nodes with room then, those of the plan and a few more first; then all of them."""
        useful = np.flatnonzero(np.logical_or.reduce([each > 0 for each in room]))
        nodes = [self._cluster.node_at(row).name for row in useful.tolist()]
        nodes.sort(key=lambda node: node not in plan.on)
        held = np.cumsum([len(self._cluster.held_on(node)) for node in nodes])
        nodes = nodes[: int(np.searchsorted(held, _MOST_FREED, side="right"))]
        few = sum(kind.count for kind in plan.freed.kinds) + _MORE_ROWS
        yield nodes[:few]
        if len(nodes) > few:
            yield nodes

    def _rows(
        self, room: Sequence[PerNode], kinds: Sequence[PodKind], freed: Rows, most_freed: int
    ) -> Iterator[NodeMask]:
        """Rows to free: those with room then for which the fewest pods end; then all of them."""
        size = self._cluster.columns.size
        useful = np.logical_or.reduce([each > 0 for each in room])
        ends = np.bincount(freed, minlength=size)[:size]
        found = np.flatnonzero(useful & (ends > 0))
        found = found[np.argsort(ends[found], kind="stable")]
        found = found[np.cumsum(ends[found]) <= most_freed]
        most = sum(kind.count for kind in kinds) + _MORE_ROWS
        while True:
            mask = np.zeros(size, dtype=np.bool_)
            mask[found[:most]] = True
            yield mask
            if most >= len(found):
                return
            most *= 4

    def _placed(
        self,
        trial: Trial,
        free: Callable[[], None],
        unit: Unit,
        ahead: Sequence[Plan],
        time: _RunTime,
        staying: Container[str] = (),
        known: KnowsPlaces | None = None,
    ) -> list[PlacedPod]:
        """The places of its pods, beside units that are planned before it; none if not all fit.

        Units of which the start is later keep their GPUs, and if that is not so, their nodes.
        """
        begin = trial.checkpoint()
        beside = [plan for plan in ahead if time.meets(plan)]
        large = self._large(beside)
        ahead = [plan for plan in ahead if plan not in large]
        later = [plan for plan in ahead if time.includes(plan.start_s)]
        for left_alone in ((), later) if later else ((),):
            free()
            alone = [*large, *left_alone]
            placed = self._placed_at(trial, unit, ahead, time, alone, staying, known)
            trial.rollback(begin)
            is_apart = bool(left_alone) and not any(plan.distant for plan in later)
            if is_apart or not placed or self._keeps(trial, later, ahead, placed, time, staying):
                return placed
        return []

    def _large(self, plans: Sequence[Plan]) -> list[Plan]:
        """Those that would make a trial too long; the first ones are played through."""
        found, size = [], 0
        for plan in plans:
            own = len(plan.places) + sum(len(self._cluster.held_on(node)) for node in plan.on)
            size += own * (_WEIGHT_OF_CLAIMS if plan.claims and not plan.distant else 1)
            if size > _MOST_BESIDE:
                found.append(plan)
        return found

    def _keeps(
        self,
        trial: Trial,
        later: Sequence[Plan],
        ahead: Sequence[Plan],
        placed: Sequence[PlacedPod],
        time: _RunTime,
        staying: Container[str],
    ) -> bool:
        """Whether the later ones still fit their GPUs beside these pods."""
        begin, nodes = trial.checkpoint(), {each.place.node for each in placed}
        claims = any(each.writes for each in placed)
        for plan in later:
            both = plan.shared_with(nodes, claims=claims)
            kept = not both or self.futures.state(
                trial, plan, ahead, both, time.now, staying, placed
            )
            trial.rollback(begin)
            if not kept:
                return False
        return True

    def _placed_at(
        self,
        trial: Trial,
        unit: Unit,
        ahead: Sequence[Plan],
        time: _RunTime,
        left_alone: Sequence[Plan],
        staying: Container[str],
        known: KnowsPlaces | None,
    ) -> list[PlacedPod]:
        there = [plan for plan in ahead if plan.overlaps(time.start_s)]
        for plan in there:
            self.futures.advance(trial, plan, plan.on.keys(), time.start_s, time.now, staying)
        if not all(self.futures.place(trial, plan, plan.on.keys()) for plan in there):
            return []
        for pod in unit.pods:
            trial.suspend_nomination(pod.uid)
        end_s = float("inf") if time.end_s is None else time.end_s
        closed = self._reserved.closed(unit, time.start_s, end_s, planned=True)
        open_rows = self._without_rows_of(left_alone, closed.rows if closed else None)
        with self._cluster.limited_to(open_rows):
            return self._filled(trial, unit, known)

    def _without_rows_of(
        self, plans: Sequence[Plan], closed: NodeMask | None
    ) -> NodeMask | None:  # fmt: skip
        """Nodes of units that start while this one would run are left to them."""
        if not plans:
            return None if closed is None else ~closed
        found = self._cluster.nodes.named(node for plan in plans for node in plan.on)
        open_rows: NodeMask = ~found if closed is None else ~(found | closed)
        return open_rows

    def _filled(
        self, trial: Trial, unit: Unit, known: KnowsPlaces | None = None
    ) -> list[PlacedPod]:
        if isinstance(unit, Gang):
            filling = self.gangs.fill(trial, unit, known)
            members = filling.placed if filling.succeeded else ()
            return [PlacedPod(each.pod, each.placed, writes_of(each.steps)) for each in members]
        pod = unit.pod
        if self._beyond_quota(pod):
            return []
        placement = self._placements[pod.scheduler]
        found = placement.find(pod)
        if found is None or self._beyond_quota(pod, found):
            return []
        return [placed_pod(placement, pod, found)]


def _end(trial: Trial, pods: Sequence[str], claims: Sequence[str]) -> None:
    trial.evict_all(pods)
    if claims:
        trial.free_claims(claims)
