"""Units and their service classes: since when each waits, and by when it is to start.

A wait begins when the unit could first have been scheduled: when its last pod was created, when
gates were lifted, at `not-before`, or at the start that it chose itself. It is judged once: at the
start of the unit, or as soon as its goal has passed.
"""

from collections.abc import Callable, Iterable, Iterator
from heapq import heapify, heappop, heappush
from math import inf, isinf

from fairlead.engine.attempts import Attempt, Outcome
from fairlead.engine.claim_gates import GATE
from fairlead.engine.instructions import AnnounceNotice, AnnounceWarning, Instruction
from fairlead.engine.plans import Plans
from fairlead.engine.service_record import ServiceRecord, digest_of
from fairlead.engine.start_plans import unit_times
from fairlead.engine.start_windows import StartWindows
from fairlead.model.class_book import ClassBook
from fairlead.model.consolidation import time_of
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.pods import Pod
from fairlead.model.service_classes import ServiceClass, named_class
from fairlead.model.start_times import utc, words
from fairlead.queue.entries import Entry, Pool
from fairlead.queue.queue import SchedulingQueue
from fairlead.queue.quotas.unit_order import UnitGoal
from fairlead.queue.units import Gang, Unit

#: Reasons of events.
MISSED, HOPELESS, UNKNOWN = "WaitGoalMissed", "WaitGoalCannotBeMet", "ServiceClassNotUsed"
#: Units that are judged in one turn, and that are kept without a look at whether they matter.
_AT_ONCE, _FEW = 200, 64
#: Units of a class in the last hours from which on it is said that none of them was in time.
_ENOUGH = 5
_NO_GOAL = UnitGoal()
#: How long after the first turn the record of an earlier leader is awaited.
_AWAITED_S = 30.0


@dataclass(slots=True)
class ServiceWait:
    """One unit; times are in seconds since 1970."""

    entry: Entry
    since_s: float = -inf
    #: By when it is to start by its class, as was last computed.
    due_s: float | None = None
    #: The same by its class and its deadline: the first of them that it has not missed.
    goal_s: float | None = None
    #: It has missed all of them.
    late: bool = False
    judged: bool = False
    #: The times are those of all pods that were seen.
    is_watched: bool = False
    #: What was said about it, so that it is said once.
    said: str = ""


class ServiceGoals:
    """One for each engine. `record` outlives it."""

    def __init__(
        self,
        queue: SchedulingQueue,
        start_windows: StartWindows,
        plans: Plans,
        queue_of: Callable[[Pod], str],
        expected_s: Callable[[Unit], float | None],
        utc_s: Callable[[float], float],
        record: ServiceRecord,
    ) -> None:
        self._queue, self._start_windows, self._plans = queue, start_windows, plans
        self._queue_of, self._expected_s = queue_of, expected_s
        self._utc_s, self.record = utc_s, record
        #: There are classes, or a queue has the order Slack.
        self.is_on = False
        self._book = ClassBook()
        self._waits: dict[str, ServiceWait] = {}
        #: Pods that were seen with gates.
        self._gated: set[str] = set()
        self._heap: list[tuple[float, str]] = []
        self._said: list[Instruction] = []
        #: From when on goals that have passed are judged: an earlier leader may have done it.
        self._judges_from_s = -inf

    def configure(self, classes: Iterable[ServiceClass], now: float) -> None:
        """It is called once."""
        self._book = ClassBook(classes)
        if self.classes:
            self.begin(now)

    def begin(self, now: float) -> None:
        """Units are watched from now on, those that wait already, too."""
        if not self.is_on:
            self.is_on = True
            for pod in [pod for entry in self._queue.entries() for pod in entry.unit.pods]:
                self.seen(pod, now)

    # -- which class, since when, until when -------------------------------------------------

    @property
    def classes(self) -> dict[str, ServiceClass]:
        """By name."""
        return self._book.classes

    def class_of(self, pod: Pod) -> ServiceClass | None:
        """What it names, if it may; else that of its queue, or of its PriorityClass."""
        is_asked = self._book.reads_queues
        return self._book.of(pod, (pod.charged_queue or self._queue_of(pod)) if is_asked else "")

    def class_name_of(self, pod: Pod) -> str:
        """Empty: it has none."""
        found = self.class_of(pod)
        return found.name if found is not None else ""

    def since_s(self, wait: ServiceWait) -> float:
        """When the unit could first have been scheduled, as far as it is known."""
        unit = wait.entry.unit
        if all(pod.start is None for pod in unit.pods):
            return wait.since_s
        since_s = max(wait.since_s, unit_times(unit).not_before_s)
        plan = self._start_windows.chosen_of(unit.key)
        return since_s if plan is None else max(since_s, plan.start_s)

    def wait_of(self, unit: Unit) -> ServiceWait | None:
        return self._waits.get(unit.key)

    def goal_of(self, unit: Unit) -> UnitGoal:
        """By when it is to start, for the order of queues."""
        wait = self._waits.get(unit.key)
        if wait is None:
            return _NO_GOAL
        goal_s = None if wait.goal_s is None else wait.goal_s - self._utc_s(0.0)
        return UnitGoal(goal_s, wait.late)

    # -- what happens ------------------------------------------------------------------------

    def seen(self, pod: Pod, now: float) -> None:
        """A pending pod came, or has changed; its unit is in the queue."""
        entry = self._queue.get(pod.uid)
        if entry is None:
            return
        wait = self._waits.get(entry.unit.key)
        if wait is None or wait.entry is not entry:
            wait = self._waits[entry.unit.key] = ServiceWait(entry)
            self._forget_some()
        wall_s = self._utc_s(now)
        since_s = min(time_of(pod.created) or wall_s, wall_s)
        if any(gate != GATE for gate in pod.gates):
            self._gated.add(pod.uid)
        elif pod.uid in self._gated:
            self._gated.discard(pod.uid)
            since_s = wall_s
        if since_s > wait.since_s:
            wait.since_s, wait.is_watched = since_s, False
        if not wait.is_watched and entry.pool is not Pool.GATED:  # a gang has many pods
            self._watch(wait, wall_s)

    def _watch(self, wait: ServiceWait, wall_s: float) -> ServiceClass | None:
        """Computes by when it is to start. The class may be another one than before."""
        pod, wait.is_watched = wait.entry.unit.pod, True
        class_ = self.class_of(pod)
        self._say_unused(wait, pod, class_)
        due_s = None if class_ is None else self.since_s(wait) + class_.wait_goal_s
        if due_s != wait.due_s:
            wait.due_s = due_s
            if due_s is not None and not wait.judged:
                heappush(self._heap, (due_s, wait.entry.unit.key))
        self._order(wait, wall_s)
        if class_ is not None and not wait.said and not wait.judged:
            self._say_hopeless(wait, class_, wall_s)
        return class_

    def _order(self, wait: ServiceWait, wall_s: float) -> None:
        """Computes its place in the order again if it has another goal, or has missed all."""
        unit = wait.entry.unit
        latest_s = self._latest_start_s(unit)
        goals = [each for each in (wait.due_s, latest_s) if each is not None]
        goal_s = min((each for each in goals if each > wall_s), default=None)
        late = bool(goals) and goal_s is None
        if (goal_s, late) != (wait.goal_s, wait.late):
            wait.goal_s, wait.late = goal_s, late
            if goal_s is not None and goal_s != wait.due_s:
                heappush(self._heap, (goal_s, unit.key))
            self._queue.reorder((unit.pod.uid,))

    def _latest_start_s(self, unit: Unit) -> float | None:
        """With which its deadline is met; None: it has none."""
        if all(pod.start is None for pod in unit.pods):
            return None
        deadline_s = unit_times(unit).deadline_s
        return None if deadline_s is None else deadline_s - (self._expected_s(unit) or 0.0)

    def tried(self, entry: Entry, attempt: Attempt, now: float) -> None:
        """After each attempt."""
        wait, wall_s = self._waits.get(entry.unit.key), self._utc_s(now)
        if wait is None or wait.entry is not entry or wait.judged:
            return
        class_ = self._watch(wait, wall_s)
        if attempt.outcome is Outcome.SCHEDULED:
            wait.judged = True
            known = self.record.missed.pop(_digest(entry.unit), inf) is None
            if class_ is not None and wait.due_s is not None and not known:
                self.record.count(class_.name, wall_s, met=wall_s <= wait.due_s)
        elif class_ is not None and wait.due_s is not None:
            self._look_at_plan(wait, class_, wait.due_s)

    # -- what is said ------------------------------------------------------------------------

    def _say_unused(self, wait: ServiceWait, pod: Pod, class_: ServiceClass | None) -> None:
        named = named_class(pod.annotations, pod.labels)
        if not named or wait.said == named or (class_ is not None and class_.name == named):
            return
        wait.said = named
        message = self._book.unused(pod)
        self._said.append(AnnounceWarning(pod, UNKNOWN, message))

    def _say_hopeless(self, wait: ServiceWait, class_: ServiceClass, wall_s: float) -> None:
        recent = self.record.recent(class_, wall_s)
        if recent.missed < _ENOUGH or recent.met:
            return
        wait.said = class_.name
        message = (
            f"none of the last {recent.missed} units of service class {class_.name} started "
            f"within {words(class_.wait_goal_s)}; this one will probably not, either"
        )
        self._said.append(AnnounceWarning(wait.entry.unit.pod, HOPELESS, message))

    def _look_at_plan(self, wait: ServiceWait, class_: ServiceClass, due_s: float) -> None:
        planned = self._plans.start_of(wait.entry.unit.key) if not wait.said else None
        start_s = None if planned is None else self._utc_s(planned.start_s)
        if start_s is None or start_s <= due_s:
            return
        wait.said = class_.name
        message = (
            f"service class {class_.name}: it is to start by {utc(due_s)}, and its planned start "
            f"is {utc(start_s)}, {words(start_s - due_s)} too late"
        )
        self._said.append(AnnounceWarning(wait.entry.unit.pod, HOPELESS, message))

    # -- what time brings about --------------------------------------------------------------

    def due_s(self) -> float | None:
        """On the clock of the engine."""
        if self._said:
            return 0.0
        due_s = self._heap[0][0] - self._utc_s(0.0) if self._heap else None
        return None if due_s is None else max(due_s, self._judges_from_s)

    def tend(self, now: float) -> list[Instruction]:
        if isinf(self._judges_from_s):
            self._judges_from_s = now + _AWAITED_S
        wall_s = self._utc_s(now)
        for _ in range(_AT_ONCE if now >= self._judges_from_s else 0):
            if not self._heap or self._heap[0][0] > wall_s:
                break
            due_s, key = heappop(self._heap)
            wait = self._waits.get(key)
            if wait is not None and due_s in (wait.due_s, wait.goal_s):
                self._look_at(wait, wall_s)
        said, self._said = self._said, []
        return said

    def _look_at(self, wait: ServiceWait, wall_s: float) -> None:
        """A goal has passed, unless its start has moved since."""
        entry = wait.entry
        if entry.pool is Pool.GATED or self._entry(entry.unit.key) is not entry:
            wait.due_s = wait.goal_s = None  # they are computed again when the unit changes
            return
        class_ = self._watch(wait, wall_s)
        if wait.judged or class_ is None or wait.due_s is None or wait.due_s > wall_s:
            return
        self._judge(wait, class_, wall_s)

    def _judge(self, wait: ServiceWait, class_: ServiceClass, wall_s: float) -> None:
        entry, wait.judged = wait.entry, True
        if self._start_windows.has_given_up(entry.unit.key):
            return  # it said itself that it waits no longer
        if self.record.miss(_digest(entry.unit)):
            self.record.count(class_.name, wall_s, met=False)
            message = (
                f"it was to start within {words(class_.wait_goal_s)} (service class "
                f"{class_.name}) and has not; units that can still be in time come first where "
                "the order of the queue is Slack"
            )
            self._said.append(AnnounceNotice(entry.unit.pod, MISSED, message))

    def _entry(self, key: str) -> Entry | None:
        return self._queue.gang(key) or self._queue.get(key)

    def _forget_some(self) -> None:
        """Units that are gone, and times that were replaced."""
        if max(len(self._waits), len(self._heap)) <= 4 * len(self._queue.entries()) + _FEW:
            return
        self._waits = {k: wait for k, wait in self._waits.items() if self._entry(k) is wait.entry}
        self._gated = {uid for uid in self._gated if self._queue.get(uid) is not None}
        self._heap = [
            (at_s, key)
            for key, wait in self._waits.items()
            for at_s in {None if wait.judged else wait.due_s, wait.goal_s}
            if at_s is not None
        ]
        heapify(self._heap)

    # -- for those who look ------------------------------------------------------------------

    def pending(self) -> Iterator[tuple[str, float]]:
        """Units with a class that wait: its name, and by when each is to start, since 1970."""
        for key, wait in self._waits.items():
            if wait.due_s is not None and self._entry(key) is wait.entry:
                class_ = self.class_of(wait.entry.unit.pod) if _waits(wait.entry) else None
                if class_ is not None:
                    yield class_.name, wait.due_s


def _waits(entry: Entry) -> bool:
    return entry.pool in (Pool.ACTIVE, Pool.BACKOFF, Pool.WAITING)


def _digest(unit: Unit) -> bytes:
    """The same after a restart. A gang that is made again has other pods."""
    first = min((pod.uid for pod in unit.pods), default="") if isinstance(unit, Gang) else ""
    return digest_of(f"{unit.key} {first}")
