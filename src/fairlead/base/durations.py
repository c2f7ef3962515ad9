"""Durations as Go and Kubernetes write them: 30s, 1h30m, 500ms."""

import re

from fairlead.model.errors import FairleadError

_UNITS_S = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h)", re.ASCII)
_DURATION = re.compile(rf"([-+]?)((?:{_PART.pattern})+|0)", re.ASCII)
_LONGEST_CHARS = 32


class DurationError(FairleadError, ValueError):
    """A text that is not a duration. A ValueError too, so that msgspec adds the path to it."""


def seconds(text: str) -> float | None:
    """How long a Go duration such as 1m30s is; None if the text is not a duration."""
    found = _DURATION.fullmatch(text)
    if found is None:
        return None
    total = sum(float(number) * _UNITS_S[unit] for number, unit in _PART.findall(found[2]))
    return -total if found[1] == "-" else total


def length_s(text: str) -> float:
    """A duration without a sign. Raises DurationError.

    >>> length_s("1m30s")
    90.0
    """
    found = seconds(text) if len(text) <= _LONGEST_CHARS and text[:1] not in ("+", "-") else None
    if found is None:
        shown = text[:_LONGEST_CHARS]
        raise DurationError(f"{shown!r} is no length of time; write for example 30s, 2m or 1h30m")
    return found


def text_of(length_s: float) -> str:
    """The shortest form that both KWOK and the simulated kubelets read; whole milliseconds."""
    millis = max(1, round(length_s * 1000))
    return f"{millis // 1000}s" if millis % 1000 == 0 else f"{millis}ms"
