"""Advance reservations: which nodes or GPUs they have, and which units may not start there.

A unit that may not use a reservation is not started on its nodes if it could still run when the
reservation begins. What runs there already stays, unless the reservation says that it is evicted.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from math import inf

from fairlead.cluster.arrays import NodeMask
from fairlead.cluster.cluster import Cluster
from fairlead.engine.advance_choice import AdvanceChoice, gpus_by_row
from fairlead.engine.advance_known import KnownReservation
from fairlead.engine.advance_rooms import AdvanceRooms
from fairlead.engine.backfill.ends import Ends
from fairlead.engine.backfill.overruns import said_s
from fairlead.engine.instructions import AdvanceStatusChanged, Evict, Instruction
from fairlead.model.advance import AdvancePhase, AdvanceReservation, AdvanceStatus
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.nodes import Node
from fairlead.model.pods import Pod
from fairlead.queue.units import Unit

#: More have no effect.
MOST = 500
#: How often statuses are looked at, and evictions that were refused are asked for again.
_LOOK_EVERY_S = 10.0
_EVICT_EVERY_S = 30.0
#: A clock that is set by more has jumped, and evicts no pod for a while: it may be put right.
_JUMP_S = 5.0
_CALM_S = 60.0
#: What a look may cost in one turn (see `Work.spent`).
_MOST_WORK = 8_000
_OVERRAN = (
    "it started before the reservation {} as a unit that ends in time, and runs longer than it said"
)
#: Masks of rows that are kept.
_MOST_MASKS = 64
#: Pods that are evicted in one turn.
_MOST_EVICTED = 50


@dataclass(frozen=True, slots=True)
class ClosedRows:
    """Rows that a unit may not use, since they are reserved while it could run."""

    rows: NodeMask
    #: When the first of these reservations begins, in seconds since 1970.
    start_s: float
    #: Of these, those that have some GPUs of their nodes: others may use the rest.
    by_gpu: Sequence[KnownReservation] = ()
    #: Whether all of them are such.
    are_all_by_gpu: bool = False


class AdvanceReservations:
    """Times are those of the clock on the wall."""

    def __init__(
        self,
        cluster: Cluster,
        ends: Ends,
        queues_of: Callable[[Pod], Iterable[str]],
        utc_s: Callable[[float], float],
        *,
        evicts_overruns: bool = True,
    ) -> None:
        self._cluster = cluster
        self._ends = ends
        self._queues_of = queues_of
        self._utc_s = utc_s
        self._known: dict[str, KnownReservation] = {}
        self._looked_s = float("-inf")
        self._rooms = AdvanceRooms(cluster, ends, self._admits, lambda: utc_s(0.0))
        self._choice = AdvanceChoice(cluster, ends, self._rooms)
        #: Rows of the nodes of several of them, by the size of the cluster and their names.
        self._rows: dict[tuple[object, ...], NodeMask] = {}
        #: Those that are still to be looked at.
        self._round: list[str] = []
        #: Whether units may be let in that were not before.
        self.has_freed = False
        #: What the clock on the wall shows at 0, as it was last, and when it counts again for
        #: evictions.
        self._offset_s: float | None = None
        self._evicts_overruns = evicts_overruns
        #: Pods that started on reserved nodes by what they said, and until when that was.
        self._until_s: dict[str, float] = {}
        self._calm_s = float("-inf")

    def __bool__(self) -> bool:
        return bool(self._known)

    def nodes_of(self, name: str) -> list[str]:
        """The nodes of a reservation, for those who only look."""
        found = self._known.get(name)
        return sorted(found.nodes) if found else []

    def gpus_of(self, name: str) -> Mapping[str, int]:
        """The same for one that has GPUs of nodes, with their numbers."""
        found = self._known.get(name)
        return found.gpus_on if found else {}

    def active(self, now: float) -> Iterator[tuple[str, AbstractSet[str]]]:
        """Those that have begun and not ended, with their nodes."""
        for name, each in self._known.items():
            if each.spec.start_s <= self._utc_s(now) < each.spec.end_s and not each.spec.problem:
                yield name, each.nodes

    def kept_gpus(self, name: str, node: str, now: float) -> float:
        """GPUs of the node that it keeps from others at most."""
        each = self._known[name]
        return float(self._rooms.missing(each, node, now)) if each.is_by_gpu else inf

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
        made = self._known[spec.name] = KnownReservation(spec)
        if spec.node_selector and not spec.problem:
            nodes = (self._cluster.node_at(row) for row in self._cluster.row_of.values())
            made.nodes = {node.name for node in nodes if _selects(spec, node)}
        self._changed()
        return True

    def gone(self, name: str) -> None:
        if self._known.pop(name, None) is not None:
            self._changed()

    def _changed(self) -> None:
        self._forget_rows()
        self.has_freed = True
        self._looked_s = float("-inf")

    def node_seen(self, node: Node) -> None:
        for each in self._known.values():
            if not each.spec.node_selector or each.spec.problem:
                continue
            if _selects(each.spec, node) != (node.name in each.nodes):
                each.nodes ^= {node.name}
                self._forget_rows()

    def node_gone(self, name: str) -> None:
        self._forget_rows()
        for each in self._known.values():
            each.nodes.discard(name)
            if each.gpus_on.pop(name, None) is not None:
                each.search_s = float("-inf")

    def _forget_rows(self) -> None:
        self._rows.clear()
        self._rooms.clear()

    # -- which units may start ---------------------------------------------------------------

    def admitted(self, unit: Unit) -> str:
        """The reservations that the unit may use: part of its equivalence class."""
        return ",".join(name for name, each in self._known.items() if self._admits(each, unit.pod))

    def _admits(self, advance: KnownReservation, pod: Pod) -> bool:
        spec = advance.spec
        if pod.namespace in spec.namespaces:
            return True
        return bool(spec.queues) and not spec.queues.isdisjoint(self._queues_of(pod))

    def closed(
        self, unit: Unit, start_s: float, end_s: float, *, planned: bool = False
    ) -> ClosedRows | None:
        """Rows that the unit may not use from its start to its end, on the clock of the engine.

        None: it may use all rows. `planned`: its start is not now.
        """
        offset_s = self._utc_s(0.0)
        against = [
            each
            for each in self._known.values()
            if each.nodes
            and each.overlaps(start_s + offset_s, end_s + offset_s)
            and not self._admits(each, unit.pod)
        ]
        by_gpu = [each for each in against if each.is_by_gpu]
        if by_gpu:
            return self._closed_by_gpu(unit, against, by_gpu, start_s, planned=planned)
        if not against:
            return None
        return ClosedRows(self._rows_of(against), min(each.spec.start_s for each in against))

    def _closed_by_gpu(
        self,
        unit: Unit,
        against: Sequence[KnownReservation],
        by_gpu: Sequence[KnownReservation],
        start_s: float,
        *,
        planned: bool,
    ) -> ClosedRows | None:
        """The same where some have GPUs of nodes, which units without GPUs need not heed."""
        whole = [each for each in against if not each.is_by_gpu]
        closed = self._rooms.closed(unit, by_gpu, start_s, planned=planned)
        if closed is None:
            by_gpu = ()
        if not whole and closed is None:
            return None
        rows = self._rows_of(whole) if whole else self._cluster.nodes.none()
        first_s = min(each.spec.start_s for each in (*whole, *by_gpu))
        found = rows if closed is None else rows | closed
        return ClosedRows(found, first_s, by_gpu, are_all_by_gpu=not whole)

    def leaves_gpus(
        self, by_gpu: Sequence[KnownReservation], nodes: Iterable[str], uids: Collection[str],
        now: float,
    ) -> bool:  # fmt: skip
        """Whether reservations have their GPUs, with these pods on these nodes from now on."""
        return all(self._rooms.room(node, by_gpu, now, uids) >= 0 for node in nodes)

    def _rows_of(self, against: Sequence[KnownReservation]) -> NodeMask:
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

    # -- units that start by their word ------------------------------------------------------

    def started(self, pods: Iterable[Pod], now: float) -> None:
        """They have nodes. Those that say when they end, before a reservation, are held to it."""
        for pod in pods if self._evicts_overruns else ():
            length_s, held = said_s(pod), self._cluster.holdings.get(pod.uid)
            if length_s is not None and held is not None and self._awaits(held.node, pod, now):
                self._until_s[pod.uid] = now + length_s

    def _awaits(self, node: str, pod: Pod, now: float) -> bool:
        """Whether a reservation of others has the node later."""
        return any(
            node in each.nodes and each.spec.start_s > self._utc_s(now)
            for each in self._known.values()
            if not self._admits(each, pod)
        )

    def left(self, uid: str) -> None:
        """A pod has left its node."""
        self._until_s.pop(uid, None)

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

    def _watch_clock(self, now: float) -> None:
        """The clock on the wall may be set: all reservations are looked at again then."""
        offset_s, before = self._utc_s(0.0), self._offset_s
        self._offset_s = offset_s
        if before is not None and abs(offset_s - before) > _JUMP_S:
            self._calm_s = now + _CALM_S
            self._changed()

    def tend(self, now: float) -> list[Instruction]:
        if self._known:
            self._watch_clock(now)
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

    def _look_at(self, advance: KnownReservation, now: float) -> Iterator[Instruction]:
        spec, wall_s = advance.spec, self._utc_s(now)
        if spec.gpus and not spec.problem and wall_s < spec.end_s:
            start_s = max(now, spec.start_s - self._utc_s(0.0))
            if self._choice.choose(advance, self._beside(advance), start_s, now):
                self._forget_rows()
        conflicts = self._conflicts(advance, now)
        status = self._status(advance, len(conflicts), wall_s)
        if advance.status is None or status != advance.status:
            if advance.status is not None and status.phase is AdvancePhase.ENDED:
                self.has_freed = True
            advance.status = status
            yield AdvanceStatusChanged(spec.name, status)
        if status.phase is AdvancePhase.ACTIVE and conflicts and now >= self._calm_s:
            yield from self._evict(advance, conflicts, now)

    def _beside(self, advance: KnownReservation) -> list[KnownReservation]:
        """Others that overlap it in time."""
        spec = advance.spec
        others = (each for each in self._known.values() if each is not advance)
        return [each for each in others if each.overlaps(spec.start_s, spec.end_s)]

    def _status(self, advance: KnownReservation, conflicts: int, wall_s: float) -> AdvanceStatus:
        spec = advance.spec
        if spec.problem:
            return AdvanceStatus(AdvancePhase.INVALID, message=spec.problem)
        if wall_s >= spec.end_s:
            return AdvanceStatus(AdvancePhase.ENDED)
        phase = AdvancePhase.PENDING if wall_s < spec.start_s else AdvancePhase.ACTIVE
        gpus = self._gpus(advance)
        message = ""
        if not advance.nodes:
            message = "no node matches it"
        elif gpus < spec.gpus:
            message = f"its nodes have {gpus} of {spec.gpus} GPUs"
        elif conflicts:
            running = "run" if phase is AdvancePhase.ACTIVE else "may still run when it begins"
            where = "GPUs that it needs" if advance.is_by_gpu else "its nodes"
            message = f"{conflicts} pod(s) of others {running} on {where}"
        on = tuple(sorted(advance.gpus_on.items()))
        return AdvanceStatus(phase, tuple(sorted(advance.nodes)), gpus, conflicts, message, on)

    def _gpus(self, advance: KnownReservation) -> int:
        if advance.is_by_gpu:
            return sum(advance.gpus_on.values())
        counts = gpus_by_row(self._cluster, advance.spec.model)
        rows = self._cluster.row_of
        return sum(int(counts[rows[node]]) for node in advance.nodes if node in rows)

    def _conflicts(self, advance: KnownReservation, now: float) -> list[Pod]:
        """Pods of others that do not end before its start."""
        spec = advance.spec
        start_s, end_s = (at_s - self._utc_s(0.0) for at_s in (spec.start_s, spec.end_s))
        if spec.problem or now >= end_s:
            return []
        if advance.is_by_gpu:
            return self._rooms.in_the_way(advance, max(now, start_s), now)
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

    def _evict(
        self, advance: KnownReservation, pods: list[Pod], now: float
    ) -> Iterator[Instruction]:
        """All of them if it says so, or else those that run longer than they said."""
        what = "GPUs" if advance.is_by_gpu else "node"
        because = f"the reservation {advance.spec.name} of its {what} has begun"
        if not advance.spec.preempts:
            pods = self._all_that_overran(advance, pods, now)
            because = _OVERRAN.format(advance.spec.name)
        if not pods or now - advance.evicted_s < _EVICT_EVERY_S:
            return
        advance.evicted_s = now
        for pod in [pod for pod in pods if not pod.deleting][:_MOST_EVICTED]:
            yield Evict(pod, pod.node, {pod.node: (pod,)}, because, moves=True)

    def _all_that_overran(
        self, advance: KnownReservation, pods: Iterable[Pod], now: float
    ) -> list[Pod]:
        """Of gangs all pods, on whatever nodes they are."""
        late = {uid for uid, until_s in self._until_s.items() if until_s <= now}
        if late and advance.is_by_gpu:
            pods = self._rooms.in_the_way(advance, now, now, late)
        found = {pod.uid: pod for pod in pods if pod.uid in late}
        gangs = {pod.gang.gang for pod in found.values() if pod.gang}
        for held in self._cluster.holdings.values() if gangs else ():
            if held.pod.gang and held.pod.gang.gang in gangs and held.pod.node:
                found[held.pod.uid] = held.pod
        return list(found.values())


def _same(before: AdvanceReservation, now: AdvanceReservation) -> bool:
    """Whether the object says the same, whatever its status."""
    return before == replace(now, chosen=before.chosen, chosen_gpus=before.chosen_gpus)


def _selects(spec: AdvanceReservation, node: Node) -> bool:
    return all(node.labels.get(key) == value for key, value in spec.node_selector)


def _is_of_node(pod: Pod) -> bool:
    """Whether it belongs to the node: it is not moved elsewhere by an eviction."""
    return pod.controller.partition("/")[0] in ("DaemonSet", "Node")
