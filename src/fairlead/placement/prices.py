"""From the pods that a cluster has seen to what a gap on a card is worth.

The value of a card with some of it free is its dual price in the best packing of the demand
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

#: Fewer pods than this tell too little.
ENOUGH_PODS = 100
#: How much a chance to fit counts beside the best packing. Nothing would fill a cluster better
#: once, and break whole cards up when pods come and go.
ETA = 0.1
_DEMANDS = 10
_TYPICAL = 0.95
_BLOCKS = (2, 4, 8)


def compute(basis: Basis) -> Prices | None:
    """None if there are too few pods, or no cards."""
    pods = sum(count for _, count in basis.pods)
    with_cards = [(shape, count) for shape, count in basis.pods if shape.cards]
    capacity = sum(count for _, count in basis.cards)
    if pods < ENOUGH_PODS or not with_cards or not capacity:
        return None
    cards_asked = sum(shape.total_milli * count for shape, count in with_cards) / WHOLE
    return Prices(
        pods=pods,
        values=tuple(_values(with_cards, pods, capacity).tolist()),
        cpu_milli_per_card=sum(s.cpu_milli * n for s, n in with_cards) / cards_asked,
        memory_bytes_per_card=sum(s.memory_bytes * n for s, n in with_cards) / cards_asked,
        blocks=_blocks(with_cards, pods),
        pressure=_pressure(with_cards, dict(basis.cards)),
        typical=typical(basis.pods),
    )


def typical(pods: tuple[tuple[PodShape, int], ...]) -> tuple[tuple[PodShape, float], ...]:
    """The most frequent shapes, memory left aside, that make up 95 % of all pods."""
    counted: Counter[PodShape] = Counter()
    for shape, count in pods:
        counted[PodShape(shape.cpu_milli, 0, shape.cards, shape.milli, shape.models)] += count
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
    return -count, -shape.cpu_milli, -shape.milli, -shape.cards, sorted(shape.models)


def _blocks(pods: list[tuple[PodShape, int]], seen: int) -> tuple[tuple[int, float], ...]:
    shares = ((n, sum(c for shape, c in pods if shape.cards == n) / seen) for n in _BLOCKS)
    return tuple((cards, share) for cards, share in shares if share)


def _pressure(
    pods: list[tuple[PodShape, int]], cards: dict[str, int]
) -> tuple[tuple[str, float], ...]:  # fmt: skip
    """Demand that insists on some models, as a share of the cards that could serve it."""
    scale = sum(cards.values()) / sum(shape.total_milli * count for shape, count in pods)
    demand: Counter[frozenset[str]] = Counter()
    for shape, count in pods:
        if shape.models:
            demand[shape.models] += shape.total_milli * count
    pressure = dict.fromkeys(cards, 0.0)
    for models, milli in demand.items():
        serving = [model for model in cards if is_any_of(model, models)]
        for model in serving:
            pressure[model] += milli * scale / max(sum(cards[m] for m in serving), 1)
    return tuple(sorted((model, found) for model, found in pressure.items() if found))


# -- the price of a gap --------------------------------------------------------------------------


def _values(pods: list[tuple[PodShape, int]], seen: int, capacity: int) -> Values:
    sizes, asking, cards = _by_size(pods)
    drawn = _demands(sizes, cards, capacity)
    packed = np.mean([gap_values(sizes, demand, capacity) for demand in drawn], axis=0)
    free = np.arange(MARKS + 1)
    parts = asking / seen  # that the next pod is one of these; it may be one without GPUs
    chance = np.sum(parts[:, None] * (free // sizes[:, None]) * sizes[:, None], axis=0) * STEP
    values: Values = STEP * packed + ETA * chance
    return values


def _by_size(pods: list[tuple[PodShape, int]]) -> tuple[Sizes, Values, Values]:
    """Sizes in hundredths of a card, rounded up; how many pods ask for each, and how many cards."""
    asking: Counter[int] = Counter()
    cards: Counter[int] = Counter()
    for shape, count in pods:
        size = min(max(-(-shape.milli // STEP), 1), MARKS)
        asking[size] += count
        cards[size] += shape.cards * count
    sizes = sorted(asking)
    pods_by_size = np.array([float(asking[size]) for size in sizes])
    return np.array(sizes), pods_by_size, np.array([float(cards[size]) for size in sizes])


def _demands(sizes: Sizes, cards: Values, capacity: int) -> Values:
    """Draws of as much demand as there is capacity: (draws, sizes)."""
    chances = cards / cards.sum()
    parts = max(1, round(capacity * MARKS / float(chances @ sizes)))
    lots = np.random.default_rng(0)
    return lots.multinomial(parts, chances, size=_DEMANDS).astype(np.float64)
