"""Kubernetes quantities ("100m", "4Gi", "1e3") as whole numbers.

CPU is counted in milli-cores, everything else in units. Both round up, as the API server does: a
request of "1.5" GPUs needs two.
"""

import re
from fractions import Fraction
from functools import lru_cache

from fairlead.model.errors import QuantityError

CPU = "cpu"
MEMORY = "memory"
EPHEMERAL_STORAGE = "ephemeral-storage"
PODS = "pods"

# Larger amounts are cut to this. It is beyond any machine, and a thousand of them still fit into
# the 64-bit columns that add them up.
LARGEST = 2**53 - 1

_NANO = 10**9
_MAX_INT64 = Fraction(2**63 - 1)

# The API server takes amounts of any length, and cuts them.
_LONGEST = 4096

_GRAMMAR = re.compile(
    r"(?P<number>[+-]?(?:\d+(?:\.\d*)?|\.\d+))"
    r"(?:(?P<suffix>[numkMGTPE]|[KMGTPE]i)|[eE](?P<exponent>[+-]?\d{1,3}))?",
    re.ASCII,
)
_FACTORS = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 10**3),
    **{letter: Fraction(10 ** (3 * power)) for power, letter in enumerate("kMGTPE", start=1)},
    **{letter + "i": Fraction(2 ** (10 * p)) for p, letter in enumerate("KMGTPE", start=1)},
}

_SUFFIXES = {
    1000: ("", *"kMGTPE"),
    1024: ("", *(f"{letter}i" for letter in "KMGTPE")),
}


@lru_cache(maxsize=8192)
def amount(resource: str, text: str) -> int:
    """How much of a resource the text asks for: milli-cores for cpu, units for all else."""
    above, below = _ratio(text)
    if resource == CPU:
        above *= 1000
    return max(-LARGEST, min(LARGEST, -(-above // below)))


def _ratio(text: str) -> tuple[int, int]:
    """The exact amount as a fraction that may have common factors.

    Faster than `parse`, which counts where one object has thousands of amounts.
    """
    number, suffix, exponent = grammar(text).group("number", "suffix", "exponent")
    whole, _, decimals = number.partition(".")
    above, below = int(whole + decimals), 10 ** len(decimals)
    if suffix:
        factor = _FACTORS[suffix]
        return above * factor.numerator, below * factor.denominator
    power = int(exponent or 0)
    return (above * 10**power, below) if power >= 0 else (above, below * 10**-power)


def is_extended(resource: str) -> bool:
    """Offered by a device plugin or the like, not by Kubernetes itself."""
    return "/" in resource and "kubernetes.io/" not in resource


def is_scalar(resource: str) -> bool:
    """Extended resources and the lesser native ones: of interest only to pods that ask for them."""
    return "/" in resource or resource.startswith(("hugepages-", "attachable-volumes-"))


def shown(resource: str, number: int) -> str:
    """An amount as a person writes it: "100500m" of cpu, "600Gi" of memory."""
    if resource == CPU:
        return str(number // 1000) if number % 1000 == 0 else f"{number}m"
    if resource in (MEMORY, EPHEMERAL_STORAGE) or resource.startswith("hugepages-"):
        for power, letter in ((40, "Ti"), (30, "Gi"), (20, "Mi"), (10, "Ki")):
            if number and number % (1 << power) == 0:
                return f"{number >> power}{letter}"
    return str(number)


def spelled(value: int | Fraction) -> str:
    """As Kubernetes writes it, in the shorter of two notations: powers of 1024, or of 1000.

    >>> spelled(40 << 30), spelled(10**19), spelled(100), spelled(Fraction(1, 2))
    ('40Gi', '10E', '100', '500m')
    """
    if value.denominator == 1:
        return min(_in_powers(int(value), 1024), _in_powers(int(value), 1000), key=len)
    for factor, letter in ((10**3, "m"), (10**6, "u")):
        if (value * factor).denominator == 1:
            return f"{value * factor}{letter}"
    return f"{-(-value * _NANO // 1)}n"  # rounded up, as Kubernetes does


def _in_powers(number: int, base: int) -> str:
    power = 0
    while number and power < len(_SUFFIXES[base]) - 1 and number % base == 0:
        number, power = number // base, power + 1
    return f"{number}{_SUFFIXES[base][power]}"


def parse(text: str) -> Fraction:
    """The exact amount. Raises QuantityError."""
    match = grammar(text)
    number = Fraction(match["number"])
    if match["exponent"]:
        return number * Fraction(10) ** int(match["exponent"])
    return number * _FACTORS.get(match["suffix"] or "", 1)


def exact(text: str) -> int | Fraction:
    """The amount as the API server keeps it: rounded away from zero to nano. Raises QuantityError.

    With a binary suffix it is at most what 64 bits hold.
    """
    value = parse(text)
    if value.denominator != 1:
        scaled = abs(value) * _NANO
        nano = -(-scaled.numerator // scaled.denominator)
        value = Fraction(nano if value > 0 else -nano, _NANO)
    if text.endswith("i"):
        value = max(-_MAX_INT64, min(_MAX_INT64, value))
    return int(value) if value.denominator == 1 else value


def grammar(text: str) -> re.Match[str]:
    """The parts of a quantity: number, suffix, exponent. Raises QuantityError."""
    match = _GRAMMAR.fullmatch(text) if len(text) <= _LONGEST else None
    if match is None:
        raise QuantityError(f"{text[:64]!r} is not a quantity; write for example 2, 500m or 4Gi")
    return match
