"""Attempts of units that must leave room for planned starts.

A unit is placed as any other. If a planned unit then no longer fits its place, the unit is placed
where it does not matter, or the planned unit gets another place at the same time.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from fairlead.cluster.arrays import NodeMask
from fairlead.cluster.cluster import Cluster
from fairlead.cluster.planned_places import NO_PLACES, planned_places
from fairlead.cluster.trial import Checkpoint, Trial
from fairlead.engine.backfill.limits import Limit, Limits
from fairlead.engine.backfill.planned_claims import placed_pod
from fairlead.engine.consolidation.gang_fills import GangFills
from fairlead.engine.gang_trials import Filling
from fairlead.model.backfill import BackfillTerms
from fairlead.model.pods import Pod, PodRequest
from fairlead.placement.place import Placement
from fairlead.placement.verdicts import Placed, Refused, Verdict
from fairlead.queue.quota import QuotaRefusal
from fairlead.queue.units import Gang, Unit

#: What looking for a place beside planned units may cost (see `Work.spent`) before no more places
#: are tried.
_MOST_WORK = 40_000
#: Gangs of more pods use only nodes that no planned unit needs: looking for places beside planned
#: units takes several trials of all of them.
_MANY_MEMBERS = 200


class LimitedAttempts:
    def __init__(
        self,
        cluster: Cluster,
        placements: Mapping[str, Placement],
        limits: Limits,
        gangs: GangFills,
        terms: BackfillTerms,
    ) -> None:
        self._cluster = cluster
        self._placements = placements
        self._limits = limits
        self._gangs = gangs
        self._terms = terms

    def may_start(self, unit: Unit, limit: Limit, now: float) -> bool:
        """Whether it would be placed now; nothing changes."""
        limit.begin(_MOST_WORK)
        if isinstance(unit, Gang):
            if _is_large(unit, limit):
                return not limit.forbids and self._may_fit(unit, limit.strict)
            with self._cluster.trial() as trial:
                return self.fill(
                    trial, unit, lambda trial: self._gangs.fill(trial, unit), limit, now
                ).succeeded
        placement = self._placements[unit.pod.scheduler]
        return isinstance(self._place(unit.pod, placement, limit, now), Placed)

    def place(
        self, pod: Pod, placement: Placement, limit: Limit, now: float, *, evicts: bool
    ) -> Verdict | QuotaRefusal:
        """Where the pod delays no planned start; the refusal of the limit if it fits elsewhere."""
        limit.begin(_MOST_WORK)
        found = self._place(pod, placement, limit, now)
        if found is not None:
            return found
        whole = placement.place(pod, evicts=False)
        if isinstance(whole, Placed):
            return limit.refusal
        return self._with_eviction(whole, pod, placement, limit) if evicts else whole

    def _place(self, pod: Pod, placement: Placement, limit: Limit, now: float) -> Placed | None:
        if limit.forbids:
            return None
        if limit.own_rows is not None:
            with planned_places(self._cluster, limit.own_places):
                own = self._placed(pod, placement, limit.own_rows)
            with self._cluster.trial() as trial:
                if own and self._keeps(trial, pod, own, limit, now, moving=True):
                    return own
        found = self._place_anywhere(pod, placement, limit, now)
        if found is None and limit.least is not None:
            limit.least.begin(_MOST_WORK)
            return self._place(pod, placement, limit.least, now)
        return found

    def _place_anywhere(
        self, pod: Pod, placement: Placement, limit: Limit, now: float
    ) -> Placed | None:  # fmt: skip
        best = self._placed(pod, placement, limit.open_rows)
        with self._cluster.trial() as trial:
            moving = not self._terms.other_places
            if best is None or self._keeps(trial, pod, best, limit, now, moving=moving):
                return best
            if moving:
                return None
            for rows in self._other_rows(trial, limit, [pod], now):
                other = None if limit.is_spent else self._placed(pod, placement, rows)
                if other is None:
                    break
                if self._keeps(trial, pod, other, limit, now, moving=False):
                    return other
            return best if self._keeps(trial, pod, best, limit, now, moving=True) else None

    def _placed(self, pod: Pod, placement: Placement, rows: NodeMask | None) -> Placed | None:
        with self._cluster.limited_to(rows):
            return placement.find(pod)

    def _other_rows(
        self, trial: Trial, limit: Limit, pods: Sequence[Pod], now: float
    ) -> Iterator[NodeMask | None]:
        """Where the unit delays no planned unit, which stays where it is."""
        yield self._limits.rows(trial, limit, pods, self._fits(pods), now)
        yield limit.strict

    def _fits(self, pods: Sequence[Pod]) -> NodeMask:
        masks = [self._placements[pod.scheduler].view(pod).left for pod in pods]
        found: NodeMask = np.logical_or.reduce(masks)
        return found

    def _keeps(
        self, trial: Trial, pod: Pod, placed: Placed, limit: Limit, now: float, *, moving: bool
    ) -> bool:
        with planned_places(self._cluster, limit.own_places):
            placed_pod(self._placements[pod.scheduler], pod, placed).assume(trial)
        uids = frozenset((pod.uid,))
        kept = self._limits.keeps(trial, limit, [placed.node], uids, now, moving=moving)
        trial.rollback()
        return kept

    def _with_eviction(
        self, whole: Refused, pod: Pod, placement: Placement, limit: Limit
    ) -> Refused:
        """Others are evicted for it only where that delays no planned start."""
        with self._cluster.limited_to(limit.strict):
            found = placement.place(pod)
        if not isinstance(found, Refused):
            return whole
        return replace(
            whole,
            no_eviction=found.no_eviction,
            eviction=found.eviction,
            unfinished=found.unfinished,
            nomination=found.nomination,
        )

    def fill(
        self, trial: Trial, gang: Gang, best: Callable[[Trial], Filling], limit: Limit, now: float
    ) -> Filling:
        """A gang in the trial, where it delays no planned start; `delays` if it fits elsewhere."""
        limit.begin(_MOST_WORK)
        if _is_large(gang, limit):
            return self._fill_apart(trial, gang, best, limit)
        start = trial.checkpoint()
        if limit.own_rows is not None:
            for places in (limit.own_places, NO_PLACES):
                with planned_places(self._cluster, places):
                    own = self._filled(trial, start, best, limit.own_rows)
                if own.succeeded and self._keeps_all(trial, own, limit, now, moving=True):
                    return own
                trial.rollback(start)
                if limit.is_spent and limit.least is not None:
                    return self.fill(trial, gang, best, limit.least, now)
        filling = self._fill_anywhere(trial, best, limit, now)
        if not filling.succeeded and filling.delays and limit.least is not None:
            return self.fill(trial, gang, best, limit.least, now)
        return filling

    def _fill_apart(
        self, trial: Trial, gang: Gang, best: Callable[[Trial], Filling], limit: Limit
    ) -> Filling:
        """Only on nodes that no planned unit needs."""
        start = trial.checkpoint()
        if limit.forbids or not self._may_fit(gang, limit.strict):
            filling = Filling.of(gang, ())
        else:
            filling = self._filled(trial, start, best, limit.strict)
        if not filling.succeeded:
            trial.rollback(start)
            limit.cut_short = not limit.forbids
            filling.delays = self._may_fit(gang, limit.open_rows)
            return filling if filling.delays or filling.first else best(trial)
        return filling

    def _may_fit(self, gang: Gang, rows: NodeMask | None) -> bool:
        """By the room that there is for each of its requests."""
        counts = Counter((pod.scheduler, self._request(pod)) for pod in gang.pods)
        with self._cluster.limited_to(rows):
            found = (
                min(count, self._placements[scheduler].most_copies(request, count))
                for (scheduler, request), count in counts.items()
            )
            return sum(found) >= gang.needed

    def _request(self, pod: Pod) -> PodRequest:
        return self._placements[pod.scheduler].request(pod)

    def _fill_anywhere(
        self, trial: Trial, best: Callable[[Trial], Filling], limit: Limit, now: float
    ) -> Filling:
        start, moving = trial.checkpoint(), not self._terms.other_places
        filling = whole = best(trial)
        if whole.succeeded and limit.open_rows is not None:
            filling = self._filled(trial, start, best, limit.open_rows)
        if limit.forbids:
            filling.succeeded = False
        if filling.succeeded and self._keeps_all(trial, filling, limit, now, moving=moving):
            return filling
        trial.rollback(start)
        if filling.succeeded and not moving and not limit.is_spent:
            for rows in self._other_rows(trial, limit, self._different(whole.gang), now):
                other = self._filled(trial, start, best, rows)
                if not other.succeeded:
                    break
                if self._keeps_all(trial, other, limit, now, moving=False):
                    return other
                trial.rollback(start)
                if limit.is_spent:
                    break
            if not limit.is_spent:
                filling = self._filled(trial, start, best, limit.open_rows)
                if filling.succeeded and self._keeps_all(trial, filling, limit, now, moving=True):
                    return filling
        trial.rollback(start)
        whole.delays, whole.succeeded = whole.succeeded, False
        return whole

    def _filled(
        self,
        trial: Trial,
        start: Checkpoint,
        best: Callable[[Trial], Filling],
        rows: NodeMask | None,
    ) -> Filling:
        trial.rollback(start)
        with self._cluster.limited_to(rows):
            return best(trial)

    def _keeps_all(
        self, trial: Trial, filling: Filling, limit: Limit, now: float, *, moving: bool
    ) -> bool:
        uids = frozenset(member.pod.uid for member in filling.placed)
        nodes = {member.placed.node for member in filling.placed}
        return self._limits.keeps(trial, limit, nodes, uids, now, moving=moving)

    def _different(self, gang: Gang) -> list[Pod]:
        """One pod for each request."""
        found = {self._request(pod): pod for pod in gang.pods}
        return list(found.values())


def _is_large(gang: Gang, limit: Limit) -> bool:
    """Whether it has very many pods; one whose planned start has come gets its planned places."""
    return len(gang.pods) > _MANY_MEMBERS and limit.own_rows is None
