"""When a unit starts, why then, and what to say where it does not choose."""

from collections.abc import Iterator

from fairlead.model.forecasts import ChosenStart
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.start_times import (
    DEADLINE,
    NOT_BEFORE,
    START_WINDOW,
    WAIT_TIMEOUT,
    StartTimes,
    of_pods,
    utc,
    words,
)
from fairlead.queue.units import Unit


@dataclass(frozen=True, slots=True)
class StartPlan:
    """When a unit starts, in seconds since 1970, and why then."""

    times: StartTimes
    start_s: float
    #: It starts then at the latest; None: it does not wait for a window.
    latest_s: float | None = None
    run_s: float | None = None
    chosen: ChosenStart | None = None
    source: str = ""
    unit: str = ""
    #: Why no window is chosen, although it asks for one.
    problem: str = ""
    #: The forecast was not read yet.
    awaits: bool = False
    #: When a forecast moved the start last.
    moved_s: float = 0.0

    @property
    def sentence(self) -> str:
        if self.chosen is None:
            why = self.problem or ("the forecast is not read yet" if self.awaits else NOT_BEFORE)
            return f"it starts at {utc(self.start_s)} at the earliest ({why})"
        assert self.run_s is not None
        assert self.latest_s is not None
        return (
            f"it starts at {utc(self.start_s)}: {self.source} forecasts a mean of "
            f"{self.chosen.mean:.4g} {self.unit} over its run of {words(self.run_s)}, and "
            f"{self.chosen.first_mean:.4g} for a start at once; at the latest it starts at "
            f"{utc(self.latest_s)}"
        )


OVER = (
    f"it was to wait until {{}} at most ({WAIT_TIMEOUT}) and is not started any more; delete it, "
    "or change the annotation"
)
NO_RUN_TIME = (
    f"{START_WINDOW} is not used: no run time is known; write fairlead.dev/run-time, such as 4h"
)
NO_LIMIT = (
    f"{START_WINDOW} is not used: nothing says how long it may wait; write {DEADLINE}, or a time "
    "such as low-carbon 8h"
)
NO_VALUES = f"{START_WINDOW} is not used: the forecast has no values for a run that starts at once"


def unit_times(unit: Unit) -> StartTimes:
    return of_pods(pod.start for pod in unit.pods)


def times_of(key: str, plan: StartPlan) -> Iterator[tuple[float, str]]:
    yield plan.start_s, key
    if plan.times.give_up_s is not None:
        yield plan.times.give_up_s, key
    if plan.times.deadline_s is not None:
        yield too_late_s(plan, plan.times.deadline_s), key


def too_late_s(plan: StartPlan, deadline_s: float) -> float:
    """From when on its deadline cannot be met."""
    return deadline_s - (plan.run_s or 0.0) + 1.0


def latest_start_s(times: StartTimes, most_s: float) -> float | None:
    """The last start with which the deadline is met, if the run takes as long as it may."""
    limits = [] if times.start_by_s is None else [times.start_by_s]
    limits += [] if times.deadline_s is None else [times.deadline_s - most_s]
    return min(limits, default=None)
