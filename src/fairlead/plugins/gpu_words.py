"""What was missing of GPUs, in words: card by card, and how near any node came."""

from collections.abc import Sequence

import numpy as np

from fairlead.cluster.card_rows import CardRows
from fairlead.cluster.nodes import Nodes
from fairlead.model.gpus import WHOLE, Card, GpuAsk
from fairlead.plugins.api import CardAnswer


def card_answers(ask: GpuAsk, node: Nodes) -> tuple[CardAnswer, ...]:
    """About each card of the single node given; none where cards are only counted."""
    cards = _listed(node)
    usable = node.cards.usable(ask)[0]
    return tuple(
        CardAnswer(
            uuid=card.uuid,
            index=card.index,
            model=card.model,
            memory_mib=card.memory_mib,
            free_share=max(0, int(node.cards.milli_free()[0, slot])) / WHOLE,
            free_mib=max(0, int(node.cards.memory_free()[0, slot])),
            pods=int(node.cards.users()[0, slot]),
            missing="" if usable[slot] else _missing(ask, node.cards, slot, card),
        )
        for slot, card in enumerate(cards)
    )


def nearest(ask: GpuAsk, cards: CardRows) -> str:
    """How near the nodes come that cannot serve the ask, one sentence; "" if that tells nothing."""
    known = cards.known() & cards.serve(ask)
    wanted = cards.there() & cards.wanted(ask) & known[:, None]
    if not wanted.any():
        return ""
    if ask.profile:
        served = wanted & cards.cut_for(ask)
        room = int(np.where(served, cards.room_for(ask.profile), 0).sum(axis=1).max())
        return f"No node has room for more than {room} {ask.profile}, asked {ask.cards}."
    if ask.whole:
        free = (cards.usable(ask) & wanted).sum(axis=1) - cards.elsewhere()
        most = int(np.where(known, free, 0).max())
        return "" if most >= ask.cards else _of_whole(ask, max(0, most))
    return _of_shares(ask, cards, wanted & (cards.wholes() == 0))


def _of_whole(ask: GpuAsk, most: int) -> str:
    return f"Of {ask.cards} GPUs asked for at most {most} are free on one node."


def _of_shares(ask: GpuAsk, cards: CardRows, shared: np.ndarray) -> str:
    if not shared.any():
        return "All GPUs are taken whole."
    share = max(0, int(cards.milli_free()[shared].max()))
    mib, asked_mib = max(0, int(cards.memory_free()[shared].max())), cards.memory_asked(ask)[shared]
    told = []
    if ask.milli > share:
        told.append(f"The largest free share of a GPU is {share / WHOLE:g}, "
                    f"asked {ask.milli / WHOLE:g}.")  # fmt: skip
    # Who asks for a share gets the memory with it, and has been told.
    if int(asked_mib.min()) > mib and not (told and ask.memory_milli):
        told.append(f"At most {mib} MiB are free on one GPU, asked {int(asked_mib.min())}.")
    return " ".join(told)


def _listed(node: Nodes) -> Sequence[Card]:
    found = next(iter(node.objects()), None)
    return found.gpus.cards if found and found.gpus and found.gpus.named else ()


def _missing(ask: GpuAsk, cards: CardRows, slot: int, card: Card) -> str:
    """The first thing that keeps the card from serving a part of the ask."""
    if not card.healthy:
        return "out of order"
    if not cards.wanted(ask)[0, slot]:
        return "not of the wanted kind"
    if ask.profile:
        return _missing_slice(ask, cards, slot, card)
    if cards.wholes()[0, slot]:
        return "taken whole"
    if card.mig:
        return "cut into MIG slices"
    return _missing_part(ask, cards, slot, card)


def _missing_slice(ask: GpuAsk, cards: CardRows, slot: int, card: Card) -> str:
    if not card.mig:
        return "not cut into MIG slices"
    if not cards.cut_for(ask)[0, slot]:
        return (
            "cut by the agent, which serves fairlead.dev/gpu-slice"
            if card.slots
            else ("cut by somebody else, whose device plugin serves nvidia.com/mig-…")
        )
    if cards.room_for(ask.profile, emptied=True)[0, slot] == 0:
        return f"cannot be cut into {ask.profile}"
    return f"no place for a {ask.profile}, slices {_in_use(cards, slot)} are in use"


def _in_use(cards: CardRows, slot: int) -> str:
    used = int(cards.slices_used()[0, slot])
    return ", ".join(str(place) for place in range(8) if used >> place & 1) or "of others"


def _missing_part(ask: GpuAsk, cards: CardRows, slot: int, card: Card) -> str:
    pods, free_mib = int(cards.users()[0, slot]), int(cards.memory_free()[0, slot])
    asked_mib = int(cards.memory_asked(ask)[0, slot])
    free = int(cards.milli_free()[0, slot])
    if asked_mib > card.memory_mib:
        return f"{card.memory_mib} MiB in all"
    if ask.whole and pods:
        return f"shared by {pods} pod{'s' * (pods > 1)}"
    if 0 < card.sharers <= pods:
        return f"{pods} pods on it, no more are allowed"
    if free < ask.milli:
        return f"{max(0, free) / WHOLE:g} of it free"
    if free_mib < asked_mib:
        return f"{max(0, free_mib)} of {card.memory_mib} MiB free"
    return "its device plugin would take another card first"
