"""Place a pod where what it takes is worth least to the pods that are still to come.

A node is worth what its free cards are worth: by the price of gaps of that size, by the cpu and
memory that are there to go with them, by blocks of whole cards, and by how sought after the model
is. A pod goes where the worth drops least. Prices come from the pods seen (`placement/prices.py`).
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fairlead.cluster.arrays import NodeScores
from fairlead.cluster.aspects import Aspect
from fairlead.cluster.devices import Cards
from fairlead.cluster.nodes import Nodes
from fairlead.cluster.price_tables import PriceTables, Table
from fairlead.model.gpus import WHOLE, GpuAsk
from fairlead.model.pods import PodRequest
from fairlead.model.quantities import CPU, MEMORY
from fairlead.plugins.api import HIGHEST_SCORE, CardScores
from fairlead.plugins.gaps import Gaps, asked_cards, gaps, shares
from fairlead.plugins.gpu_best_fit import GpuBestFit

_GAP, _RESERVE = 10.0, 1000.0
#: A loss of this much halves the score.
_HALF = 10_000.0
_DIGITS = 1e6
#: A pod without GPUs that has the choice stays off nodes with cards.
_ON_CARDS = 1.0


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
        ask = asked_cards(request)
        if len(nodes) == 1 and not tables.presses and (ask is None or ask.whole):
            return np.array([_score_one(_loss_of_one(tables, ask, request, nodes))])
        worth = _Worth(tables, request, nodes)
        if ask is None:
            return _score(worth.before() - worth.after_nothing())
        if ask.whole:
            return _score(worth.before() - worth.after_taking(ask.cards, request, nodes))
        return _score(_loss_by_card(shares(ask, nodes), worth).min(axis=1))

    def rate_cards(self, request: PodRequest, nodes: Nodes) -> CardScores:
        tables, ask = nodes.prices(), asked_cards(request)
        if tables is None or ask is None or ask.whole:
            return -nodes.card_room().astype(np.float64)
        return -_loss_by_card(shares(ask, nodes), _Worth(tables, request, nodes))


class _Worth:
    """What nodes are worth, with and without the cpu and memory that the pod takes."""

    def __init__(self, tables: PriceTables, request: PodRequest, nodes: Nodes) -> None:
        self._tables = tables
        self._highest = max(float(tables.value[WHOLE]), 1e-9)
        self.room = nodes.card_room()
        self._free, self._full = nodes.free_cards()
        self._values = tables.value[self.room]
        self._total = self._values.sum(axis=1)
        self._pressure = _pressure(tables, nodes) if tables.presses else None
        self._reserve, self._reserve_after = _cards_served(tables, request, nodes)

    def before(self) -> Table:
        return self._of(self._total, self._reserve, self._full)

    def after_nothing(self) -> Table:
        """Cards stay as they are."""
        on_cards = np.where(self._free > 0, _ON_CARDS, 0.0)
        return self._of(self._total, self._reserve_after, self._full) - on_cards

    def after_taking(self, cards: int, request: PodRequest, nodes: Nodes) -> Table:
        """So many whole cards are gone."""
        total = self._total - cards * self._highest
        full = np.maximum(self._full - cards, 0)
        after = self._of(total, self._reserve_after, full)
        if self._pressure is not None and (found := gaps(request, nodes)) is not None:
            after = after - (self._pressure * self.room * found.first_taken()).sum(axis=1)
        return after

    def after_share(self, found: Gaps) -> Table:
        """(nodes, slots), for each card that the share may go to."""
        left = np.maximum(self.room - found.part, 0)
        total = self._total[:, None] - self._values + self._tables.value[left]
        full = self._full[:, None] - (self.room == WHOLE)
        after = self._of(total, self._reserve_after[:, None], full)
        if self._pressure is not None:
            after = after - self._pressure * (self.room - left)
        return after

    def _of(self, total: Table, reserve: Table, full: Cards) -> Table:
        """Everything but the model, which only counts by difference."""
        worth: Table = np.minimum(total / self._highest, reserve)
        worth *= _RESERVE
        worth += _GAP * total
        worth += self._tables.block_value[full]
        return worth


def _loss_of_one(
    tables: PriceTables, ask: GpuAsk | None, request: PodRequest, node: Nodes
) -> float:  # fmt: skip
    """The same for whole cards of a single node, in plain numbers: after each placement one node
    is asked about again, and arrays of one cost ten times as much.
    """
    highest = max(float(tables.value[WHOLE]), 1e-9)
    (free,), (full,) = (each.tolist() for each in node.free_cards())
    total = float(tables.value[node.card_room()[0]].sum())
    per_cpu, per_memory = _per_card(tables)
    cpu, memory = int(node.free(CPU)[0]), int(node.free(MEMORY)[0])
    before = max(min(cpu * per_cpu, memory * per_memory), 0.0)
    cpu, memory = cpu - request.amount(CPU), memory - request.amount(MEMORY)
    after = max(min(cpu * per_cpu, memory * per_memory), 0.0)
    cards = ask.cards if ask else 0
    left = total - cards * highest
    gap: float = _GAP * (total - left)
    reserve = _RESERVE * (min(total / highest, before) - min(left / highest, after))
    blocks = float(tables.block_value[full] - tables.block_value[max(full - cards, 0)])
    return gap + reserve + blocks + (_ON_CARDS if ask is None and free > 0 else 0.0)


def _pressure(tables: PriceTables, nodes: Nodes) -> Table:
    found: Table = tables.pressure()[nodes.cards.model()]
    return found


def _cards_served(
    tables: PriceTables, request: PodRequest, nodes: Nodes
) -> tuple[Table, Table]:  # fmt: skip
    """For how many cards cpu and memory suffice, without the pod and with it."""
    per_cpu, per_memory = _per_card(tables)
    cpu, memory = nodes.free(CPU) * per_cpu, nodes.free(MEMORY) * per_memory
    after = np.minimum(
        cpu - request.amount(CPU) * per_cpu, memory - request.amount(MEMORY) * per_memory
    )
    return np.maximum(np.minimum(cpu, memory), 0.0), np.maximum(after, 0.0)


def _per_card(tables: PriceTables) -> tuple[float, float]:
    """Cards that one unit of cpu, and of memory, is enough for."""
    prices = tables.prices
    per_memory = 1 / max(prices.memory_bytes_per_card, 1.0)
    return 1 / max(prices.cpu_milli_per_card, 1.0), per_memory


def _loss_by_card(found: Gaps, worth: _Worth) -> Table:
    loss = worth.before()[:, None] - worth.after_share(found)
    return np.where(found.usable, loss, np.inf)


def _score_one(loss: float) -> float:
    """What `_score` says, to the last digit."""
    return HIGHEST_SCORE * _HALF / (_HALF + max(round(loss * _DIGITS) / _DIGITS, 0.0))


def _score(loss: Table) -> NodeScores:
    """Rounded, so that equal losses stay equal however they were added up."""
    scores: NodeScores = (
        HIGHEST_SCORE * _HALF / (_HALF + np.maximum(np.rint(loss * _DIGITS) / _DIGITS, 0.0))
    )
    return scores
