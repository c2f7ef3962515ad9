"""What a queue has used: with a half-life, and since the current day and month began, in UTC.

Use is integrated exactly between changes. Asking for it changes nothing, not even a rounding: the
same changes at the same times give the same numbers, however often they are looked at. A clock that
goes back changes nothing; use counts again from the time it had reached.
"""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from math import isfinite, log

from fairlead.model.queues import GpuBudget, PastUse, Period

#: Use that is so old counts half.
HALF_LIFE_S = 7 * 86400.0

#: A recorded time that is later than this is that of a wrong clock.
_LONGEST_SKEW_S = 60.0
_FIRST_S, _LAST_S = 0.0, datetime(9999, 1, 1, tzinfo=UTC).timestamp()


class UseMeter:
    """The use of one queue. GPUs are counted in thousandths, as amounts of queues are."""

    __slots__ = ("_at_s", "_day_s", "_half_life_s", "_month_s", "_past", "_rate", "_reached_s")

    def __init__(
        self, now_s: float, recorded: PastUse | None = None, half_life_s: float = HALF_LIFE_S
    ) -> None:
        """It goes on from what was recorded; the time since then is not counted."""
        self._half_life_s = half_life_s
        self._rate = 0.0
        past = (0.0, 0.0, 0.0)
        self._at_s = now_s
        if recorded is not None and 0.0 <= recorded.at_s <= now_s + _LONGEST_SKEW_S:
            self._at_s = recorded.at_s
            past = recorded.gpu_seconds, recorded.day_hours, recorded.month_hours
        #: GPU-seconds with half-life, GPU-hours of the day and of the month.
        self._past = tuple(value if isfinite(value) and value > 0.0 else 0.0 for value in past)
        self._day_s, self._month_s = day_end(self._at_s), month_end(self._at_s)
        #: The latest time that it was asked about.
        self._reached_s = self._at_s

    def use(self, gpu_milli: int, now_s: float) -> None:
        """From now on it uses so much."""
        past = self.at(now_s)
        if past.at_s > self._at_s:
            self._past = past.gpu_seconds, past.day_hours, past.month_hours
            self._at_s = past.at_s
            self._day_s, self._month_s = day_end(self._at_s), month_end(self._at_s)
        self._rate = gpu_milli / 1000.0

    def at(self, now_s: float) -> PastUse:
        to_s = self._reached_s = max(now_s, self._reached_s)
        day = self._since(self._past[1], self._day_s, to_s, day_start)
        month = self._since(self._past[2], self._month_s, to_s, month_start)
        return PastUse(to_s, self._seconds(to_s), day, month)

    def fraction(self, now_s: float, capacity_milli: float) -> float:
        """Of what a cluster with so many GPUs could have done, with the same half-life."""
        self._reached_s = max(now_s, self._reached_s)
        whole = capacity_milli / 1000.0 * self._half_life_s / log(2.0)
        return min(1.0, self._seconds(self._reached_s) / whole) if whole > 0.0 else 0.0

    def _seconds(self, to_s: float) -> float:
        """GPU-seconds with half-life."""
        kept: float = 0.5 ** ((to_s - self._at_s) / self._half_life_s)
        new = self._rate * (1.0 - kept) * self._half_life_s / log(2.0)
        return self._past[0] * kept + new

    def _since(
        self, hours: float, end_s: float, to_s: float, start: Callable[[float], float]
    ) -> float:
        """Hours of the period that `to_s` is in."""
        if to_s < end_s:
            return hours + self._rate * (to_s - self._at_s) / 3600.0
        return self._rate * (to_s - start(to_s)) / 3600.0


def exhausted(budgets: Iterable[GpuBudget], past: PastUse) -> GpuBudget | None:
    """The first budget of which nothing is left."""
    for budget in budgets:
        used = past.day_hours if budget.period is Period.DAY else past.month_hours
        if used >= budget.gpu_hours:
            return budget
    return None


def period_end(period: Period, now_s: float) -> float:
    """When the budget begins again."""
    return day_end(now_s) if period is Period.DAY else month_end(now_s)


def day_start(now_s: float) -> float:
    return now_s - now_s % 86400.0


def day_end(now_s: float) -> float:
    return day_start(now_s) + 86400.0


def month_start(now_s: float) -> float:
    return _first_of_month(now_s).timestamp()


def month_end(now_s: float) -> float:
    later = _first_of_month(now_s) + timedelta(days=32)
    return later.replace(day=1).timestamp()


def _first_of_month(now_s: float) -> datetime:
    moment = datetime.fromtimestamp(min(max(now_s, _FIRST_S), _LAST_S), UTC)
    return moment.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
