"""One label key as a column of small integers, so that a selector is an array comparison."""

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from fairlead.cluster.arrays import Codes, NodeMask, RowPick
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
        self._numbers: list[float] = []  # by code; NaN where the value is no whole number

    def put(self, row: int, value: str | None) -> None:
        old = self._codes.item(row)
        if old == (_ABSENT if value is None else self.code_of.get(value)):
            return
        self._codes[row] = _ABSENT if value is None else self._intern(value)
        if old != _ABSENT:
            self._interned.drop(old)

    def fill(self, values: Sequence[str | None]) -> None:
        """The first rows of a column that is new, all at once."""
        for value, times in Counter(values).items():
            if value is not None:
                self._intern(value, times)
        code_of: dict[str | None, int] = {None: _ABSENT}
        code_of.update(self.code_of)
        self._codes[: len(values)] = [code_of[value] for value in values]

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
        numbers = np.array([*self._numbers, np.nan])[codes]  # code -1 reads the NaN at the end
        found: NodeMask = numbers > bound if operator == "Gt" else numbers < bound
        return found

    def _intern(self, value: str, times: int = 1) -> int:
        code = self._interned.take(value, times)
        self._numbers += [np.nan] * (self._interned.width - len(self._numbers))
        number = whole_number(value)
        self._numbers[code] = np.nan if number is None else float(number)
        return code
