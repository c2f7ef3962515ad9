"""From the pods that a cluster has seen to what a gap on a GPU is worth.

The value of a GPU with some of it free is its dual price in the best packing of the demand
(`placement/packing.py`). Marginal prices jump as the demand changes a little, so some demands are
drawn and their prices averaged; the lots are drawn with a fixed seed, so that the same pods give
the same prices.
"""

from collections import Counter

import numpy as np

from fairlead.model.gpus import WHOLE
from fairlead.model.machines import is_any_of
from fairlead.model.prices import STEP, Basis, PodShape, Prices
from fairlead.placement.packing import MARKS, Sizes, Values, gap_values

#: Fewer pods than this say too little.
ENOUGH_PODS = 100
#: How much a chance to fit counts beside the best packing. Nothing would fill a cluster better
#: once, and break whole GPUs up when pods come and go.
ETA = 0.1
_DEMANDS = 10
_TYPICAL = 0.95
_BLOCKS = (2, 4, 8)


def compute(basis: Basis) -> Prices | None:
    """None if there are too few pods, or no GPUs."""
    pods = sum(count for _, count in basis.pods)
    with_gpus = [(shape, count) for shape, count in basis.pods if shape.gpus]
    capacity = sum(count for _, count in basis.gpus)
    if pods < ENOUGH_PODS or not with_gpus or not capacity:
        return None
    gpus_asked = sum(shape.total_milli * count for shape, count in with_gpus) / WHOLE
    return Prices(
        pods=pods,
        values=tuple(_values(with_gpus, pods, capacity).tolist()),
        cpu_milli_per_gpu=sum(s.cpu_milli * n for s, n in with_gpus) / gpus_asked,
        memory_bytes_per_gpu=sum(s.memory_bytes * n for s, n in with_gpus) / gpus_asked,
        blocks=_blocks(with_gpus, pods),
        pressure=_pressure(with_gpus, dict(basis.gpus)),
        typical=typical(basis.pods),
    )


def typical(pods: tuple[tuple[PodShape, int], ...]) -> tuple[tuple[PodShape, float], ...]:
    """The most frequent shapes, memory left aside, that make up 95 % of all pods."""
    counted: Counter[PodShape] = Counter()
    for shape, count in pods:
        counted[PodShape(shape.cpu_milli, 0, shape.gpus, shape.milli, shape.models)] += count
    most = 0
    kept = []
    for shape, count in sorted(counted.items(), key=_by_frequency):
        if most >= _TYPICAL * counted.total():
            break
        kept.append((shape, count))
        most += count
    return tuple((shape, count / most) for shape, count in kept)


def _by_frequency(item: tuple[PodShape, int]) -> tuple[int, int, int, int, list[str]]:
    shape, count = item
    return -count, -shape.cpu_milli, -shape.milli, -shape.gpus, sorted(shape.models)


def _blocks(pods: list[tuple[PodShape, int]], seen: int) -> tuple[tuple[int, float], ...]:
    shares = ((n, sum(c for shape, c in pods if shape.gpus == n) / seen) for n in _BLOCKS)
    return tuple((gpus, share) for gpus, share in shares if share)


def _pressure(
    pods: list[tuple[PodShape, int]], gpus: dict[str, int]
) -> tuple[tuple[str, float], ...]:  # fmt: skip
    """Demand that insists on some models, as a share of the GPUs that could serve it."""
    scale = sum(gpus.values()) / sum(shape.total_milli * count for shape, count in pods)
    demand: Counter[frozenset[str]] = Counter()
    for shape, count in pods:
        if shape.models:
            demand[shape.models] += shape.total_milli * count
    pressure = dict.fromkeys(gpus, 0.0)
    for models, milli in demand.items():
        serving = [model for model in gpus if is_any_of(model, models)]
        for model in serving:
            pressure[model] += milli * scale / max(sum(gpus[m] for m in serving), 1)
    return tuple(sorted((model, found) for model, found in pressure.items() if found))


# -- the price of a gap --------------------------------------------------------------------------


def _values(pods: list[tuple[PodShape, int]], seen: int, capacity: int) -> Values:
    sizes, asking, gpus = _by_size(pods)
    drawn = _demands(sizes, gpus, capacity)
    packed = np.mean([gap_values(sizes, demand, capacity) for demand in drawn], axis=0)
    free = np.arange(MARKS + 1)
    parts = asking / seen  # that the next pod is one of these; it may be one without GPUs
    chance = np.sum(parts[:, None] * (free // sizes[:, None]) * sizes[:, None], axis=0) * STEP
    values: Values = STEP * packed + ETA * chance
    return values


def _by_size(pods: list[tuple[PodShape, int]]) -> tuple[Sizes, Values, Values]:
    """Sizes in hundredths of a GPU, rounded up; how many pods ask for each, and how many GPUs."""
    asking: Counter[int] = Counter()
    gpus: Counter[int] = Counter()
    for shape, count in pods:
        size = min(max(-(-shape.milli // STEP), 1), MARKS)
        asking[size] += count
        gpus[size] += shape.gpus * count
    sizes = sorted(asking)
    pods_by_size = np.array([float(asking[size]) for size in sizes])
    return np.array(sizes), pods_by_size, np.array([float(gpus[size]) for size in sizes])


def _demands(sizes: Sizes, gpus: Values, capacity: int) -> Values:
    """Draws of as much demand as there is capacity: (draws, sizes)."""
    chances = gpus / gpus.sum()
    parts = max(1, round(capacity * MARKS / float(chances @ sizes)))
    lots = np.random.default_rng(0)
    return lots.multinomial(parts, chances, size=_DEMANDS).astype(np.float64)
