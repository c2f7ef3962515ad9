"""Quantities of Kubernetes, and semantic versions."""

import re
from fractions import Fraction

from fairlead.cel.errors import CelEvaluationError
from fairlead.cel.overloads import computes
from fairlead.cel.running import Evaluation
from fairlead.cel.values import Amount, Semver
from fairlead.model import quantities
from fairlead.model.errors import QuantityError

_WRONG = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)
_DIGITS = re.compile(r"\d+", re.ASCII)
_WORD = re.compile(r"[0-9A-Za-z-]+", re.ASCII)
#: No digit can be part of two of its parts: that would take for ever where the text is wrong.
_LOOSE = re.compile(r"[+-]?\d*(?:\.\d*)?((?:[eEinumkKMGTP]+[-+]?|[-+])\d*|)", re.ASCII)
_SUFFIX = re.compile(r"|[numkMGTPE]|[KMGTPE]i|[eE][+-]?\d+", re.ASCII)
_NANO = 10**9


def quantity_value(text: str) -> Amount:
    """Raises CelEvaluationError. Beyond nine digits after the point, amounts are rounded up."""
    try:
        exact = quantities.parse(text)
    except QuantityError:
        return _without_digits(text)
    scaled = abs(exact) * _NANO
    rounded = Fraction(-(-scaled.numerator // scaled.denominator), _NANO)
    return Amount(-rounded if exact < 0 else rounded)


def _without_digits(text: str) -> Amount:
    """As Kubernetes: any text that is right but for its digits is zero, such as "Ki"; not "Ei"."""
    match = _LOOSE.fullmatch(text) if text else None
    if match is None:
        raise CelEvaluationError(_WRONG)
    if not _SUFFIX.fullmatch(match[1]):
        raise CelEvaluationError("unable to parse quantity's suffix")
    if match[1] == "Ei" or any(letter.isdigit() for letter in text.removesuffix(match[1])):
        raise CelEvaluationError("unable to parse numeric part of quantity")
    return Amount(Fraction(0))


def version_of(text: str) -> Semver:
    """Raises CelEvaluationError, in the words of the library that Kubernetes uses."""
    if not text:
        raise CelEvaluationError("Version string empty")
    parts = text.split(".", 2)
    if len(parts) != 3:
        raise CelEvaluationError("No Major.Minor.Patch elements found")
    numbers = [_number("major", parts[0]), _number("minor", parts[1])]
    rest, plus, build = parts[2].partition("+")
    patch, dash, prerelease = rest.partition("-")
    numbers.append(_number("patch", patch))
    tail = tuple(_prerelease(each) for each in prerelease.split(".")) if dash else ()
    for each in build.split(".") if plus else ():
        if not each:
            raise CelEvaluationError("Build meta data is empty")
        if not _WORD.fullmatch(each):
            raise CelEvaluationError(f'Invalid character(s) found in build meta data "{each}"')
    return Semver((numbers[0], numbers[1], numbers[2]), tail)


def _number(name: str, text: str) -> int:
    if text and not _DIGITS.fullmatch(text):
        raise CelEvaluationError(f'Invalid character(s) found in {name} number "{text}"')
    if len(text) > 1 and text[0] == "0":
        words = f"{name.capitalize()} number must not contain leading zeroes"
        raise CelEvaluationError(f'{words} "{text}"')
    return _uint64(text)


def _uint64(text: str) -> int:
    error = f'strconv.ParseUint: parsing "{text}":'
    if not text:
        raise CelEvaluationError(f"{error} invalid syntax")
    if len(text) > 20 or int(text) >= 1 << 64:
        raise CelEvaluationError(f"{error} value out of range")
    return int(text)


def _prerelease(text: str) -> int | str:
    if not text:
        raise CelEvaluationError("Prerelease is empty")
    if _DIGITS.fullmatch(text):
        if len(text) > 1 and text[0] == "0":
            words = "Numeric PreRelease version must not contain leading zeroes"
            raise CelEvaluationError(f'{words} "{text}"')
        return _uint64(text)
    if not _WORD.fullmatch(text):
        raise CelEvaluationError(f'Invalid character(s) found in prerelease "{text}"')
    return text


def _normalized(text: str) -> str:
    """Without a leading v and leading zeros, and with what is missing of three numbers."""
    parts = [_without_zeros(part) for part in text.removeprefix("v").split(".", 2)]
    if len(parts) < 3 and ("+" in parts[-1] or "-" in parts[-1]):
        words = "short version cannot contain PreRelease/Build meta data"
        raise CelEvaluationError(words)
    return ".".join(parts + ["0"] * (3 - len(parts)))


def _without_zeros(part: str) -> str:
    if len(part) < 2:
        return part
    rest = part.lstrip("0")
    return rest if rest[:1] in tuple("0123456789") else f"0{rest}"


@computes("quantity(string) -> quantity")
def _quantity(_: Evaluation, text: str) -> Amount:
    return quantity_value(text)


@computes("isQuantity(string) -> bool")
def _is_quantity(_: Evaluation, text: str) -> bool:
    try:
        quantity_value(text)
    except CelEvaluationError:
        return False
    return True


@computes("semver(string) -> semver", "semver(string, bool) -> semver")
def _semver(_: Evaluation, text: str, normalize: bool = False) -> Semver:
    return version_of(_normalized(text) if normalize else text)


@computes("isSemver(string) -> bool", "isSemver(string, bool) -> bool")
def _is_semver(_: Evaluation, text: str, normalize: bool = False) -> bool:
    try:
        version_of(_normalized(text) if normalize else text)
    except CelEvaluationError:
        return False
    return True


def _order(left: Amount | Semver, right: Amount | Semver) -> int:
    one = left.value if isinstance(left, Amount) else left.rank
    other = right.value if isinstance(right, Amount) else right.rank
    return (one > other) - (one < other)  # type: ignore[operator]


@computes("quantity::compareTo(quantity) -> int", "semver::compareTo(semver) -> int")
def _compare(_: Evaluation, left: Amount, right: Amount) -> int:
    return _order(left, right)


@computes("quantity::isGreaterThan(quantity) -> bool", "semver::isGreaterThan(semver) -> bool")
def _greater(_: Evaluation, left: Amount, right: Amount) -> bool:
    return _order(left, right) > 0


@computes("quantity::isLessThan(quantity) -> bool", "semver::isLessThan(semver) -> bool")
def _less(_: Evaluation, left: Amount, right: Amount) -> bool:
    return _order(left, right) < 0


@computes("sign(quantity) -> int")
def _sign(_: Evaluation, value: Amount) -> int:
    return (value.value > 0) - (value.value < 0)


@computes("quantity::isInteger() -> bool")
def _is_integer(_: Evaluation, value: Amount) -> bool:
    return value.value.denominator == 1 and -(1 << 63) <= value.value < 1 << 63


@computes("quantity::asInteger() -> int")
def _as_integer(_: Evaluation, value: Amount) -> int:
    if value.value.denominator != 1 or not -(1 << 63) <= value.value < 1 << 63:
        raise CelEvaluationError("cannot convert value to integer")
    return int(value.value)


@computes("quantity::asApproximateFloat() -> double")
def _as_float(_: Evaluation, value: Amount) -> float:
    try:
        return float(value.value)
    except OverflowError:
        return float("inf") if value.value > 0 else float("-inf")


@computes("quantity::add(quantity) -> quantity", "quantity::add(int) -> quantity")
def _add(_: Evaluation, left: Amount, right: Amount | int) -> Amount:
    return Amount(left.value + (right.value if isinstance(right, Amount) else right))


@computes("quantity::sub(quantity) -> quantity", "quantity::sub(int) -> quantity")
def _sub(_: Evaluation, left: Amount, right: Amount | int) -> Amount:
    return Amount(left.value - (right.value if isinstance(right, Amount) else right))


def _signed(number: int) -> int:
    """As Go converts: numbers beyond the largest int are negative."""
    return number - (1 << 64) if number >= 1 << 63 else number


@computes("semver::major() -> int")
def _major(_: Evaluation, value: Semver) -> int:
    return _signed(value.major)


@computes("semver::minor() -> int")
def _minor(_: Evaluation, value: Semver) -> int:
    return _signed(value.minor)


@computes("semver::patch() -> int")
def _patch(_: Evaluation, value: Semver) -> int:
    return _signed(value.patch)
