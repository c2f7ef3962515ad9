"""About how much memory a value takes, and mappings that forget when they take too much."""

from collections.abc import Hashable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

#: What CPython takes for a string, a small tuple or number, and an entry of a dict, rounded up.
_STRING, _OBJECT, _PLACE = 56, 64, 8
ENTRY_BYTES = 128


def weigh(*values: object) -> int:
    """Bytes of plain values, tuples, sets, mappings and dataclasses, all that they hold included.

    An estimate: what several of them share is counted for each.
    """
    total = 0
    left: list[object] = list(values)
    while left:
        value = left.pop()
        if isinstance(value, str | bytes):
            total += _STRING + len(value)
            continue
        parts = _parts(value)
        total += _OBJECT + _PLACE * len(parts)
        left += parts
    return total


def _parts(value: Any) -> list[object]:
    if isinstance(value, Mapping):
        return [*value, *value.values()]
    if isinstance(value, tuple | list | set | frozenset):
        return list(value)
    if is_dataclass(value):
        return [getattr(value, field.name) for field in fields(value) if field.compare]
    return []


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
