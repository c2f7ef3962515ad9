"""Small numbers for values, counted by use: the number of a value that is gone is used again."""

from collections.abc import Hashable, Mapping, Sequence
from typing import Generic, TypeVar

import numpy as np

T = TypeVar("T", bound=Hashable)


class Interned(Generic[T]):
    """Numbers stay below `width`, which is at most the largest number of values in use at once."""

    def __init__(self) -> None:
        self._code_of: dict[T, int] = {}
        self._values: list[T | None] = []
        self._uses: list[int] = []
        self._free: list[int] = []
        #: Grows whenever a value gets a number or loses it.
        self.version = 0

    def __len__(self) -> int:
        """Values in use."""
        return len(self._code_of)

    @property
    def width(self) -> int:
        """Above every number; some below it may be free."""
        return len(self._values)

    @property
    def code_of(self) -> Mapping[T, int]:
        """The number of each value in use."""
        return self._code_of

    @property
    def values(self) -> list[T | None]:
        """By number; None where the number is free."""
        return self._values

    def take(self, value: T, times: int = 1) -> int:
        """One more user of the value, or several; its number."""
        code = self._code_of.get(value)
        if code is None:
            return self._add(value, times)
        self._uses[code] += times
        return code

    def fill(self, values: Sequence[T]) -> list[int]:
        """The first users, all at once; the number of each value."""
        assert not self._values, "others were there before"
        different = dict.fromkeys(values)
        self._values = list(different)
        self._code_of = dict(zip(different, range(len(different)), strict=True))
        codes = list(map(self._code_of.__getitem__, values))
        self._uses = np.bincount(codes).tolist() if codes else []
        self.version += 1
        return codes

    def drop(self, code: int) -> None:
        """One user less."""
        self._uses[code] -= 1
        if self._uses[code]:
            return
        value = self._values[code]
        assert value is not None
        del self._code_of[value]
        self._values[code] = None
        self._free.append(code)
        self.version += 1

    def _add(self, value: T, times: int) -> int:
        self.version += 1
        if self._free:
            code = self._free.pop()
            self._values[code], self._uses[code] = value, times
        else:
            code = len(self._values)
            self._values.append(value)
            self._uses.append(times)
        self._code_of[value] = code
        return code
