"""What runs of one kind took: the last few of them, and how well forecasts by them held."""

import math
from array import array
from bisect import bisect_right, insort
from collections.abc import Sequence

#: Runs that are kept. Older ones say less about the next one.
MOST_TIMES = 64
#: How much the record of forecasts forgets with each new one.
_FADES = 0.98
#: Ranges are widened until this part of them holds. It is more than the 8 of 10 that is meant: runs
#: are judged when they end, beside others that ended then, and forecasts are made long before.
_HOLDS, _WIDENS = 0.9, 0.1
WIDEST = 3.0
#: No sum that fades and no time in seconds comes to more than this.
LARGEST = 1e12
#: What a kind without a record is trusted with: so much of an error, as of one forecast.
_UNPROVEN, _LEAST_ERROR = 1.0, 0.05


class RunRecord:
    """Of seconds, or of ratios to what was declared. Its size is bounded."""

    __slots__ = ("_sorted", "error", "forecasts", "held", "judged", "times", "width")

    def __init__(self) -> None:
        #: The oldest first.
        self.times = array("f")
        self._sorted: list[float] = []
        #: Forecasts by this record alone, and the sum of their errors: natural logarithms of the
        #: ratio to what was expected. Both fade.
        self.forecasts = self.error = 0.0
        #: Forecasts in which it is the most specific record, and those of them whose range held.
        self.judged = self.held = 0.0
        #: By how much these ranges are widened, as a natural logarithm.
        self.width = 0.0

    def __len__(self) -> int:
        return len(self.times)

    @property
    def sorted(self) -> Sequence[float]:
        return self._sorted

    @property
    def mean_error(self) -> float:
        """A natural logarithm; large as long as there were few forecasts."""
        return (self.error + _UNPROVEN) / (self.forecasts + 1.0) + _LEAST_ERROR

    def add(self, value: float) -> None:
        """The oldest goes when there are too many."""
        self.times.append(value)
        insort(self._sorted, self.times[-1])
        if len(self.times) > MOST_TIMES:
            self._sorted.remove(self.times.pop(0))

    def score(self, value: float) -> None:
        """How far a forecast by this record alone was from the value."""
        expected = self.quantile(0.5) or value
        self.forecasts = _FADES * self.forecasts + 1.0
        self.error = _FADES * self.error + abs(math.log(value / expected))

    def judge(self, *, held: bool) -> None:
        """Whether the range of a forecast held that this record is the most specific of."""
        self.judged = _FADES * self.judged + 1.0
        self.held = _FADES * self.held + held
        change = _WIDENS * (_HOLDS - held)
        self.width = min(max(self.width + change, 0.0), WIDEST)

    def quantile(self, share: float, above: float = 0.0) -> float | None:
        """The value that so many of those above a limit stay below; None if there are none."""
        first = bisect_right(self._sorted, above)
        count = len(self._sorted) - first
        if not count:
            return None
        place = min(max((count + 1) * share - 1, 0.0), count - 1.0)
        low = int(place)
        high = min(low + 1, count - 1)
        below, beyond = self._sorted[first + low], self._sorted[first + high]
        return below + (place - low) * (beyond - below)

    def above(self, limit: float) -> int:
        """How many are larger."""
        return len(self._sorted) - bisect_right(self._sorted, limit)
