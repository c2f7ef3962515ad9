"""What a pod says about when it starts (`model/start_times.py` lists the annotations)."""

from collections.abc import Mapping

from fairlead.model.consolidation import time_of
from fairlead.model.run_times import LONGEST_S, duration_s
from fairlead.model.start_times import (
    DEADLINE,
    NOT_BEFORE,
    START_WINDOW,
    WAIT_TIMEOUT,
    StartTimes,
    Window,
)

_LONGEST_CHARS = 64
#: In the year 2286.
_LAST_S = 1e10
_WINDOWS = {window.value: window for window in Window}


def read_start_times(annotations: Mapping[str, str] | None, created: str) -> StartTimes | None:
    """None if it says nothing, which is so of nearly all pods."""
    if not annotations or not (
        NOT_BEFORE in annotations
        or DEADLINE in annotations
        or START_WINDOW in annotations
        or WAIT_TIMEOUT in annotations
    ):
        return None
    created_s = time_of(created) or 0.0
    not_before_s, early = _moment(NOT_BEFORE, annotations, created_s)
    deadline_s, late = _moment(DEADLINE, annotations, created_s)
    give_up_s, never = _moment(WAIT_TIMEOUT, annotations, created_s)
    window, start_by_s, odd = None, None, ""
    words = annotations.get(START_WINDOW)
    if words is not None:
        window, start_by_s, odd = _window(words, created_s)
    problem = early or late or never or odd
    return StartTimes(
        created_s, not_before_s or 0.0, deadline_s, window, start_by_s, give_up_s, problem
    )


def _moment(key: str, annotations: Mapping[str, str], created_s: float) -> tuple[float | None, str]:
    """A time of day, or so long after the pod was created."""
    word = annotations.get(key)
    if word is None:
        return None, ""
    length_s = duration_s(word)
    if length_s is not None and length_s <= LONGEST_S:
        return created_s + length_s, ""
    found = _time(word) if len(word) <= _LONGEST_CHARS else None
    if found is not None:
        return found, ""
    return None, (
        f"{key} is {word[:32]!r} and is ignored: write a time such as 2026-11-20T22:00:00Z, or a "
        "duration after the creation of the pod such as 8h"
    )


def _time(word: str) -> float | None:
    """Without a time zone, it is UTC."""
    try:
        found = time_of(word)
    except (ValueError, OverflowError):
        return None
    return found if found is not None and 0 < found < _LAST_S else None


def _window(words: str, created_s: float) -> tuple[Window | None, float | None, str]:
    word, _, rest = words.strip().partition(" ")
    window = _WINDOWS.get(word)
    length_s = duration_s(rest.strip()) if rest else None
    if window is None or (rest and (length_s is None or length_s > LONGEST_S)):
        return (
            None,
            None,
            (
                f"{START_WINDOW} is {words[:32]!r} and is ignored: write cheap or low-carbon, and "
                "within which time it starts at the latest, such as low-carbon 8h"
            ),
        )
    return window, None if length_s is None else created_s + length_s, ""
