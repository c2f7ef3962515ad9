"""Names for the arrays that rules read and answer with; row *i* is always the same node."""

from typing import TypeVar

import numpy as np
import numpy.typing as npt

NodeMask = npt.NDArray[np.bool_]  # (rows,) True where something holds
NodeScores = npt.NDArray[np.float64]  # (rows,) 0 to 100
PerNode = npt.NDArray[np.int64]  # (rows,) an amount of something
Codes = npt.NDArray[np.int32]  # (rows,) a value as a small number, -1 for none
Rows = npt.NDArray[np.intp]  # (some,) row numbers
RowPick = slice | Rows

A = TypeVar("A", NodeMask, PerNode, NodeScores)


def sealed(array: A) -> A:
    """A stray write in a rule must raise, not change the cluster."""
    array.flags.writeable = False
    return array
