"""What a turn costs, counted: lines of Python that ran, and bytes that numpy went through.

numpy's loops run no lines. What they go through is counted by the memory that each line allocates
for its results, and by the size of arrays whose methods are called (`any`, `sum`, `argmax`). Not
seen are operators that write into an array that exists already.
"""

import dataclasses
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any

import numpy as np

from fairlead.model import lazy_dataclass

#: Methods of dataclasses are compiled when they are first called in a process, not in each turn.
_ONCE = frozenset((lazy_dataclass.__file__, dataclasses.__file__))


@dataclass
class Counted:
    lines: int = 0
    bytes: int = 0


@contextmanager
def counting_lines() -> Iterator[Counted]:
    """Lines alone: that takes a quarter of the time."""
    counted = Counted()

    def trace(frame: FrameType, event: str, _arg: Any) -> Callable[..., Any] | None:
        if event == "line":
            counted.lines += 1
        elif event == "call" and frame.f_code.co_filename in _ONCE:
            return None
        return trace

    sys.settrace(trace)
    try:
        yield counted
    finally:
        sys.settrace(None)


@contextmanager
def counting() -> Iterator[Counted]:
    counted = Counted()
    tracemalloc.start()
    at_last_line = 0

    def trace(frame: FrameType, event: str, _arg: Any) -> Callable[..., Any] | None:
        nonlocal at_last_line
        if event == "call" and frame.f_code.co_filename in _ONCE:
            return None
        if event == "line":
            counted.lines += 1
            held, most = tracemalloc.get_traced_memory()
            counted.bytes += max(0, most - at_last_line)
            at_last_line = held
            tracemalloc.reset_peak()
        return trace

    def profile(_frame: FrameType, event: str, called: Any) -> None:
        if event == "c_call" and type(array := called.__self__) is np.ndarray:
            counted.bytes += array.nbytes

    sys.setprofile(profile)
    sys.settrace(trace)
    try:
        yield counted
    finally:
        sys.settrace(None)
        sys.setprofile(None)
        tracemalloc.stop()
