"""Pods that end, in the order of their ends, and the times at which a start is looked for."""

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from fairlead.cluster.arrays import Rows
from fairlead.model.backfill import BackfillTerms
from fairlead.model.lazy_dataclass import dataclass

#: How many times are tried, and how many of them in a row.
_MOST_TIMES = 24
_IN_A_ROW = 12

Times = npt.NDArray[np.float64]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class EndingPods:
    """Pods that end, in the order of their ends."""

    at_s: Times
    rows: Rows
    #: What each of them takes, a column each, of the amounts that are counted.
    taken: npt.NDArray[np.int64]
    uids: Sequence[str]
    bounded: Sequence[bool]

    def count(self, until_s: float) -> int:
        """How many end by then."""
        return int(np.searchsorted(self.at_s, until_s, side="right"))

    def freed(self, until_s: float, shape: tuple[int, ...]) -> npt.NDArray[np.int64]:
        """What rows have more by then."""
        count = self.count(until_s)
        rows, found = self.rows[:count], np.zeros(shape, dtype=np.int64)
        for at, amounts in enumerate(self.taken):
            found[at] = np.bincount(rows, weights=amounts[:count], minlength=shape[1])
        return found


def lumped(at_s: Times, now: float, terms: BackfillTerms) -> Times:
    """Times that are near to each other become one, the last of them.

    The further away they are, the wider apart: by the resolution up to 32 times of it from now,
    then twice as much for each doubling.
    """
    times = np.unique(at_s[(at_s <= now + terms.window_s)])
    if not len(times) or terms.resolution_s <= 0:
        return times
    ahead = np.maximum(times - now, 0.0) / terms.resolution_s
    coarse = np.exp2(np.maximum(0.0, np.floor(np.log2(np.maximum(ahead, 1.0))) - 4))
    bucket = np.ceil(ahead / coarse) * coarse
    last = np.append(bucket[1:] != bucket[:-1], True)
    found: Times = times[last]
    return found


def first_of(times: Sequence[float], found_at: Callable[[float], T | None]) -> T | None:
    """What is found at the first of the times at which anything is.

    The first ones are tried in a row, then fewer and fewer, the last one included; where some were
    left out, those between the last failure and the first success are halved.
    """
    failed, at, step = -1, 0, 1
    for number in range(_MOST_TIMES):
        if at >= len(times):
            return None
        found = found_at(times[at])
        if found is not None:
            return _halved(times, failed, at, found, found_at)
        failed = at
        step = step if number < _IN_A_ROW else 2 * step
        at = at + 1 if at >= len(times) - 1 else min(at + step, len(times) - 1)
    return None


def _halved(
    times: Sequence[float], failed: int, at: int, found: T, found_at: Callable[[float], T | None]
) -> T:
    while at - failed > 1:
        middle = (failed + at) // 2
        earlier = found_at(times[middle])
        if earlier is None:
            failed = middle
        else:
            at, found = middle, earlier
    return found
