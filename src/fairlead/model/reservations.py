"""Reservation pods: pods of Fairlead that take whole GPUs from a device plugin, to share them.

A device plugin chooses which GPU a pod gets. So Fairlead creates a pod that requests one GPU, reads
which one it got, and assigns shares of that GPU. The pod does nothing with it.
"""

from fairlead.model.gpus import GpuUse, Grant, GrantSource
from fairlead.model.lazy_dataclass import dataclass

#: Of a reservation pod in the ledger, while pods wait for it: no pod may evict it.
PRIORITY = 2_147_483_647
#: Of one without shares: any pod may have its GPU.
NO_PRIORITY = -2_147_483_648
#: The dialects whose requests need no device plugin of their own.
SERVED = frozenset({"fairlead", "kai"})

_SLOT = "reserved-"


@dataclass(frozen=True, slots=True)
class Reservation:
    """What a reservation pod says: its number on the node, and its GPU."""

    number: int
    #: Empty until the pod has reported it.
    uuid: str = ""
    #: Why it cannot report one.
    problem: str = ""


def slot_name(number: int) -> str:
    """The GPU of a reservation, before its uuid is known."""
    return f"{_SLOT}{number}"


def number_of(name: str) -> int | None:
    """The number of the reservation that a slot is named after; None for a uuid."""
    return int(name.removeprefix(_SLOT)) if name.startswith(_SLOT) else None


def held_by_reservation(number: int) -> Grant:
    """What a reservation pod holds: a share of nothing, so that the GPU is in use and open."""
    return Grant((GpuUse(slot_name(number), whole=False, milli=0),), source=GrantSource.TAKEN)


def awaited(grant: Grant) -> tuple[int, ...]:
    """The reservations whose GPUs a grant has before their uuids are known."""
    if not grant.uses or grant.uses[0].whole:
        return ()
    numbers = (number_of(use.uuid) for use in grant.uses)
    return tuple(number for number in numbers if number is not None)
