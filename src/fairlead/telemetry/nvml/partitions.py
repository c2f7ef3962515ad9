"""Which MIG instances to create and which to destroy, computed from those that exist. No I/O.

*Ours* are the instances in the agent's partition state, with the same number and place. Other
instances are never touched, even if a pod was assigned their place.
"""

from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import field

import msgspec

from fairlead.model.gpus import instance_id
from fairlead.model.lazy_dataclass import dataclass
from fairlead.telemetry.nvml.facts import Cut, GpuInstance, Partition


class Place(msgspec.Struct, frozen=True, order=True):
    """A slice that a pod was assigned: its profile and its position."""

    profile: str
    start: int
    size: int

    @property
    def mask(self) -> int:
        """The memory slices as bits."""
        return mask(self.start, self.size)


class CreatedInstance(msgspec.Struct, frozen=True, order=True):
    """A GPU instance that the agent created, or was about to create."""

    id: int
    place: Place


@dataclass(frozen=True, slots=True)
class PartitionPlan:
    """Carried out in this order: dropping frees space."""

    drop: tuple[CreatedInstance, ...] = ()
    make: tuple[CreatedInstance, ...] = ()
    #: GPU instances of ours that are wanted, and have no compute instance yet.
    complete: tuple[CreatedInstance, ...] = ()
    #: Why a place cannot be used.
    blocked: dict[Place, str] = field(default_factory=dict)


def mask(start: int, size: int) -> int:
    return ((1 << size) - 1) << start


def created_from(instance: GpuInstance) -> CreatedInstance:
    return CreatedInstance(instance.id, Place(instance.profile, instance.start, instance.size))


def slots_of(cuts: Iterable[Cut]) -> int:
    """Memory slices of a GPU in all: the largest slice takes them."""
    return max((cut.size for cut in cuts), default=0)


def still_present(gpu: Partition, ours: AbstractSet[CreatedInstance]) -> frozenset[CreatedInstance]:
    """Those of ours that still exist: after a restart of the driver, none."""
    return frozenset(map(created_from, gpu.instances)) & ours


def plan_partitions(
    wanted: AbstractSet[Place], gpu: Partition, ours: AbstractSet[CreatedInstance]
) -> PartitionPlan:
    """What brings the GPU from how it is cut to what pods hold. `ours` may name what is gone."""
    there = {created_from(instance): instance for instance in gpu.instances}
    held = {created for created in there if created in ours and created.place in wanted}
    drop = tuple(
        sorted(m for m in there if m in ours and m not in held and not there[m].pids)
    )  # fmt: skip
    staying = [created for created in there if created not in drop]
    blocked = {}
    make = []
    for place in sorted(wanted - {created.place for created in held}):
        problem = _problem(place, gpu.cuts, [m for m in staying if m.place.mask & place.mask])
        if problem:
            blocked[place] = problem
        else:
            number = instance_id(place.start, place.size, slots_of(gpu.cuts))
            make.append(CreatedInstance(number, place))
    halves = tuple(sorted(created for created in held if 0 not in there[created].computes))
    return PartitionPlan(drop, tuple(make), halves, blocked)


def _problem(place: Place, cuts: Iterable[Cut], beside: list[CreatedInstance]) -> str:
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


def assignable_cuts(
    gpu: Partition,
    ours: AbstractSet[CreatedInstance],
    wanted: AbstractSet[Place],
    odd: AbstractSet[Place] = frozenset(),
) -> tuple[Cut, ...]:
    """The places that a pod could be given: all but where others are, or were left behind.

    `odd` places are those that the driver does not number as their names say.
    """
    taken = 0
    for instance in gpu.instances:
        created = created_from(instance)
        if created not in ours or (instance.pids and created.place not in wanted):
            taken |= created.place.mask
    return tuple(_without(gpu.cuts, taken, odd))


def _without(cuts: Iterable[Cut], taken: int, odd: AbstractSet[Place]) -> Iterator[Cut]:
    for cut in cuts:
        starts = tuple(
            start
            for start in cut.starts
            if not mask(start, cut.size) & taken and Place(cut.name, start, cut.size) not in odd
        )
        if starts:
            yield msgspec.structs.replace(cut, starts=starts)
