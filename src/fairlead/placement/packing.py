"""The best packing of items onto GPUs as a linear program, for the sake of its prices.

A GPU is a way from mark 0 to mark 100; an item is an arc as long as its size, and arcs of nothing
fill the rest. As much as possible is to be packed, with no more items of a size than are asked for
and no more GPUs than there are. What one more GPU would bring is the price of a GPU, what it
would bring if only so much of it were free is the price of that gap.
"""

import math

import numpy as np
import numpy.typing as npt

from fairlead.model.gpus import WHOLE
from fairlead.model.prices import STEP
from fairlead.placement.linear import LinearProgram

Sizes = npt.NDArray[np.int64]  # in hundredths of a GPU, rising
Values = npt.NDArray[np.float64]  # by size, or by free hundredths of a GPU
Places = npt.NDArray[np.intp]

MARKS = WHOLE // STEP


def gap_values(sizes: Sizes, demand: Values, gpus: int) -> Values:
    """The value of a GPU by its free hundredths, in hundredths of a GPU."""
    worth = _item_prices(sizes, demand, gpus)
    values = np.zeros(MARKS + 1)
    for free in range(1, MARKS + 1):
        fits = sizes <= free
        best = (worth[fits] + values[free - sizes[fits]]).max() if fits.any() else 0.0
        values[free] = max(values[free - 1], best)
    return values


def _item_prices(sizes: Sizes, demand: Values, gpus: int) -> Values:
    """What an item brings to its GPU: its size, unless there are more GPUs than needed."""
    if len(sizes) == 1:  # as in clusters without shares
        return np.where(demand > gpus * (MARKS // int(sizes[0])), sizes.astype(np.float64), 0.0)
    return solved_prices(sizes, demand, gpus)


def solved_prices(sizes: Sizes, demand: Values, gpus: int) -> Values:
    """The same for any sizes, by the linear program."""
    starts, items = _arcs(sizes)
    gain = np.concatenate([sizes[items].astype(np.float64), np.zeros(MARKS)])
    program = LinearProgram(-gain)
    _limit_items(program, starts, items, np.concatenate([[gpus], demand]))
    _limit_flow(program, starts, starts + sizes[items])
    found = program.solved()
    assert found, "to pack nothing is a solution"
    surplus = -found.prices[1 : len(sizes) + 1]
    prices: Values = np.maximum(sizes - surplus, 0.0)
    return prices


def _arcs(sizes: Sizes) -> tuple[Places, Places]:
    """Where items may be laid: after larger or equal ones only, which loses no packing."""
    reached = np.zeros(MARKS + 1, dtype=np.bool_)
    reached[0] = True
    starts, items = [], []
    for item in reversed(range(len(sizes))):
        size = int(sizes[item])
        for mark in range(MARKS + 1 - size):
            if reached[mark]:
                reached[mark + size] = True
                starts.append(mark)
                items.append(item)
    return np.array(starts), np.array(items)


def _limit_items(program: LinearProgram, starts: Places, items: Places, most: Values) -> None:
    """GPUs begun, and then items of each size."""
    first = np.append(np.flatnonzero(starts == 0), len(starts))
    rows = np.concatenate([np.zeros_like(first), items + 1])
    arcs = np.concatenate([first, np.arange(len(items))])
    program.limit_some(rows, arcs, np.ones(len(rows)), [-math.inf] * len(most), most)


def _limit_flow(program: LinearProgram, starts: Places, ends: Places) -> None:
    """What comes to a mark leaves it, except at both ends of the GPU."""
    idle = np.arange(MARKS)
    arcs = np.arange(len(starts) + MARKS)
    marks = np.concatenate([starts, idle, ends, idle + 1])
    signs = np.repeat([1.0, -1.0], len(arcs))
    inner = (marks > 0) & (marks < MARKS)
    none = np.zeros(MARKS - 1)
    program.limit_some(marks[inner] - 1, np.tile(arcs, 2)[inner], signs[inner], none, none)
