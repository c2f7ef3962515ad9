"""The least moves that empty nodes, by counts, solved by HiGHS; for `bench/defrag.py`."""

from collections import Counter
from itertools import product

import numpy as np

from fairlead.placement.linear import LinearProgram

_SIZES = (1, 2, 4)
_GPUS = 8


def least_moves(nodes: list[list[int]], count: int) -> tuple[int, int]:
    """Pods and GPUs that must move so that so many nodes are empty; the fewest GPUs.

    Nodes with the same pods are one class: how many of each are emptied, and how many of those that
    keep their pods, by what is free there, take which further pods.
    """
    classes = Counter(tuple(sorted(sizes)) for sizes in nodes)
    kinds = list(classes)
    fills = [
        (free, pattern)
        for free in range(1, _GPUS)
        for pattern in product(*(range(free // size + 1) for size in _SIZES))
        if 0 < sum(n * size for n, size in zip(pattern, _SIZES, strict=True)) <= free
    ]
    cost = np.array([float(sum(kind)) for kind in kinds] + [0.0] * len(fills))
    rows, low, high = _limits(kinds, classes, fills, count)
    program = LinearProgram(cost, [classes[kind] for kind in kinds] + [len(nodes)] * len(fills))
    program.limit(rows, low, high)
    found = program.solved(whole=True, seconds=60.0)
    assert found, "no such moves"
    emptied = np.rint(found.amounts[: len(kinds)]).astype(int)
    pods = sum(int(n) * len(kind) for n, kind in zip(emptied, kinds, strict=True))
    return pods, round(found.cost)


def _limits(
    kinds: list[tuple[int, ...]],
    classes: Counter[tuple[int, ...]],
    fills: list[tuple[int, tuple[int, ...]]],
    count: int,
) -> tuple[list[list[float]], list[float], list[float]]:
    """All emptied; pods moved are pods filled in; no more nodes filled than there are left."""
    rows = [[1.0] * len(kinds) + [0.0] * len(fills)]
    low, high = [float(count)], [float(count)]
    for place, size in enumerate(_SIZES):
        moved = [float(kind.count(size)) for kind in kinds]
        rows.append(moved + [-float(pattern[place]) for _, pattern in fills])
        low.append(0.0)
        high.append(0.0)
    for free in range(1, _GPUS):
        alike = [float(_GPUS - sum(kind) == free) for kind in kinds]
        rows.append(alike + [float(one == free) for one, _ in fills])
        low.append(0.0)
        high.append(float(sum(n for kind, n in classes.items() if _GPUS - sum(kind) == free)))
    return rows, low, high
