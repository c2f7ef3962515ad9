"""Which units would have to leave a node so that one more pod fits there, the cheapest first.

A set of units costs the GPUs that it holds, on all its nodes; among equal costs the one that loses
the least work is first. That the pod fits then, and that the units fit elsewhere, only a trial can
show.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from heapq import heappop, heappush
from itertools import product

import numpy as np

from fairlead.cluster.arrays import NodeMask, PerNode
from fairlead.cluster.cluster import Cluster
from fairlead.engine.consolidation.movable import Movability, MovableUnit
from fairlead.model.gpus import WHOLE, GpuRequest
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.nodes import GPU
from fairlead.model.pods import Pod, PodRequest
from fairlead.placement.nominated import nominated_against
from fairlead.placement.place import Placement
from fairlead.placement.refusals import count_refusals
from fairlead.placement.scope import Scope

#: Nodes with equally few GPUs to move that are compared by the work that is lost.
_COMPARED = 64
#: Nodes that are looked at before the first room is chosen, if none is certain to be the best.
_MOST_AT_FIRST = 1000
#: Nodes that are looked at for a pod that moves itself.
_MOST_MOVED_FOR = 500
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
    #: Thousandths of GPUs of this node alone.
    freed: int

    @property
    def order(self) -> tuple[int, float, int, str]:
        return self.milli, self.lost_gpu_s, self.pods, self.node


class RoomsOfNodes:
    """All sets of units of each node that was looked at, the cheapest first; for one search."""

    def __init__(self, cluster: Cluster, movability: Movability, priority: int) -> None:
        """Only pods up to the priority move."""
        self._cluster = cluster
        self._movability = movability
        self._priority = priority
        self._found: dict[str, list[Room]] = {}
        #: Why pods on these nodes may not be moved.
        self.against: Counter[str] = Counter()

    def of(self, node: str) -> list[Room]:
        found = self._found.get(node)
        if found is None:
            found = self._found[node] = self._of(node)
        self._cluster.work.pods += len(found)
        return found

    def _of(self, node: str) -> list[Room]:
        units, against = self._movability.on(node, self._priority)
        self.against += against
        allowed = self._movability.are_allowed
        rooms = [_room(node, one) for one in self._sets(units) if one and allowed(one)]
        self._cluster.work.pods += 40 + 5 * len(rooms)
        return sorted(rooms, key=lambda room: room.order)

    def _sets(self, units: list[MovableUnit]) -> Iterator[list[MovableUnit]]:
        """Of equal units those go first whose work is worth least."""
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


def _room(node: str, units: Sequence[MovableUnit]) -> Room:
    return Room(
        node,
        tuple(units),
        sum(unit.milli for unit in units),
        sum(unit.lost_gpu_s for unit in units),
        sum(len(unit.members) for unit in units),
        sum(unit.milli_on(node) for unit in units),
    )


_Heap = list[tuple[tuple[int, float, int, str], Room, Iterator[Room]]]


class Rooms:
    """For one pod that was refused, as the cluster was when this was made: perhaps in a trial."""

    def __init__(
        self,
        pod: Pod,
        placement: Placement,
        cluster: Cluster,
        of_nodes: RoomsOfNodes,
        *,
        without: frozenset[str] = frozenset(),
        within: NodeMask | None = None,
        moves: bool = False,
    ) -> None:
        """`without` are keys of units that moved already; `moves`: the pod is one of them."""
        self._cluster = cluster
        self._of_nodes = of_nodes
        self._without = without
        self._moved = pod.request if moves else None
        self._vain: dict[PodRequest, bool] = {}
        view = placement.view(pod)
        scope = Scope(cluster, within)
        against = nominated_against(pod, cluster)
        found = count_refusals(pod, view, placement.profile, cluster, against, scope)
        least = least_moved_milli(view.request, cluster)
        rows = np.flatnonzero(found.resolvable & (least < _NEVER))
        rows = rows[np.argsort(least[rows], kind="stable")][: _MOST_MOVED_FOR if moves else None]
        self._rows: list[int] = rows.tolist()
        self._least = least
        #: Rows that the pod could use if there were room.
        self.usable: NodeMask = found.resolvable | view.left

    def __iter__(self) -> Iterator[Room]:
        heap: _Heap = []
        left = iter(self._rows)
        row = next(left, None)
        most = _MOST_AT_FIRST
        while heap or row is not None:
            opened = 0
            while row is not None and self._opens(row, heap[0][1] if heap else None, opened, most):
                opened += 1
                _push(heap, self._on(row))
                row = next(left, None)
            if heap:
                most = _COMPARED
                _, room, more = heappop(heap)
                yield room
                _push(heap, more)

    def _opens(self, row: int, best: Room | None, opened: int, most: int) -> bool:
        """Whether the node may have a room that is no worse."""
        least = int(self._least[row])
        if best is None:
            return True
        if least < best.milli:
            return opened < most
        return least == best.milli and opened < _COMPARED

    def _on(self, row: int) -> Iterator[Room]:
        """Those of one node that could be enough."""
        least = int(self._least[row])
        self._cluster.work.pods += 10
        rooms = self._of_nodes.of(self._cluster.node_at(row).name)
        return (room for room in rooms if room.freed >= least and self._is_of_use(room))

    def _is_of_use(self, room: Room) -> bool:
        """Not if a unit moved already, or would need a place where the pod itself could go."""
        return not any(unit.key in self._without or self._is_in_vain(unit) for unit in room.units)

    def _is_in_vain(self, unit: MovableUnit) -> bool:
        if self._moved is None or unit.gang is not None:
            return False
        request = unit.members[0].pod.request
        if request not in self._vain:
            self._vain[request] = _needs_as_much(request, self._moved)
        return self._vain[request]


def _push(heap: _Heap, rooms: Iterator[Room]) -> None:
    room = next(rooms, None)
    if room is not None:
        heappush(heap, (room.order, room, rooms))


def _needs_as_much(one: PodRequest, other: PodRequest) -> bool:
    """Whether every place for one of them would do for the other."""
    if any(one.amount(name) < amount for name, amount in other.resources):
        return False
    if one.gpu_request and other.gpu_request:
        gpus = one.gpu_request.gpus
        if gpus < other.gpu_request.gpus:
            return False
        other = replace(other, gpu_request=replace(other.gpu_request, gpus=gpus))
    return one == replace(other, resources=one.resources, scored=one.scored)


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
