"""Which GPUs of the chosen node the pod gets."""

from collections.abc import Iterable, Sequence
from enum import StrEnum

from fairlead.cluster.devices import Devices
from fairlead.cluster.gpu_rows import GpuRows
from fairlead.cluster.map_indices import uses_of
from fairlead.model.gpus import GpuRequest, GpuUse, Grant, Inventory, Isolation
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.map_slots import MapSlot
from fairlead.placement.links import best_set
from fairlead.placement.mig import slice_place


class GpuPolicy(StrEnum):
    """How shares find their GPU: the fullest that has room, or the emptiest."""

    PACK = "pack"
    SPREAD = "spread"


#: A policy, or each GPU's rating: the more, the better.
GpuPreference = GpuPolicy | Sequence[float]


@dataclass(slots=True)
class Occupied:
    """Pods on each GPU of a node, and how many unused GPUs may be assigned."""

    users: list[int]
    spare: int

    @classmethod
    def of(cls, devices: Devices, row: int) -> "Occupied":
        return cls(devices.users[row].tolist(), devices.spare.item(row))

    def spares(self, slot: int) -> bool:
        return bool(self.users[slot]) or self.spare > 0

    def take(self, slot: int) -> None:
        self.spare -= not self.users[slot]


def choose(
    ask: GpuRequest,
    devices: Devices,
    row: int,
    preference: GpuPreference,
    now: Occupied | None = None,
) -> Grant | None:
    """The GPUs, or None if the node cannot serve the ask after all.

    `now` is how things are, where the book shows them with pods that are only expected.
    """
    uses: list[GpuUse] | None
    if ask.map_slot is not None:
        return _by_map(ask, ask.map_slot, devices, row)
    inventory = devices.inventories.get(row)
    if inventory is None or not (inventory.named or inventory.reservable):
        return _counted(ask)
    if inventory.reservable and (ask.whole or ask.profile):
        return _counted(ask)
    if ask.sliced:
        uses = _slices(ask, devices, row)
    elif ask.whole:
        uses = _whole(ask, devices, row, inventory)
    else:
        uses = _shares(ask, devices, row, inventory, preference, now)
    if uses is None:
        return None
    pending = ask.dialect in inventory.one_at_a_time
    isolation = ask.isolation or Isolation.ADVISORY
    return Grant(tuple(uses), ask.dialect, ask.containers, pending, isolation=isolation)


def is_free(grant: Grant, ask: GpuRequest, devices: Devices, row: int) -> bool:
    """Whether a pod with this ask could be given just these GPUs of the node."""
    slots, state = devices.slots_of(row), Occupied.of(devices, row)
    usable = _one(devices, row).usable(ask)[0]
    for use in grant.uses:
        slot = slots.get(use.uuid)
        if slot is None or not usable[slot] or devices.slices_used.item(row, slot) & use.mask:
            return False
        if not state.spares(slot):
            return False
        state.take(slot)
    return True


def _by_map(ask: GpuRequest, map_slot: MapSlot, devices: Devices, row: int) -> Grant | None:
    """The GPUs that the map names, and those that the pod asks for beyond them."""
    if map_slot.line is None:
        return None
    uses = uses_of(map_slot.line, devices, row)
    uses += [GpuUse("")] * (ask.gpus - len(uses))
    return Grant(tuple(uses), ask.dialect, member=map_slot.member)


def _counted(ask: GpuRequest) -> Grant | None:
    """A device plugin chooses; inside the pod they are the first ones."""
    if not (ask.whole or ask.profile):
        return None
    use = GpuUse("", False, 0, 0, ask.profile) if ask.profile else GpuUse("")
    return Grant((use,) * ask.gpus, ask.dialect, ask.containers)


def _one(devices: Devices, row: int) -> GpuRows:
    return GpuRows(devices, slice(row, row + 1))


def _usable(ask: GpuRequest, devices: Devices, row: int) -> list[int]:
    usable = _one(devices, row).usable(ask)[0].tolist()
    return [slot for slot, will_do in enumerate(usable) if will_do]


def _whole(
    ask: GpuRequest, devices: Devices, row: int, inventory: Inventory
) -> list[GpuUse] | None:  # fmt: skip
    slots = _usable(ask, devices, row)
    if min(len(slots), devices.spare.item(row)) < ask.gpus:
        return None
    # In a ring of all, or of each group.
    as_one = ask.gpus if ask.linked else ask.together
    chosen = best_set(slots, ask.gpus, inventory, as_one)
    asked_mib = _asked_mib(ask, devices, row)
    gpus = inventory.gpus
    return [
        GpuUse(gpus[slot].uuid, memory_mib=asked_mib[slot] or gpus[slot].memory_mib)
        for slot in chosen
    ]


def _asked_mib(ask: GpuRequest, devices: Devices, row: int) -> list[int]:
    """What a part of the ask takes of each GPU."""
    if not ask.by_memory:
        return [0] * devices.slots
    asked: list[int] = _one(devices, row).memory_asked(ask)[0].tolist()
    return asked


def _shares(
    ask: GpuRequest,
    devices: Devices,
    row: int,
    inventory: Inventory,
    preference: GpuPreference,
    now: Occupied | None,
) -> list[GpuUse] | None:
    slots = _by_preference(_usable(ask, devices, row), devices, row, preference)
    states = [Occupied.of(devices, row)] + ([now] if now else [])
    slots = _leaving_gpus_for_others(slots, states)
    if ask.service:  # a stable sort: with pods of the class first, if these share GPUs first
        like = _one(devices, row).with_like(ask)[0].tolist()
        slots.sort(key=lambda slot: not like[slot])
    if ask.overcommit:  # no GPU is given twice while there is room on another
        slots.sort(key=lambda slot: devices.milli_free.item(row, slot) < ask.milli)
    if ask.isolation is Isolation.MPS:
        sizes = devices.shares_on(row)
        slots.sort(key=lambda slot: not sizes.get(slot, set()) <= {ask.milli})
    if len(slots) < ask.gpus:
        return None
    asked_mib = _asked_mib(ask, devices, row)
    return [
        GpuUse(inventory.gpus[slot].uuid, False, ask.milli, asked_mib[slot])
        for slot in sorted(slots[: ask.gpus])
    ]


def _by_preference(
    slots: Iterable[int], devices: Devices, row: int, preference: GpuPreference
) -> list[int]:  # fmt: skip
    if not isinstance(preference, GpuPolicy):
        return sorted(slots, key=lambda slot: (-preference[slot], slot))
    free = devices.milli_free[row].tolist()
    memory = devices.memory_free[row].tolist()
    sign = 1 if preference is GpuPolicy.PACK else -1
    return sorted(slots, key=lambda slot: (sign * free[slot], sign * memory[slot], slot))


def _leaving_gpus_for_others(slots: list[int], states: list[Occupied]) -> list[int]:
    """Idle GPUs that pods hold whose GPUs we do not know are not ours to give."""
    left = []
    for slot in slots:
        if all(state.spares(slot) for state in states):
            left.append(slot)
            for state in states:
                state.take(slot)
    return left


def _slices(ask: GpuRequest, devices: Devices, row: int) -> list[GpuUse] | None:
    """Slices one after another, each where it spoils least: on the fullest GPU, last place."""
    gpus = devices.gpus(row)
    used = {slot: int(devices.slices_used[row, slot]) for slot in _usable(ask, devices, row)}
    uses: list[GpuUse] = []
    for _ in range(ask.gpus):
        found = slice_place(ask, {slot: (gpus[slot].mig, used[slot]) for slot in used})
        if found is None:
            return None
        slot, start, slices = found
        used[slot] |= ((1 << slices) - 1) << start
        gpu, profile = gpus[slot], ask.profile_of(gpus[slot].mig)
        milli = 0 if ask.profile else ask.milli
        use = GpuUse(gpu.uuid, False, milli, ask.memory_mib, profile, start, slices)
        uses.append(use)
    return uses
