"""Units that do not start yet: not before a time of their own, or in hours that are better.

Such a wait is deliberate, and comes before any look at nodes: its reason is never `Unschedulable`.
A unit waits only within limits of its own, and starts at the latest when they end. Without a run
time, without a limit, and without a forecast that says what a start now would come to, it starts at
once. A unit whose start has come is not held back again.
"""

from collections.abc import Callable
from dataclasses import replace
from heapq import heapify, heappop, heappush
from math import inf

from fairlead.cluster.aspects import NOTHING
from fairlead.cluster.nominations import Nominations
from fairlead.engine.best_start import BestStart
from fairlead.engine.instructions import AnnounceNotice, AnnounceWarning, Instruction
from fairlead.engine.reasons import WAIT_TIMED_OUT, WAITING_FOR_WINDOW
from fairlead.engine.run_times import RunTimes
from fairlead.engine.start_plans import (
    NO_LIMIT,
    NO_RUN_TIME,
    NO_VALUES,
    OVER,
    StartPlan,
    latest_start_s,
    times_of,
    too_late_s,
    unit_times,
)
from fairlead.model.forecasts import ChosenStart, Forecast
from fairlead.model.pods import Pod
from fairlead.model.start_times import (
    START_WINDOW,
    StartTimes,
    Window,
    missed,
    of_pods,
    utc,
)
from fairlead.queue.entries import Entry, Pool
from fairlead.queue.queue import SchedulingQueue
from fairlead.queue.quota import QuotaRefusal
from fairlead.queue.units import Gang, Unit

#: Reasons of events.
NO_WINDOW, NO_DEADLINE = "StartWindowNotUsed", "DeadlineCannotBeMet"
#: Units that are looked at in one turn.
_AT_ONCE = 200
#: Times that are kept without a look at whether they still matter.
_FEW = 64
#: How long a start stays that a forecast has moved, unless it comes before that.
_STAYS_S = 300.0
#: How long units wait after a start of the scheduler until a forecast is read.
_AWAITED_S = 30.0
_PENDING = (Pool.ACTIVE, Pool.BACKOFF, Pool.WAITING)


class StartWindows:
    def __init__(
        self,
        queue: SchedulingQueue,
        nominations: Nominations,
        run_times: RunTimes,
        utc_s: Callable[[float], float],
    ) -> None:
        self._queue, self._nominations = queue, nominations
        self._run_times, self._utc_s = run_times, utc_s
        self.forecasts: dict[Window, BestStart] = {}
        #: Until when the first forecast of a window is awaited, on the clock of the engine.
        self._awaited: dict[Window, float] = {}
        #: By unit. Those in `_released` have had their start.
        self._plans: dict[str, StartPlan] = {}
        self._released: set[str] = set()
        #: Units whose own time to wait is over.
        self._over: set[str] = set()
        #: Deadlines of which it was said that they cannot be met.
        self._late: set[str] = set()
        #: When to look at a unit: at its start, and when its deadline cannot be met any more.
        self._heap: list[tuple[float, str]] = []
        #: Units whose start could move, and has moved just now.
        self._unsettled: set[str] = set()
        #: Units to plan again, and what is to be said.
        self._again: dict[str, None] = {}
        self._said: list[Instruction] = []

    # -- what is known -----------------------------------------------------------------------

    def put(self, forecast: Forecast, now: float) -> None:
        """Starts that were chosen stay if there is no usable forecast any more."""
        window = forecast.window
        was_awaited = self._awaited.pop(window, None) is not None
        if forecast.awaited:
            self._awaited[window] = now + _AWAITED_S
        elif forecast.spans:
            self.forecasts[window] = BestStart(forecast)
        else:
            self.forecasts.pop(window, None)
        if forecast.spans or was_awaited:
            self._plan_all_again(window)

    def _plan_all_again(self, window: Window) -> None:
        found = (key for key, plan in self._plans.items() if plan.times.window is window)
        self._again |= dict.fromkeys(found)

    # -- before a unit is tried --------------------------------------------------------------

    def refusal(self, entry: Entry, now: float) -> QuotaRefusal | None:
        """Why the unit does not start yet; None if it may."""
        unit, wall_s = entry.unit, self._utc_s(now)
        nominations = self._nominations  # others were evicted for it: it takes the room
        if nominations and any(nominations.node_of(pod.uid) for pod in unit.pods):
            return None
        if isinstance(unit, Gang) and unit.placed:
            self._go_on(unit)
            return None
        if (over := self._over_since(unit, wall_s)) is not None:
            return QuotaRefusal(WAIT_TIMED_OUT, OVER.format(utc(over)), woken_by=NOTHING)
        if self._is_released(unit):
            return None
        plan = self._plan_of(unit, wall_s)
        if plan.start_s > wall_s:
            return QuotaRefusal(WAITING_FOR_WINDOW, plan.sentence, woken_by=NOTHING)
        self._released.add(unit.key)
        return None

    def _go_on(self, gang: Gang) -> None:
        """Some of its pods have nodes: it does not wait with them."""
        self._over.discard(gang.key)
        if gang.key in self._plans:
            self._released.add(gang.key)

    def _is_released(self, unit: Unit) -> bool:
        plan = self._plans.get(unit.key)
        if plan is not None and unit.key in self._released:
            if plan.times == unit_times(unit):
                return True
            self._released.discard(unit.key)  # its pods were edited
        return False

    def _over_since(self, unit: Unit, wall_s: float) -> float | None:
        """When it said that it waits no longer, if that is past."""
        give_up_s = unit_times(unit).give_up_s
        if give_up_s is None or wall_s < give_up_s:
            self._over.discard(unit.key)
            return None
        if unit.key not in self._over:
            self._over.add(unit.key)
            self._plan_of(unit, wall_s)
            message = OVER.format(utc(give_up_s))
            self._said.append(AnnounceWarning(unit.pod, WAIT_TIMED_OUT, message))
        return give_up_s

    def _plan_of(self, unit: Unit, wall_s: float) -> StartPlan:
        """The plan that it has, or a new one."""
        known = self._plans.get(unit.key)
        if known is not None and known.times == unit_times(unit):
            return known
        return self._put(unit, self.plan(unit, wall_s), wall_s)

    def _put(self, unit: Unit, plan: StartPlan, wall_s: float) -> StartPlan:
        before = self._plans.get(unit.key)
        self._plans[unit.key] = plan
        if plan.problem and (before is None or before.problem != plan.problem):
            self._said.append(AnnounceNotice(unit.pod, NO_WINDOW, plan.problem))
        self._watch(unit, plan, wall_s)
        if max(len(self._heap), len(self._plans)) > 4 * len(self._queue.entries()) + _FEW:
            self._forget()
        return plan

    def _watch(self, unit: Unit, plan: StartPlan, wall_s: float) -> None:
        if plan.start_s > wall_s:
            heappush(self._heap, (plan.start_s, unit.key))
        if plan.times.give_up_s is not None and plan.times.give_up_s > wall_s:
            heappush(self._heap, (plan.times.give_up_s, unit.key))
        if plan.times.deadline_s is None:
            return
        if missed(plan.times, plan.run_s, wall_s):
            self._warn(unit.key, unit.pod, plan, wall_s)
        else:
            heappush(self._heap, (too_late_s(plan, plan.times.deadline_s), unit.key))

    def _warn(self, key: str, pod: Pod, plan: StartPlan, wall_s: float) -> None:
        """Once."""
        if key not in self._late:
            self._late.add(key)
            message = missed(plan.times, plan.run_s, wall_s)
            self._said.append(AnnounceWarning(pod, NO_DEADLINE, message))

    def of(self, unit: Unit, wall_s: float) -> StartPlan:
        """The plan that a unit has, by the forecast of now, or would get, for those who look."""
        plan = self._plans.get(unit.key)
        if plan is None:
            return self.plan(unit, wall_s)
        best = self.forecasts.get(plan.times.window) if plan.times.window else None
        if best is None or plan.chosen is None or plan.run_s is None:
            return plan
        mean, first = (best.mean(at_s, plan.run_s) for at_s in (plan.start_s, wall_s))
        if mean is None or first is None:
            return plan
        return replace(plan, chosen=ChosenStart(plan.start_s, mean, first))

    def chosen_of(self, key: str) -> StartPlan | None:
        """The plan of a unit that chose its start by a forecast, or awaits one."""
        plan = self._plans.get(key)
        return plan if plan is not None and (plan.chosen or plan.awaits) else None

    def latest_start_s(self, unit: Unit) -> float:
        """On the clock of the engine: with a later start it would miss its deadline, if the run
        takes as long as it may; infinite without a deadline.
        """
        if all(pod.start is None for pod in unit.pods):
            return inf
        deadline_s = unit_times(unit).deadline_s
        if deadline_s is None:
            return inf
        expected = self._run_times.expectation(unit)
        return deadline_s - (expected.most_s if expected else 0.0) - self._utc_s(0.0)

    def has_given_up(self, key: str) -> bool:
        """Whether the time is over that the unit was to wait at most."""
        return key in self._over

    # -- which start -------------------------------------------------------------------------

    def plan(self, unit: Unit, wall_s: float) -> StartPlan:
        """When it would start; nothing changes."""
        times = of_pods(pod.start for pod in unit.pods)
        first_s = max(wall_s, times.not_before_s)
        expected = self._run_times.expectation(unit)
        run_s = None if expected is None else expected.expected_s
        if times.window is None:
            return StartPlan(times, first_s, run_s=run_s)
        if expected is None or run_s is None:
            return StartPlan(times, first_s, problem=NO_RUN_TIME)
        latest_s = latest_start_s(times, expected.most_s)
        if latest_s is None:
            return StartPlan(times, first_s, run_s=run_s, problem=NO_LIMIT)
        return self._chosen(unit, times, first_s, latest_s, run_s)

    def _chosen(
        self, unit: Unit, times: StartTimes, first_s: float, latest_s: float, run_s: float
    ) -> StartPlan:
        assert times.window is not None
        best = self.forecasts.get(times.window)
        if best is None:
            known = self._plans.get(unit.key)
            if known is not None and known.chosen and first_s <= known.start_s <= latest_s:
                return replace(known, times=times, latest_s=latest_s, run_s=run_s)
            awaited_s = self._awaited.get(times.window, -inf) + self._utc_s(0.0)
            if first_s < min(awaited_s, latest_s):
                return StartPlan(times, min(awaited_s, latest_s), run_s=run_s, awaits=True)
            problem = f"{START_WINDOW} is not used: no forecast for {times.window} is usable"
            return StartPlan(times, first_s, run_s=run_s, problem=problem)
        chosen = best.choose(first_s, max(first_s, latest_s), run_s)
        if chosen is None:
            return StartPlan(times, first_s, run_s=run_s, problem=NO_VALUES)
        said = best.forecast
        return StartPlan(
            times, chosen.start_s, max(first_s, latest_s), run_s, chosen, said.source, said.unit
        )

    # -- what time brings about --------------------------------------------------------------

    def __bool__(self) -> bool:
        return bool(self._plans or self._said or self._heap or self._again)

    @property
    def waiting(self) -> int:
        """How many units wait for their start."""
        waiting = self._plans.keys() - self._released - self._over
        return sum(self._entry(key) is not None for key in waiting)

    def is_waiting(self, unit: Unit) -> bool:
        """Units that wait here are in classes of their own."""
        if unit.key in self._over:
            return True
        return unit.key in self._plans and unit.key not in self._released

    def due_s(self) -> float | None:
        """On the clock of the engine."""
        if self._said or self._again:
            return 0.0  # at once
        return self._heap[0][0] - self._utc_s(0.0) if self._heap else None

    def tend(self, now: float) -> list[Instruction]:
        wall_s = self._utc_s(now)
        for _ in range(_AT_ONCE):
            if not self._heap or self._heap[0][0] > wall_s:
                break
            self._look_at(heappop(self._heap)[1], now)
        for _ in range(min(_AT_ONCE, len(self._again))):
            self._plan_again(self._again.popitem()[0], now)
        said, self._said = self._said, []
        return said

    def _look_at(self, key: str, now: float) -> None:
        plan, entry, wall_s = self._plans.get(key), self._entry(key), self._utc_s(now)
        if plan is None or entry is None or entry.pool not in _PENDING:
            return
        if missed(plan.times, plan.run_s, wall_s):
            self._warn(key, entry.unit.pod, plan, wall_s)
        if key in self._unsettled:
            self._unsettled.discard(key)
            self._plan_again(key, now)
            plan = self._plans.get(key, plan)
        is_due = plan.start_s <= wall_s and key not in self._released
        give_up_s = plan.times.give_up_s
        is_over = give_up_s is not None and give_up_s <= wall_s and key not in self._over
        if entry.pool is Pool.WAITING and (is_due or is_over):
            self._released.add(key)
            self._queue.wake(entry, "UnschedulableTimeout", now=now)

    def _plan_again(self, key: str, now: float) -> None:
        """The start moves if the new forecast gains enough; the condition is written then."""
        plan, entry, wall_s = self._plans.get(key), self._entry(key), self._utc_s(now)
        if plan is None or entry is None or key in self._released:
            return
        found = self.plan(entry.unit, wall_s)
        if not self._moves(key, plan, found, wall_s):
            return
        if entry.pool is not Pool.WAITING:  # it is planned when it is tried
            del self._plans[key]
            return
        self._put(entry.unit, replace(found, moved_s=wall_s), wall_s)
        self._queue.wake(entry, "UnschedulableTimeout", now=now)

    def _moves(self, key: str, plan: StartPlan, found: StartPlan, wall_s: float) -> bool:
        """Whether the start that was found is worth it, and the other one has stayed for a while.

        A feed that says something else each minute would move starts, and write conditions, as
        often.
        """
        if plan.awaits or plan.chosen is None or found.chosen is None or plan.run_s is None:
            return plan.awaits or found.start_s != plan.start_s
        best = self.forecasts.get(plan.times.window) if plan.times.window else None
        if best is None or found.latest_s is None or plan.start_s > found.latest_s:
            return found.start_s != plan.start_s
        if not best.moves(plan.start_s, plan.run_s, found.chosen):
            return False
        settled_s = plan.moved_s + _STAYS_S
        if not plan.moved_s <= wall_s < min(settled_s, plan.start_s):
            return True
        self._unsettled.add(key)
        heappush(self._heap, (min(settled_s, plan.start_s), key))
        return False

    def _entry(self, key: str) -> Entry | None:
        return self._queue.gang(key) or self._queue.get(key)

    def _forget(self) -> None:
        """Units that are gone, and times that were replaced."""
        self._plans = {key: plan for key, plan in self._plans.items() if self._entry(key)}
        self._released &= self._plans.keys()
        self._late &= self._plans.keys()
        self._over &= self._plans.keys()
        self._unsettled &= self._plans.keys()
        self._heap = [each for key, plan in self._plans.items() for each in times_of(key, plan)]
        heapify(self._heap)
