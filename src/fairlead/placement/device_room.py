"""The search for pods to evict so that the claims of a pod can be allocated, node by node.

The pods of a node that may go leave in a trial, with the claims that no other pod uses then. If the
pod fits, they come back while it still does, the costliest first. Of the nodes that were tried, the
one with the lowest cost is taken. Nothing is evicted here: the result is a plan.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from fairlead.cluster.arrays import NodeMask, Rows
from fairlead.cluster.claim_outlook import told
from fairlead.cluster.claim_search import CANNOT
from fairlead.cluster.cluster import Cluster
from fairlead.cluster.trial import Trial
from fairlead.model.claims import ResourceClaim
from fairlead.model.pods import Pod
from fairlead.model.quantities import PODS
from fairlead.placement.disruption_units import Cost, DisruptionUnit, DisruptionUnits
from fairlead.placement.making_room import RoomOutcome, RoomPlan
from fairlead.placement.place import Placement
from fairlead.placement.verdicts import Placed
from fairlead.plugins.dynamic_resources import DynamicResources

#: What one search may cost (see `Work.spent`); the next one goes on where it ended.
_MOST_WORK = 70_000
#: Nodes in a row that are no better than the best so far: then that one is taken.
_NO_BETTER = 8
#: What a step of the search for devices costs, in the same unit.
_STEP = 10

NO_HELP = "no pods that may be evicted hold devices that would be enough"


class DeviceRoomSearch:
    """One search. It goes on if it is called again while nothing has changed."""

    def __init__(
        self, cluster: Cluster, units: DisruptionUnits, pod: Pod, placement: Placement
    ) -> None:
        self._cluster, self._units = cluster, units
        self._pod, self._placement = pod, placement
        self._rows = self._candidates()
        self._next = 0

    @property
    def may_go_on(self) -> bool:
        """Not if units were left out that may come back without a change of anything else."""
        return not self._units.left_out

    def search(self, trial: Trial) -> RoomOutcome[Placed]:
        """The trial is left as it was."""
        best, no_better, end = None, 0, self._cluster.work.spent + _MOST_WORK
        while self._next < len(self._rows) and no_better < _NO_BETTER:
            if self._cluster.work.spent > end:
                break
            found = self._on(trial, int(self._rows[self._next]))
            self._next += 1
            if found is None:
                no_better += best is not None
            elif best is None or found.cost < best.cost:
                best, no_better = found, 0
            else:
                no_better += 1
        if best is not None:
            self._next = 0
            return RoomOutcome(best)
        cut_short = self._next < len(self._rows) or self._units.left_out
        return RoomOutcome(None, "" if cut_short else NO_HELP, cut_short)

    # -- where -------------------------------------------------------------------------------

    def _candidates(self) -> Rows:
        """Rows that lack devices, or also what pods there hold; first where less important ones go.

        Other filters that no eviction changes allow the pod there.
        """
        view, cluster = self._placement.view(self._pod), self._cluster
        if view.pre_filter_message:
            return np.zeros(0, dtype=np.intp)
        possible = cluster.nodes.present() & (told(view.request.claims, cluster.nodes) == CANNOT)
        for index, rule in enumerate(self._placement.profile.filters):
            if not rule.resolvable and not isinstance(rule, DynamicResources):
                possible &= view.allowed[index]
        if cluster.open_rows is not None:
            possible &= cluster.open_rows
        return self._ranked(possible)

    def _ranked(self, possible: NodeMask) -> Rows:
        levels = self._units.rule.levels()
        pods, size = self._cluster.columns.resource_index[PODS], len(possible)
        counts = [table[pods, :size] for table in levels]
        rows = np.flatnonzero(possible & (counts[-1] > 0))
        rank = np.full(len(rows), len(levels))
        for place in reversed(range(len(levels))):
            rank[counts[place][rows] > 0] = place
        return rows[np.argsort(rank, kind="stable")]

    # -- who ---------------------------------------------------------------------------------

    def _on(self, trial: Trial, row: int) -> RoomPlan[Placed] | None:
        units = self._allowed_on(row)
        placed = self._placed(trial, units, row)
        if placed is None:
            return None
        gone = list(units)
        for unit in sorted(units, key=_cost, reverse=True):
            if unit.is_leaving:
                break
            fewer = [each for each in gone if each is not unit]
            if (again := self._placed(trial, fewer, row)) is not None:
                gone, placed = fewer, again
        return RoomPlan(tuple(gone), placed)

    def _allowed_on(self, row: int) -> list[DisruptionUnit]:
        """All that may go together."""
        rule, found = self._units.rule, []
        for unit in self._units.on(row):
            if rule.allows(unit):
                rule.take(unit, +1)
                found.append(unit)
        for unit in found:
            rule.take(unit, -1)
        return found

    def _placed(self, trial: Trial, units: Sequence[DisruptionUnit], row: int) -> Placed | None:
        """Where the pod goes without these units; None: it does not fit on the row then."""
        claims = list(freed_by(units, self._cluster))
        if not claims:
            return None
        allocator = self._cluster.claims.allocator
        start, before = trial.checkpoint(), allocator.work
        for held in (each for unit in units for each in unit.held):
            trial.evict(held.pod.uid)
        trial.free_claims(claims)
        within = self._cluster.nodes.none()
        within[row] = True
        verdict = self._placement.place(self._pod, within, evicts=False)
        trial.rollback(start)
        self._cluster.work.terms += _STEP * (allocator.work - before)
        return verdict if isinstance(verdict, Placed) else None


def freed_by(units: Sequence[DisruptionUnit], cluster: Cluster) -> Iterator[ResourceClaim]:
    """Claims that are deallocated when the pods of the units are gone: no other pod uses them.

    A claim of a PodGroup stays allocated without its pods, and one that is being written may get
    other users.
    """
    state = cluster.claims
    gone = {held.pod.uid for unit in units for held in unit.held}
    found: dict[str, ResourceClaim] = {}
    for pod in (held.pod for unit in units for held in unit.held):
        named = (state.claims.get(use.key) for use in pod.request.claims if use.key)
        made = state.extended.claims_of(pod.key, pod.uid)
        found |= {claim.uid: claim for claim in (*named, *made) if claim is not None}
    for claim in found.values():
        users = claim.reserved_for
        is_settled = claim.allocation is not None and state.pending(claim) is None
        if is_settled and users and all(user.uid in gone and not user.is_group for user in users):
            yield claim


def _cost(unit: DisruptionUnit) -> Cost:
    return unit.cost
