"""When a unit is to be done, as its pods say."""

from datetime import UTC, datetime

from fairlead.queue.units import Unit

DEADLINE = "fairlead.dev/deadline"

#: How long a unit is taken to run of which nothing is known.
UNKNOWN_S = 86400.0

_LONGEST_WORD = 64


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
