"""When waiting units start: a range, from the ends that a planned start waits for.

The range is that of these ends: no earlier than they can end, no later than they are expected to in
8 of 10 cases. It is widened as far as earlier forecasts needed it.
"""

import math
from collections.abc import Callable, Iterable

from fairlead.cluster.holdings import Holding
from fairlead.engine.plans import Plans
from fairlead.engine.run_times import RunTimes
from fairlead.engine.start_record import ENOUGH_JUDGED, OpenForecast, StartRecord
from fairlead.model.backfill import PlannedStart
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.pods import Pod
from fairlead.model.run_times import RunEnd
from fairlead.queue.queue import SchedulingQueue


@dataclass(frozen=True, slots=True)
class StartForecast:
    """Times are on the clock of the engine."""

    unit_key: str
    earliest_s: float
    expected_s: float
    #: None: it may be any time later.
    latest_s: float | None
    nodes: tuple[str, ...]
    #: The pods whose end it waits for.
    basis: tuple[Pod, ...]
    #: These are ended by then at the latest.
    bounded: bool
    #: Earlier forecasts that are like it, and the part of them that held: of starts, or (as long as
    #: too few were judged) of the run times that it is based on.
    judged: float
    held: float
    judged_by_starts: bool


class StartForecasts:
    """One for each engine. `record` outlives it."""

    def __init__(
        self,
        queue: SchedulingQueue,
        plans: Plans,
        run_times: RunTimes,
        holding_of: Callable[[str], Holding | None],
        record: StartRecord,
    ) -> None:
        self._queue, self._plans, self._run_times = queue, plans, run_times
        self._holding_of, self._record = holding_of, record

    def of_unit(self, key: str, *, now: float, planning: int = 0) -> StartForecast | None:
        """That of a waiting unit; None if it has no start within the window.

        Without `planning` only starts that are planned already count, which takes no time; else the
        first so many units are planned for it.
        """
        planned = self._plans.start_of(key)
        if planned is None and planning:
            every = self._plans.plan_all(planning, now=now)
            planned = next((each for each in every if each.unit_key == key), None)
        return self._forecast(planned, now) if planned else None

    def note(self, depth: int, now: float) -> None:
        """Forecasts the starts of the first waiting units, to be judged when they start."""
        self._record.tend(now, self._waits)
        if not self._plans.advance.ends_are_read(now):  # it takes several turns at first
            return
        for planned in self._plans.plan_all(depth, now=now):
            made = self._forecast(planned, now)
            if made.latest_s is not None and made.basis:
                opened = OpenForecast(now, made.earliest_s, made.expected_s, made.latest_s)
                self._record.note(made.unit_key, opened, bounded=made.bounded)

    def _waits(self, key: str) -> bool:
        return self._queue.get(key) is not None or self._queue.gang(key) is not None

    def _forecast(self, planned: PlannedStart, now: float) -> StartForecast:
        basis = tuple(self._held(planned.basis))
        ends = [self._run_times.end_s(pod.uid, now=now) for pod in basis]
        known = [end for end in ends if end is not None]
        start_s = planned.start_s
        earliest_s = max((end.earliest_s for end in known), default=start_s)
        latest_s = start_s if not basis else _latest_s(known, start_s, len(basis))
        kept = self._record.of(start_s - now, bounded=planned.bounded)
        widened, by_starts = math.exp(kept.width), kept.judged >= ENOUGH_JUDGED
        judged, held = (kept.judged, kept.held / kept.judged) if by_starts else self._runs(basis)
        return StartForecast(
            planned.unit_key,
            now + (max(now, min(start_s, earliest_s)) - now) / widened,
            start_s,
            None if latest_s is None else now + (latest_s - now) * widened,
            tuple(dict.fromkeys(node for _, node in planned.nodes)),
            basis,
            planned.bounded,
            judged,
            held,
            by_starts,
        )

    def _held(self, uids: Iterable[str]) -> Iterable[Pod]:
        for uid in uids:
            held = self._holding_of(uid)
            if held is not None:
                yield held.pod

    def _runs(self, basis: Iterable[Pod]) -> tuple[float, float]:
        """How many forecasts of such run times were judged, and the part that held."""
        kinds = {self._run_times.kind_of(pod): pod for pod in basis}
        found = [self._run_times.forecast(pod) for kind, pod in kinds.items() if kind is not None]
        judged = sum(each.judged for each in found if each)
        held = sum(each.judged * each.held for each in found if each)
        return judged, held / judged if judged else 0.0


def _latest_s(ends: list[RunEnd], start_s: float, count: int) -> float | None:
    latest = [end.latest_s for end in ends]
    if len(ends) < count or any(each is None for each in latest):
        return None
    return max(start_s, *(each for each in latest if each is not None))
