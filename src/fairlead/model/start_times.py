"""When a pod may start, until when it is to have ended, and by which forecast its start is chosen.

fairlead.dev/not-before: 2026-11-20T22:00:00Z    # or a duration after its creation, such as 2h
fairlead.dev/deadline: 2026-11-21T06:00:00Z      # it is to have ended by then; or 10h
fairlead.dev/start-window: low-carbon 8h         # or cheap; it starts within 8 hours at the latest
fairlead.dev/wait-timeout: 12h                   # it is not started after that time
"""

from collections.abc import Collection, Iterable
from datetime import UTC, datetime
from enum import StrEnum

from fairlead.model.lazy_dataclass import dataclass

NOT_BEFORE = "fairlead.dev/not-before"
DEADLINE = "fairlead.dev/deadline"
START_WINDOW = "fairlead.dev/start-window"
WAIT_TIMEOUT = "fairlead.dev/wait-timeout"
#: What a pod says about its start.
START_KEYS = (NOT_BEFORE, DEADLINE, START_WINDOW, WAIT_TIMEOUT)


class Window(StrEnum):
    """What a start is chosen by: a forecast of prices, or of grams of CO2 for a kWh."""

    CHEAP = "cheap"
    LOW_CARBON = "low-carbon"


@dataclass(frozen=True, slots=True)
class StartTimes:
    """In seconds since 1970."""

    created_s: float = 0.0
    #: It is not started before.
    not_before_s: float = 0.0
    #: It is to have ended by then.
    deadline_s: float | None = None
    #: What its start is chosen by; None: it starts as soon as it can.
    window: Window | None = None
    #: With a window: when it starts at the latest.
    start_by_s: float | None = None
    #: It is not started after that; None: it waits for as long as it takes.
    give_up_s: float | None = None
    #: What is wrong with what it says; that part is ignored.
    problem: str = ""


def of_pods(said: Iterable[StartTimes | None]) -> StartTimes:
    """Of a unit: the latest `not-before` and the earliest deadline; a window if all have it."""
    each = [times or _NOTHING for times in said]
    windows = {times.window for times in each}
    return StartTimes(
        created_s=max(times.created_s for times in each),
        not_before_s=max(times.not_before_s for times in each),
        deadline_s=_least(times.deadline_s for times in each),
        window=windows.pop() if len(windows) == 1 else None,
        start_by_s=_least(times.start_by_s for times in each),
        give_up_s=_least(times.give_up_s for times in each),
    )


_NOTHING = StartTimes()


def _least(times: Iterable[float | None]) -> float | None:
    found: Collection[float] = [each for each in times if each is not None]
    return min(found, default=None)


def missed(times: StartTimes, run_s: float | None, at_s: float) -> str:
    """Why the deadline cannot be met if the unit starts now at the earliest; empty if it can."""
    deadline_s = times.deadline_s
    if deadline_s is None:
        return ""
    start_s = max(at_s, times.not_before_s)
    if start_s >= deadline_s:
        return f"the deadline {utc(deadline_s)} has passed, or is not after {NOT_BEFORE}"
    if run_s is None or start_s + run_s <= deadline_s:
        return ""
    late_s = start_s + run_s - deadline_s
    return (
        f"the deadline {utc(deadline_s)} cannot be met: the run takes {words(run_s)}, and would "
        f"end {words(late_s)} too late if it started {'now' if start_s == at_s else utc(start_s)}"
    )


def utc(at_s: float) -> str:
    return datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def words(length_s: float) -> str:
    """As people write a duration: 2h30m, 45m, 20s."""
    whole = round(length_s)
    hours, minutes, seconds = whole // 3600, whole // 60 % 60, whole % 60
    parts = (f"{hours}h" if hours else "", f"{minutes}m" if minutes else "")
    return "".join(parts) + (f"{seconds}s" if seconds and not hours else "") or "0s"
