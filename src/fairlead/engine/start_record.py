"""Forecasts of starts against what happened: which part of them held, and how wrong they were.

A forecast is a range, made while a unit waits. It is judged when the unit starts, or when the range
has passed. Forecasts are alike if they are made about as long ahead, and if they rest on bounds or
on estimates. Everything is bounded, and the record is kept across restarts (`start_dumps.py`).
"""

import math
from collections import Counter, OrderedDict
from collections.abc import Callable
from hashlib import blake2b
from itertools import product

from fairlead.engine.run_record import RunRecord
from fairlead.model.lazy_dataclass import dataclass

#: Units with forecasts that are not judged yet.
MOST_OPEN = 128
#: Starts are shown by the minute.
TOLERATED_S = 60.0
#: Forecasts that a record needs before it is quoted.
ENOUGH_JUDGED = 5.0
#: A unit that has not started so long after the range is left out.
_GIVEN_UP_S = 7 * 86_400.0
_MOST_RATIO = 1e3
#: A range ends so long after the forecast at the latest: users state bounds of any length.
_LONGEST_S = 10 * 365 * 86_400.0


@dataclass(frozen=True, slots=True)
class ForecastClass:
    """Which forecasts are alike."""

    #: Made less than so long ahead of the expected start.
    within_s: float
    #: It rests on bounds alone.
    bounded: bool

    @property
    def ahead(self) -> str:
        """For people and metrics."""
        return _AHEAD[self.within_s]


_AHEAD = {600.0: "10m", 3600.0: "1h", 21_600.0: "6h", math.inf: "longer"}
#: All of them, in the order in which they are kept.
CLASSES = tuple(ForecastClass(*each) for each in product(_AHEAD, (False, True)))


def class_of(ahead_s: float, *, bounded: bool) -> ForecastClass:
    """That of a forecast that is made so long before the start."""
    return next(each for each in CLASSES if ahead_s < each.within_s and each.bounded is bounded)


@dataclass(slots=True)
class OpenForecast:
    """Times are on the clock of the engine."""

    made_s: float
    earliest_s: float
    expected_s: float
    latest_s: float
    #: The range has passed, and that was counted.
    missed: bool = False


@dataclass(slots=True)
class _Waiting:
    """Empty where a restart has left the hash alone."""

    key: str
    forecasts: dict[ForecastClass, OpenForecast]


class StartRecord:
    """It reads no clock. Names of units are not kept, only hashes of them."""

    def __init__(self) -> None:
        self.classes = {each: RunRecord() for each in CLASSES}
        self._open: OrderedDict[bytes, _Waiting] = OrderedDict()
        #: Since the start of the process: how many were (class, "held", "early" or "late"); and by
        #: how much starts differed from what was expected, in seconds.
        self.counts: Counter[tuple[str, str]] = Counter()
        self.errors_s: Counter[str] = Counter()
        #: Grows with each change.
        self.version = 0

    def __bool__(self) -> bool:
        """Whether a start is awaited."""
        return bool(self._open)

    def of(self, ahead_s: float, *, bounded: bool) -> RunRecord:
        """How such forecasts did: see `RunRecord.judged`, `held` and `width`."""
        return self.classes[class_of(ahead_s, bounded=bounded)]

    def held_part(self, ahead_s: float) -> float | None:
        """The part of forecasts made so long ahead that held, on bounds or not; None: unknown."""
        both = [self.of(ahead_s, bounded=bounded) for bounded in (False, True)]
        judged = sum(each.judged for each in both)
        return sum(each.held for each in both) / judged if judged >= ENOUGH_JUDGED else None

    # -- forecasts that are made -------------------------------------------------------------

    def note(self, key: str, forecast: OpenForecast, *, bounded: bool) -> None:
        """The first forecast of a unit in each class counts."""
        digest = digest_of(key)
        found = self._open.get(digest)
        if found is None:
            found = self._open[digest] = _Waiting(key, {})
            if len(self._open) > MOST_OPEN:
                self._open.popitem(last=False)
        found.key = key
        kind = class_of(forecast.expected_s - forecast.made_s, bounded=bounded)
        if kind not in found.forecasts:
            forecast.latest_s = min(forecast.latest_s, forecast.made_s + _LONGEST_S)
            found.forecasts[kind] = forecast
            self.version += 1

    def tend(self, now: float, waits: Callable[[str], bool]) -> None:
        """Ranges that have passed are judged; units that are gone are left out."""
        for digest, unit in [*self._open.items()]:
            for kind, forecast in unit.forecasts.items():
                if now > forecast.latest_s + TOLERATED_S and not forecast.missed:
                    forecast.missed = True
                    self._judge(kind, "late")
            last_s = max(each.latest_s for each in unit.forecasts.values())
            if now > last_s + _GIVEN_UP_S or (unit.key and not waits(unit.key)):
                del self._open[digest]
                self.version += 1

    # -- what happened -----------------------------------------------------------------------

    def started(self, key: str, now: float) -> None:
        """A unit has nodes now."""
        unit = self._open.pop(digest_of(key), None)
        for kind, forecast in unit.forecasts.items() if unit else ():
            if not forecast.missed:
                self._judge(kind, _result(forecast, now))
            self._learn(kind, forecast, now)

    def _judge(self, kind: ForecastClass, result: str) -> None:
        self.classes[kind].judge(held=result == "held")
        self.counts[kind.ahead, result] += 1
        self.version += 1

    def _learn(self, kind: ForecastClass, forecast: OpenForecast, now: float) -> None:
        """By which factor the wait was another one than expected."""
        self.errors_s[kind.ahead] += round(abs(now - forecast.expected_s))
        waited_s = max(TOLERATED_S, now - forecast.made_s)
        expected_s = max(TOLERATED_S, forecast.expected_s - forecast.made_s)
        self.classes[kind].add(min(max(waited_s / expected_s, 1 / _MOST_RATIO), _MOST_RATIO))

    # -- to keep it --------------------------------------------------------------------------

    def open(self) -> list[tuple[bytes, dict[ForecastClass, OpenForecast]]]:
        """Forecasts that are not judged yet, by hash of the unit; the oldest first."""
        return [(digest, unit.forecasts) for digest, unit in self._open.items()]

    def take(self, other: "StartRecord") -> None:
        """What was kept, in place of what was recorded here."""
        self.classes, self._open = other.classes, other._open
        self.version += 1

    def reopen(self, digest: bytes, kind: ForecastClass, forecast: OpenForecast) -> None:
        """One that was made before a restart."""
        if len(self._open) < MOST_OPEN or digest in self._open:
            self._open.setdefault(digest, _Waiting("", {})).forecasts[kind] = forecast


def digest_of(key: str) -> bytes:
    return blake2b(key.encode(), digest_size=8).digest()


def _result(forecast: OpenForecast, now: float) -> str:
    if now < forecast.earliest_s - TOLERATED_S:
        return "early"
    return "late" if now > forecast.latest_s + TOLERATED_S else "held"
