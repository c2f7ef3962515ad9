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
#: What Python keeps where it returns nothing: the same goes on being called.
Trace = Callable[[FrameType, str, Any], Any]


@dataclass
class Counted:
    lines: int = 0
    bytes: int = 0


class _Tracing:
    """Traces lines with `inside`, except for what runs once in a process, as modules that load."""

    def __init__(self, inside: Trace) -> None:
        self._inside = inside
        self._is_loading = False

    def call(self, frame: FrameType, _event: str, _arg: Any) -> Trace | None:
        code = frame.f_code
        if self._is_loading or code.co_filename in _ONCE:
            return None
        if code.co_name == "<module>":
            self._is_loading = True
            return self._loading
        return None if code.co_filename.startswith("<frozen importlib") else self._inside

    def _loading(self, _frame: FrameType, event: str, _arg: Any) -> Trace:
        if event == "return":
            self._is_loading = False
        return self._loading


@contextmanager
def counting_lines() -> Iterator[Counted]:
    """Lines alone: that takes a quarter of the time."""
    counted, lines = Counted(), 0

    def inside(_frame: FrameType, event: str, _arg: Any) -> None:
        nonlocal lines
        if event == "line":
            lines += 1

    sys.settrace(_Tracing(inside).call)
    try:
        yield counted
    finally:
        sys.settrace(None)
        counted.lines = lines


@contextmanager
def counting() -> Iterator[Counted]:
    counted = Counted()
    tracemalloc.start()
    at_last_line = 0

    def inside(_frame: FrameType, event: str, _arg: Any) -> None:
        nonlocal at_last_line
        if event != "line":
            return
        counted.lines += 1
        held, most = tracemalloc.get_traced_memory()
        counted.bytes += max(0, most - at_last_line)
        at_last_line = held
        tracemalloc.reset_peak()

    def profile(_frame: FrameType, event: str, called: Any) -> None:
        if event == "c_call" and type(array := called.__self__) is np.ndarray:
            counted.bytes += array.nbytes

    sys.setprofile(profile)
    sys.settrace(_Tracing(inside).call)
    try:
        yield counted
    finally:
        sys.settrace(None)
        sys.setprofile(None)
        tracemalloc.stop()
