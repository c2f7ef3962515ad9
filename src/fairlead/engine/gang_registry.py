"""What is known of gangs: their objects, their members, and what their status says.

A gang is described by an object, or by its pods alone. Pods whose object is not there wait; none is
placed singly. Members with nodes are counted as the API server shows them, so that a restart, or
another leader, goes on where binds had stopped.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from heapq import heappop, heappush

from fairlead.cluster.gang_units import GangUnits
from fairlead.cluster.topology_levels import TopologyLevels
from fairlead.engine.gang_admission import GangAdmissions
from fairlead.engine.gang_flights import SLICE
from fairlead.engine.gang_messages import missing_object_message
from fairlead.engine.gang_moves import GangMoves
from fairlead.engine.gang_parts import GangParts
from fairlead.engine.gang_statuses import may_lack_finished, status_of, statuses_of_parts, waiting
from fairlead.engine.gang_trees import GangTrees
from fairlead.engine.instructions import FindFinished, GangStatusChanged, Instruction
from fairlead.model.gangs import (
    Counting,
    GangSpec,
    GangState,
    GangStatus,
    Membership,
    every_rule,
    named_topologies,
)
from fairlead.model.pods import Pod
from fairlead.model.topology import Topology
from fairlead.queue.entries import Entry
from fairlead.queue.queue import SchedulingQueue
from fairlead.queue.units import Gang

#: How long a gang that gathers its pods must be unchanged before that is reported.
QUIET_S = 3.0
#: How soon what became of the parts of a gang is reported.
_SOON_S = 0.1
#: How long the driver is given to find finished members before a gang is called incomplete.
_ANSWER_S = 2.0
#: Members that failed of which the names are kept.
_MOST_FAILED = 1000


#: Reported at once. What a gang waits for may come in a moment.
_VERDICTS = (GangState.SCHEDULED, GangState.UNSCHEDULABLE)


class GangRegistry:
    """Feeds the queue with members, and reports what became of them."""

    def __init__(
        self,
        queue: SchedulingQueue,
        parts: GangParts,
        admissions: GangAdmissions,
        units: GangUnits,
        trees: GangTrees,
        moves: GangMoves,
        topologies: TopologyLevels,
    ) -> None:
        self._queue = queue
        self._trees = trees
        self._moves = moves
        self._topologies = topologies
        #: Objects as they are of gangs whose rules name an object that lists levels.
        self._naming: dict[str, GangSpec] = {}
        self._units = units
        self._parts = parts
        self._admissions = admissions
        #: Why the objects of a dialect are not served.
        self._unserved: dict[str, str] = {}
        #: When to look whether there is something to report, by key, and the soonest first.
        self._due_s: dict[str, float] = {}
        self._heap: list[tuple[float, str]] = []
        #: The status that was last reported of each object.
        self._reported: dict[str, GangStatus] = {}

    # -- what the API server shows -----------------------------------------------------------

    def spec_of(self, membership: Membership) -> GangSpec:
        """What is known of the gang of a pod; a problem if that is nothing."""
        known = membership.spec or self._trees.spec_of(membership.gang)
        known = known or self._said_by_others(membership.gang)
        if known is not None:
            return known
        key = membership.gang
        missing = self._trees.missing_for(key)
        problem = self._unserved.get(missing.partition("/")[0])
        return GangSpec(key, 1, problem=problem or missing_object_message(key, missing))

    def _said_by_others(self, key: str) -> GangSpec | None:
        """Of gangs without an object, some pods may say what all of them need."""
        entry = self._queue.gang(key)
        return entry.unit.agreed if entry and isinstance(entry.unit, Gang) else None

    def kind_seen(self, dialect: str, problem: str, now: float) -> None:
        """Whether the objects of a dialect are served; if not, pods wait with the problem."""
        self._unserved[dialect] = problem
        for entry in list(self._queue.gangs()):
            key = entry.unit.key
            missing = self._trees.missing_for(key)
            if missing.startswith(f"{dialect}/") and _is_missing(entry):
                self._queue.respecify(self.spec_of(Membership(key)), now=now)
                self.touch(key, now)

    def object_seen(self, spec: GangSpec, now: float) -> None:
        self._naming.pop(spec.key, None)
        if named_topologies(spec):
            self._naming[spec.key] = spec
        self._put(self._checked(spec), now)

    def topology_seen(self, key: str, topology: Topology | None, now: float) -> None:
        """An object that lists levels came or changed, or (None) is gone."""
        self._topologies.put(key, topology)
        for spec in list(self._naming.values()):
            checked = self._checked(spec)
            if checked != self._trees.get(spec.key):
                self._put(checked, now)

    def _put(self, spec: GangSpec, now: float) -> None:
        before = self._moves.gangs_of(spec.key, spec)
        self._trees.put(spec)
        self._moves.note(before)
        self._respecify({self._trees.root_of(spec.key), *before.values()}, now)

    def _checked(self, spec: GangSpec) -> GangSpec:
        """With the problem that its rules name levels that are not known, if so."""
        if spec.problem:
            return spec
        problems = filter(None, map(self._topologies.problem_of, every_rule(spec)))
        return replace(spec, problem=problem) if (problem := next(problems, "")) else spec

    def object_gone(self, key: str, now: float) -> None:
        """Its pods wait until it comes back; those with nodes stay."""
        self._naming.pop(key, None)
        before = self._moves.gangs_of(key, None)
        self._trees.drop(key)
        self._moves.note(before)
        self._reported.pop(key, None)
        self._admissions.forget(key)
        self._respecify({key, *before.values()}, now)

    def _respecify(self, keys: Iterable[str], now: float) -> None:
        for key in keys:
            self._queue.respecify(self.spec_of(Membership(key)), now=now)
            self.touch(key, now)

    def gather(self, pod: Pod, now: float, not_before_s: float) -> None:
        """A pending member."""
        assert pod.gang is not None
        spec = self.spec_of(pod.gang)
        self._queue.gather(pod, spec, now=now, not_before_s=not_before_s)
        self.touch(spec.key, now)

    def count(self, pod: Pod, now: float) -> Entry | None:
        """A member that has a node or has succeeded; its entry if it was pending until now.

        One that is being deleted, or that failed, does not count: it is to be replaced.
        """
        assert pod.gang is not None
        spec, pending = self.spec_of(pod.gang), self._queue.get(pod.uid)
        counts = spec.counting is not Counting.ALIVE and not pod.failed
        if counts if pod.finished else not pod.deleting:
            self._queue.count(pod, spec, now=now)
        else:
            self._queue.remove(pod.uid)
            self._note_failure(spec.key, pod)
        self.touch(spec.key, now)
        return pending

    def _note_failure(self, key: str, pod: Pod) -> None:
        entry = self._queue.gang(key)
        gang = entry.unit if entry and pod.finished and pod.failed else None
        if isinstance(gang, Gang) and len(gang.failed) < _MOST_FAILED:
            gang.failed.add(pod.name)

    def touch(self, key: str, now: float) -> None:
        """Something about the gang has changed."""
        for pod in self._moves.take(key):
            self._move(pod, now)
        self._parts.look_at(key, now)
        entry = self._queue.gang(key)
        gang = entry.unit if entry else None
        self._units.put(key, gang if isinstance(gang, Gang) and gang.placed else None)
        status = self._status(key, now)
        known = self._reported.get(key)
        if status is None and known is None:
            return
        state = status.state if status else None
        if self._trees.is_tree(key) and state in _VERDICTS:
            self._look_later(key, min(now + _SOON_S, self._due_s.get(key, now + _SOON_S)))
            return
        is_news = state in _VERDICTS and (known is None or known.state != state)
        due_s = now if is_news or self._is_awaited(key, known) else now + QUIET_S
        self._look_later(key, due_s)

    def _move(self, pod: Pod, now: float) -> None:
        """A member of another gang belongs to this one now."""
        if pod.uid in self._queue:
            self.gather(pod, now, 0.0)
        else:
            self.count(pod, now)

    def _look_later(self, key: str, due_s: float) -> None:
        if self._due_s.get(key) != due_s:
            self._due_s[key] = due_s
            heappush(self._heap, (due_s, key))

    def _is_awaited(self, key: str, known: GangStatus | None) -> bool:
        """Whether a controller creates the first pods as soon as it is reported."""
        spec = self._trees.get(key)
        if spec is None or (known is not None and known.state is GangState.GATHERING):
            return False
        return self._admissions.concerns(spec) and self._queue.gang(key) is None

    # -- what time brings about --------------------------------------------------------------

    def due_s(self) -> float | None:
        times = (self._parts.due_s(), self._admissions.due_s())
        known = (due_s for due_s in times if due_s is not None)
        return min([*known, *(first for first, _ in self._heap[:1])], default=None)

    def tend(self, now: float) -> list[Instruction]:
        """What is to be reported, and which gangs bound in part have had their time."""
        made = self._parts.overdue(now)
        for key in (*self._admissions.revoked(now), *self._admissions.admitted(now)):
            self.touch(key, now)
        while self._heap and self._heap[0][0] <= now and len(made) < SLICE:
            due_s, key = heappop(self._heap)
            if self._due_s.get(key) == due_s:
                del self._due_s[key]
                made += self._report(key, now)
        return made

    def _report(self, key: str, now: float) -> Iterator[Instruction]:
        status, entry = self._status(key, now), self._queue.gang(key)
        if status is None:
            return
        gang = entry.unit if entry else None
        if isinstance(gang, Gang) and may_lack_finished(gang, status):
            gang.asked = True
            for part in self._trees.leaves(key) if self._trees.is_tree(key) else ():
                yield FindFinished(part.key, _namespace(key))
            yield FindFinished(key, _namespace(key))
            if gang.placed:  # the answer may be that it lacks nothing
                self._look_later(key, now + _ANSWER_S)
                return
        for spec, said in self._said(key, status, entry):
            if self._reported.get(spec.key) != said:
                self._reported[spec.key] = said
                yield GangStatusChanged(spec, said)
        if entry is not None and status.state in (GangState.GATHERING, GangState.INVALID):
            yield from waiting(entry, status.message)

    def _said(
        self, key: str, status: GangStatus, entry: Entry | None
    ) -> Iterator[tuple[GangSpec, GangStatus]]:
        """What the object of the gang says, and those of its parts."""
        spec = self._trees.get(key)
        if spec is not None:
            yield spec, status
        if entry is not None and self._trees.is_tree(key):
            yield from statuses_of_parts(entry, status, self._trees.leaves(key))

    def _status(self, key: str, now: float) -> GangStatus | None:
        """None while it is not known what becomes of it: it is being tried or bound."""
        entry = self._queue.gang(key)
        if entry is None:
            spec = self._trees.get(key)
            return self._admissions.status(spec, now) if spec and not spec.part_of else None
        self._admissions.has_pods(key)
        return status_of(entry)


def _is_missing(entry: Entry) -> bool:
    """Whether it is not known what the gang needs."""
    gang = entry.unit
    return isinstance(gang, Gang) and gang.agreed is None


def _namespace(key: str) -> str:
    return key.split("/")[1]
