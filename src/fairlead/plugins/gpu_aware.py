"""The taste of the tutorial's gpu-aware-scheduler: free, idle, modern and well-joined cards."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fairlead.cluster.arrays import NodeScores
from fairlead.cluster.aspects import Aspect
from fairlead.cluster.card_rows import CardRows
from fairlead.cluster.devices import CardMask
from fairlead.cluster.nodes import Nodes
from fairlead.model.gpus import WHOLE
from fairlead.model.pods import PodRequest
from fairlead.plugins.api import HIGHEST_SCORE, CardScores
from fairlead.plugins.gaps import card_count, gaps

_FREE, _IDLE, _FAVOURED, _JOINED = 50.0, 30.0, 30.0, 10.0
_MOST = _FREE + _IDLE + _FAVOURED + _JOINED


@dataclass(frozen=True, slots=True)
class GpuAware:
    """Points of the best cards that the pod would get. Nobody knows yet how busy a card is, so
    all of them get the points of an idle one. Pods without GPUs stay off nodes with cards.
    """

    #: Part of the name of the models that are liked better.
    favoured: str = "H100"
    #: Node label that says "true" where cards are joined by NVLink.
    nvlink_label: str = "gpu.nvlink"
    name: ClassVar[str] = "GpuAware"
    reads: ClassVar[Aspect] = (
        Aspect.USAGE | Aspect.ALLOCATABLE | Aspect.DEVICES | Aspect.LABELS
    )  # fmt: skip

    def rate(self, request: PodRequest, nodes: Nodes) -> NodeScores:
        found = gaps(request, nodes)
        if found is None:
            return np.where(card_count(nodes) > 0, 0.0, HIGHEST_SCORE)
        points = np.where(found.usable, self.rate_cards(request, nodes), 0.0)
        best = -np.sort(-points, axis=1)[:, : found.cards]
        scores: NodeScores = best.sum(axis=1) / found.cards * HIGHEST_SCORE / _MOST
        return scores

    def rate_cards(self, request: PodRequest, nodes: Nodes) -> CardScores:
        favoured = _models_with(self.favoured, nodes.cards)
        joined = nodes.label_in(self.nvlink_label, ("true",))
        free = nodes.card_room() * (_FREE / WHOLE)
        points: CardScores = free + _IDLE + _FAVOURED * favoured + _JOINED * joined[:, None]
        return points


def _models_with(part: str, cards: CardRows) -> CardMask:
    codes = [code for model, code in cards.codes().items() if part in model]
    found: CardMask = np.isin(cards.model(), codes)
    return found
