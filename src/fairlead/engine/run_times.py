"""How long units run: what waiting ones will take, and when running ones end."""

from collections.abc import Callable, Iterable

from fairlead.cluster.holdings import Holding
from fairlead.model.consolidation import time_of
from fairlead.model.pods import Pod
from fairlead.model.run_times import RunEnd, RunTime
from fairlead.queue.units import Unit

#: The range of an estimate of which there is no record, in parts of it.
_SHORTEST, _LONGEST = 0.5, 2.0
#: A kubelet that ends a pod needs some time.
_GRACE_S = 60.0


class RunTimes:
    """What pods declare. It reads no clock: `now` is that of the engine."""

    def __init__(
        self, holding_of: Callable[[str], Holding | None], wall_offset_s: Callable[[], float]
    ) -> None:
        self._holding_of, self._wall_offset_s = holding_of, wall_offset_s

    def of(self, unit: Unit) -> RunTime | None:
        """What a waiting unit will take; None: nothing is known."""
        return _longest(map(self.of_pod, unit.pods))

    def of_pod(self, pod: Pod) -> RunTime | None:
        """What one pod takes; None: nothing is known."""
        declared = pod.run_time
        return declared if declared is not None and declared.expected_s is not None else None

    def quantiles(self, unit: Unit) -> tuple[float, float, float] | None:
        """How long it runs at least, as expected, and at most, in 8 of 10 cases."""
        known = self.of(unit)
        return None if known is None else _range(known)

    def end_s(self, pod_uid: str, *, now: float) -> RunEnd | None:
        """When a pod that holds a place ends; None if nothing is known, as of services."""
        held = self._holding_of(pod_uid)
        known = None if held is None else self.of_pod(held.pod)
        if held is None or known is None:
            return None
        return _end(known, self._started(held.pod, now), now)

    def _started(self, pod: Pod, now: float) -> float:
        """On the clock of the engine. A pod that has not started does so at once."""
        wall_s = time_of(pod.started)
        return now if wall_s is None else min(now, wall_s - self._wall_offset_s())


def _longest(known: Iterable[RunTime | None]) -> RunTime | None:
    """A unit has ended when its last pod has."""
    last: RunTime | None = None
    for each in known:
        if each is None:
            return None
        if last is None or (each.expected_s or 0.0) > (last.expected_s or 0.0):
            last = each
    return last


def _range(known: RunTime) -> tuple[float, float, float]:
    expected_s, bound_s = known.expected_s or 0.0, known.bound_s
    latest_s = _LONGEST * expected_s
    return _SHORTEST * expected_s, expected_s, min(latest_s, bound_s or latest_s)


def _end(known: RunTime, started_s: float, now: float) -> RunEnd:
    ran_s, (least_s, expected_s, most_s) = now - started_s, _range(known)
    bounded = _is_bounded(known, ran_s)
    overdue = ran_s >= expected_s
    if overdue:
        least_s, expected_s, most_s = ran_s, _extended(expected_s, ran_s), 2 * most_s
    if bounded and known.bound_s is not None:
        expected_s, most_s = max(ran_s, min(expected_s, known.bound_s)), known.bound_s
    latest_s = started_s + max(most_s, expected_s)
    return RunEnd(max(now, started_s + least_s), started_s + expected_s, latest_s, bounded, overdue)


def _is_bounded(known: RunTime, ran_s: float) -> bool:
    """A unit that runs longer than its bound has none any more."""
    grace_s = _GRACE_S if known.enforced else 0.0
    return known.bound_s is not None and ran_s < known.bound_s + grace_s


def _extended(expected_s: float, ran_s: float) -> float:
    """Doubled until it is longer: plans change once for each doubling, not all the time."""
    while expected_s <= ran_s:
        expected_s *= 2
    return expected_s
