"""What scores that go by readings have in common: which cards the pod could get, and the best."""

import numpy as np

from fairlead.cluster.arrays import NodeScores
from fairlead.cluster.aspects import Aspect
from fairlead.cluster.devices import CardMask
from fairlead.cluster.nodes import Nodes
from fairlead.model.nodes import GPU
from fairlead.model.pods import PodRequest
from fairlead.plugins.api import CardScores
from fairlead.plugins.gaps import Gaps, gaps

#: Which cards are free, and what they are doing.
READS = Aspect.LOAD | Aspect.DEVICES | Aspect.USAGE | Aspect.ALLOCATABLE


def of_best_cards(points: CardScores, request: PodRequest, nodes: Nodes) -> NodeScores:
    """The points of the cards that the pod would get if it got the best; 0 where it gets none."""
    found = gaps(request, nodes)
    if found is None:
        return np.zeros(len(nodes))
    some = np.where(could_get(found, nodes), points, 0.0)
    best = -np.sort(-some, axis=1)[:, : found.cards]
    scores: NodeScores = best.sum(axis=1) / found.cards
    return scores


def could_get(found: Gaps, nodes: Nodes) -> CardMask:
    """The cards in question. Where they are only counted, any of them may be the free ones."""
    known = nodes.cards.known()[:, None]
    if known.all():
        return found.usable
    slots = np.arange(found.usable.shape[1])
    some_free = np.any(found.usable, axis=1, keepdims=True)
    counted = (slots < nodes.allocatable(GPU)[:, None]) & some_free
    could: CardMask = np.where(known, found.usable, counted)
    return could
