"""One label key as a column of small integers, so that a selector is an array comparison."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import compress
from typing import cast

import numpy as np

from fairlead.cluster.arrays import Codes, NodeMask, NodeScores, RowPick
from fairlead.cluster.interned import Interned
from fairlead.model.selectors import whole_number

_ABSENT = -1
# Beyond this many values a table of them is cheaper than a comparison for each.
_FEW = 4


class LabelColumn:
    """The values of one label over all rows. Made when the first selector asks for the key."""

    def __init__(self, rows: int) -> None:
        self._codes = np.full(rows, _ABSENT, dtype=np.int32)
        self._interned: Interned[str] = Interned()
        #: By code, with a NaN at the end and where a value is no whole number; as of a version of
        #: the codes.
        self._numbers: NodeScores = np.array([np.nan])
        self._numbers_version = 0

    def put(self, row: int, value: str | None) -> None:
        old = self._codes.item(row)
        if old == (_ABSENT if value is None else self.code_of.get(value)):
            return
        self._codes[row] = _ABSENT if value is None else self._interned.take(value)
        if old != _ABSENT:
            self._interned.drop(old)

    def fill(self, rows: Sequence[int], values: Sequence[str]) -> None:
        """The nodes that have the label, of a column that is new, all at once."""
        self._codes[rows] = self._interned.fill(values)

    def grow(self, rows: int) -> None:
        extra = np.full(rows - len(self._codes), _ABSENT, dtype=np.int32)
        self._codes = np.concatenate([self._codes, extra])

    def codes(self, pick: RowPick) -> Codes:
        """A number for each value, -1 where there is none: equal numbers, equal values."""
        codes: Codes = self._codes[pick]
        return codes

    @property
    def code_of(self) -> Mapping[str, int]:
        """The number of each value that a node has."""
        return self._interned.code_of

    def exists(self, pick: RowPick) -> NodeMask:
        found: NodeMask = self._codes[pick] != _ABSENT
        return found

    def is_in(self, values: tuple[str, ...], pick: RowPick) -> NodeMask:
        codes = self._codes[pick]
        if len(values) > _FEW:
            wanted = np.zeros(self._interned.width + 1, dtype=np.bool_)  # code -1 reads the end
            code_of = self.code_of
            wanted[[code_of[value] for value in values if value in code_of]] = True
            many: NodeMask = wanted[codes]
            return many
        found: NodeMask = np.zeros(len(codes), dtype=np.bool_)
        for value in values:
            code = self.code_of.get(value)
            if code is not None:
                found |= codes == code
        return found

    def compares(self, operator: str, bound: int, pick: RowPick) -> NodeMask:
        """True where the value is a whole number greater ("Gt") or less ("Lt") than the bound."""
        codes = self._codes[pick]
        if self._numbers_version != self._interned.version:
            values = self._interned.values
            self._numbers = np.array([*map(_number, values), np.nan])
            self._numbers_version = self._interned.version
        numbers = self._numbers[codes]  # code -1 reads the NaN at the end
        found: NodeMask = numbers > bound if operator == "Gt" else numbers < bound
        return found


def _number(value: str | None) -> float:
    """Most values do not end with a digit: that is found out at once."""
    number = whole_number(value) if value and value[-1].isdigit() else None
    return np.nan if number is None else float(number)


def labelled(
    keys: Iterable[str], labels: Iterable[Mapping[str, str] | None]
) -> dict[str, tuple[list[int], list[str]]]:
    """By key, the places of objects that have it, and their values."""
    found: dict[str, tuple[list[int], list[str]]] = {key: ([], []) for key in sorted(keys)}
    many: list[int] = []
    rows: list[list[str | None]] = []
    for place, each in enumerate(labels):
        if not each:
            continue
        if len(each) >= len(found):  # such as a node: it may have all of them
            many.append(place)
            rows.append(list(map(each.get, found)))
            continue
        for key in found.keys() & each.keys():
            places, values = found[key]
            places.append(place)
            values.append(each[key])
    for key, column in zip(found, zip(*rows, strict=True), strict=False):
        has = [value is not None for value in column]
        found[key][0].extend(compress(many, has))
        found[key][1].extend(compress(cast(tuple[str, ...], column), has))
    return found
