"""A forecast from what was: the mean day of the last week, and how far now is from it.

Yesterday alone is a poor forecast where days differ by weather; the mean of several days keeps what
they have in common. What is unusual now lasts for some hours, and fades.
"""

from collections.abc import Sequence

_HOUR_S, _DAY_S = 3600.0, 86_400.0
#: Days that are looked at, and for how many days a forecast is made.
PAST_DAYS, _AHEAD_DAYS = 7, 2
#: Over which time the difference from the mean day is taken, and what is left of it after an hour.
_RECENT_S, _LEFT_AFTER_HOUR = 3 * _HOUR_S, 0.95

#: When a value begins to hold, and the value.
Sample = tuple[float, float]


def forecast_of_past(samples: Sequence[Sample], now_s: float, step_s: float) -> list[Sample]:
    """Values for each step of the next days, as far as times of the day have values.

    With the samples of one day, it is that day again.
    """
    steps = round(_DAY_S / step_s)
    used = [each for each in samples if now_s - PAST_DAYS * _DAY_S <= each[0] < now_s]
    if not used:
        return []
    days = _mean_day(used, now_s, step_s, steps)
    recent = [
        value - day
        for at_s, value in used
        if at_s >= now_s - _RECENT_S
        and (day := days[_place(at_s, now_s, step_s, steps)]) is not None
    ]
    unusual = sum(recent) / len(recent) if recent else 0.0
    least, most = min(value for _, value in used), max(value for _, value in used)
    found = []
    for number in range(_AHEAD_DAYS * steps):
        usual = days[number % steps]
        if usual is not None:
            left = unusual * _LEFT_AFTER_HOUR ** ((number + 0.5) * step_s / _HOUR_S)
            found.append((now_s + number * step_s, min(most, max(least, usual + left))))
    return found


def _mean_day(
    samples: Sequence[Sample], now_s: float, step_s: float, steps: int
) -> list[float | None]:
    """The mean of each step of the day, counted from now; None: there is no value."""
    sums, counts = [0.0] * steps, [0] * steps
    for at_s, value in samples:
        place = _place(at_s, now_s, step_s, steps)
        sums[place] += value
        counts[place] += 1
    return [total / count if count else None for total, count in zip(sums, counts, strict=True)]


def _place(at_s: float, now_s: float, step_s: float, steps: int) -> int:
    return int((at_s - now_s) // step_s) % steps
