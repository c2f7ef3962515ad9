"""Which nodes could be freed by moving their units to other nodes in use, and what that saves.

It looks, and changes nothing. Nodes that are cheap to free for what they cost come first: each one
is emptied in a trial, and stays empty while the next is tried. Only units with GPUs are moved here;
pods without GPUs are left to the drain.
"""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from fairlead.cluster.arrays import NodeMask
from fairlead.cluster.cluster import Cluster
from fairlead.cluster.trial import Trial
from fairlead.engine.consolidation.movable import Movability, MovableUnit, gpu_milli
from fairlead.engine.consolidation.packing import place_in
from fairlead.engine.consolidation.plans import Move
from fairlead.model.gpus import WHOLE
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.node_figures import Figure
from fairlead.placement.gang_part import has_topology
from fairlead.placement.place import Placement
from fairlead.plugins.gaps import gpu_count

#: Higher than the priority of any pod.
_ANY_PRIORITY = 1 << 31
#: What the search may cost (see `Work.spent`), and nodes that it frees.
_MOST_WORK = 2_000_000
_MOST_NODES = 100


@dataclass(frozen=True, slots=True)
class FreedNode:
    """A node that could be removed after the moves; without moves it is unused now."""

    node: str
    #: For an hour; None: not known.
    price: float | None
    moves: tuple[Move, ...] = ()
    lost_gpu_s: float = 0.0


class DrainPlanner:
    def __init__(
        self, cluster: Cluster, placements: Mapping[str, Placement], movability: Movability
    ) -> None:
        self._cluster = cluster
        self._placements = placements
        self._movability = movability
        size = cluster.columns.size
        self._prices = cluster.columns.figures.known(Figure.PRICE, size)
        self._gpus = gpu_count(cluster.nodes) * cluster.nodes.present()

    def plan(self) -> list[FreedNode]:
        """Nodes with GPUs: those that are unused, then those that moves would free."""
        used = self._used_milli()
        unused = [row for row in np.flatnonzero(self._gpus > 0).tolist() if row not in used]
        unused.sort(key=lambda row: -self._price(row))
        found = [self._freed(row, (), 0.0) for row in unused]
        return [*found, *self._by_moves(used)][:_MOST_NODES]

    def _by_moves(self, used: dict[int, int]) -> list[FreedNode]:
        found: list[FreedNode] = []
        targets: NodeMask = np.zeros(self._cluster.columns.size, dtype=np.bool_)
        targets[list(used)] = True
        moving: list[MovableUnit] = []
        work_until = self._cluster.work.spent + _MOST_WORK
        with self._cluster.trial() as trial:
            for row in sorted(used, key=lambda row: used[row] / max(self._price(row), 1e-9)):
                if self._cluster.work.spent > work_until or len(found) >= _MOST_NODES:
                    break
                freed = self._free(trial, row, targets, moving) if targets[row] else None
                if freed is not None:
                    found.append(freed)
        return found

    def _free(
        self, trial: Trial, row: int, targets: NodeMask, moving: list[MovableUnit]
    ) -> FreedNode | None:
        """Empties the node in the trial; None, and nothing changed, if that is not possible."""
        node = self._cluster.node_at(row).name
        if any(held.assumed for held in self._cluster.held_on(node)):
            return None  # units that move there already
        units, against = self._movability.on(node, _ANY_PRIORITY)
        if against or not units or any(map(_has_rules, units)):
            return None
        if not self._movability.are_allowed([*moving, *units]):
            return None
        targets[row] = False
        start = trial.checkpoint()
        moves = self._moved(trial, units, targets)
        if moves is None:
            trial.rollback(start)
            targets[row] = True
            return None
        moving += units
        return self._freed(row, moves, sum(unit.lost_gpu_s for unit in units))

    def _moved(
        self, trial: Trial, units: list[MovableUnit], targets: NodeMask
    ) -> tuple[Move, ...] | None:
        members = [held for unit in units for held in unit.members]
        for held in members:
            trial.evict(held.pod.uid)
        found = []
        for held in sorted(members, key=gpu_milli, reverse=True):
            pod = replace(held.pod, node="", grant=None, started="", nominated="")
            target = place_in(trial, pod, self._placements[pod.scheduler], targets)
            if not target:
                return None
            found.append(Move(held.pod, held.node, target, gpu_milli(held)))
        return tuple(found)

    def _used_milli(self) -> dict[int, int]:
        """Thousandths of GPUs in use, by row, where there are any."""
        found: dict[int, int] = {}
        for held in self._cluster.holdings.values():
            row, milli = self._cluster.row_of.get(held.node), gpu_milli(held)
            if row is not None and milli:
                found[row] = found.get(row, 0) + milli
        return found

    def _price(self, row: int) -> float:
        """By which nodes are ordered: without prices, all GPUs cost the same."""
        price = float(self._prices[row])
        return float(self._gpus[row]) if np.isnan(price) else price

    def _freed(self, row: int, moves: tuple[Move, ...], lost_gpu_s: float) -> FreedNode:
        price = float(self._prices[row])
        known = None if np.isnan(price) else price
        return FreedNode(self._cluster.node_at(row).name, known, moves, lost_gpu_s)


def _has_rules(unit: MovableUnit) -> bool:
    """Whether its pods must be near each other: moving them one by one could break that."""
    return unit.gang is not None and has_topology(unit.gang.spec)


def moved_gpus(freed: FreedNode) -> float:
    return sum(move.milli for move in freed.moves) / WHOLE
