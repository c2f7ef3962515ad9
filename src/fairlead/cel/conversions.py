"""Conversions between types, sizes, and optional values."""

import re
from typing import Any

from fairlead.cel.arithmetic import whole
from fairlead.cel.errors import CelEvaluationError
from fairlead.cel.overloads import computes
from fairlead.cel.running import Evaluation
from fairlead.cel.times import duration_text, parsed_duration, parsed_timestamp, timestamp_text
from fairlead.cel.values import (
    NOTHING,
    Instant,
    Optional,
    Span,
    TypeName,
    Unsigned,
    Value,
    kind_of,
    same,
)

_INTEGER = re.compile(r"[+-]?\d{1,19}", re.ASCII)
_DOUBLE = re.compile(
    r"[+-]?(?:(?:\d{1,64}\.?\d{0,64}|\.\d{1,64})(?:[eE][+-]?\d{1,4})?|inf|infinity|nan)",
    re.ASCII | re.IGNORECASE,
)
_FALSE, _TRUE = ("0", "f", "F", "false", "FALSE", "False"), ("1", "t", "T", "true", "TRUE", "True")


@computes("dyn(A) -> dyn")
def _dyn(_: Evaluation, value: Value) -> Value:
    return value


@computes("type(A) -> type(A)")
def _type(_: Evaluation, value: Value) -> TypeName:
    return TypeName(kind_of(value))


@computes(
    *(f"size({kind}) -> int" for kind in ("string", "bytes", "list(A)", "map(A, B)")),
    *(f"{kind}::size() -> int" for kind in ("string", "bytes", "list(A)", "map(A, B)")),
)
def _size(_: Evaluation, value: Any) -> int:
    return len(value)


@computes("bool(bool) -> bool", "bool(string) -> bool")
def _bool(_: Evaluation, value: bool | str) -> bool:
    if isinstance(value, bool):
        return value
    if value not in _FALSE + _TRUE:
        raise CelEvaluationError("type conversion error from 'string' to 'bool'")
    return value in _TRUE


@computes("int(int) -> int", "int(uint) -> int", "int(double) -> int")
def _int(_: Evaluation, value: float) -> int:
    if isinstance(value, float) and not -(2.0**63) < value < 2.0**63:
        raise CelEvaluationError("integer overflow")
    return whole(int(value))


@computes("int(string) -> int")
def _int_of_text(_: Evaluation, text: str) -> int:
    if not _INTEGER.fullmatch(text):
        raise CelEvaluationError("type conversion error from 'string' to 'int'")
    return whole(int(text))


@computes("int(timestamp) -> int")
def _int_of_time(_: Evaluation, value: Instant) -> int:
    return value.nanoseconds // 10**9


@computes("uint(uint) -> uint", "uint(int) -> uint", "uint(double) -> uint")
def _uint(_: Evaluation, value: float) -> Unsigned:
    if not -1 < value < 2**64:
        raise CelEvaluationError("unsigned integer overflow")
    if value < 0:
        raise CelEvaluationError("unsigned integer overflow")
    return Unsigned(int(value))


@computes("uint(string) -> uint")
def _uint_of_text(_: Evaluation, text: str) -> Unsigned:
    if not re.fullmatch(r"\d{1,20}", text, re.ASCII) or int(text) >= 1 << 64:
        raise CelEvaluationError("type conversion error from 'string' to 'uint'")
    return Unsigned(int(text))


@computes("double(double) -> double", "double(int) -> double", "double(uint) -> double")
def _double(_: Evaluation, value: float) -> float:
    return float(value)


@computes("double(string) -> double")
def _double_of_text(_: Evaluation, text: str) -> float:
    if not _DOUBLE.fullmatch(text):
        raise CelEvaluationError("type conversion error from 'string' to 'double'")
    return float(text)


@computes(*(f"string({kind}) -> string" for kind in ("string", "bool", "int", "uint", "double")))
def _string(_: Evaluation, value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return double_text(value) if isinstance(value, float) else str(value)


def double_text(value: float) -> str:
    """The shortest text of a number, as Go writes it: 1e+06 is 1e+06, not 1000000.0."""
    if value != value or value in (float("inf"), float("-inf")):  # noqa: PLR0124 - NaN
        return {"inf": "+Inf", "-inf": "-Inf"}.get(str(value), "NaN")
    digits, _, exponent = repr(value).partition("e")
    digits = digits.removesuffix(".0")
    return f"{digits}e{exponent}" if exponent else digits


@computes("string(bytes) -> string")
def _string_of_bytes(_: Evaluation, value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        text = "invalid UTF-8 in bytes, cannot convert to string"
        raise CelEvaluationError(text) from None


@computes("bytes(bytes) -> bytes", "bytes(string) -> bytes")
def _bytes(_: Evaluation, value: Any) -> bytes:
    return value.encode() if isinstance(value, str) else bytes(value)


@computes("string(duration) -> string")
def _string_of_duration(_: Evaluation, value: Span) -> str:
    return duration_text(value)


@computes("string(timestamp) -> string")
def _string_of_timestamp(_: Evaluation, value: Instant) -> str:
    return timestamp_text(value)


@computes("duration(duration) -> duration", "duration(string) -> duration")
def _duration(_: Evaluation, value: Span | str) -> Span:
    return parsed_duration(value) if isinstance(value, str) else value


@computes("timestamp(timestamp) -> timestamp", "timestamp(string) -> timestamp")
def _timestamp(_: Evaluation, value: Instant | str) -> Instant:
    return parsed_timestamp(value) if isinstance(value, str) else value


@computes("timestamp(int) -> timestamp")
def _timestamp_of_seconds(_: Evaluation, value: int) -> Instant:
    return Instant(value * 10**9)


@computes("optional.none() -> optional(A)")
def _none(_: Evaluation) -> Optional:
    return NOTHING


@computes("optional.of(A) -> optional(A)")
def _of(_: Evaluation, value: Value) -> Optional:
    return Optional(present=True, value=value)


@computes("optional.ofNonZeroValue(A) -> optional(A)")
def _of_value(_: Evaluation, value: Value) -> Optional:
    zeros: tuple[Value, ...] = (False, 0, Unsigned(0), 0.0, "", b"", [], {}, None, Span(0))
    empty = any(type(zero) is type(value) and same(zero, value) for zero in zeros)
    return NOTHING if empty else Optional(present=True, value=value)


@computes("optional(A)::hasValue() -> bool")
def _has_value(_: Evaluation, value: Optional) -> bool:
    return value.present


@computes("optional(A)::value() -> A")
def _value(_: Evaluation, value: Optional) -> Value:
    return value.get()


@computes("optional(A)::orValue(A) -> A")
def _or_value(_: Evaluation, value: Optional, other: Value) -> Value:
    return value.value if value.present else other


@computes("optional(A)::or(optional(A)) -> optional(A)")
def _or(_: Evaluation, value: Optional, other: Optional) -> Optional:
    return value if value.present else other
