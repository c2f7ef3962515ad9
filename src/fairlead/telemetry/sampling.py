"""What one pod does with its cards just now, from the ledger and from readings."""

from collections.abc import Sequence

from fairlead.cluster.cluster import Cluster, Holding
from fairlead.model.gpus import WHOLE, Card, CardUse
from fairlead.model.machines import geometry_of
from fairlead.telemetry.latest import LatestReadings
from fairlead.telemetry.rightsizing import PodAllocation
from fairlead.telemetry.usage import IDLE, Sample

_NO_CARD = Card("", -1)


def cards_of(held: Holding, cluster: Cluster) -> Sequence[Card]:
    """The cards that a pod holds, in its order; one without a name where nobody says which."""
    row = cluster.row_of.get(held.node)
    if row is None or held.grant is None:
        return ()
    devices = cluster.columns.devices
    slots, cards = devices.slots_of(row), devices.cards(row)
    if not slots:
        return [_NO_CARD] * len(held.grant.uses)
    places = [slots.get(use.uuid) for use in held.grant.uses]
    return [_NO_CARD if place is None else cards[place] for place in places]


def part_of(use: CardUse, card: Card) -> float:
    """How much of a card that is: of compute, memory or slices, whichever is most."""
    if use.whole:
        return 1.0
    if use.slices:
        return use.slices / max((kind.slices for kind in card.mig), default=8)
    memory = use.memory_mib / card.memory_mib if card.memory_mib else 0.0
    return min(1.0, max(use.milli / WHOLE, memory))


def sample(held: Holding, cluster: Cluster, told: LatestReadings) -> Sample:
    """Cards that it has for itself tell it best, then readings of its own."""
    assert held.grant is not None
    uses, cards = held.grant.uses, cards_of(held, cluster)
    if uses[0].whole and any(card.uuid for card in cards):
        return _alone(cards, told)
    parts = [part_of(use, card) for use, card in zip(uses, cards, strict=False)]
    own = told.pod(held.pod.key, held.pod.uid)
    memory = own.memory_used_mib if own else None
    if own is not None and own.utilisation is not None:
        used = own.utilisation * len(uses)
        busy = (1 << len(uses)) - 1 if own.utilisation >= IDLE else 0
        return Sample(sum(parts), sum(parts), used, _each(memory, uses), busy)
    if any(use.slices for use in uses) or not any(card.uuid for card in cards):
        return Sample(sum(parts) or float(len(uses)), memory_mib=_each(memory, uses))
    return _shared(held, cluster, told, cards, parts, _each(memory, uses))


def _alone(cards: Sequence[Card], told: LatestReadings) -> Sample:
    measured, used, busy, highest = 0, 0.0, 0, None
    for bit, card in enumerate(cards):
        reading = told.card(card.uuid, card.index) if card.uuid else None
        if reading is None:
            continue
        level, memory = reading.utilisation, reading.memory_used_mib
        if level is not None:
            measured, used = measured + 1, used + level
            busy |= (level >= IDLE) << bit
        if memory is not None and (highest is None or memory > highest):
            highest = memory
    return Sample(float(len(cards)), float(measured), used, highest, busy)


def _shared(
    held: Holding,
    cluster: Cluster,
    told: LatestReadings,
    cards: Sequence[Card],
    parts: Sequence[float],
    memory_mib: float | None,
) -> Sample:
    """By its part of what the card does, which is a guess unless nobody else is there."""
    devices, row = cluster.columns.devices, cluster.row_of[held.node]
    slots = devices.slots_of(row)
    used, measured, busy, guessed = 0.0, 0.0, 0, False
    for bit, (card, part) in enumerate(zip(cards, parts, strict=False)):
        reading = told.card(card.uuid, card.index) if card.uuid else None
        if reading is None or reading.utilisation is None:
            continue
        slot = slots[card.uuid]
        others = int(devices.users[row, slot]) > 1
        everybody = max(part, 1.0 - float(devices.milli_free[row, slot]) / WHOLE)
        own = reading.utilisation * (part / everybody if others and everybody else 1.0)
        used, measured = used + own, measured + part
        busy |= (own >= IDLE) << bit
        guessed |= others
        if not others and memory_mib is None:
            memory_mib = reading.memory_used_mib
    return Sample(sum(parts), measured, used, memory_mib, busy, guessed)


def allocation_of(held: Holding, cluster: Cluster) -> PodAllocation:
    """What it has of each card, for advice."""
    assert held.grant is not None
    use = held.grant.uses[0]
    card = next((card for card in cards_of(held, cluster) if card.uuid), _NO_CARD)
    mig = card.mig or geometry_of(card.model, card.memory_mib)
    return PodAllocation(
        len(held.grant.uses), use.whole, use.milli, use.memory_mib, use.profile,
        card.memory_mib, mig,
    )  # fmt: skip


def _each(memory_mib: float | None, uses: Sequence[CardUse]) -> float | None:
    return None if memory_mib is None else memory_mib / len(uses)
