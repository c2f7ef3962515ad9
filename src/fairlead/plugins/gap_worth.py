"""What a node's free GPUs are worth, with a pod there and without it."""

import numpy as np

from fairlead.cluster.devices import Gpus
from fairlead.cluster.nodes import Nodes
from fairlead.cluster.price_tables import PriceTables, Table
from fairlead.model.gpus import WHOLE
from fairlead.model.pods import PodRequest
from fairlead.model.quantities import CPU, MEMORY
from fairlead.plugins.gaps import Gaps, gaps

_GAP, _RESERVE = 10.0, 1000.0
#: A pod without GPUs that has the choice stays off nodes with GPUs.
_ON_GPUS = 1.0


class Worth:
    """What nodes are worth, with and without the cpu and memory that the pod takes."""

    def __init__(self, tables: PriceTables, request: PodRequest, nodes: Nodes) -> None:
        self._tables = tables
        self.room = nodes.gpu_room()
        self._free, self._full = nodes.free_gpus()
        self._values = tables.value[self.room]
        self._total = self._values.sum(axis=1)
        self._pressure = tables.pressure()[nodes.gpus.model()] if tables.presses else None
        self._reserve, self._reserve_after = _gpus_served(tables, request, nodes)

    def before(self) -> Table:
        return self._of(self._total, self._reserve, self._full)

    def after_nothing(self) -> Table:
        """GPUs stay as they are."""
        on_gpus = np.where(self._free > 0, _ON_GPUS, 0.0)
        return self._of(self._total, self._reserve_after, self._full) - on_gpus

    def after_taking(self, gpus: int, request: PodRequest, nodes: Nodes) -> Table:
        """So many whole GPUs are gone."""
        total = self._total - gpus * self._tables.highest
        full = np.maximum(self._full - gpus, 0)
        after = self._of(total, self._reserve_after, full)
        if self._pressure is not None and (found := gaps(request, nodes)) is not None:
            after = after - (self._pressure * self.room * found.first_taken()).sum(axis=1)
        return after

    def after_share(self, found: Gaps) -> Table:
        """(nodes, slots), for each GPU that the share may go to."""
        left = np.maximum(self.room - found.part, 0)
        total = self._total[:, None] - self._values + self._tables.value[left]
        full = self._full[:, None] - (self.room == WHOLE)
        after = self._of(total, self._reserve_after[:, None], full)
        if self._pressure is not None:
            after = after - self._pressure * (self.room - left)
        return after

    def _of(self, total: Table, reserve: Table, full: Gpus) -> Table:
        """Everything but the model, which only counts by difference."""
        worth: Table = np.minimum(total / self._tables.highest, reserve)
        worth *= _RESERVE
        worth += _GAP * total
        worth += self._tables.block_value[full]
        return worth


def _gpus_served(
    tables: PriceTables, request: PodRequest, nodes: Nodes
) -> tuple[Table, Table]:  # fmt: skip
    """For how many GPUs cpu and memory suffice, without the pod and with it."""
    per_cpu, per_memory = tables.gpus_per_milli, tables.gpus_per_byte
    cpu, memory = nodes.free(CPU), nodes.free(MEMORY)
    before = np.minimum(cpu * per_cpu, memory * per_memory)
    cpu, memory = cpu - request.amount(CPU), memory - request.amount(MEMORY)
    after = np.minimum(cpu * per_cpu, memory * per_memory)
    return np.maximum(before, 0.0), np.maximum(after, 0.0)


class WorthOfOne:
    """The same of a single node, where no pod requires a model, in plain numbers: after each
    placement one node is asked about again, and arrays of one cost ten times as much.
    """

    def __init__(self, tables: PriceTables, request: PodRequest, node: Nodes) -> None:
        self._tables = tables
        self.room: list[int] = node.gpu_room()[0].tolist()
        self._full = self.room.count(WHOLE)
        self._total: float = sum(map(tables.values.__getitem__, self.room))
        per_cpu, per_memory = tables.gpus_per_milli, tables.gpus_per_byte
        cpu, memory = node.free_here(CPU), node.free_here(MEMORY)
        reserve = max(min(cpu * per_cpu, memory * per_memory), 0.0)
        cpu, memory = cpu - request.amount(CPU), memory - request.amount(MEMORY)
        self._reserve_after = max(min(cpu * per_cpu, memory * per_memory), 0.0)
        self.before = self._of(self._total, reserve, self._full)

    def after_nothing(self) -> float:
        on_gpus = _ON_GPUS if any(self.room) else 0.0
        return self._of(self._total, self._reserve_after, self._full) - on_gpus

    def after_taking(self, gpus: int) -> float:
        total = self._total - gpus * self._tables.highest
        return self._of(total, self._reserve_after, max(self._full - gpus, 0))

    def after_share(self, room: int, part: int) -> float:
        values = self._tables.values
        total = self._total - values[room] + values[max(room - part, 0)]
        return self._of(total, self._reserve_after, self._full - (room == WHOLE))

    def _of(self, total: float, reserve: float, full: int) -> float:
        served: float = min(total / self._tables.highest, reserve)
        return served * _RESERVE + _GAP * total + self._tables.block_values[full]
