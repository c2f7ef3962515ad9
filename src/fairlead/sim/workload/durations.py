"""Lengths of time as Kubernetes users write them: 30s, 2m, 1h30m, 500ms."""

import re

from fairlead.model.errors import FairleadError

_UNITS_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)", re.ASCII)
_WHOLE = re.compile(rf"(?:{_PART.pattern})+", re.ASCII)
_LONGEST_CHARS = 32


class DurationError(FairleadError, ValueError):
    """A text that is no length of time. A ValueError too, so that msgspec says where it stands."""


def seconds(text: str) -> float:
    """How long that is.

    >>> seconds("1m30s")
    90.0
    """
    if len(text) > _LONGEST_CHARS or not _WHOLE.fullmatch(text):
        shown = text[:_LONGEST_CHARS]
        raise DurationError(f"{shown!r} is no length of time; write for example 30s, 2m or 1h30m")
    return sum(float(number) * _UNITS_S[unit] for number, unit in _PART.findall(text))


def text_of(length_s: float) -> str:
    """The shortest way to write it that both KWOK and our kubelets read; whole milliseconds."""
    millis = max(1, round(length_s * 1000))
    return f"{millis // 1000}s" if millis % 1000 == 0 else f"{millis}ms"
