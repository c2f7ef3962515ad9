"""Durations and timestamps."""

import re
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Any

from fairlead.cel.errors import CelEvaluationError
from fairlead.cel.overloads import computes, declare
from fairlead.cel.running import Evaluation
from fairlead.cel.values import Instant, Span

_UNITS = {"ns": 1, "us": 10**3, "µs": 10**3, "μs": 10**3, "ms": 10**6}
_UNITS |= {"s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}
_PART = re.compile(r"(\d{1,20}\.?\d{0,20}|\.\d{1,20})(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
_STAMP = re.compile(
    r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9})\d*)?(Z|[+-]\d\d:\d\d)", re.ASCII
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST, _LAST = -62135596800 * 10**9, 253402300800 * 10**9 - 1


def parsed_duration(text: str) -> Span:
    """Raises CelEvaluationError."""
    sign, body = (-1, text[1:]) if text[:1] == "-" else (1, text.removeprefix("+"))
    total, at = Fraction(0), 0
    while match := _PART.match(body, at):
        total += Fraction(match[1].rstrip(".")) * _UNITS[match[2]]
        at = match.end()
    if body == "0":
        return Span(0)
    if at != len(body) or not body or total >= 1 << 63:
        raise CelEvaluationError(f'time: invalid duration "{text}"')
    return Span(sign * int(total))


def parsed_timestamp(text: str) -> Instant:
    """Raises CelEvaluationError."""
    match = _STAMP.fullmatch(text)
    error = CelEvaluationError(
        f'parsing time "{text}" as "2006-01-02T15:04:05Z07:00": cannot parse'
    )
    if match is None:
        raise error
    try:
        moment = datetime.fromisoformat(match[1] + match[3].replace("Z", "+00:00"))
        seconds = (moment - _EPOCH) // timedelta(seconds=1)
    except (ValueError, OverflowError):
        raise error from None
    return _in_range(seconds * 10**9 + int((match[2] or "0").ljust(9, "0")))


def _in_range(nanoseconds: int) -> Instant:
    if not _FIRST <= nanoseconds <= _LAST:
        raise CelEvaluationError("timestamp overflow")
    return Instant(nanoseconds)


def _span(nanoseconds: int) -> Span:
    if not -(1 << 63) <= nanoseconds < 1 << 63:
        raise CelEvaluationError("duration overflow")
    return Span(nanoseconds)


def duration_text(value: Span) -> str:
    """In seconds, as JSON has it."""
    whole, part = divmod(abs(value.nanoseconds), 10**9)
    fraction = f".{part:09d}".rstrip("0") if part else ""
    return f"{'-' if value.nanoseconds < 0 else ''}{whole}{fraction}s"


def timestamp_text(value: Instant) -> str:
    seconds, part = divmod(value.nanoseconds, 10**9)
    moment = _EPOCH + timedelta(seconds=seconds)
    fraction = f".{part:09d}".rstrip("0") if part else ""
    return f"{moment:%Y-%m-%dT%H:%M:%S}{fraction}Z".rjust(20, "0")


@computes("_+_(duration, duration) -> duration")
def _longer(_: Evaluation, left: Span, right: Span) -> Span:
    return _span(left.nanoseconds + right.nanoseconds)


@computes("_+_(duration, timestamp) -> timestamp", "_+_(timestamp, duration) -> timestamp")
def _later(_: Evaluation, left: Any, right: Any) -> Instant:
    return _in_range(left.nanoseconds + right.nanoseconds)


@computes("_-_(duration, duration) -> duration", "_-_(timestamp, timestamp) -> duration")
def _between(_: Evaluation, left: Any, right: Any) -> Span:
    return _span(left.nanoseconds - right.nanoseconds)


@computes("_-_(timestamp, duration) -> timestamp")
def _earlier(_: Evaluation, left: Instant, right: Span) -> Instant:
    return _in_range(left.nanoseconds - right.nanoseconds)


def _parts_of_duration() -> None:
    for name, unit in (("Hours", "h"), ("Minutes", "m"), ("Seconds", "s"), ("Milliseconds", "ms")):
        divisor = _UNITS[unit]
        declare(
            f"duration::get{name}() -> int",
            compute=lambda _, value, by=divisor: int(Fraction(value.nanoseconds, by)),
        )


def _parts_of_timestamp() -> None:
    readers = {
        "FullYear": lambda t: t.year,
        "Month": lambda t: t.month - 1,
        "Date": lambda t: t.day,
        "DayOfMonth": lambda t: t.day - 1,
        "DayOfWeek": lambda t: t.isoweekday() % 7,
        "DayOfYear": lambda t: t.timetuple().tm_yday - 1,
        "Hours": lambda t: t.hour,
        "Minutes": lambda t: t.minute,
        "Seconds": lambda t: t.second,
        "Milliseconds": lambda t: t.microsecond // 1000,
    }
    for name, reader in readers.items():
        declare(
            f"timestamp::get{name}() -> int",
            compute=lambda _, value, read=reader: read(
                _EPOCH + timedelta(microseconds=value.nanoseconds // 1000)
            ),
        )


_parts_of_duration()
_parts_of_timestamp()
