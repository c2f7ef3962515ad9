"""JSON of any depth, read as far as it is of use.

The API server takes JSON that is nested thousands of levels deep, as in the managed fields of an
object. What reads JSON here gives up at some depth, also where it only skips a value, and one such
object would end the watch of its kind.
"""

from collections.abc import Callable
from typing import TypeVar

#: Far below what can be read, and far beyond what any object of ours has.
DEEPEST = 100
#: Stands where something was nested more deeply.
TOO_DEEP = "fairlead.dev/nested-too-deeply"
_STRING = b'"' + TOO_DEEP.encode() + b'"'
#: Bytes looked at in one step, so that a large page does not take several times its size.
_STEP = 2**20

_V = TypeVar("_V")


def of_any_depth(read: Callable[[bytes], _V]) -> Callable[[bytes], _V]:
    """The same reader; what is nested too deeply for it is read as `TOO_DEEP`."""

    def reading(raw: bytes) -> _V:
        try:
            return read(raw)
        except RecursionError:
            return read(flattened(raw))

    return reading


def flattened(raw: bytes) -> bytes:
    """The same JSON with a text in place of each value that is nested more than `DEEPEST` levels.

    Takes time in proportion to the length, and no stack. What is not JSON stays as it is, or not.
    """
    kept, end = list[bytes](), 0
    for first, last in _too_deep(raw):
        kept += (raw[end:first], _STRING)
        end = last + 1
    return b"".join((*kept, raw[end:]))


def _too_deep(raw: bytes) -> list[tuple[int, int]]:
    """Where values begin and end that are nested too deeply and in no other such value."""
    import numpy as np  # takes a tenth of a second to load, and hardly any program needs it here

    # Backslashes are in strings only; without these, each quote begins or ends a string.
    text = np.frombuffer(raw.replace(b"\\\\", b"__").replace(b'\\"', b"__"), np.uint8)
    firsts, lasts, depth, quotes = list[int](), list[int](), 0, 0
    for start in range(0, len(text), _STEP):
        part = text[start : start + _STEP]
        quoted = np.cumsum(part == ord('"'), dtype=np.int32) + quotes
        outside, folded = quoted & 1 == 0, part | 0x20  # [ and {, ] and } differ in one bit
        opens, closes = outside & (folded == ord("{")), outside & (folded == ord("}"))
        levels = np.cumsum(opens.astype(np.int8) - closes.astype(np.int8), dtype=np.int32) + depth
        firsts += (start + np.flatnonzero(opens & (levels == DEEPEST + 1))).tolist()
        lasts += (start + np.flatnonzero(closes & (levels == DEEPEST))).tolist()
        depth, quotes = int(levels[-1]), int(quoted[-1]) & 1
    return list(zip(firsts, lasts, strict=False))
