"""About how much memory a value takes, and mappings that forget when they take too much."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import lru_cache, wraps
from typing import Any, ParamSpec, TypeVar, cast

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
P = ParamSpec("P")

#: What CPython takes for a string, a small tuple or number, and an entry of a dict, rounded up.
_STRING, _OBJECT = 56, 64
PLACE_BYTES, ENTRY_BYTES = 8, 128
_PLAIN = frozenset({int, float, bool, type(None)})


def weigh(*values: object) -> int:
    """Bytes of plain values, tuples, sets, mappings and dataclasses, all that they hold included.

    An estimate: what several of them share is counted for each.
    """
    total = 0
    left: list[object] = list(values)
    while left:
        value = left.pop()
        kind = type(value)
        if kind is str or kind is bytes:
            total += _STRING + len(value)  # type: ignore[arg-type]
        elif kind in _PLAIN:
            total += PLACE_BYTES
        elif kind is tuple:
            total += _OBJECT + PLACE_BYTES * len(value)  # type: ignore[arg-type]
            left += value  # type: ignore[arg-type]
        else:
            weight, parts = _parts(value)
            total += weight + _OBJECT + PLACE_BYTES * len(parts)
            left += parts
    return total


def _parts(value: Any) -> tuple[int, Sequence[object]]:
    """What is known of its weight, and what else there is to weigh."""
    if isinstance(value, Mapping):
        return 0, [*value, *value.values()]
    if isinstance(value, tuple | list | set | frozenset):
        return 0, list(value)
    weight = getattr(value, "weight_bytes", None)
    if weight is not None:  # it has been weighed before
        return weight, ()
    if is_dataclass(value):
        return 0, [getattr(value, name) for name in _names(value.__class__)]
    return getattr(value, "nbytes", 0), ()


@lru_cache(maxsize=256)
def _names(kind: Any) -> tuple[str, ...]:
    """The fields of a dataclass by which it is compared."""
    return tuple(field.name for field in fields(kind) if field.compare)


class Kept(dict[K, V]):
    """What was worked out, by what it was worked out from.

    Reading costs what a dict costs. Beyond the bytes it forgets everything and begins again.
    """

    def __init__(self, most_bytes: int) -> None:
        super().__init__()
        self.most_bytes = most_bytes
        self.bytes = 0

    def keep(self, key: K, value: V, weight_bytes: int) -> V:
        """Keeps the value; the weight is that of the key and the value."""
        if self.bytes + weight_bytes + ENTRY_BYTES > self.most_bytes:
            self.clear()
        self.bytes += weight_bytes + ENTRY_BYTES
        self[key] = value
        return value

    def clear(self) -> None:
        super().clear()
        self.bytes = 0


def remembered(most_bytes: int) -> Callable[[Callable[P, V]], Callable[P, V]]:
    """Like `lru_cache`, but bounded in bytes: what is given, by position, may be of any size."""

    def decorate(work: Callable[P, V]) -> Callable[P, V]:
        kept: Kept[tuple[Hashable, ...], V] = Kept(most_bytes)

        @wraps(work)
        def ask(*given: Any) -> V:
            try:
                return kept[given]
            except KeyError:
                pass
            made = work(*given)  # type: ignore[call-arg]
            return kept.keep(given, made, weigh(given, made))

        ask.kept = kept  # type: ignore[attr-defined]
        return cast(Callable[P, V], ask)

    return decorate
