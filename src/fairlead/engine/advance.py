"""Advance reservations: which nodes they have, and which units may not start there.

A unit that may not use a reservation is not started on its nodes if it could still run when the
reservation begins. What runs there already stays, unless the reservation says that it is evicted.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

import numpy as np

from fairlead.cluster.arrays import NodeMask, PerNode
from fairlead.cluster.cluster import Cluster
from fairlead.engine.backfill.ends import Ends
from fairlead.engine.instructions import AdvanceStatusChanged, Evict, Instruction
from fairlead.model.advance import AdvancePhase, AdvanceReservation, AdvanceStatus
from fairlead.model.gpus import GpuRequest
from fairlead.model.nodes import GPU, Node
from fairlead.model.pods import Pod
from fairlead.queue.units import Unit

#: More have no effect.
MOST = 500
#: How often statuses are looked at, and evictions that were refused are asked for again.
_LOOK_EVERY_S = 10.0
_EVICT_EVERY_S = 30.0
#: What a look may cost in one turn (see `Work.spent`).
_MOST_WORK = 40_000
#: Masks of rows that are kept.
_MOST_MASKS = 64
#: Pods that are evicted in one turn.
_MOST_EVICTED = 50


@dataclass(slots=True, eq=False)
class _Advance:
    spec: AdvanceReservation
    nodes: set[str] = field(default_factory=set)
    status: AdvanceStatus | None = None
    evicted_s: float = float("-inf")

    def overlaps(self, start_s: float, end_s: float) -> bool:
        return self.spec.start_s < end_s and start_s < self.spec.end_s


class AdvanceReservations:
    """Times are those of the clock on the wall."""

    def __init__(
        self,
        cluster: Cluster,
        ends: Ends,
        queues_of: Callable[[Pod], Iterable[str]],
        utc_s: Callable[[float], float],
    ) -> None:
        self._cluster = cluster
        self._ends = ends
        self._queues_of = queues_of
        self._utc_s = utc_s
        self._known: dict[str, _Advance] = {}
        self._looked_s = float("-inf")
        #: Rows of the nodes of several of them, by the size of the cluster and their names.
        self._rows: dict[tuple[object, ...], NodeMask] = {}
        #: Those that are still to be looked at.
        self._round: list[str] = []
        #: Whether units may be let in that were not before.
        self.has_freed = False

    def __bool__(self) -> bool:
        return bool(self._known)

    def nodes_of(self, name: str) -> list[str]:
        """The nodes of a reservation, for those who only look."""
        found = self._known.get(name)
        return sorted(found.nodes) if found else []

    def active(self, now: float) -> Iterator[tuple[str, AbstractSet[str]]]:
        """Those that have begun and not ended, with their nodes."""
        for name, each in self._known.items():
            if each.spec.start_s <= self._utc_s(now) < each.spec.end_s and not each.spec.problem:
                yield name, each.nodes

    def ends_are_read(self, now: float) -> bool:
        """Whether the ends of all running pods are known; reads some of them."""
        return self._ends.is_warm(now)

    # -- what happens ------------------------------------------------------------------------

    def seen(self, spec: AdvanceReservation) -> bool:
        """Whether it says something new."""
        before = self._known.get(spec.name)
        if before is None and len(self._known) >= MOST:
            return False
        if before is not None and _same(before.spec, spec):
            return False
        made = self._known[spec.name] = _Advance(spec)
        if spec.node_selector and not spec.problem:
            nodes = (self._cluster.node_at(row) for row in self._cluster.row_of.values())
            made.nodes = {node.name for node in nodes if _selects(spec, node)}
        self._changed()
        return True

    def gone(self, name: str) -> None:
        if self._known.pop(name, None) is not None:
            self._changed()

    def _changed(self) -> None:
        self._rows.clear()
        self.has_freed = True
        self._looked_s = float("-inf")

    def node_seen(self, node: Node) -> None:
        for each in self._known.values():
            if not each.spec.node_selector or each.spec.problem:
                continue
            if _selects(each.spec, node) != (node.name in each.nodes):
                each.nodes ^= {node.name}
                self._rows.clear()

    def node_gone(self, name: str) -> None:
        self._rows.clear()
        for each in self._known.values():
            each.nodes.discard(name)

    # -- which units may start ---------------------------------------------------------------

    def admitted(self, unit: Unit) -> str:
        """The reservations that the unit may use: part of its equivalence class."""
        return ",".join(name for name, each in self._known.items() if self._admits(each, unit.pod))

    def _admits(self, advance: _Advance, pod: Pod) -> bool:
        spec = advance.spec
        if pod.namespace in spec.namespaces:
            return True
        return bool(spec.queues) and not spec.queues.isdisjoint(self._queues_of(pod))

    def closed(self, unit: Unit, start_s: float, end_s: float) -> tuple[NodeMask, float] | None:
        """Rows that the unit may not use from its start to its end, on the clock of the engine.

        And when the first of these reservations begins. None: it may use all rows.
        """
        offset_s = self._utc_s(0.0)
        against = [
            each
            for each in self._known.values()
            if each.nodes
            and each.overlaps(start_s + offset_s, end_s + offset_s)
            and not self._admits(each, unit.pod)
        ]
        if not against:
            return None
        return self._rows_of(against), min(each.spec.start_s for each in against)

    def _rows_of(self, against: Sequence[_Advance]) -> NodeMask:
        """Rows of their nodes, kept until nodes come or go."""
        key = self._cluster.columns.size, *(each.spec.name for each in against)
        found = self._rows.get(key)
        if found is None:
            if len(self._rows) >= _MOST_MASKS:
                self._rows.clear()
            nodes = set[str]().union(*(each.nodes for each in against))
            found = self._rows[key] = self._cluster.nodes.named(nodes)
        return found

    def ends(self, until_s: float) -> list[float]:
        """When they end, up to this time, on the clock of the engine."""
        offset_s = self._utc_s(0.0)
        return [
            each.spec.end_s - offset_s
            for each in self._known.values()
            if each.spec.end_s - offset_s <= until_s
        ]

    # -- what time brings about --------------------------------------------------------------

    def due_s(self) -> float | None:
        """When one begins or ends, or is to be looked at."""
        if not self._known:
            return None
        if self._round:
            return 0.0  # at once
        offset_s = self._utc_s(0.0)
        times = [
            at_s - offset_s
            for each in self._known.values()
            for at_s in (each.spec.start_s, each.spec.end_s)
        ]
        next_s = min((at_s for at_s in times if at_s > self._looked_s), default=float("inf"))
        return min(next_s, self._looked_s + _LOOK_EVERY_S)

    def tend(self, now: float) -> list[Instruction]:
        if not self._known or (due_s := self.due_s()) is None or now < due_s:
            return []
        if not self._round:
            self._looked_s, self._round = now, sorted(self._known, reverse=True)
        made: list[Instruction] = []
        if not self.ends_are_read(now):  # the ends of many pods are read over several turns
            return made
        work = self._cluster.work
        until = work.spent + _MOST_WORK
        while self._round and work.spent < until:
            if (advance := self._known.get(self._round.pop())) is not None:
                made += self._look_at(advance, now)
        return made

    def _look_at(self, advance: _Advance, now: float) -> Iterator[Instruction]:
        spec, wall_s = advance.spec, self._utc_s(now)
        if spec.gpus and not spec.problem and wall_s < spec.end_s:
            self._choose(advance, now)
        conflicts = self._conflicts(advance, now)
        status = self._status(advance, len(conflicts), wall_s)
        if advance.status is None or status != advance.status:
            if advance.status is not None and status.phase is AdvancePhase.ENDED:
                self.has_freed = True
            advance.status = status
            yield AdvanceStatusChanged(spec.name, status)
        if spec.preempts and status.phase is AdvancePhase.ACTIVE and conflicts:
            yield from self._evict(advance, conflicts, now)

    def _status(self, advance: _Advance, conflicts: int, wall_s: float) -> AdvanceStatus:
        spec = advance.spec
        if spec.problem:
            return AdvanceStatus(AdvancePhase.INVALID, message=spec.problem)
        if wall_s >= spec.end_s:
            return AdvanceStatus(AdvancePhase.ENDED)
        phase = AdvancePhase.PENDING if wall_s < spec.start_s else AdvancePhase.ACTIVE
        counts = _gpus_by_row(self._cluster, spec.model)
        rows = self._cluster.row_of
        gpus = sum(int(counts[rows[node]]) for node in advance.nodes if node in rows)
        message = ""
        if not advance.nodes:
            message = "no node matches it"
        elif gpus < spec.gpus:
            message = f"its nodes have {gpus} of {spec.gpus} GPUs"
        elif conflicts:
            running = "run" if phase is AdvancePhase.ACTIVE else "may still run when it begins"
            message = f"{conflicts} pod(s) of others {running} on its nodes"
        return AdvanceStatus(phase, tuple(sorted(advance.nodes)), gpus, conflicts, message)

    def _conflicts(self, advance: _Advance, now: float) -> list[Pod]:
        """Pods of others that do not end before its start."""
        spec = advance.spec
        start_s, end_s = (at_s - self._utc_s(0.0) for at_s in (spec.start_s, spec.end_s))
        if spec.problem or now >= end_s:
            return []
        found = []
        for node in sorted(advance.nodes):
            for held in self._cluster.held_on(node):
                self._cluster.work.pods += 2
                pod = held.pod
                if not pod.request.resources or _is_of_node(pod) or self._admits(advance, pod):
                    continue
                end = self._ends.of(held, now)
                if now >= start_s or end is None or end.at_s > start_s:
                    found.append(pod)
        return sorted(found, key=lambda pod: pod.uid)

    def _evict(self, advance: _Advance, pods: list[Pod], now: float) -> Iterator[Instruction]:
        if now - advance.evicted_s < _EVICT_EVERY_S:
            return
        advance.evicted_s = now
        because = f"the reservation {advance.spec.name} of its node has begun"
        for pod in [pod for pod in pods if not pod.deleting][:_MOST_EVICTED]:
            yield Evict(pod, pod.node, {pod.node: (pod,)}, because, moves=True)

    # -- nodes for GPUs ----------------------------------------------------------------------

    def _choose(self, advance: _Advance, now: float) -> None:
        """Whole nodes, the same as before, then those with the fewest pods that stay too long."""
        spec, rows = advance.spec, self._cluster.row_of
        counts = _gpus_by_row(self._cluster, spec.model)
        nodes = [node for node in advance.nodes or spec.chosen if node in rows]
        have = sum(int(counts[rows[node]]) for node in nodes)
        if have < spec.gpus:
            for node in self._candidates(advance, counts, set(nodes), spec.gpus - have, now):
                nodes.append(node)
                have += int(counts[rows[node]])
                if have >= spec.gpus:
                    break
        if advance.nodes != set(nodes):
            advance.nodes = set(nodes)
            self._rows.clear()

    def _candidates(
        self, advance: _Advance, counts: PerNode, taken: set[str], missing: int, now: float
    ) -> list[str]:
        """Those with the fewest pods that stay too long first; any order if all are needed."""
        spec = advance.spec
        others = {
            node
            for each in self._known.values()
            if each is not advance and each.overlaps(spec.start_s, spec.end_s)
            for node in each.nodes
        }
        free = {
            node: int(counts[row])
            for node, row in self._cluster.row_of.items()
            if counts[row] and node not in others and node not in taken
        }
        self._cluster.work.pods += len(self._cluster.row_of) // 4
        if sum(free.values()) <= missing:
            return sorted(free)
        ranked = [(self._staying(advance, node, now), -gpus, node) for node, gpus in free.items()]
        return [node for _, _, node in sorted(ranked)]

    def _staying(self, advance: _Advance, node: str, now: float) -> int:
        """Pods that do not end before its start."""
        start_s = advance.spec.start_s - self._utc_s(0.0)
        held_on = self._cluster.held_on(node)
        self._cluster.work.pods += 1 + len(held_on)
        ends = (self._ends.of(held, now) for held in held_on)
        return sum(end is None or end.at_s > start_s for end in ends)


def _same(before: AdvanceReservation, now: AdvanceReservation) -> bool:
    """Whether the object says the same, whatever its status."""
    return (before.node_selector, before.gpus, before.model, before.start_s, before.end_s) == (
        now.node_selector, now.gpus, now.model, now.start_s, now.end_s
    ) and (before.namespaces, before.queues, before.preempts, before.problem) == (
        now.namespaces, now.queues, now.preempts, now.problem
    )  # fmt: skip


def _selects(spec: AdvanceReservation, node: Node) -> bool:
    return all(node.labels.get(key) == value for key, value in spec.node_selector)


def _is_of_node(pod: Pod) -> bool:
    """Whether it belongs to the node: it is not moved elsewhere by an eviction."""
    return pod.controller.partition("/")[0] in ("DaemonSet", "Node")


def _gpus_by_row(cluster: Cluster, model: str) -> PerNode:
    devices, size = cluster.columns.devices, cluster.columns.size
    listed = devices.model[:size] >= 0
    if not model:
        found: PerNode = np.maximum(listed.sum(axis=1), cluster.nodes.allocatable(GPU))
        return found
    wanted = devices.match.of(GpuRequest(gpus=1, models=frozenset((model,))))
    of_model: PerNode = (listed & wanted[devices.model[:size]]).sum(axis=1)
    return of_model
