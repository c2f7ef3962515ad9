"""One book of cards where several device plugins list the same node."""

from collections.abc import Sequence
from dataclasses import replace

from fairlead.model.gpus import Card, Inventory


def merged(found: Sequence[Inventory]) -> Inventory | None:
    """The cards of the first that has any, with the doubts of all the others."""
    listed = [inventory for inventory in found if inventory.cards]
    if not listed:
        return None
    first, *others = listed
    if not others:
        return _in_order(first)
    both = replace(
        first,
        cards=tuple(_card(card, others) for card in first.cards),
        dialects=first.dialects.union(*(other.dialects for other in others)),
        one_at_a_time=first.one_at_a_time.union(*(other.one_at_a_time for other in others)),
        first_fit=first.first_fit.union(*(other.first_fit for other in others)),
        named=any(inventory.named for inventory in listed),
        confirms=any(inventory.confirms for inventory in listed),
        released=first.released.union(*(other.released for other in others)),
    )
    return _in_order(both)


def _card(card: Card, others: Sequence[Inventory]) -> Card:
    """In order only if nobody says otherwise, with the strictest limit of pods."""
    seen = [
        same
        for other in others
        for same in other.cards
        if same.uuid == card.uuid or (same.uuid.isdigit() and same.index == card.index)
    ]
    limits = [one.sharers for one in (card, *seen) if one.sharers]
    return replace(
        card,
        model=card.model or next((one.model for one in seen if one.model), ""),
        healthy=card.healthy and all(one.healthy for one in seen),
        sharers=min(limits, default=0),
    )


def _in_order(inventory: Inventory) -> Inventory:
    """A plugin that takes the first card by uuid is foreseen if the cards are in that order."""
    if not inventory.first_fit:
        return inventory
    cards, links = inventory.cards, inventory.links
    order = sorted(range(len(cards)), key=lambda slot: cards[slot].uuid)
    return replace(
        inventory,
        cards=tuple(cards[slot] for slot in order),
        links=tuple(tuple(links[a][b] for b in order) for a in order) if links else (),
    )
