"""Lengths of time as Go writes them."""

import re

_UNITS_S = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART = re.compile(r"(\d+\.?\d*|\.\d+)(ns|us|µs|ms|s|m|h)", re.ASCII)
_DURATION = re.compile(rf"([-+]?)((?:{_PART.pattern})+|0)", re.ASCII)


def seconds(text: str) -> float | None:
    """How long a Go duration such as 1m30s is; None if it is none."""
    found = _DURATION.fullmatch(text)
    if found is None:
        return None
    total = sum(float(number) * _UNITS_S[unit] for number, unit in _PART.findall(found[2]))
    return -total if found[1] == "-" else total
