"""Which start of a run has the lowest mean of a forecast, within the time that the run may wait.

The mean over the whole run counts, not the value at the start. Where the forecast has no values,
nothing is guessed, with one exception: after its end, its last day is repeated, if it has one.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fairlead.model.forecasts import ChosenStart, Forecast

_DAY_S = 86_400.0
#: How long after its end the last day of a forecast is repeated.
_REPEATED_DAYS = 7
#: Means that differ by less than this part of all that the forecast has count as equal: the first
#: start of them is chosen, and a new forecast that says nearly the same moves no start.
_TOLERANCE = 0.01
#: A start that was chosen moves if that gains more than this part.
_MOVES_FOR = 0.05
#: Starts that are compared: of more, as in a long wait with values for each minute, only a part is.
_MOST_STARTS = 1000

_Spans = Sequence[tuple[float, float, float]]


class BestStart:
    """For one forecast: sums are made once, and each question is a look at them."""

    def __init__(self, forecast: Forecast) -> None:
        self.forecast = forecast
        spans = np.array(_repeated(forecast.spans), dtype=np.float64).reshape(-1, 3)
        spans[:, :2] = np.round(spans[:, :2])  # whole seconds: what meets is equal
        spans = spans[spans[:, 1] > spans[:, 0]]
        begins, ends, values = spans[:, 0], spans[:, 1], spans[:, 2]
        self._edges: NDArray[np.float64] = np.unique(np.concatenate((begins, ends)))
        lengths = np.diff(self._edges, prepend=self._edges[:1])
        at = np.searchsorted(self._edges, ends)
        known, summed = np.zeros_like(lengths), np.zeros_like(lengths)
        known[at] = lengths[at]
        summed[at] = values * lengths[at]
        #: Up to each edge: for how long there are values, and their sum over time.
        self._known, self._sum = np.cumsum(known), np.cumsum(summed)
        self._range = float(np.ptp(values)) if len(values) else 0.0

    def choose(self, first_s: float, last_s: float, run_s: float) -> ChosenStart | None:
        """None if the forecast does not say what a start at the first time would come to."""
        if not len(self._edges) or run_s <= 0:
            return None
        between = np.concatenate((self._within(first_s, last_s, 0.0),
                                  self._within(first_s, last_s, run_s)))  # fmt: skip
        between = np.sort(between)[:: 1 + len(between) // _MOST_STARTS]
        starts = np.concatenate(([first_s], between, [max(first_s, last_s)]))
        means = self._means(starts, run_s)
        if not np.isfinite(means[0]):
            return None
        chosen = int(np.argmax(means <= means.min() + _TOLERANCE * self._range))
        return ChosenStart(float(starts[chosen]), float(means[chosen]), float(means[0]))

    def _within(self, first_s: float, last_s: float, run_s: float) -> NDArray[np.float64]:
        """Starts between the two with which a run of that length ends where a value does."""
        from_ = np.searchsorted(self._edges, first_s + run_s, "right")
        return self._edges[from_ : np.searchsorted(self._edges, last_s + run_s)] - run_s

    def mean(self, start_s: float, run_s: float) -> float | None:
        """Of a run that starts then; None if values are missing."""
        if not len(self._edges):
            return None
        found = float(self._means(np.array([start_s]), run_s)[0])
        return found if np.isfinite(found) else None

    def moves(self, start_s: float, run_s: float, to: ChosenStart) -> bool:
        """Whether a run that was to start then starts better at the other time, by more than
        forecasts change all the time.
        """
        kept = self.mean(start_s, run_s)
        return kept is None or kept - to.mean > _MOVES_FOR * self._range

    def _means(self, starts: NDArray[np.float64], run_s: float) -> NDArray[np.float64]:
        """Infinite where a value is missing."""
        ends = starts + run_s
        known = np.interp(ends, self._edges, self._known) - np.interp(
            starts, self._edges, self._known
        )
        summed = np.interp(ends, self._edges, self._sum) - np.interp(starts, self._edges, self._sum)
        whole = known >= run_s - max(1.0, 1e-6 * run_s)
        return np.where(whole, summed / run_s, np.inf)


def _repeated(spans: _Spans) -> list[tuple[float, float, float]]:
    """With copies of the last day after the end."""
    if not spans or spans[-1][1] - spans[0][0] < _DAY_S:
        return [*spans]
    end_s = spans[-1][1]
    last = [(max(a, end_s - _DAY_S), b, value) for a, b, value in spans if b > end_s - _DAY_S]
    days = range(1, _REPEATED_DAYS + 1)
    return [*spans, *((a + n * _DAY_S, b + n * _DAY_S, v) for n in days for a, b, v in last)]
