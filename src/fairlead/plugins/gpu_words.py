"""What was missing of GPUs, in words: GPU by GPU, and how near any node came."""

import math
from collections.abc import Sequence

import numpy as np

from fairlead.cluster.card_rows import CardRows
from fairlead.cluster.devices import CardMask
from fairlead.cluster.nodes import Nodes
from fairlead.model.gpus import WHOLE, Card, GpuRequest
from fairlead.plugins.api import CardAnswer

#: What a node needs to serve requests of a dialect, and how it gets that.
_SERVED_WITH = {
    "fairlead": ("fairlead.dev/inventory", "the Fairlead agent"),
    "kai": ("fairlead.dev/inventory", "the Fairlead agent"),
    "hami": ("hami.io/node-nvidia-register", "HAMi's device plugin"),
    "volcano": ("volcano.sh/node-vgpu-register", "Volcano's device plugin"),
    "alnair": ("ai.centaurus.io/physical-gpu-uuids", "Alnair's device plugin"),
}


def not_served(ask: GpuRequest) -> str:
    """What the nodes lack that cannot serve the dialect of the ask, for an event."""
    if ask.dialect in _SERVED_WITH:
        return f"their GPUs are not listed in {_SERVED_WITH[ask.dialect][0]}"
    return f"no device plugin of {ask.dialect}"


def how_to_serve(ask: GpuRequest) -> str:
    """The same about one node, with what to do."""
    if ask.dialect not in _SERVED_WITH:
        return f"needs the device plugin of {ask.dialect}"
    annotation, writer = _SERVED_WITH[ask.dialect]
    sentence = f"needs the annotation {annotation}, which {writer} writes"
    if annotation != "fairlead.dev/inventory":
        return sentence
    return f"{sentence}; shares are not served beside NVIDIA's device plugin"


def card_answers(ask: GpuRequest, node: Nodes) -> tuple[CardAnswer, ...]:
    """About each card of the single node given; none where cards are only counted."""
    cards = _listed(node)
    usable, free = node.cards.usable(ask)[0], node.cards.milli_free()[0]
    free_mib, users = node.cards.memory_free()[0], node.cards.users()[0]
    used_mib, ages_s = node.load.memory_used()[0], node.load.age_s()[0]
    utilisation = node.load.utilisation()[0]
    return tuple(
        CardAnswer(
            uuid=card.uuid,
            index=card.index,
            model=card.model,
            memory_mib=card.memory_mib,
            free_share=max(0, int(free[slot])) / WHOLE,
            free_mib=max(0, int(free_mib[slot])),
            pods=int(users[slot]),
            missing="" if usable[slot] else _missing(ask, node, slot, card),
            utilisation=_rounded(utilisation[slot], 2),
            memory_used_mib=_rounded(used_mib[slot]),
            reading_age_s=_rounded(ages_s[slot], 1),
        )
        for slot, card in enumerate(cards)
    )


def nearest(ask: GpuRequest, cards: CardRows) -> str:
    """How near the nodes come that cannot serve the ask, one sentence; "" if that tells nothing."""
    known = cards.known() & cards.serve(ask)
    wanted = cards.there() & cards.wanted(ask) & known[:, None]
    if not wanted.any():
        return ""
    if ask.profile:
        served = wanted & cards.cut_for(ask)
        room = int(np.where(served, cards.room_for(ask.profile), 0).sum(axis=1).max())
        return _of_slices(ask, room)
    if ask.whole:
        free = (cards.usable(ask) & wanted).sum(axis=1) - cards.elsewhere()
        most = int(np.where(known, free, 0).max())
        return "" if most >= ask.cards else _of_whole(ask, max(0, most))
    return _of_shares(ask, cards, wanted & (cards.wholes() == 0))


def _of_slices(ask: GpuRequest, room: int) -> str:
    if room:
        return f"No node can fit more than {room} {ask.profile} slices, requested {ask.cards}."
    return f"No node can fit a {ask.profile} slice."


def _of_whole(ask: GpuRequest, most: int) -> str:
    return f"Of {ask.cards} requested GPUs, at most {most} are free on one node."


def _of_shares(ask: GpuRequest, cards: CardRows, shared: np.ndarray) -> str:
    if not shared.any():
        return "All GPUs are assigned whole."
    share = max(0, int(cards.milli_open(ask)[shared].max()))
    mib, asked_mib = max(0, int(cards.memory_free()[shared].max())), cards.memory_asked(ask)[shared]
    sentences = []
    if ask.milli > share:
        sentences.append(f"The largest free share of a GPU is {share / WHOLE:g}, "
                    f"requested {ask.milli / WHOLE:g}.")  # fmt: skip
    # Who asks for a share gets the memory with it, and has been told.
    if int(asked_mib.min()) > mib and not (sentences and ask.memory_milli):
        sentences.append(
            f"At most {mib} MiB are free on one GPU, requested {int(asked_mib.min())}."
        )
    return " ".join(sentences)


def _listed(node: Nodes) -> Sequence[Card]:
    found = next(iter(node.objects()), None)
    return found.inventory.cards if found and found.inventory and found.inventory.named else ()


def too_busy(ask: GpuRequest, node: Nodes, among: CardMask) -> str:
    """What keeps the quietest of these cards (of a single node) from being overcommitted."""
    if ask.overcommit is None:
        return ""
    could = among & (node.cards.milli_open(ask, if_quiet=True)[0] >= ask.milli)
    could &= node.cards.milli_open(ask)[0] < ask.milli
    if not could.any():
        return ""
    fresh = could & node.load.fresh()[0]
    if not fresh.any():
        return " and its utilisation was not measured in the last minute"
    quietest = float(node.load.busiest()[0][fresh].min())
    return f" while {quietest:.0%} busy, overcommitted below {ask.overcommit.high_water:.0%}"


def _rounded(value: float, digits: int = 0) -> float | None:
    return round(float(value), digits) if math.isfinite(value) else None


def _missing(ask: GpuRequest, node: Nodes, slot: int, card: Card) -> str:
    """The first thing that keeps the card from serving a part of the ask."""
    cards = node.cards
    if not card.healthy:
        return "unhealthy"
    if not cards.wanted(ask)[0, slot]:
        return "not of the requested kind"
    if ask.profile:
        return _missing_slice(ask, cards, slot, card)
    if cards.wholes()[0, slot]:
        return "assigned whole"
    if card.mig:
        return "divided into MIG slices"
    return _missing_part(ask, node, slot, card)


def _missing_slice(ask: GpuRequest, cards: CardRows, slot: int, card: Card) -> str:
    if not card.mig:
        return "not divided into MIG slices"
    if not cards.cut_for(ask)[0, slot]:
        return (
            "divided by the agent, which serves fairlead.dev/gpu-slice"
            if card.slots
            else "not divided by the agent; a device plugin serves nvidia.com/mig-… there"
        )
    if cards.room_for(ask.profile, emptied=True)[0, slot] == 0:
        return f"cannot be divided into {ask.profile}"
    return f"no placement for a {ask.profile}; slices {_in_use(cards, slot)} are in use"


def _in_use(cards: CardRows, slot: int) -> str:
    used = int(cards.slices_used()[0, slot])
    return ", ".join(str(place) for place in range(8) if used >> place & 1) or "of others"


def _missing_part(ask: GpuRequest, node: Nodes, slot: int, card: Card) -> str:
    cards = node.cards
    pods, free_mib = int(cards.users()[0, slot]), int(cards.memory_free()[0, slot])
    asked_mib = int(cards.memory_asked(ask)[0, slot])
    free = int(cards.milli_open(ask)[0, slot])
    if asked_mib > card.memory_mib:
        return f"{card.memory_mib} MiB in total"
    if ask.whole and pods:
        return f"shared by {pods} pod{'s' * (pods > 1)}"
    if 0 < card.sharers <= pods:
        return f"{pods} pods on it, the maximum"
    if free < ask.milli:
        this = np.arange(cards.there().shape[1]) == slot
        return f"{max(0, free) / WHOLE:g} of it free{too_busy(ask, node, this)}"
    if free_mib < asked_mib:
        return f"{max(0, free_mib)} of {card.memory_mib} MiB free"
    return "its device plugin would choose another GPU first"
