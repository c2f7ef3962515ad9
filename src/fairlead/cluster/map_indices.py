"""Scheduling maps against the ledger: which indices are taken, and what prevents an assignment."""

from collections.abc import Iterator
from dataclasses import replace
from enum import Enum, auto

from fairlead.cluster.devices import Devices
from fairlead.model.gpus import GpuUse
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.map_slots import MapSlot, Member
from fairlead.model.pods import PodRequest
from fairlead.model.scheduling_map import ALL, Line


class MapIndices:
    """The indices of each workload that pods have, wherever they are."""

    def __init__(self) -> None:
        self._taken: dict[str, dict[str, int]] = {}

    def take(self, uid: str, member: Member) -> None:
        self._taken.setdefault(member.workload, {})[uid] = member.index

    def leave(self, uid: str, member: Member) -> None:
        taken = self._taken.get(member.workload, {})
        taken.pop(uid, None)
        if not taken:
            self._taken.pop(member.workload, None)

    def settled(self, request: PodRequest) -> PodRequest:
        """The request with the first free index of its map; as it is if it has one, or none is."""
        ask = request.gpu_request
        if ask is None or ask.map_slot is None or ask.map_slot.index is not None:
            return request
        taken = set(self._taken.get(ask.map_slot.workload, {}).values())
        free = (line.index for line in ask.map_slot.lines if line.index not in taken)
        index = next(free, None)
        if index is None:
            return request
        return replace(request, gpu_request=replace(ask, map_slot=ask.map_slot.at(index)))


class ObstacleKind(Enum):
    ABSENT = auto()  #: there is no such GPU
    BROKEN = auto()  #: there is, but not in order
    TAKEN = auto()  #: another pod's
    UNDECLARED = auto()  #: a pod of the same workload has it, and the map does not give it to both
    SAME_INDEX = auto()  #: another pod with the same index has it, mostly one that is about to go
    DOUBTFUL = auto()  #: pods hold GPUs that are not identified, and too few are left


@dataclass(frozen=True, slots=True)
class Obstacle:
    kind: ObstacleKind
    device: str
    #: How many GPUs the node has; 0 if it is not known.
    gpus: int
    holder: Member | None = None


def gpus_of(line: Line, devices: Devices, row: int) -> dict[str, str]:
    """The GPUs that the line names: the ledger's name of each, and the map's.

    GPUs that the row does not list have no other name than the map's.
    """
    gpus = devices.gpus(row) if devices.known[row] else ()
    if gpus and ALL in line.devices:
        return {gpu.uuid: str(gpu.index) for gpu in gpus}
    found: dict[str, str] = {}
    for name in line.devices:
        found.setdefault(_identity(name, devices, row), name)
    return found


def uses_of(line: Line, devices: Devices, row: int) -> list[GpuUse]:
    """What the line takes of the row's GPUs: all of each."""
    gpus = devices.gpus(row) if devices.known[row] else ()
    memory_mib = {gpu.uuid: gpu.memory_mib for gpu in gpus}
    names = gpus_of(line, devices, row)
    return [GpuUse(name, memory_mib=memory_mib.get(name, 0)) for name in names]


def obstacle(map_slot: MapSlot, devices: Devices, row: int, counted: int) -> Obstacle | None:
    """The first thing that prevents the assignment on the row, which counts so many GPUs."""
    if map_slot.line is None:
        return None
    total = len(devices.gpus(row)) if devices.known[row] else counted
    wanted = gpus_of(map_slot.line, devices, row)
    for name, said in wanted.items():
        if kind := _absent(name, devices, row, counted):
            return Obstacle(kind, said, total)
    holders = [*_holders(devices, row)]
    for name, member in holders:
        met = name in wanted or (name and ALL in (name, *wanted))
        if met and (kind := _conflict(name, member, map_slot, devices, row)):
            return Obstacle(kind, wanted.get(name, name), total, member)
    named = {name for name, _ in holders if name}
    unnamed = sum(not name for name, _ in holders)
    if total and unnamed and unnamed + len(named.union(wanted)) > total:
        return Obstacle(ObstacleKind.DOUBTFUL, map_slot.line.value, total)
    return None


def _identity(name: str, devices: Devices, row: int) -> str:
    """The uuid of the GPU that is meant by index, uuid, or the beginning of its uuid."""
    gpus = devices.gpus(row) if devices.known[row] else ()
    for gpu in gpus:
        if name in (gpu.uuid, str(gpu.index)):
            return gpu.uuid
    alike = [gpu.uuid for gpu in gpus if len(name) > 4 and gpu.uuid.startswith(name)]
    return alike[0] if len(alike) == 1 else name


def _absent(name: str, devices: Devices, row: int, counted: int) -> ObstacleKind | None:
    if not devices.known[row]:
        beyond = counted and name.isascii() and name.isdigit() and int(name[:9]) >= counted
        return ObstacleKind.ABSENT if beyond else None
    for slot, gpu in enumerate(devices.gpus(row)):
        if gpu.uuid == name:
            return None if devices.there[row, slot] else ObstacleKind.BROKEN
    return ObstacleKind.ABSENT


def _holders(devices: Devices, row: int) -> Iterator[tuple[str, Member | None]]:
    """Each GPU that a pod has, and which pod of a map that is; unnamed if it is not known which."""
    for grant in devices.grants(row):
        for use in grant.uses:
            yield _identity(use.uuid, devices, row), grant.member


def _conflict(
    name: str, member: Member | None, map_slot: MapSlot, devices: Devices, row: int
) -> ObstacleKind | None:
    if member is None or member.workload != map_slot.workload:
        return ObstacleKind.TAKEN
    if member.index == map_slot.index:
        return ObstacleKind.SAME_INDEX
    theirs = map_slot.line_of(member.index)
    declared = theirs is not None and name in gpus_of(theirs, devices, row)
    return None if declared else ObstacleKind.UNDECLARED
