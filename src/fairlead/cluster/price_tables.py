"""Prices as tables that a policy looks up, card by card."""

import numpy as np
import numpy.typing as npt

from fairlead.cluster.devices import Cards
from fairlead.cluster.interned import Interned
from fairlead.model.gpus import WHOLE
from fairlead.model.machines import is_any_of
from fairlead.model.prices import STEP, Prices

Table = npt.NDArray[np.float64]
Ranks = npt.NDArray[np.intp]


#: Cards of one node that are told apart.
_MOST = 64


class PriceTables:
    """Made anew whenever prices change, or a model of card turns up that it does not know."""

    def __init__(self, prices: Prices, models: Interned[str]) -> None:
        self.prices = prices
        self._names = models
        #: The value of a card by thousandths that are free.
        self.value: Table = np.repeat(np.array(prices.values), STEP)[: WHOLE + 1]
        #: What blocks of cards add, by how many whole cards are free.
        self.block_value: Table = np.zeros(_MOST + 1)
        for cards, share in prices.blocks:
            self.block_value += share * WHOLE * cards * (np.arange(_MOST + 1) // cards)
        #: The same two as plain numbers.
        self.values: list[float] = self.value.tolist()
        self.block_values: list[float] = self.block_value.tolist()
        #: The value of a whole card.
        self.highest = max(self.values[WHOLE], 1e-9)
        #: Cards that a unit of cpu, and one of memory, is enough for.
        self.cards_per_milli = 1 / max(prices.cpu_milli_per_card, 1.0)
        self.cards_per_byte = 1 / max(prices.memory_bytes_per_card, 1.0)
        self._models = 0
        self._version = -1
        self._cpus = np.array(sorted({shape.cpu_milli for shape, _ in prices.typical}))
        self._pressure: Table
        self._useful: Table
        self._useful_blocks: Table

    @property
    def presses(self) -> bool:
        """Does anybody insist on a model?"""
        return bool(self.prices.pressure)

    def pressure(self) -> Table:
        """By code of the model; the last entry is for cards of no model."""
        self._follow_models()
        return self._pressure

    def cpu_rank(self, cpu_milli: npt.NDArray[np.int64]) -> Ranks:
        """How many of the typical amounts of cpu there is enough for."""
        return np.searchsorted(self._cpus, cpu_milli, side="right")

    def useful(self) -> Table:
        """(model, cpu rank, thousandths free): how much of the card typical pods could use."""
        self._follow_models()
        return self._useful

    def useful_blocks(self) -> Table:
        """(model, cpu rank, cards): what pods that want several whole cards add to that."""
        self._follow_models()
        return self._useful_blocks

    def usable_milli(self, room: Cards, model: Cards, rank: Ranks) -> Table:
        """How many free thousandths of each node typical pods could use; the rest is fragments."""
        found: Table = self.useful()[model, rank[:, None], room].sum(axis=1)
        found += self.useful_blocks()[model[:, 0], rank, (room == WHOLE).sum(axis=1)]
        return found

    def _follow_models(self) -> None:
        if self._names.version == self._version:
            return
        self._version, self._models = self._names.version, self._names.width
        codes = self._names.code_of
        self._pressure = np.zeros(self._models + 1)
        for model, short in self.prices.pressure:
            if model in codes:
                self._pressure[codes[model]] = short
        self._fill_useful()

    def _fill_useful(self) -> None:
        free = np.arange(WHOLE + 1, dtype=np.float64)
        count = np.arange(_MOST + 1, dtype=np.float64)
        ranks = len(self._cpus) + 1
        self._useful = np.zeros((self._models + 1, ranks, WHOLE + 1))
        self._useful_blocks = np.zeros((self._models + 1, ranks, _MOST + 1))
        for shape, share in self.prices.typical:
            rank = int(self.cpu_rank(np.array(shape.cpu_milli)))
            models = self._matching(shape.models)
            if shape.cards > 1 and shape.milli == WHOLE:
                gain = share * WHOLE * count[shape.cards :]
                self._useful_blocks[models, rank:, shape.cards :] += gain
            elif shape.cards:
                self._useful[models, rank:, shape.milli :] += share * free[shape.milli :]

    def _matching(self, models: frozenset[str]) -> npt.NDArray[np.bool_]:
        if not models:
            return np.ones(self._models + 1, dtype=np.bool_)
        found = np.zeros(self._models + 1, dtype=np.bool_)
        codes = self._names.code_of.items()
        found[[code for product, code in codes if is_any_of(product, models)]] = True
        return found
