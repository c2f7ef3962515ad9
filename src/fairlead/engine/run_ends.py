"""When a running unit ends, from what was expected of it and how long it has run."""

from collections.abc import Callable

from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.run_times import RunEnd, RunTime

#: The range of an estimate of which there is no record, in parts of it.
_SHORTEST, _LONGEST = 0.5, 2.0
#: A kubelet that ends a pod needs some time.
_GRACE_S = 60.0

#: What a run takes that has taken so long already; None: too few have.
Beyond = Callable[[float], float | None]


@dataclass(frozen=True, slots=True)
class Expectation:
    """What is expected of a run at its start, in seconds from then."""

    known: RunTime
    least_s: float
    expected_s: float
    most_s: float
    #: It is overdue when it has run for so long.
    overdue_s: float

    @staticmethod
    def declared(known: RunTime, ratios: tuple[float, float, float] | None = None) -> "Expectation":
        """`known` has an estimate or a bound; `ratios` are what others of the kind came to."""
        expected_s = known.expected_s or 0.0
        if ratios is None or not ratios[1]:
            least, most = _SHORTEST, _LONGEST
        else:
            least, most = ratios[0] / ratios[1], ratios[2] / ratios[1]
        return Expectation.within(known, least * expected_s, most * expected_s, expected_s)

    @staticmethod
    def within(
        known: RunTime, least_s: float, most_s: float, overdue_s: float | None = None
    ) -> "Expectation":
        """A range, which a bound ends."""
        expected_s, bound_s = known.expected_s or 0.0, known.bound_s
        most_s = most_s if bound_s is None else min(most_s, bound_s)
        overdue_s = most_s if overdue_s is None else overdue_s
        return Expectation(known, min(least_s, expected_s), expected_s, most_s, overdue_s)


def end_of(expected: Expectation, started_s: float, now: float, beyond: Beyond) -> RunEnd:
    """On the clock of the engine."""
    known, ran_s = expected.known, now - started_s
    expected_s, most_s = expected.expected_s, expected.most_s
    if ran_s >= expected_s:
        expected_s = _extended(expected_s, ran_s, beyond)
        most_s = max(most_s, _LONGEST * expected_s if ran_s >= most_s else expected_s)
    bounded = _is_bounded(known, ran_s)
    if bounded and known.bound_s is not None:
        expected_s = max(ran_s, min(expected_s, known.bound_s))
        most_s = max(ran_s, known.bound_s)
    return RunEnd(
        max(now, started_s + expected.least_s),
        started_s + expected_s,
        started_s + max(most_s, expected_s),
        bounded,
        ran_s >= expected.overdue_s,
    )


def _is_bounded(known: RunTime, ran_s: float) -> bool:
    """A unit that runs longer than its bound has none any more."""
    grace_s = _GRACE_S if known.enforced else 0.0
    return known.bound_s is not None and ran_s < known.bound_s + grace_s


def _extended(expected_s: float, ran_s: float, beyond: Beyond) -> float:
    """What longer ones took, else doubled until it is longer.

    Runs are compared in steps that double, so that plans change a few times, not all the time.
    """
    step_s = expected_s
    while 2 * step_s <= ran_s:
        step_s *= 2
    others_s = beyond(step_s)
    return others_s if others_s is not None and others_s > ran_s else 2 * step_s
