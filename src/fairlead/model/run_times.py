"""How long a unit runs after its start: an estimate, or a bound.

An estimate is what is expected: nothing happens when it passes, and plans are made again. A bound
is when the unit is ended.
"""

import re

from fairlead.model.lazy_dataclass import dataclass

#: On a pod, or on the object of its gang: how long it is expected to run.
RUN_TIME = "fairlead.dev/run-time"
#: On a pod, or on the object of its gang: the longest that it says it runs. Nothing ends it then.
TIME_LIMIT = "fairlead.dev/time-limit"

#: Where a run time comes from.
ANNOTATION, LIMIT = "annotation", "time limit"
DEADLINE = "activeDeadlineSeconds"
POD_DEADLINE, JOB_DEADLINE = f"pod {DEADLINE}", f"job {DEADLINE}"
KUEUE, SLURM, LEARNED = "kueue", "slurm", "learned"
VOLCANO = "Volcano runningEstimate"

#: A longer run time is taken for a mistake.
LONGEST_S = 366 * 86400.0

_SECONDS = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0}
_LONGEST_CHARS = 64
_PART = r"(\d{1,9}(?:\.\d{1,9})?)([dhms])"
_DURATION = re.compile(f"(?:{_PART})+", re.ASCII)


@dataclass(frozen=True, slots=True)
class RunTime:
    """What is known before a unit starts, in seconds from its start."""

    estimate_s: float | None = None
    bound_s: float | None = None
    #: Where it comes from, in short.
    source: str = ""
    #: Whether a kubelet or a controller ends the unit at the bound.
    enforced: bool = True
    #: What is wrong with what was declared; that part is unknown then.
    problem: str = ""

    @property
    def expected_s(self) -> float | None:
        """The estimate, and never more than the bound."""
        if self.estimate_s is None or self.bound_s is None:
            return self.bound_s if self.estimate_s is None else self.estimate_s
        return min(self.estimate_s, self.bound_s)


@dataclass(frozen=True, slots=True)
class RunEnd:
    """When a running pod ends, on the clock of the engine."""

    earliest_s: float
    expected_s: float
    #: None: nothing is known.
    latest_s: float | None
    #: Whether it is ended then, at the latest.
    bounded: bool = False
    #: Whether it runs longer than it was expected to, or than it said.
    overdue: bool = False


def duration_s(word: str) -> float | None:
    """Of "90m", "2h30m" or a number of seconds; None if it is none of these."""
    if len(word) > _LONGEST_CHARS:
        return None
    if word.isascii() and word.isdigit():
        return float(word)
    if not _DURATION.fullmatch(word):
        return None
    return sum(float(number) * _SECONDS[unit] for number, unit in re.findall(_PART, word))


def checked_s(key: str, word: str, seconds: float | None) -> tuple[float | None, str]:
    """How long it is, and what is wrong with it: one of the two is empty."""
    if seconds is not None and 0 < seconds <= LONGEST_S:
        return seconds, ""
    return None, f"{key} is {word[:32]!r} and is ignored: {_fault(word, seconds)}"


def _fault(word: str, seconds: float | None) -> str:
    if word.startswith("-") or seconds == 0:
        return "it must be longer than 0"
    if seconds is None:
        return "write a duration such as 90m, 2h30m or 5400 (seconds)"
    return "it must be at most 366 days"
