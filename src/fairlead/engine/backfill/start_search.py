"""The first times at which a waiting unit could start, by amounts alone.

That is cheap: all rows at once. Whether the unit is placed then is for a trial to say.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np

from fairlead.cluster.arrays import NodeMask, PerNode
from fairlead.cluster.changes import Mark
from fairlead.cluster.claim_room import device_counts
from fairlead.cluster.cluster import Cluster
from fairlead.engine.backfill.claim_ends import ClaimEnds
from fairlead.engine.backfill.ending_claims import NO_CLAIMS, ClaimListing, EndingClaims
from fairlead.engine.backfill.ending_pods import EndingPods, Times, lumped
from fairlead.engine.backfill.ends import Ends
from fairlead.engine.backfill.freed_rows import is_enough
from fairlead.engine.backfill.futures import Plan, UnitKey, evictor_of
from fairlead.engine.backfill.trial_parts import PlacedBefore, SearchParts
from fairlead.engine.gang_trials import ordered
from fairlead.model.backfill import BackfillTerms
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.pods import Amounts, Pod, PodRequest
from fairlead.placement.place import Placement
from fairlead.placement.room_rows import FreeAmounts, PodKind, fitting_pods
from fairlead.queue.entries import Entry
from fairlead.queue.units import Gang, Unit


class HasRows(Protocol):
    @property
    def rows(self) -> NodeMask: ...


class ReservedRows(Protocol):
    """Rows that people keep free."""

    def closed(
        self, unit: Unit, start_s: float, end_s: float, *, planned: bool
    ) -> "HasRows | None":
        """Rows that the unit may not use in this time; `planned`: which does not begin now."""
        ...

    def ends(self, until_s: float) -> list[float]:
        """When rows are open again."""
        ...


@dataclass(frozen=True, slots=True)
class StartSearch:
    """For the first start of a unit."""

    entry: Entry
    order: UnitKey
    #: Plans that it must not delay.
    ahead: Sequence[Plan]
    kinds: Sequence[PodKind]
    amounts: FreeAmounts
    ending: EndingPods
    #: What was found so far.
    parts: SearchParts
    #: When the cluster was looked at.
    mark: Mark
    now: float
    #: Whether the unit may fit now.
    at_once: bool = False
    claims: EndingClaims = NO_CLAIMS
    #: How claims are listed that end; None: they are listed, or the unit has no claims.
    listing: ClaimListing | None = None
    #: When the unit could start within the window, the first time first.
    times: Sequence[float] = ()

    def is_for(self, entry: Entry, order: UnitKey, ahead: Sequence[Plan]) -> bool:
        """Whether it looks for the same."""
        return self.entry is entry and self.order == order and list(self.ahead) == list(ahead)

    def room(self, at_s: float) -> list[PerNode]:
        """How many pods of each kind each row could fit then."""
        free = self.amounts.free + self.ending.freed(at_s, self.amounts.free.shape)
        self.claims.add_freed(free, at_s)
        return [
            np.where(kind.rows, fitting_pods(free, needs, kind.count), 0)
            for kind, needs in zip(self.kinds, self.amounts.needs, strict=True)
        ]


class StartSearches:
    """It looks, and changes nothing."""

    def __init__(
        self,
        cluster: Cluster,
        placements: Mapping[str, Placement],
        ends: Ends,
        terms: BackfillTerms,
        reserved: ReservedRows,
        claim_ends: ClaimEnds,
    ) -> None:
        self._cluster = cluster
        self._placements = placements
        self._ends = ends
        self._claim_ends = claim_ends
        self._terms = terms
        self._reserved = reserved

    def of(
        self, entry: Entry, order: UnitKey, ahead: Sequence[Plan], now: float, *, at_once: bool
    ) -> StartSearch:
        """`at_once`: it may fit now."""
        mark, kinds = self._cluster.changes.mark, self._kinds(entry.unit)
        amounts = FreeAmounts(self._cluster, kinds, None)
        ending, pods = self._ending(entry.unit, amounts, now), entry.unit.pods
        parts = SearchParts(self._cluster, PlacedBefore(self._cluster, pods))
        search = StartSearch(entry, order, ahead, kinds, amounts, ending, parts, mark, now, at_once)
        if not any(pod.request.claims for pod in pods):
            return replace(search, times=self._times(search))
        listing = ClaimListing(self._cluster, self._claim_ends, pods, kinds, ending)
        return replace(search, listing=listing)

    def listed(self, search: StartSearch, most: int) -> StartSearch:
        """The search when up to so many more claims are listed; with times when all are."""
        listing, planned = search.listing, evictor_of(search.entry.unit)
        if listing is None or not listing.go_on(most, search.now, planned):
            return search
        found = replace(search, claims=listing.result(), listing=None)
        return replace(found, times=self._times(found))

    def _times(self, search: StartSearch) -> list[float]:
        now, until_s = search.now, search.now + self._terms.window_s
        more = [plan.end_s for plan in search.ahead if now < plan.end_s <= until_s]
        more += [at_s for at_s in self._reserved.ends(until_s) if at_s > now]
        ends = np.concatenate([search.ending.at_s, search.claims.at_s, more])
        times = lumped(ends, now, self._terms)
        if search.at_once:
            times = np.concatenate([[now], times[times > now]])
        found: list[float] = times[self._first_by_amounts(times, search) :].tolist()
        return found

    def room(self, search: StartSearch, at_s: float) -> list[PerNode]:
        """How many pods of each kind each row could fit then."""
        self._cluster.work.ask(search.amounts.free.size)
        return search.room(at_s)

    def _kinds(self, unit: Unit) -> list[PodKind]:
        """What it needs at least, the largest first."""
        pods = list(unit.pods)
        if isinstance(unit, Gang):
            pods = ordered(unit)[-max(1, unit.needed) :]
        counts: Counter[PodRequest] = Counter()
        first: dict[PodRequest, Pod] = {}
        for pod in pods:
            placement, claims = self._placements[pod.scheduler], pod.request.claims
            request = placement.settled_request(pod) if claims else placement.request(pod)
            counts[request] += 1
            first.setdefault(request, pod)
        counted = not _share_claims(pods)
        return [self._kind(each, count, first[each], counted) for each, count in counts.items()]

    def _kind(self, request: PodRequest, count: int, pod: Pod, counted: bool) -> PodKind:
        """`counted`: the devices that its claims need are its own."""
        placement = self._placements[pod.scheduler]
        rows = placement.reachable(pod)
        if not pod.request.claims:
            return PodKind(request, count, rows)
        rows = rows | placement.lacks_devices(pod)
        devices = device_counts(request.claims, self._cluster.nodes) if counted else ()
        for each in devices:
            rows &= each.every >= each.asked
        return PodKind(request, count, rows, devices)

    def _ending(self, unit: Unit, amounts: FreeAmounts, now: float) -> EndingPods:
        """All that end within the window; those that should have ended are about to."""
        row_of, until_s = self._cluster.row_of, now + self._terms.window_s
        evictor, by_grant = evictor_of(unit), amounts.have_gpu_parts
        at_s: list[float] = []
        uids: list[str] = []
        rows: list[int] = []
        bounded: list[bool] = []
        taken: list[tuple[int, ...]] = []
        taken_of: dict[Amounts, tuple[int, ...]] = {}
        for uid, held, end in self._ends.of_all(now, evictor):
            row = row_of.get(held.node)
            if row is None or end.at_s > until_s:
                continue
            alone = by_grant and held.grant is not None
            amounts_of = None if alone else taken_of.get(held.amounts)
            if amounts_of is None:
                amounts_of = amounts.taken_by(held)
                if not alone:
                    taken_of[held.amounts] = amounts_of
            at_s.append(end.at_s)
            uids.append(uid)
            rows.append(row)
            bounded.append(end.bounded)
            taken.append(amounts_of)
        self._cluster.work.pods += len(self._cluster.holdings)
        times = np.maximum(np.array(at_s, dtype=np.float64), now)
        order = np.argsort(times, kind="stable")
        table = np.array(taken, dtype=np.int64).reshape(len(taken), len(amounts.free))
        return EndingPods(
            times[order],
            np.array(rows, dtype=np.int64)[order],
            table[order].T,
            [uids[at] for at in order.tolist()],
            [bounded[at] for at in order.tolist()],
        )

    def _first_by_amounts(self, times: Times, search: StartSearch) -> int:
        """The first of the times at which there could be room; there is more and more of it."""
        low, high = 0, len(times)
        while low < high:
            middle = (low + high) // 2
            if is_enough(self.room(search, float(times[middle])), search.kinds):
                high = middle
            else:
                low = middle + 1
        return low


def _share_claims(pods: Sequence[Pod]) -> bool:
    """Whether some use one claim: it is allocated once for all of them."""
    keys = [use.key for pod in pods for use in pod.request.claims if use.key]
    return len({*keys}) < len(keys)
