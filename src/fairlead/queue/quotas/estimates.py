"""How long a unit will run, and when it is to be done, as its pods say."""

from datetime import UTC, datetime

from fairlead.model.pods import Pod
from fairlead.queue.units import Unit

DEADLINE = "fairlead.dev/deadline"

#: What a unit that says nothing is taken for.
UNKNOWN_S = 86400.0

_LONGEST_WORD = 64


def expected_s(unit: Unit) -> float:
    """The longest that one of its pods declares."""
    return max((_expected(pod) for pod in unit.pods), default=UNKNOWN_S)


def _expected(pod: Pod) -> float:
    declared = pod.run_time.expected_s if pod.run_time else None
    return UNKNOWN_S if declared is None else declared


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
