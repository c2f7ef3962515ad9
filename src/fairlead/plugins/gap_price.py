"""Place a pod where what it takes is worth least to the pods that are still to come.

A node is worth what its free GPUs are worth: by the price of gaps of that size, by the cpu and
memory that are there to go with them, by blocks of whole GPUs, and by how sought after the model
is. A pod goes where the worth drops least. Prices come from the pods seen (`placement/prices.py`).
"""

from math import inf
from typing import ClassVar

import numpy as np

from fairlead.cluster.arrays import NodeScores
from fairlead.cluster.aspects import Aspect
from fairlead.cluster.nodes import Nodes
from fairlead.cluster.price_tables import PriceTables, Table
from fairlead.model.gpus import GpuRequest
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.pods import PodRequest
from fairlead.plugins.api import HIGHEST_SCORE, GpuScores
from fairlead.plugins.gap_worth import Worth, WorthOfOne
from fairlead.plugins.gaps import Gaps, asked_gpus, parts, shares
from fairlead.plugins.gpu_best_fit import GpuBestFit

#: A loss of this much halves the score.
_HALF = 10_000.0
_DIGITS = 1e6


@dataclass(frozen=True, slots=True)
class GapPrice:
    """`GpuBestFit` until enough pods were seen."""

    name: ClassVar[str] = "GapPrice"
    reads: ClassVar[Aspect] = (
        Aspect.USAGE | Aspect.ALLOCATABLE | Aspect.DEVICES | Aspect.PRICES
    )  # fmt: skip

    def rate(self, request: PodRequest, nodes: Nodes) -> NodeScores:
        tables = nodes.prices()
        if tables is None:
            return GpuBestFit().rate(request, nodes)
        ask = asked_gpus(request)
        if len(nodes) == 1 and not tables.presses:
            return np.array([_score_one(_loss_of_one(tables, ask, request, nodes))])
        worth = Worth(tables, request, nodes)
        if ask is None:
            return _score(worth.before() - worth.after_nothing())
        if ask.whole:
            return _score(worth.before() - worth.after_taking(ask.gpus, request, nodes))
        return _score(_loss_by_gpu(shares(ask, nodes), worth).min(axis=1))

    def rate_gpus(self, request: PodRequest, nodes: Nodes) -> GpuScores:
        tables, ask = nodes.prices(), asked_gpus(request)
        if tables is None or ask is None or ask.whole:
            return -nodes.gpu_room().astype(np.float64)
        if len(nodes) == 1 and not tables.presses:
            worth = WorthOfOne(tables, request, nodes)
            return -np.array([_losses_by_gpu(ask, nodes, worth)])
        return -_loss_by_gpu(shares(ask, nodes), Worth(tables, request, nodes))


def _loss_of_one(
    tables: PriceTables, ask: GpuRequest | None, request: PodRequest, node: Nodes
) -> float:  # fmt: skip
    worth = WorthOfOne(tables, request, node)
    if ask is None:
        return worth.before - worth.after_nothing()
    if ask.whole:
        return worth.before - worth.after_taking(ask.gpus)
    return min(_losses_by_gpu(ask, node, worth))


def _losses_by_gpu(ask: GpuRequest, node: Nodes, worth: WorthOfOne) -> list[float]:
    """`_loss_by_gpu` of a single node; GPUs with equal gaps lose the same."""
    usable = node.gpus.usable(ask)[0].tolist()
    taken = parts(ask, node)[0].tolist() if ask.by_memory else [ask.milli] * len(usable)
    known: dict[tuple[int, int], float] = {}
    losses = [inf] * len(usable)
    for slot, gap in enumerate(zip(worth.room, taken, strict=True)):
        if usable[slot]:
            if gap not in known:
                known[gap] = worth.before - worth.after_share(*gap)
            losses[slot] = known[gap]
    return losses


def _loss_by_gpu(found: Gaps, worth: Worth) -> Table:
    loss = worth.before()[:, None] - worth.after_share(found)
    return np.where(found.usable, loss, np.inf)


def _score_one(loss: float) -> float:
    """What `_score` says, to the last digit."""
    if loss == inf:
        return 0.0
    return HIGHEST_SCORE * _HALF / (_HALF + max(round(loss * _DIGITS) / _DIGITS, 0.0))


def _score(loss: Table) -> NodeScores:
    """Rounded, so that equal losses stay equal however they were added up."""
    scores: NodeScores = (
        HIGHEST_SCORE * _HALF / (_HALF + np.maximum(np.rint(loss * _DIGITS) / _DIGITS, 0.0))
    )
    return scores
