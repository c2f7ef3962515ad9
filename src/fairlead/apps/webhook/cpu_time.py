"""An end for work that takes too much CPU time, without a thread or a process of its own.

The kernel counts the CPU time of this process and sends SIGPROF when it is used up. Python runs the
handler between two steps of the work, in the main thread, where it raises.
"""

import signal
from collections.abc import Callable
from types import FrameType
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class TookTooLong(BaseException):
    """The work used up its time. No `except Exception` on the way holds it."""


class _Alarm:
    """Rings only while there is work: a signal that comes late must end nothing else."""

    is_set = False

    def ring(self, _signal: int, _frame: FrameType | None) -> None:
        if self.is_set:
            self.is_set = False
            raise TookTooLong


_alarm = _Alarm()


def within(cpu_s: float, work: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
    """What the work returns. Raises TookTooLong. Call it in the main thread."""
    signal.signal(signal.SIGPROF, _alarm.ring)
    try:
        _alarm.is_set = True
        signal.setitimer(signal.ITIMER_PROF, cpu_s)
        return work(*args, **kwargs)
    finally:
        _alarm.is_set = False
        signal.setitimer(signal.ITIMER_PROF, 0)
