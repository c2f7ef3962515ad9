"""Types of expressions, and whether one can stand for another."""

from dataclasses import field

from fairlead.model.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class StaticType:
    """A name, and what lists, maps and optionals are of. One capital letter is a parameter."""

    name: str
    of: tuple["StaticType", ...] = ()

    def __str__(self) -> str:
        shown = _SHOWN.get(self.name, self.name)
        return f"{shown}({', '.join(map(str, self.of))})" if self.of else shown

    @property
    def full(self) -> str:
        """With the full names of types, not those of the language."""
        name = "google.protobuf.Any" if self.name == "any" else self.name
        return f"{name}({', '.join(each.full for each in self.of)})" if self.of else name

    @property
    def unknown(self) -> bool:
        return self.name in ("dyn", "any", "error")

    @property
    def parameter(self) -> bool:
        return len(self.name) == 1 or self.name.startswith("_var")


_SHOWN = {
    "google.protobuf.Duration": "duration",
    "google.protobuf.Timestamp": "timestamp",
    "null_type": "null",
    "error": "!error!",
}
BOOL, INT, UINT, DOUBLE = map(StaticType, ("bool", "int", "uint", "double"))
STRING, BYTES, NULL = map(StaticType, ("string", "bytes", "null_type"))
DYN, ANY, ERROR = map(StaticType, ("dyn", "any", "error"))
DEVICE = StaticType("kubernetes.DRADevice")
QUANTITY, SEMVER = StaticType("kubernetes.Quantity"), StaticType("kubernetes.Semver")
_NULLABLE = frozenset(
    {
        "kubernetes.Quantity",
        "kubernetes.Semver",
        "kubernetes.DRADevice",
        "optional_type",
        "google.protobuf.Duration",
        "google.protobuf.Timestamp",
        "null_type",
    }
)


def list_of(item: StaticType) -> StaticType:
    return StaticType("list", (item,))


def map_of(key: StaticType, value: StaticType) -> StaticType:
    return StaticType("map", (key, value))


def optional_of(item: StaticType) -> StaticType:
    return StaticType("optional_type", (item,))


@dataclass(slots=True)
class Substitutions:
    """What the parameters of types stand for, as far as is known."""

    found: dict[str, StaticType] = field(default_factory=dict)
    fresh: int = 0

    def new(self) -> StaticType:
        self.fresh += 1
        return StaticType(f"_var{self.fresh - 1}")

    def assignable(self, pairs: list[tuple[StaticType, StaticType]]) -> bool:
        """Whether each first type fits its second; if so, the parameters are now known."""
        before = dict(self.found)
        if all(self._fits(left, right) for left, right in pairs):
            return True
        self.found = before
        return False

    def joined(self, left: StaticType, right: StaticType) -> StaticType:
        """The type of a list with items of both."""
        if not self.assignable([(left, right)]):
            return DYN
        return left if _less_specific(left, right) else right

    def _fits(self, left: StaticType, right: StaticType) -> bool:
        if right.parameter:
            return self._bind(right, left)
        if left.parameter:
            return self._bind(left, right)
        if left.unknown or right.unknown:
            return True
        if "null_type" in (left.name, right.name):
            return {left.name, right.name} <= _NULLABLE
        if left.name == "type" == right.name:
            return True
        return left.name == right.name and all(map(self._fits, left.of, right.of))

    def _bind(self, parameter: StaticType, to: StaticType) -> bool:
        known = self.found.get(parameter.name)
        if to in (parameter, known):
            return True
        if known is None:
            if self._mentions(to, parameter):
                return False
            self.found[parameter.name] = to
            return True
        if not self._fits(to, known):
            return False
        general = to if _less_specific(to, known) else known
        if not self._mentions(general, parameter):
            self.found[parameter.name] = general
        return True

    def _mentions(self, within: StaticType, parameter: StaticType) -> bool:
        if within == parameter:
            return True
        known = self.found.get(within.name)
        if known is not None:
            return self._mentions(known, parameter)
        return any(self._mentions(each, parameter) for each in within.of)

    def applied(self, kind: StaticType, *, final: bool = False) -> StaticType:
        """The type with parameters replaced; those that are not known are dyn at the end."""
        known = self.found.get(kind.name)
        if known is not None:
            return self.applied(known, final=final)
        if final and kind.parameter:
            return DYN
        return StaticType(kind.name, tuple(self.applied(each, final=final) for each in kind.of))


def _less_specific(left: StaticType, right: StaticType) -> bool:
    if left.unknown or left.parameter:
        return True
    if right.unknown or right.parameter or left.name != right.name:
        return False
    return all(map(_less_specific, left.of, right.of))
