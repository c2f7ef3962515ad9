"""Which layers cover which rows, as an array: a decision reads all rows of it at once.

A row is written when its node changes, and no other row with it, so that neither deep trees nor
many resources make one change of a node expensive.
"""

import numpy as np
import numpy.typing as npt

from fairlead.cluster.arrays import NodeMask

#: In place of a layer: there is none.
_NONE = -1

LayerMask = npt.NDArray[np.bool_]  # (places or more,) by place of a layer


class LayerRows:
    def __init__(self) -> None:
        #: Where each layer is in arrays; places of layers that went are given to others.
        self.places: dict[str, int] = {}
        #: All places are below it.
        self.size = 0
        self._free: list[int] = []
        #: By row, the layers that cover it: their names, which charges of pods share, and places.
        self._names_of: list[tuple[str, ...]] = []
        self._of_row: npt.NDArray[np.int16] = np.full((0, 1), _NONE, dtype=np.int16)

    def add(self, name: str) -> None:
        """The layer has a place from now on."""
        if not self._free:
            self._free.append(self.size)
            self.size += 1
        self.places[name] = self._free.pop()

    def remove(self, name: str) -> None:
        self._free.append(self.places.pop(name))

    def names(self, row: int) -> tuple[str, ...]:
        """The layers that cover the row, in the order in which they were put."""
        return self._names_of[row] if row < len(self._names_of) else ()

    def put(self, row: int, names: tuple[str, ...]) -> None:
        """These cover it, and no others."""
        found = [self.places[name] for name in names]
        if found or row < len(self._of_row):
            self._grow(row + 1, len(found))
            self._of_row[row] = _NONE
            self._of_row[row, : len(found)] = found
            self._names_of += [()] * (row + 1 - len(self._names_of))
            self._names_of[row] = names

    def _grow(self, rows: int, width: int) -> None:
        has_rows, has_width = self._of_row.shape
        if rows <= has_rows and width <= has_width:
            return
        shape = max(2 * rows if rows > has_rows else 0, has_rows), max(width, has_width)
        grown: npt.NDArray[np.int16] = np.full(shape, _NONE, dtype=np.int16)
        grown[:has_rows, :has_width] = self._of_row
        self._of_row = grown

    def covered_by_all(self, wanted: LayerMask, size: int) -> NodeMask:
        """Of so many rows, those whose layers are all wanted, or that have none."""
        return self._read(np.append(wanted, True), size, all_of_them=True)

    def covered_by_any(self, wanted: LayerMask, size: int) -> NodeMask:
        """Of so many rows, those with a layer that is wanted."""
        return self._read(np.append(wanted, False), size, all_of_them=False)

    def _read(self, wanted: LayerMask, size: int, *, all_of_them: bool) -> NodeMask:
        """Column by column; the last of `wanted` is what rows without a layer have."""
        found: NodeMask = np.full(size, all_of_them)
        listed = self._of_row[:size]
        inside = found[: len(listed)]
        for column in listed.T:
            if all_of_them:
                inside &= wanted[column]
            else:
                inside |= wanted[column]
        return found
