"""How long a unit will run, and when it is to be done, as its pods say."""

import re
from datetime import UTC, datetime

from fairlead.model.pods import Pod
from fairlead.queue.units import Unit

EXPECTED_DURATION = "fairlead.dev/expected-duration"
DEADLINE = "fairlead.dev/deadline"

#: What a unit that says nothing is taken for.
UNKNOWN_S = 86400.0

_SECONDS = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0}
_LONGEST_WORD = 64
_PART = r"(\d{1,9}(?:\.\d{1,9})?)([dhms])"
_DURATION = re.compile(f"(?:{_PART})+")


def duration_s(word: str) -> float | None:
    """Of "90m", "2h30m" or a number of seconds; None if it is none of these."""
    if len(word) > _LONGEST_WORD:
        return None
    if word.isascii() and word.isdigit():
        return float(word)
    if not _DURATION.fullmatch(word):
        return None
    return sum(float(number) * _SECONDS[unit] for number, unit in re.findall(_PART, word))


def expected_s(unit: Unit) -> float:
    """The longest that one of its pods says."""
    return max((_expected(pod) for pod in unit.pods), default=UNKNOWN_S)


def _expected(pod: Pod) -> float:
    word = pod.annotations.get(EXPECTED_DURATION, "")
    found = duration_s(word) if word else None
    return UNKNOWN_S if found is None else found


def deadline_s(unit: Unit) -> float | None:
    """The earliest that one of its pods says, in seconds since 1970."""
    words = (pod.annotations.get(DEADLINE, "") for pod in unit.pods)
    found = [moment for word in words if word and (moment := _moment(word)) is not None]
    return min(found, default=None)


def _moment(word: str) -> float | None:
    if len(word) > _LONGEST_WORD:
        return None
    try:
        moment = datetime.fromisoformat(word)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    try:
        return moment.timestamp()
    except (OverflowError, ValueError):
        return None
