"""Prices as tables that a policy looks up, GPU by GPU."""

import numpy as np
import numpy.typing as npt

from fairlead.cluster.devices import Gpus
from fairlead.cluster.interned import Interned
from fairlead.model.gpus import WHOLE
from fairlead.model.machines import is_any_of
from fairlead.model.prices import STEP, Prices

Table = npt.NDArray[np.float64]
Ranks = npt.NDArray[np.intp]


#: GPUs of one node that are distinguished.
_MOST = 64


class PriceTables:
    """Made again whenever prices change, or a new model of GPU appears."""

    def __init__(self, prices: Prices, models: Interned[str]) -> None:
        self.prices = prices
        self._names = models
        #: The value of a GPU by thousandths that are free.
        self.value: Table = np.repeat(np.array(prices.values), STEP)[: WHOLE + 1]
        #: What blocks of GPUs add, by how many whole GPUs are free.
        self.block_value: Table = np.zeros(_MOST + 1)
        for gpus, share in prices.blocks:
            self.block_value += share * WHOLE * gpus * (np.arange(_MOST + 1) // gpus)
        #: The same two as plain numbers.
        self.values: list[float] = self.value.tolist()
        self.block_values: list[float] = self.block_value.tolist()
        #: The value of a whole GPU.
        self.highest = max(self.values[WHOLE], 1e-9)
        #: GPUs that a unit of cpu, and one of memory, is enough for.
        self.gpus_per_milli = 1 / max(prices.cpu_milli_per_gpu, 1.0)
        self.gpus_per_byte = 1 / max(prices.memory_bytes_per_gpu, 1.0)
        self._pressed_version = self._sorted_version = -1
        self._cpus = np.array(sorted({shape.cpu_milli for shape, _ in prices.typical}))
        self._pressure: Table
        #: By code of the model: models for which the same typical pods ask are of one kind.
        self._kind: Ranks
        self._useful: Table
        self._useful_blocks: Table

    @property
    def presses(self) -> bool:
        """Whether any pod requires a model."""
        return bool(self.prices.pressure)

    def pressure(self) -> Table:
        """By code of the model; the last entry is for GPUs of no model."""
        if self._pressed_version != self._names.version:
            self._pressed_version = self._names.version
            self._pressure = np.zeros(self._names.width + 1)
            for model, short in self.prices.pressure:
                if model in self._names.code_of:
                    self._pressure[self._names.code_of[model]] = short
        return self._pressure

    def cpu_rank(self, cpu_milli: npt.NDArray[np.int64]) -> Ranks:
        """How many of the typical amounts of cpu there is enough for."""
        return np.searchsorted(self._cpus, cpu_milli, side="right")

    def kind_of(self, model: Gpus) -> Ranks:
        """The kinds that the next two distinguish. A cluster may have thousands of models."""
        self._sort_models()
        return self._kind[model]

    def useful(self) -> Table:
        """(kind, cpu rank, thousandths free): how much of the GPU typical pods could use."""
        self._sort_models()
        return self._useful

    def useful_blocks(self) -> Table:
        """(kind, cpu rank, GPUs): what pods with several whole GPUs add to that."""
        self._sort_models()
        return self._useful_blocks

    def usable_milli(self, room: Gpus, model: Gpus, rank: Ranks) -> Table:
        """How many free thousandths of each node typical pods could use; the rest is fragments."""
        kind = self.kind_of(model)
        found: Table = self.useful()[kind, rank[:, None], room].sum(axis=1)
        found += self.useful_blocks()[kind[:, 0], rank, (room == WHOLE).sum(axis=1)]
        return found

    def _sort_models(self) -> None:
        if self._sorted_version == self._names.version:
            return
        self._sorted_version = self._names.version
        every = self._matching(frozenset())
        asked = [every, *(self._matching(shape.models) for shape, _ in self.prices.typical)]
        kinds, self._kind = np.unique(np.array(asked), axis=1, return_inverse=True)
        self._kind = self._kind.reshape(-1)
        self._fill_useful(kinds[1:])

    def _fill_useful(self, kinds: npt.NDArray[np.bool_]) -> None:
        """`kinds` says for which kinds each typical shape asks."""
        free = np.arange(WHOLE + 1, dtype=np.float64)
        count = np.arange(_MOST + 1, dtype=np.float64)
        ranks = len(self._cpus) + 1
        count_of_kinds = kinds.shape[1]
        self._useful = np.zeros((count_of_kinds, ranks, WHOLE + 1))
        self._useful_blocks = np.zeros((count_of_kinds, ranks, _MOST + 1))
        for asked, (shape, share) in zip(kinds, self.prices.typical, strict=True):
            rank = int(self.cpu_rank(np.array(shape.cpu_milli)))
            if shape.gpus > 1 and shape.milli == WHOLE:
                gain = share * WHOLE * count[shape.gpus :]
                self._useful_blocks[asked, rank:, shape.gpus :] += gain
            elif shape.gpus:
                self._useful[asked, rank:, shape.milli :] += share * free[shape.milli :]

    def _matching(self, models: frozenset[str]) -> npt.NDArray[np.bool_]:
        if not models:
            return np.ones(self._names.width + 1, dtype=np.bool_)
        found = np.zeros(self._names.width + 1, dtype=np.bool_)
        codes = self._names.code_of.items()
        found[[code for product, code in codes if is_any_of(product, models)]] = True
        return found
