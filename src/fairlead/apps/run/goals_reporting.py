"""Counts what queues and jobs use while the scheduler works, for the report of goals.

Pods with GPUs are looked at once a minute, a few at a time: what they cost, draw and waste since
the last look. Starts and deadlines are counted as they come. Only the leader counts.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator

from fairlead.apps.goals.report_book import ReportBook, ReportRow
from fairlead.apps.goals.spending import AmountCounter, job_of
from fairlead.apps.run.usage import Usage
from fairlead.cluster.holdings import Holding
from fairlead.engine import events
from fairlead.engine.engine import Engine
from fairlead.engine.instructions import AnnounceScheduled
from fairlead.model.consolidation import time_of
from fairlead.model.pods import Pod
from fairlead.placement.disruption_units import gpus_of_pod

_EVERY_S = 60.0
#: What ran while no scheduler did is counted up to this time.
_LONGEST_GAP_S = 3600.0
#: Pods between two looks at the network.
_SLICE = 50
#: Units of which a start or a deadline was counted.
_MOST_UNITS = 8192


class GoalsReporting:
    def __init__(
        self,
        engine: Engine,
        usage: Usage,
        leads: Callable[[], bool],
        *,
        every_s: float = _EVERY_S,
    ) -> None:
        self.book = ReportBook()
        #: Set when the book of an earlier process is known; None: nothing is kept or counted.
        self.loaded: asyncio.Event | None = None
        self._engine, self._usage, self._leads = engine, usage, leads
        self._every_s = every_s
        self._wasted: dict[str, float] = {}
        #: Units that were counted, by what was counted of them.
        self._counted: OrderedDict[tuple[str, str], None] = OrderedDict()

    async def run(self) -> None:
        if self.loaded is not None:
            await self.loaded.wait()
        while True:
            await asyncio.sleep(self._every_s)
            if self._leads():
                await self.look(time.time())

    # -- what runs ---------------------------------------------------------------------------

    async def look(self, now_s: float) -> None:
        """Counts what pods with GPUs used since the last look."""
        since_s = now_s - self._every_s if self.book.at_s is None else self.book.at_s
        # After a clock was put back, `at_s` lies ahead: it is counted from now on.
        since_s = min(max(since_s, now_s - _LONGEST_GAP_S), now_s)
        self.book.at_s = now_s
        amounts, wasted = AmountCounter(self._engine.cluster), dict[str, float]()
        for number, held in enumerate([*self._engine.cluster.holdings.values()]):
            if number % _SLICE == 0:
                await asyncio.sleep(0)
            has_gpus = held.pod.reservation is None and gpus_of_pod(held.pod)
            if has_gpus and held.node in self._engine.cluster.row_of:
                self._count(held, amounts, wasted, since_s, now_s)
        self._wasted = wasted
        for pod in self._passed_deadlines(since_s, now_s):
            self._add(pod, now_s, ReportRow(deadlines_missed=1.0))

    def _count(
        self,
        held: Holding,
        amounts: AmountCounter,
        wasted: dict[str, float],
        since_s: float,
        now_s: float,
    ) -> None:
        pod = held.pod
        hours = (now_s - max(since_s, time_of(pod.started) or since_s)) / 3600.0
        if hours <= 0.0:
            return
        use = self._usage.book.uses.get(pod.uid)
        if use is not None:
            wasted[pod.uid] = use.wasted_s
        of_hour = amounts.of(pod.request, self._engine.cluster.row_of[held.node])
        self._add(
            pod,
            now_s,
            ReportRow(
                gpu_s=3600.0 * hours * gpus_of_pod(pod),
                wasted_gpu_s=max(0.0, wasted.get(pod.uid, 0.0) - self._wasted.get(pod.uid, 0.0)),
                money=max(0.0, hours * of_hour["money"]),
                kwh=max(0.0, hours * of_hour["watts"] / 1000.0),
                grams=max(0.0, hours * of_hour["grams"]),
            ),
        )

    def _passed_deadlines(self, since_s: float, now_s: float) -> Iterator[Pod]:
        """One pod of each unit whose deadline passed while it waited or ran."""
        found = dict[str, Pod]()
        waiting = (pod for entry in self._engine.queue.entries() for pod in entry.unit.pods)
        running = (held.pod for held in self._engine.cluster.holdings.values())
        for pods in (waiting, running):
            for pod in pods:
                deadline_s = pod.start.deadline_s if pod.start is not None else None
                if deadline_s is not None and since_s < deadline_s <= now_s:
                    found.setdefault(_unit(pod), pod)
        return iter(found.values())

    # -- what starts and ends ----------------------------------------------------------------

    def started(self, done: AnnounceScheduled) -> None:
        """A pod with GPUs was bound; of a gang the first one counts."""
        pod = done.pod
        if self.loaded is None or not gpus_of_pod(pod) or not self._is_first("started", pod):
            return
        now_s, goals = time.time(), self._engine.service_goals
        class_ = goals.class_of(pod) if goals.classes else None
        waited_s = max(0.0, time.monotonic() - done.first_queued_s)
        row = ReportRow(units=1.0, wait_s=waited_s)
        if class_ is not None:
            in_time = waited_s <= class_.wait_goal_s
            row.in_time, row.late = float(in_time), float(not in_time)
        self._add(pod, now_s, row)

    def note(self, event: events.Event) -> None:
        """A pod with a deadline has finished before it; of a gang the first one counts."""
        if not isinstance(event, events.PodSeen) or event.pod.start is None:
            return
        if self.loaded is None or not self._leads():
            return
        pod, now_s = event.pod, time.time()
        deadline_s = pod.start.deadline_s if pod.start else None
        if not pod.finished or deadline_s is None or deadline_s < now_s:
            return
        if self._is_first("finished", pod):
            met = float(not pod.failed)
            self._add(pod, now_s, ReportRow(deadlines_met=met, deadlines_missed=1.0 - met))

    def _add(self, pod: Pod, now_s: float, row: ReportRow) -> None:
        self.book.add(now_s, self._engine.queues.of(pod) or "-", job_of(pod), row)

    def _is_first(self, what: str, pod: Pod) -> bool:
        key = what, _unit(pod)
        if key in self._counted:
            return False
        self._counted[key] = None
        if len(self._counted) > _MOST_UNITS:
            self._counted.popitem(last=False)
        return True


def _unit(pod: Pod) -> str:
    return pod.gang.gang if pod.gang else pod.uid
