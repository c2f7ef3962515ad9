"""Values at run time. int, float, str, bytes, bool, list, dict and None stand for themselves."""

from fractions import Fraction
from typing import Any

from fairlead.cel.errors import CelEvaluationError, no_such_overload
from fairlead.model.lazy_dataclass import dataclass

Value = Any  # any of the values below; the checker of an expression knows their types


class Unsigned(int):
    """A uint."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class BooleanKey:
    """A bool as a key of a map: Python takes True for 1."""

    value: bool


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """A duration."""

    nanoseconds: int


@dataclass(frozen=True, slots=True, order=True)
class Instant:
    """A timestamp, since 1970."""

    nanoseconds: int


@dataclass(frozen=True, slots=True, order=True)
class Amount:
    """A quantity of Kubernetes."""

    value: Fraction


@dataclass(frozen=True, slots=True)
class TypeName:
    """A type as a value."""

    name: str


@dataclass(frozen=True, slots=True)
class Optional:
    """A value or none."""

    present: bool
    value: Value = None

    def get(self) -> Value:
        if not self.present:
            raise CelEvaluationError("optional.none() dereference")
        return self.value


NOTHING = Optional(present=False)


class DomainMap(dict[str, Value]):
    """Attributes or capacities by domain: a domain that is not there selects an empty map."""

    __slots__ = ()

    def __missing__(self, key: str) -> Value:
        return {}


class Semver:
    """A semantic version. Builds do not count in comparisons."""

    __slots__ = ("major", "minor", "patch", "prerelease")

    def __init__(self, numbers: tuple[int, int, int], prerelease: tuple[int | str, ...]) -> None:
        self.major, self.minor, self.patch = numbers
        self.prerelease = prerelease

    @property
    def rank(self) -> tuple[Any, ...]:
        """Numbers come before words; a version with a pre-release before the one without."""
        tail = tuple(
            (0, part, "") if isinstance(part, int) else (1, 0, part) for part in self.prerelease
        )
        return (self.major, self.minor, self.patch, not tail, tail)


_KINDS: dict[type, str] = {
    bool: "bool",
    int: "int",
    Unsigned: "uint",
    float: "double",
    str: "string",
    bytes: "bytes",
    list: "list",
    dict: "map",
    DomainMap: "map",
    type(None): "null_type",
    Span: "google.protobuf.Duration",
    Instant: "google.protobuf.Timestamp",
    Amount: "kubernetes.Quantity",
    Semver: "kubernetes.Semver",
    Optional: "optional_type",
    TypeName: "type",
}
_NUMBERS = frozenset({int, Unsigned, float})


def kind_of(value: Value) -> str:
    """The name of the value's type. What is not in the table is a text with its pattern."""
    return _KINDS.get(type(value), "string")


def equal(left: Value, right: Value) -> bool:
    """Raises CelEvaluationError: quantities and versions compare with their own type only."""
    kind = type(left)
    if kind is type(right):
        return _equal_of_one_kind(left, right)
    if kind in _NUMBERS and type(right) in _NUMBERS:
        return bool(left == right)
    if (kind is Amount or kind is Semver) and right is not None:
        raise no_such_overload()
    if isinstance(left, dict) and isinstance(right, dict):
        return _equal_maps(left, right)
    return False


def _equal_of_one_kind(left: Value, right: Value) -> bool:
    if isinstance(left, list):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, dict):
        return _equal_maps(left, right)
    if isinstance(left, Semver):
        return bool(left.rank == right.rank)
    if isinstance(left, Optional) and left.present and right.present:
        return equal(left.value, right.value)
    return bool(left == right)


def _equal_maps(left: dict[Any, Value], right: dict[Any, Value]) -> bool:
    return len(left) == len(right) and all(
        k in right and same(v, right[k]) for k, v in left.items()
    )


def same(left: Value, right: Value) -> bool:
    """As `equal`, and false where it has no answer."""
    try:
        return equal(left, right)
    except CelEvaluationError:
        return False


def compare(left: Value, right: Value) -> int:
    """-1, 0 or 1. Raises CelEvaluationError where the types have no order between them."""
    kind, other = type(left), type(right)
    if kind is not other and not (kind in _NUMBERS and other in _NUMBERS):
        raise no_such_overload()
    if kind not in _ORDERED:
        raise no_such_overload()
    if left != left or right != right:  # noqa: PLR0124 - true for NaN only
        raise CelEvaluationError("NaN values cannot be ordered")
    return int(left > right) - int(left < right)


_ORDERED = frozenset({bool, int, Unsigned, float, str, bytes, Span, Instant})


def map_key(value: Value) -> Any:
    """A value as a key of a Python dict. Raises CelEvaluationError."""
    kind = type(value)
    if kind is str or kind is int or kind is Unsigned:
        return value
    if kind is bool:
        return BooleanKey(value)
    if kind is float:
        return int(value) if value.is_integer() else value
    raise CelEvaluationError(f"unsupported key type: {kind_of(value)}")


def from_key(key: Any) -> Value:
    return key.value if type(key) is BooleanKey else key
