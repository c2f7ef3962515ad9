"""Where on which card a MIG slice is cut."""

from collections.abc import Mapping

from fairlead.model.gpus import MigProfile

#: How a card can be cut, and the memory slices in use as bits.
Cut = tuple[tuple[MigProfile, ...], int]


def slice_place(profile: str, cards: Mapping[int, Cut]) -> tuple[int, int, int] | None:
    """Slot, first slice and length: on the fullest card, where most room is left for others."""
    places = [
        (-used.bit_count(), -_room_left(kinds, used | mask), slot, start, kind.slices)
        for slot, (kinds, used) in cards.items()
        for kind in kinds
        if kind.name == profile
        for start, mask in zip(kind.starts, kind.masks(), strict=True)
        if not used & mask
    ]
    if not places:
        return None
    _, _, slot, start, slices = min(places)
    return slot, start, slices


def _room_left(kinds: tuple[MigProfile, ...], used: int) -> int:
    """How many places of any kind are still free."""
    return sum(not used & mask for kind in kinds for mask in kind.masks())
