"""A pod with a scheduling map goes where its map says, and gets the GPUs that it says."""

from collections.abc import Iterable
from typing import ClassVar

import numpy as np

from fairlead.cluster.arrays import NodeMask
from fairlead.cluster.aspects import Aspect
from fairlead.cluster.map_indices import Obstacle, ObstacleKind
from fairlead.cluster.nodes import Nodes
from fairlead.model.gpus import GpuRequest
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.map_slots import MapSlot
from fairlead.model.pods import PodRequest
from fairlead.model.scheduling_map import NODE_LABEL, Line
from fairlead.plugins.api import Reason


@dataclass(frozen=True, slots=True)
class SchedulingMap:
    """It looks around: a real name counts only where no node has the label."""

    name: ClassVar[str] = "SchedulingMap"
    reads: ClassVar[Aspect] = Aspect.LABELS | Aspect.DEVICES | Aspect.ALLOCATABLE
    refusal: ClassVar[str] = "node(s) were not the one that the scheduling map names"
    resolvable: ClassVar[bool] = False

    def allocates(self, ask: GpuRequest) -> GpuRequest | None:
        return ask if ask.map_slot is not None else None

    def concerns(self, request: PodRequest) -> bool:
        return _map_slot(request) is not None

    def applies(self, request: PodRequest, nodes: Nodes) -> bool:
        return _map_slot(request) is not None

    def allows(self, request: PodRequest, nodes: Nodes) -> NodeMask:
        slot = _map_slot(request)
        if slot is None:
            return nodes.all()
        meant = _meant(slot.line, nodes)
        for position in np.flatnonzero(meant):
            meant[position] = nodes.obstacle(slot, int(position)) is None
        return meant

    def reasons(self, request: PodRequest, nodes: Nodes) -> Iterable[Reason]:
        slot = _map_slot(request)
        if slot is None:
            return
        meant = _meant(slot.line, nodes)
        yield Reason(_elsewhere(slot, found=bool(meant.any())), ~meant, nodes.none())
        for position in np.flatnonzero(meant):
            found = nodes.obstacle(slot, int(position))
            if found is not None:
                where = nodes.none()
                where[position] = True
                yield Reason(_text(found, slot), where, nodes.none())


def _map_slot(request: PodRequest) -> MapSlot | None:
    return None if request.gpu_request is None else request.gpu_request.map_slot


def _meant(line: Line | None, nodes: Nodes) -> NodeMask:
    """The nodes with the label; without any, the node of that name."""
    if line is None:
        return nodes.none()
    labelled = nodes.label_in(NODE_LABEL, (line.node,)) & nodes.present()
    return labelled if labelled.any() else nodes.named((line.node,))


def _elsewhere(slot: MapSlot, *, found: bool) -> str:
    if slot.line is None:
        return (
            f"node(s) had no index of the scheduling map left, all {len(slot.lines)} are taken; "
            "add lines to it or scale down"
        )
    if found:
        return SchedulingMap.refusal
    name = slot.line.node
    return (
        f"node(s) were not {name}, which the scheduling map names for index {slot.index}; "
        f"correct the map, or label one with {NODE_LABEL}={name}"
    )


def _text(found: Obstacle, slot: MapSlot) -> str:
    device = f"GPU {found.device[:63]}"
    what = f"node(s) could not assign {device} to index {slot.index} of the scheduling map"
    match found.kind:
        case ObstacleKind.ABSENT:
            have = "there is no such GPU" if not found.gpus else f"there are {_range(found.gpus)}"
            return f"{what}, {have}; correct the map"
        case ObstacleKind.BROKEN:
            return f"{what}, it is unhealthy; repair it or choose another"
        case ObstacleKind.TAKEN:
            return (
                f"{what}, it is assigned to {_whom(found, slot)}; choose another or delete that pod"
            )
        case ObstacleKind.UNDECLARED:
            index = found.holder.index if found.holder else ""
            return (
                f"{what}, index {index} has it and sharing is not declared; give it to both in the "
                "map, or delete that pod"
            )
        case ObstacleKind.SAME_INDEX:
            return f"{what}, another pod with this index has it; wait until it ends, or delete it"
        case ObstacleKind.DOUBTFUL:
            return (
                f"{what}, other pods hold GPUs that cannot be identified, and too few are left; "
                "delete one of them or choose another node"
            )


def _range(gpus: int) -> str:
    return f"{gpus}, 0 to {gpus - 1}" if gpus > 1 else "1, 0"


def _whom(found: Obstacle, slot: MapSlot) -> str:
    """Names only what the pod's own users may see."""
    namespace = slot.workload.partition("/")[0]
    holder = found.holder
    if holder is None or holder.workload.partition("/")[0] != namespace:
        return "another pod"
    kind, _, name = holder.workload.partition("/")[2].partition("/")
    return f"another pod, index {holder.index} of {f'{kind} {name}' if name else 'another map'}"
