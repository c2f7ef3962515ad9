"""Operators."""

from typing import Any

from fairlead.cel.errors import CelEvaluationError
from fairlead.cel.overloads import computes, declare
from fairlead.cel.running import Evaluation
from fairlead.cel.values import Unsigned, Value, compare

_LEAST, _MOST, _MOST_UINT = -(1 << 63), (1 << 63) - 1, (1 << 64) - 1
_NUMBERS = ("int", "uint", "double")
_ORDERED = ("bool", "string", "bytes", "timestamp", "duration")
#: The types whose values answer for themselves: their errors do not name the operator.
_ANSWER = {"string", "google.protobuf.Duration", "google.protobuf.Timestamp"}
_COUNTED = _ANSWER | {"int", "uint", "double"}
_HAVE = {
    "_+_": _COUNTED | {"bytes", "list"},
    "_-_": _COUNTED,
    "_*_": _COUNTED,
    "_/_": _COUNTED,
    "_%_": _ANSWER | {"int", "uint"},
    "-_": _ANSWER | {"bool", "int", "double"},
    "sort": _ANSWER | {"list"},
    "size": _ANSWER | {"bytes", "list", "map"},
    **{sign: _COUNTED | {"bool", "bytes"} for sign in ("_<_", "_<=_", "_>_", "_>=_")},
}

for _sign in ("_==_", "_!=_"):
    declare(f"{_sign}(A, A) -> bool")
declare("_?_:_(bool, A, A) -> A")
declare("@in(A, list(A)) -> bool", "@in(A, map(A, B)) -> bool")
declare("_[_](list(A), int) -> A", "_[_](map(A, B), A) -> B")
declare(
    "_[_](optional(list(A)), int) -> optional(A)", "_[_](optional(map(A, B)), A) -> optional(B)"
)
declare("_[?_](list(A), int) -> optional(A)", "_[?_](map(A, B), A) -> optional(B)")
declare(
    "_[?_](optional(list(A)), int) -> optional(A)", "_[?_](optional(map(A, B)), A) -> optional(B)"
)


def operator_error(name: str, kinds: list[str]) -> str:
    """The text names the operator only where the left value has no such operator."""
    has = kinds[0] in _HAVE.get(name, kinds)
    return "no such overload" if has else f"no such overload: {name}"


def comparison_cost(left: Value, right: Value, allowed: int) -> int:
    """By the smaller of both; lists and maps by all that they contain, until it is not allowed."""
    enough = 10 * (allowed + 1)
    return 1 + min(_weight(left, enough), _weight(right, enough)) // 10


def _weight(value: Value, enough: int) -> int:
    """Without recursion; all that is more than enough is not looked at."""
    total, below = 0, [value]
    while below and total < enough:
        each = below.pop()
        if isinstance(each, (str, bytes)):
            total += len(each)
        elif isinstance(each, list):
            below.extend(each)
            total += 10
        elif isinstance(each, dict):
            below.extend(each.values())
            total += 10
        else:
            total += 5
    return total


def _order(sign: str, answers: frozenset[int]) -> None:
    pairs = [(a, b) for a in _NUMBERS for b in _NUMBERS] + [(a, a) for a in _ORDERED]
    for left, right in pairs:
        declare(
            f"{sign}({left}, {right}) -> bool",
            compute=lambda _, one, other: compare(one, other) in answers,
        )


_order("_<_", frozenset({-1}))
_order("_<=_", frozenset({-1, 0}))
_order("_>_", frozenset({1}))
_order("_>=_", frozenset({1, 0}))


@computes("!_(bool) -> bool")
def _not(_: Evaluation, value: bool) -> bool:
    return not value


def whole(value: int) -> int:
    """Raises CelEvaluationError beyond 64 bits."""
    if not _LEAST <= value <= _MOST:
        raise CelEvaluationError("integer overflow")
    return value


def _unsigned(value: int) -> Unsigned:
    if not 0 <= value <= _MOST_UINT:
        raise CelEvaluationError("unsigned integer overflow")
    return Unsigned(value)


@computes("-_(int) -> int", "-_(double) -> double")
def _negated(_: Evaluation, value: Any) -> Any:
    return whole(-value) if type(value) is int else -value


@computes("_+_(int, int) -> int")
def _add(_: Evaluation, left: int, right: int) -> int:
    return whole(left + right)


@computes("_+_(uint, uint) -> uint")
def _add_unsigned(_: Evaluation, left: int, right: int) -> int:
    return _unsigned(int(left) + int(right))


@computes("_+_(double, double) -> double")
def _add_double(_: Evaluation, left: float, right: float) -> float:
    return left + right


@computes("_+_(string, string) -> string", "_+_(bytes, bytes) -> bytes")
def _concatenated(_: Evaluation, left: Any, right: Any) -> Any:
    return left + right


@computes("_+_(list(A), list(A)) -> list(A)")
def _joined(_: Evaluation, left: list[Value], right: list[Value]) -> list[Value]:
    return left + right


@computes("_-_(int, int) -> int")
def _subtract(_: Evaluation, left: int, right: int) -> int:
    return whole(left - right)


@computes("_-_(uint, uint) -> uint")
def _subtract_unsigned(_: Evaluation, left: int, right: int) -> int:
    return _unsigned(int(left) - int(right))


@computes("_-_(double, double) -> double")
def _subtract_double(_: Evaluation, left: float, right: float) -> float:
    return left - right


@computes("_*_(int, int) -> int")
def _multiply(_: Evaluation, left: int, right: int) -> int:
    return whole(left * right)


@computes("_*_(uint, uint) -> uint")
def _multiply_unsigned(_: Evaluation, left: int, right: int) -> int:
    return _unsigned(int(left) * int(right))


@computes("_*_(double, double) -> double")
def _multiply_double(_: Evaluation, left: float, right: float) -> float:
    return left * right


@computes("_/_(int, int) -> int")
def _divide(_: Evaluation, left: int, right: int) -> int:
    if right == 0:
        raise CelEvaluationError("division by zero")
    quotient = abs(left) // abs(right)
    return whole(quotient if (left < 0) == (right < 0) else -quotient)


@computes("_/_(uint, uint) -> uint")
def _divide_unsigned(_: Evaluation, left: int, right: int) -> int:
    if right == 0:
        raise CelEvaluationError("division by zero")
    return Unsigned(int(left) // int(right))


@computes("_/_(double, double) -> double")
def _divide_double(_: Evaluation, left: float, right: float) -> float:
    if right:
        return left / right
    if left == 0 or left != left:  # noqa: PLR0124 - NaN
        return float("nan")
    negative = (str(left)[0] == "-") != (str(right)[0] == "-")
    return float("-inf") if negative else float("inf")


@computes("_%_(int, int) -> int")
def _remainder(_: Evaluation, left: int, right: int) -> int:
    if right == 0:
        raise CelEvaluationError("modulus by zero")
    if right == -1 and left == _LEAST:
        raise CelEvaluationError("integer overflow")
    rest = abs(left) % abs(right)
    return -rest if left < 0 else rest


@computes("_%_(uint, uint) -> uint")
def _remainder_unsigned(_: Evaluation, left: int, right: int) -> int:
    if right == 0:
        raise CelEvaluationError("modulus by zero")
    return Unsigned(int(left) % int(right))
