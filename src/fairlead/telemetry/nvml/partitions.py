"""What to cut and what to put back, worked out from what is there. No I/O.

*Ours* are instances that stand in the agent's list of what it made, with the same number and place.
Everybody else's are left alone, whatever becomes of the pods that want their place.
"""

from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

import msgspec

from fairlead.model.gpus import instance_id
from fairlead.telemetry.nvml.facts import Cut, Instance, Partition


class Place(msgspec.Struct, frozen=True, order=True):
    """A slice that a pod was given: what kind, and where."""

    profile: str
    start: int
    size: int

    @property
    def mask(self) -> int:
        """The memory slices as bits."""
        return mask(self.start, self.size)


class Made(msgspec.Struct, frozen=True, order=True):
    """A GPU instance that the agent made, or was about to make."""

    id: int
    place: Place


@dataclass(frozen=True, slots=True)
class Plan:
    """In this order: dropping makes room."""

    drop: tuple[Made, ...] = ()
    make: tuple[Made, ...] = ()
    #: GPU instances of ours that are wanted, and have no compute instance yet.
    complete: tuple[Made, ...] = ()
    #: Why a place cannot be had.
    blocked: dict[Place, str] = field(default_factory=dict)


def mask(start: int, size: int) -> int:
    return ((1 << size) - 1) << start


def made_of(instance: Instance) -> Made:
    return Made(instance.id, Place(instance.profile, instance.start, instance.size))


def slots_of(cuts: Iterable[Cut]) -> int:
    """Memory slices of a card in all: the largest slice takes them."""
    return max((cut.size for cut in cuts), default=0)


def still_there(card: Partition, ours: AbstractSet[Made]) -> frozenset[Made]:
    """What is left of ours: after a restart of the driver, nothing."""
    return frozenset(map(made_of, card.instances)) & ours


def plan(wanted: AbstractSet[Place], card: Partition, ours: AbstractSet[Made]) -> Plan:
    """What brings the card from how it is cut to what pods hold. `ours` may name what is gone."""
    there = {made_of(instance): instance for instance in card.instances}
    held = {made for made in there if made in ours and made.place in wanted}
    drop = tuple(
        sorted(m for m in there if m in ours and m not in held and not there[m].pids)
    )  # fmt: skip
    staying = [made for made in there if made not in drop]
    blocked = {}
    make = []
    for place in sorted(wanted - {made.place for made in held}):
        problem = _problem(place, card.cuts, [m for m in staying if m.place.mask & place.mask])
        if problem:
            blocked[place] = problem
        else:
            number = instance_id(place.start, place.size, slots_of(card.cuts))
            make.append(Made(number, place))
    halves = tuple(sorted(made for made in held if 0 not in there[made].computes))
    return Plan(drop, tuple(make), halves, blocked)


def _problem(place: Place, cuts: Iterable[Cut], beside: list[Made]) -> str:
    if not any(_allows(cut, place) for cut in cuts):
        return f"the driver allows no {place.profile} at slice {place.start}"
    if beside:
        other = beside[0]
        return (
            f"GPU instance {other.id} ({other.place.profile} at slice {other.place.start}) lies "
            "there, and is not the agent's, or still in use; remove it (nvidia-smi mig -dci, then "
            "-dgi), or delete the pod, so that it is scheduled again"
        )
    return ""


def _allows(cut: Cut, place: Place) -> bool:
    return (cut.name, cut.size) == (place.profile, place.size) and place.start in cut.starts


def on_offer(
    card: Partition,
    ours: AbstractSet[Made],
    wanted: AbstractSet[Place],
    odd: AbstractSet[Place] = frozenset(),
) -> tuple[Cut, ...]:
    """The places that a pod could be given: all but where others are, or were left behind.

    `odd` places are those that the driver does not number as their names say.
    """
    taken = 0
    for instance in card.instances:
        made = made_of(instance)
        if made not in ours or (instance.pids and made.place not in wanted):
            taken |= made.place.mask
    return tuple(_without(card.cuts, taken, odd))


def _without(cuts: Iterable[Cut], taken: int, odd: AbstractSet[Place]) -> Iterator[Cut]:
    for cut in cuts:
        starts = tuple(
            start
            for start in cut.starts
            if not mask(start, cut.size) & taken and Place(cut.name, start, cut.size) not in odd
        )
        if starts:
            yield Cut(cut.name, cut.size, starts)
