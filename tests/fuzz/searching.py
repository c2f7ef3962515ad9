"""Which cases are tried: those of `make test`, or more of them with `make fuzz SEED= FOR=`.

A case is a number from which all of it is drawn. Each is printed before it is tried, so the last
one in the output of a test is the one that failed.
"""

import os
import sys
import time
from collections.abc import Iterator

import pytest

SEED = int(os.environ.get("FUZZ_SEED") or 1)
#: How long each test searches beyond its cases.
FOR_S = float(os.environ.get("FUZZ_FOR") or 0)
#: For tests that search, which end by themselves.
no_timeout = pytest.mark.timeout(0 if FOR_S else 1200)


def cases(count: int) -> Iterator[int]:
    """So many cases, and then others for as long as asked."""
    yield from _numbered(range(count))
    if FOR_S:
        yield from _searched(count)


def batches(count: int, size: int = 20) -> list[object]:
    """The same in parts, each of them for one call of a parametrized test."""
    found: list[object] = [
        pytest.param(_numbered(range(first, min(first + size, count))), id=f"from {first}")
        for first in range(0, count, size)
    ]
    if FOR_S:
        found.append(pytest.param(_searched(count), id="as long as asked", marks=no_timeout))
    return found


def _numbered(numbers: range) -> Iterator[int]:
    for number in numbers:
        case = SEED * 1_000_000 + number
        print(f"case {case}")
        yield case


def _searched(first: int) -> Iterator[int]:
    until_s = time.monotonic() + FOR_S
    for case in _numbered(range(first, 1_000_000)):
        left_s = until_s - time.monotonic()
        if left_s < 0:
            return
        print(f"\rcase {case}, {left_s:.0f} s left ", end="", file=sys.stderr)
        yield case
