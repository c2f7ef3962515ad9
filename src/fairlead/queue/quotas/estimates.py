"""When a unit is to be done, as its pods say."""

from fairlead.queue.units import Unit

#: How long a unit is taken to run of which nothing is known.
UNKNOWN_S = 86400.0


def deadline_s(unit: Unit) -> float | None:
    """The earliest that one of its pods says, in seconds since 1970."""
    said = (pod.start.deadline_s for pod in unit.pods if pod.start is not None)
    return min((each for each in said if each is not None), default=None)
