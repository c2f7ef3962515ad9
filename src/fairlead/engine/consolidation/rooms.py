"""Which units would have to leave a node so that one more pod fits there, the cheapest first.

A set of units costs the GPUs that it holds, on all its nodes; among equal costs the one that loses
the least work is first. That the pod fits then, and that the units fit elsewhere, only a trial can
show.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import product

import numpy as np

from fairlead.cluster.arrays import NodeMask, PerNode
from fairlead.cluster.cluster import Cluster
from fairlead.engine.consolidation.movable import Movability, MovableUnit
from fairlead.model.gpus import WHOLE, GpuRequest
from fairlead.model.nodes import GPU
from fairlead.model.pods import Pod, PodRequest
from fairlead.placement.nominated import nominated_against
from fairlead.placement.place import Placement
from fairlead.placement.refusals import count_refusals
from fairlead.placement.scope import Scope

#: Nodes with equally few GPUs to move that are compared by the work that is lost.
_COMPARED = 64
#: Sets of units of one node that are looked at.
_MOST_SETS = 4096


@dataclass(frozen=True, slots=True)
class Room:
    """Units to move, all with pods on one node."""

    node: str
    units: tuple[MovableUnit, ...]
    milli: int
    lost_gpu_s: float
    pods: int

    @property
    def order(self) -> tuple[int, float, int, str]:
        return self.milli, self.lost_gpu_s, self.pods, self.node


def room_of(node: str, units: Sequence[MovableUnit]) -> Room:
    return Room(
        node,
        tuple(units),
        sum(unit.milli for unit in units),
        sum(unit.lost_gpu_s for unit in units),
        sum(len(unit.members) for unit in units),
    )


class Rooms:
    """For one pod that was refused, as the cluster was when this was made: perhaps in a trial.

    Pods on nodes are read while it is iterated: after the trial, those that it moved are on their
    nodes again, so they are left out by their keys.
    """

    def __init__(
        self,
        pod: Pod,
        placement: Placement,
        cluster: Cluster,
        movability: Movability,
        *,
        priority: int,
        without: frozenset[str] = frozenset(),
        within: NodeMask | None = None,
    ) -> None:
        """`without` are keys of units that moved already; only pods up to the priority move."""
        self._cluster = cluster
        self._movability = movability
        self._priority = priority
        self._without = without
        view = placement.view(pod)
        scope = Scope(cluster, within)
        against = nominated_against(pod, cluster)
        found = count_refusals(pod, view, placement.profile, cluster, against, scope)
        least = least_moved_milli(view.request, cluster)
        rows = np.flatnonzero(found.resolvable & (least < _NEVER))
        self._rows: list[int] = rows[np.argsort(least[rows], kind="stable")].tolist()
        self._least = least
        #: Rows that the pod could use if there were room.
        self.usable: NodeMask = found.resolvable | view.left
        #: Why pods on the nodes that were looked at may not be moved.
        self.against: Counter[str] = Counter()

    def __iter__(self) -> Iterator[Room]:
        heap: list[tuple[tuple[int, float, int, str], Room, Iterator[Room]]] = []
        left = iter(self._rows)
        row = next(left, None)
        while heap or row is not None:
            opened = 0
            while row is not None and self._opens(row, heap[0][1] if heap else None, opened):
                opened += 1
                self._push(heap, self._of(row))
                row = next(left, None)
            if heap:
                _, room, more = heappop(heap)
                yield room
                self._push(heap, more)

    def _opens(self, row: int, best: Room | None, opened: int) -> bool:
        """Whether the node may have a room that is no worse."""
        least = int(self._least[row])
        if best is None or least < best.milli:
            return True
        return least == best.milli and opened < _COMPARED

    def _push(
        self, heap: list[tuple[tuple[int, float, int, str], Room, Iterator[Room]]],
        rooms: Iterator[Room],
    ) -> None:  # fmt: skip
        room = next(rooms, None)
        if room is not None:
            heappush(heap, (room.order, room, rooms))

    def _of(self, row: int) -> Iterator[Room]:
        """Those of one node."""
        node = self._cluster.node_at(row).name
        units, against = self._movability.on(node, self._priority)
        self.against += against
        units = [unit for unit in units if unit.key not in self._without]
        least = int(self._least[row])
        if sum(unit.milli_on(node) for unit in units) < least:
            return iter(())
        sets = (chosen for chosen in self._sets(units) if chosen)
        enough = (one for one in sets if sum(u.milli_on(node) for u in one) >= least)
        found = [room_of(node, one) for one in enough if self._movability.are_allowed(one)]
        self._cluster.work.pods += len(found)
        return iter(sorted(found, key=lambda room: room.order))

    def _sets(self, units: list[MovableUnit]) -> Iterator[list[MovableUnit]]:
        """Sets of units. Of equal ones those go first whose work is worth least."""
        classes: dict[object, list[MovableUnit]] = {}
        for unit in sorted(units, key=lambda unit: unit.lost_gpu_s):
            classes.setdefault(self._class_of(unit), []).append(unit)
        kept: list[list[MovableUnit]] = []
        size = 1
        for alike in sorted(classes.values(), key=lambda alike: -alike[0].milli):
            if size * (len(alike) + 1) <= _MOST_SETS:
                size *= len(alike) + 1
                kept.append(alike)
        for counts in product(*(range(len(alike) + 1) for alike in kept)):
            yield [unit for alike, n in zip(kept, counts, strict=True) for unit in alike[:n]]

    def _class_of(self, unit: MovableUnit) -> object:
        """Equal for units that can stand for each other."""
        if unit.gang is not None:
            return unit.key
        held = unit.members[0]
        uses = tuple(use.uuid for use in held.grant.uses) if held.grant else ()
        return self._cluster.request_of(held.pod), uses, unit.budgets


_NEVER = np.iinfo(np.int64).max // 2


def least_moved_milli(request: PodRequest, cluster: Cluster) -> PerNode:
    """By row, thousandths of GPUs that must be moved at least; `_NEVER` where it never fits."""
    ask, nodes = request.gpu_request, cluster.nodes
    counted = np.maximum(request.amount(GPU) - np.maximum(nodes.free(GPU), 0), 0) * WHOLE
    counted = np.where(nodes.allocatable(GPU) >= request.amount(GPU), counted, _NEVER)
    if ask is None:
        return counted
    found = np.where(nodes.gpus.known(), _least_by_gpu(ask, cluster), counted)
    return np.maximum(found, counted) if request.amount(GPU) else found


def _least_by_gpu(ask: GpuRequest, cluster: Cluster) -> PerNode:
    """The same where GPUs are known one by one: the emptiest of them are used."""
    gpus = cluster.nodes.gpus
    there = gpus.there() & gpus.wanted(ask)
    used = np.where(there, WHOLE - gpus.milli_free(), _NEVER // 64)
    if ask.sliced:
        used = np.where(there, 0, used)
    elif not ask.whole:
        used = np.where(there, np.maximum(used + ask.milli - WHOLE, 0), used)
        return np.where(there.any(axis=1), used.min(axis=1, initial=_NEVER), _NEVER)
    if used.shape[1] < ask.gpus:
        return np.full(len(used), _NEVER)
    first: PerNode = np.sort(used, axis=1)[:, : ask.gpus].sum(axis=1)
    return np.where(there.sum(axis=1) >= ask.gpus, first, _NEVER)
