"""What a pod would leave free, card by card: the ground on which GPU policies differ."""

from dataclasses import dataclass

import numpy as np

from fairlead.cluster.arrays import NodeScores, PerNode
from fairlead.cluster.devices import CardMask, Cards
from fairlead.cluster.nodes import Nodes
from fairlead.model.gpus import WHOLE, GpuRequest
from fairlead.model.nodes import GPU
from fairlead.model.pods import PodRequest


@dataclass(frozen=True, slots=True)
class Gaps:
    """Every array is (nodes, slots), `total` is (nodes,)."""

    #: Thousandths of each card that are free now.
    room: Cards
    #: Cards that could serve a part of the ask.
    usable: CardMask
    #: Thousandths that a part would take of each card.
    part: Cards
    #: Parts on different cards.
    cards: int
    #: One card, and not all of it: which one is a choice.
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
            return np.full(len(self.room), self.cards * WHOLE)
        asked: PerNode = self.cards * np.where(self.usable, self.part, 0).max(axis=1)
        return asked

    def first_taken(self) -> CardMask:
        """The usable cards that whole parts go to: the first ones."""
        taken: CardMask = self.usable & (np.cumsum(self.usable, axis=1) <= self.cards)
        return taken


def asked_cards(request: PodRequest) -> GpuRequest | None:
    """What the pod asks of cards, be it only as a count; None without GPUs, for slices, or where
    a map has chosen the cards already.
    """
    ask = request.gpu_request
    if ask is None:
        count = request.amount(GPU)
        return GpuRequest(count) if count else None
    return None if ask.profile or ask.map_slot else ask


def gaps(request: PodRequest, nodes: Nodes) -> Gaps | None:
    """None for a pod that asks for no cards."""
    ask = asked_cards(request)
    if ask is None:
        return None
    if not ask.whole:
        return shares(ask, nodes)
    room = nodes.card_room()
    usable = room == WHOLE
    if ask.particular:
        usable &= nodes.cards.wanted(ask) | ~nodes.cards.known()[:, None]
    return Gaps(room, usable, np.full_like(room, WHOLE), ask.cards, shares=False)


def shares(ask: GpuRequest, nodes: Nodes) -> Gaps:
    """The same for an ask of parts of cards."""
    room, usable = nodes.card_room(), nodes.cards.usable(ask)
    return Gaps(room, usable, parts(ask, nodes), ask.cards, shares=True)


def parts(ask: GpuRequest, nodes: Nodes) -> Cards:
    """Thousandths that a part of the ask would take of each card."""
    cards = nodes.cards
    memory = cards.memory()
    if not ask.by_memory:
        return np.full_like(memory, ask.milli)
    by_memory = -(-WHOLE * cards.memory_asked(ask) // np.maximum(memory, 1))
    return np.clip(np.where(memory > 0, by_memory, 0), ask.milli, WHOLE)


def left_over(
    resource: str, request: PodRequest, nodes: Nodes
) -> tuple[NodeScores, PerNode, bool]:  # fmt: skip
    """What would be left of a resource, out of how much, and whether the pod needs any.

    GPUs are counted as parts of cards where cards are listed.
    """
    if resource != GPU:
        need = request.amount(resource)
        left = np.maximum(nodes.free(resource) - need, 0).astype(np.float64)
        return left, nodes.allocatable(resource), bool(need)
    ask, (free, _) = asked_cards(request), nodes.free_cards()
    if ask is not None:
        free = free - (ask.cards * WHOLE if ask.whole else shares(ask, nodes).asked)
    return np.maximum(free, 0) / WHOLE, card_count(nodes), ask is not None


def card_count(nodes: Nodes) -> PerNode:
    """Cards of each node, listed or not."""
    counted = nodes.allocatable(GPU)
    known = nodes.cards.known()
    if not known.any():
        return counted
    count: PerNode = np.where(known, nodes.cards.there().sum(axis=1), counted)
    return count
