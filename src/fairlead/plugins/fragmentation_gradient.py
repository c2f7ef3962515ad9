"""FGD: place a pod where the least becomes useless to typical pods (USENIX ATC'23)."""

from typing import ClassVar

import numpy as np

from fairlead.cluster.arrays import NodeScores
from fairlead.cluster.aspects import Aspect
from fairlead.cluster.devices import Gpus
from fairlead.cluster.nodes import Nodes
from fairlead.cluster.price_tables import PriceTables, Table
from fairlead.model.gpus import WHOLE
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.pods import PodRequest
from fairlead.model.quantities import CPU
from fairlead.plugins.api import HIGHEST_SCORE, GpuScores
from fairlead.plugins.best_fit import BestFit
from fairlead.plugins.gaps import Gaps, gaps


@dataclass(frozen=True, slots=True)
class FragmentationGradient:
    """In whole points, as published: finer ones make it worse. Best fit until pods were seen."""

    name: ClassVar[str] = "FragmentationGradient"
    reads: ClassVar[Aspect] = (
        Aspect.USAGE | Aspect.ALLOCATABLE | Aspect.DEVICES | Aspect.PRICES
    )  # fmt: skip

    def rate(self, request: PodRequest, nodes: Nodes) -> NodeScores:
        tables = nodes.prices()
        if tables is None:
            return BestFit().rate(request, nodes)
        usefulness = _Usefulness(tables, request, nodes)
        found = gaps(request, nodes)
        if found is not None and found.shares:
            scores: NodeScores = np.maximum(_by_gpu(found, usefulness).max(axis=1), 0.0)
            return scores
        return _of_the_node(found, usefulness)

    def rate_gpus(self, request: PodRequest, nodes: Nodes) -> GpuScores:
        tables, found = nodes.prices(), gaps(request, nodes)
        if found is None:
            return np.zeros(nodes.gpus.there().shape)
        if tables is None or not found.shares:
            return -found.room.astype(np.float64)
        return _by_gpu(found, _Usefulness(tables, request, nodes))


class _Usefulness:
    """How many thousandths typical pods could use, before and after the pod took its cpu."""

    def __init__(self, tables: PriceTables, request: PodRequest, nodes: Nodes) -> None:
        cpu = nodes.free(CPU)
        self.room = nodes.gpu_room()
        self._before = tables.cpu_rank(cpu)
        self._after = tables.cpu_rank(cpu - request.amount(CPU))
        self._model = nodes.gpus.model()
        self._tables = tables

    def before(self) -> Table:
        return self._tables.usable_milli(self.room, self._model, self._before)

    def after(self, room: Gpus) -> Table:
        return self._tables.usable_milli(room, self._model, self._after)

    def gpu_after(self, room: Gpus) -> Table:
        """(nodes, slots)"""
        kind = self._tables.kind_of(self._model)
        found: Table = self._tables.useful()[kind, self._after[:, None], room]
        return found

    def blocks_after(self, full: Gpus) -> Table:
        """(nodes, slots), by how many whole GPUs would be free."""
        kind, rank = self._tables.kind_of(self._model[:, :1]), self._after[:, None]
        found: Table = self._tables.useful_blocks()[kind, rank, full]
        return found


def _of_the_node(found: Gaps | None, usefulness: _Usefulness) -> NodeScores:
    if found is None:
        return _points(usefulness.after(usefulness.room) - usefulness.before())
    left = np.where(found.first_taken(), 0, found.room)
    return _points(found.asked + usefulness.after(left) - usefulness.before())


def _by_gpu(found: Gaps, usefulness: _Usefulness) -> GpuScores:
    """Points of each GPU if the share went there; -1 where it cannot."""
    room = found.room
    left = np.maximum(room - found.part, 0)
    now = usefulness.gpu_after(room)
    others = now.sum(axis=1)[:, None] - now
    full = room == WHOLE
    blocks = usefulness.blocks_after(full.sum(axis=1)[:, None] - full)
    after = others + usefulness.gpu_after(left) + blocks
    points = _points(found.part + after - usefulness.before()[:, None])
    return np.where(found.usable, points, -1.0)


def _points(gain: Table) -> NodeScores:
    """`gain` is how many thousandths fewer are fragments afterwards."""
    # A billionth decides where equal sums were added up in another order.
    points: NodeScores = np.floor(HIGHEST_SCORE / (1.0 + np.exp(-(gain + 1e-9) / WHOLE)))
    return points
