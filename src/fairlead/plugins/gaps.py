"""What a pod would leave free, GPU by GPU: the ground on which GPU policies differ."""

import numpy as np

from fairlead.cluster.arrays import NodeScores, PerNode
from fairlead.cluster.devices import GpuMask, Gpus
from fairlead.cluster.nodes import Nodes
from fairlead.model.gpus import WHOLE, GpuRequest
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.nodes import GPU
from fairlead.model.pods import PodRequest


@dataclass(frozen=True, slots=True)
class Gaps:
    """Every array is (nodes, slots), `total` is (nodes,)."""

    #: Thousandths of each GPU that are free now.
    room: Gpus
    #: GPUs that could serve a part of the ask.
    usable: GpuMask
    #: Thousandths that a part would take of each GPU.
    part: Gpus
    #: Parts on different GPUs.
    gpus: int
    #: One GPU, and not all of it: which one is a choice.
    shares: bool

    @property
    def total(self) -> PerNode:
        """Thousandths free on each node."""
        total: PerNode = self.room.sum(axis=1)
        return total

    @property
    def asked(self) -> PerNode:
        """Thousandths that the pod takes of each node."""
        if not self.shares:
            return np.full(len(self.room), self.gpus * WHOLE)
        asked: PerNode = self.gpus * np.where(self.usable, self.part, 0).max(axis=1)
        return asked

    def first_taken(self) -> GpuMask:
        """The usable GPUs that whole parts go to: the first ones."""
        taken: GpuMask = self.usable & (np.cumsum(self.usable, axis=1) <= self.gpus)
        return taken


def asked_gpus(request: PodRequest) -> GpuRequest | None:
    """What the pod asks of GPUs, be it only as a count; None without GPUs, for slices, or where
    a map has chosen the GPUs already.
    """
    ask = request.gpu_request
    if ask is None:
        count = request.amount(GPU)
        return GpuRequest(count) if count else None
    return None if ask.sliced or ask.map_slot else ask


def gaps(request: PodRequest, nodes: Nodes) -> Gaps | None:
    """None for a pod that asks for no GPUs."""
    ask = asked_gpus(request)
    if ask is None:
        return None
    if not ask.whole:
        return shares(ask, nodes)
    room = nodes.gpu_room()
    usable = room == WHOLE
    if ask.particular:
        usable &= nodes.gpus.wanted(ask) | ~nodes.gpus.known()[:, None]
    return Gaps(room, usable, np.full_like(room, WHOLE), ask.gpus, shares=False)


def shares(ask: GpuRequest, nodes: Nodes) -> Gaps:
    """The same for an ask of parts of GPUs."""
    room, usable = nodes.gpu_room(), nodes.gpus.usable(ask)
    return Gaps(room, usable, parts(ask, nodes), ask.gpus, shares=True)


def parts(ask: GpuRequest, nodes: Nodes) -> Gpus:
    """Thousandths that a part of the ask would take of each GPU."""
    gpus = nodes.gpus
    memory = gpus.memory()
    if not ask.by_memory:
        return np.full_like(memory, ask.milli)
    by_memory = -(-WHOLE * gpus.memory_asked(ask) // np.maximum(memory, 1))
    return np.clip(np.where(memory > 0, by_memory, 0), ask.milli, WHOLE)


def left_over(
    resource: str, request: PodRequest, nodes: Nodes
) -> tuple[NodeScores, PerNode, bool]:  # fmt: skip
    """What would be left of a resource, out of how much, and whether the pod needs any.

    GPUs are counted as parts of GPUs where GPUs are listed.
    """
    if resource != GPU:
        need = request.amount(resource)
        left = np.maximum(nodes.free(resource) - need, 0).astype(np.float64)
        return left, nodes.allocatable(resource), bool(need)
    ask, (free, _) = asked_gpus(request), nodes.free_gpus()
    if ask is not None:
        free = free - (ask.gpus * WHOLE if ask.whole else shares(ask, nodes).asked)
    return np.maximum(free, 0) / WHOLE, gpu_count(nodes), ask is not None


def gpu_count(nodes: Nodes) -> PerNode:
    """GPUs of each node, listed or not."""
    counted = nodes.allocatable(GPU)
    known = nodes.gpus.known()
    if not known.any():
        return counted
    count: PerNode = np.where(known, nodes.gpus.there().sum(axis=1), counted)
    return count
