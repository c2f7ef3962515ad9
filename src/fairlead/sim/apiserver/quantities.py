"""Resource quantities: reading them, comparing them, and the form that the real server stores."""

import re
from fractions import Fraction
from functools import lru_cache

from fairlead.model import quantities
from fairlead.model.errors import QuantityError

_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_SUFFIX = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
SYNTAX_TEXT = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)


class BadQuantity(ValueError):
    """A text that is no quantity; the message is the real server's."""

    def __init__(self) -> None:
        super().__init__(SYNTAX_TEXT)


@lru_cache(maxsize=4096)
def parse(text: str) -> Fraction:
    """The exact amount."""
    try:
        return quantities.parse(text)
    except QuantityError:
        raise BadQuantity from None


@lru_cache(maxsize=4096)
def canonical(text: str) -> str:
    """How an amount in a resource list comes back from the server: `1000m` as `1`.

    A text that is in canonical form already stays as it is, sign and all; anything finer than a
    thousandth is rounded up.
    """
    exact, parts = parse(text), quantities.grammar(text)
    if _stays(parts):
        return text
    millis = exact * 1000
    rounded = -((-millis.numerator) // millis.denominator)
    if rounded == 0:
        return "0"
    if parts["suffix"] in _BINARY and rounded % 1000 == 0:
        binary = _binary(rounded // 1000)
        if binary:
            return binary
    return _decimal(rounded, scientific=parts["exponent"] is not None)


def _stays(parts: re.Match[str]) -> bool:
    """Whether the real server takes this text for canonical, by its own quick test."""
    suffix = parts["suffix"] or ""
    whole, _, fraction = parts["number"].lstrip("+-").partition(".")
    whole = whole.lstrip("0") or "0"
    if suffix in _BINARY:
        digits_left = 15 - len(whole) - int(_BINARY[suffix] * 3 / 10) - 1
        return not fraction and digits_left >= 0 and int(whole) % 8 != 0
    exponent = int(parts["exponent"] or _DECIMAL[suffix])
    digits, scale = whole + fraction, exponent - len(fraction)
    if len(digits) > 18 or scale < -3:
        return False
    return scale % 3 == 0 and not digits.endswith("000") and digits[0] != "0"


def _binary(value: int) -> str:
    if abs(value) < 1024:
        return str(value)
    for suffix, shift in sorted(_BINARY.items(), key=lambda item: -item[1]):
        if value % (1 << shift) == 0:
            return f"{value >> shift}{suffix}"
    return str(value)


def _decimal(millis: int, scientific: bool) -> str:
    exponent = -3
    while millis % 1000 == 0 and exponent < 18:
        millis, exponent = millis // 1000, exponent + 3
    if scientific:
        return f"{millis}e{exponent}" if exponent else str(millis)
    return f"{millis}{_SUFFIX[exponent]}"
