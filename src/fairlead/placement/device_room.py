"""The search for pods to evict so that the claims of a pod can be allocated, node by node.

The pods of a node that may go leave in a trial, with the claims that no other pod uses then. If the
pod fits, they come back while it still does, the costliest first. Of the nodes that were tried, the
one with the lowest cost is taken. Nothing is evicted here: the result is a plan.
"""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from fairlead.cluster.arrays import NodeMask, Rows
from fairlead.cluster.claim_room import freed_by
from fairlead.cluster.cluster import Cluster
from fairlead.cluster.device_work import counted_work
from fairlead.cluster.trial import Trial
from fairlead.model.claims import AllocatedDevice
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.pods import Pod
from fairlead.model.quantities import PODS
from fairlead.placement.disruption_units import Cost, DisruptionUnit, DisruptionUnits
from fairlead.placement.making_room import RoomOutcome, RoomPlan, evict_units
from fairlead.placement.place import Placement
from fairlead.placement.verdicts import Placed
from fairlead.plugins.claim_step import ClaimStep
from fairlead.plugins.prepare import PrepareStep

#: What one search may cost (see `Work.spent`); the next one goes on where it ended.
_MOST_WORK = 70_000
#: Nodes in a row that are no better than the best so far: then that one is taken.
_NO_BETTER = 8

NO_HELP = "no pods that may be evicted hold devices that would be enough"


@dataclass(frozen=True, slots=True)
class PlannedDevices:
    """Where the pod goes, and the devices that its claims get there."""

    placed: Placed
    devices: tuple[AllocatedDevice, ...]


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

    def follow(self, before: "DeviceRoomSearch") -> None:
        """Each node is a search of its own: nothing is known of it after a change."""

    def search(self, trial: Trial) -> RoomOutcome[PlannedDevices]:
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
        """Rows that lack devices, or also more; first where less important pods go."""
        return self._ranked(self._placement.lacks_devices(self._pod))

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

    def _on(self, trial: Trial, row: int) -> RoomPlan[PlannedDevices] | None:
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

    def _planned(self, within: NodeMask) -> PlannedDevices | None:
        placed = self._placement.find(self._pod, within)
        if placed is None:
            return None
        steps = self._placement.steps(self._pod, placed.node)
        return PlannedDevices(placed, tuple(devices_of(steps)))

    def _placed(
        self, trial: Trial, units: Sequence[DisruptionUnit], row: int
    ) -> PlannedDevices | None:
        """Where the pod goes without these units; None: it does not fit on the row then."""
        cluster = self._cluster
        pods = (held.pod for unit in units for held in unit.held)
        if not any(freed_by(pods, cluster, self._pod)):
            return None
        within, start = cluster.nodes.none(), trial.checkpoint()
        within[row] = True
        with counted_work(cluster):
            evict_units(trial, units, cluster, self._pod)
            placed = self._planned(within)
            trial.rollback(start)
        return placed


def devices_of(steps: Iterable[PrepareStep]) -> Iterator[AllocatedDevice]:
    """What claims get by these steps."""
    for step in steps:
        if isinstance(step, ClaimStep):
            allocations = (write.allocation for write in step.writes)
            yield from (each for found in allocations if found for each in found.devices)


def _cost(unit: DisruptionUnit) -> Cost:
    return unit.cost
