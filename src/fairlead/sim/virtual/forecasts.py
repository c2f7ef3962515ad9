"""Prices and carbon intensity in virtual time: what jobs came to, and what the engine is told.

A series says what was. The engine gets a forecast of it each hour: the series itself, the last day
as the forecast of the next ones, or what the last week says about them.
"""

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from functools import cached_property

import numpy as np

from fairlead.engine.best_start import BestStart
from fairlead.engine.events import ForecastSeen
from fairlead.model.errors import ConfigError
from fairlead.model.forecasts import MOST_SPANS, Forecast
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.past_forecasts import PAST_DAYS, forecast_of_past
from fairlead.model.start_times import Window
from fairlead.sim.virtual.jobs import JobRecord

_HOUR_S, _DAY_S = 3600.0, 86_400.0
#: How far a perfect forecast looks ahead.
_AHEAD_S = 8 * _DAY_S
_JOULES_OF_KWH = 3.6e6
#: A forecast of a week has no shorter steps.
_STEP_S = 900.0

Span = tuple[float, float, float]


class ForecastMode(StrEnum):
    """What the engine knows of a series."""

    NONE = "none"  #: nothing: jobs start as soon as they can
    YESTERDAY = "yesterday"  #: the values of the last day, as those of the next
    WEEK = "week"  #: the mean day of the last week, as with values in Prometheus
    PERFECT = "perfect"  #: the values that come


@dataclass(frozen=True)
class SimSeriesOfValues:
    """What was, in order: from when, until when (in seconds since 1970), which value."""

    window: Window
    name: str
    spans: tuple[Span, ...]
    unit: str = ""

    @cached_property
    def truth(self) -> BestStart:
        return BestStart(Forecast(self.window, self.name, self.unit, self.spans))

    @cached_property
    def _begins(self) -> np.ndarray:
        return np.array([begin_s for begin_s, _, _ in self.spans])

    def between(self, from_s: float, until_s: float) -> tuple[Span, ...]:
        """The spans that begin then, as many as a forecast may have."""
        first, last = np.searchsorted(self._begins, (from_s, until_s))
        return self.spans[first : min(last, first + MOST_SPANS)]

    def told(self, mode: ForecastMode, at_s: float) -> Forecast:
        """What the engine is told at that time."""
        if mode is ForecastMode.PERFECT:
            spans = self.between(at_s - _HOUR_S, at_s + _AHEAD_S)
        elif mode is ForecastMode.WEEK:
            spans = self._of_week(at_s)
        else:
            past = self.between(at_s - _DAY_S, at_s)
            spans = tuple((a + _DAY_S, b + _DAY_S, value) for a, b, value in past)
        return Forecast(self.window, self.name, self.unit, spans)

    def _of_week(self, at_s: float) -> tuple[Span, ...]:
        first, last = np.searchsorted(self._begins, (at_s - PAST_DAYS * _DAY_S, at_s))
        past = [(begin_s, value) for begin_s, _, value in self.spans[first:last]]
        steps = np.diff(self._begins[first:last])
        step_s = max(_STEP_S, float(np.median(steps)) if len(steps) else _HOUR_S)
        found = forecast_of_past(past, at_s, step_s)
        return tuple((begin_s, begin_s + step_s, value) for begin_s, value in found)


@dataclass(frozen=True)
class SimForecasts:
    """The series of a simulation, and when in them it begins."""

    series: tuple[SimSeriesOfValues, ...] = ()
    mode: ForecastMode = ForecastMode.PERFECT
    watts_per_gpu: float = 700.0

    @property
    def begin_s(self) -> float:
        """The time of day when the simulation begins: a day after the first values, so that there
        is always a day before.
        """
        if not self.series:
            return 0.0
        begin_s = max(each.spans[0][0] for each in self.series) + _DAY_S
        end_s = min(each.spans[-1][1] for each in self.series)
        if begin_s >= end_s:
            raise ConfigError("the series have less than two days in common; give longer ones")
        return begin_s

    def feeds(self) -> Iterator[tuple[float, ForecastSeen]]:
        """What the engine is told, and when in virtual time, in order."""
        if self.mode is ForecastMode.NONE or not self.series:
            return
        begin_s, end_s = self.begin_s, min(each.spans[-1][1] for each in self.series)
        for hour in range(int((end_s - begin_s) // _HOUR_S) + 1):
            for each in self.series:
                told = each.told(self.mode, begin_s + hour * _HOUR_S)
                if told.spans:
                    yield hour * _HOUR_S, ForecastSeen(told)


@dataclass(frozen=True, slots=True)
class GoalFigures:
    """What jobs came to. None: no series says it."""

    energy_kwh: float | None = None
    #: In the unit of the series of prices.
    money: float | None = None
    co2_kg: float | None = None
    #: Jobs with a deadline, and those that had ended by then.
    deadlines: int = 0
    deadlines_met: int = 0


def goal_figures(forecasts: SimForecasts, jobs: Sequence[JobRecord]) -> GoalFigures:
    """Of the jobs that have ended; their last run counts."""
    due = [each for each in jobs if each.deadline_s is not None]
    met = sum(each.end_s is not None and each.end_s <= (each.deadline_s or 0.0) for each in due)
    if not forecasts.series:
        return GoalFigures(deadlines=len(due), deadlines_met=met)
    sums = _sums(forecasts, jobs)
    return GoalFigures(
        energy_kwh=sums["kwh"],
        money=sums.get(Window.CHEAP),
        co2_kg=None if (grams := sums.get(Window.LOW_CARBON)) is None else grams / 1000,
        deadlines=len(due),
        deadlines_met=met,
    )


def _sums(forecasts: SimForecasts, jobs: Sequence[JobRecord]) -> Mapping[str, float]:
    found = dict.fromkeys(["kwh", *(each.window for each in forecasts.series)], 0.0)
    for job in jobs:
        if job.end_s is None or not job.run_s:
            continue
        kwh = job.gpus * forecasts.watts_per_gpu * job.run_s / _JOULES_OF_KWH
        found["kwh"] += kwh
        for each in forecasts.series:
            mean = each.truth.mean(forecasts.begin_s + job.end_s - job.run_s, job.run_s)
            if mean is None:
                raise ConfigError(
                    f"{each.name} has no values for the run of {job.name}; give a longer series, "
                    "or fewer jobs"
                )
            found[each.window] += kwh * mean
    return found
