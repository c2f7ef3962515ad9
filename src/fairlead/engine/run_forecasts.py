"""A forecast from several records of runs, the better and more specific ones counting for more."""

import math
from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate, repeat

from fairlead.engine.run_record import RunRecord
from fairlead.model.lazy_dataclass import dataclass

#: How much less each record counts than the next more specific one.
_LESS_SPECIFIC = 0.7
#: The range of a forecast: 8 of 10 runs are within it.
SHARES = (0.1, 0.5, 0.9)


@dataclass(frozen=True, slots=True)
class RunForecast:
    """How long a run takes: a range that is to hold in 8 of 10 cases, and what it is based on."""

    least_s: float
    expected_s: float
    most_s: float
    #: Runs of the most specific record, and which of the levels of likeness that is.
    runs: int
    level: int
    #: Earlier forecasts that it was the most specific record of, and the part of them that held.
    #: Old ones count for less and less.
    judged: float
    held: float


def forecast(records: Sequence[tuple[int, RunRecord]]) -> RunForecast:
    """From records with their levels, the most specific first; at least one."""
    level, first = records[0]
    least_s, expected_s, most_s = _mixed([record for _, record in records])
    widened = math.exp(first.width)
    held = first.held / first.judged if first.judged else 0.0
    return RunForecast(
        least_s / widened, expected_s, most_s * widened, len(first), level, first.judged, held
    )


def _mixed(records: Sequence[RunRecord]) -> tuple[float, float, float]:
    """Quantiles of all of their runs together."""
    weighed: list[tuple[float, float]] = []
    for number, record in enumerate(records):
        weight = _LESS_SPECIFIC**number / record.mean_error**2 / len(record)
        weighed += zip(record.sorted, repeat(weight))
    weighed.sort()
    reached = list(accumulate(weight for _, weight in weighed))
    low, middle, high = (weighed[bisect_left(reached, share * reached[-1])][0] for share in SHARES)
    return low, middle, high
