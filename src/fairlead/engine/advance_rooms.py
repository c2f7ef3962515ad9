"""GPUs that others may take on nodes of which some GPUs are reserved, and not the whole node.

A pod of others may take a GPU if the reservation still has its number of GPUs there when it begins:
GPUs that are free now, GPUs of pods that end before, and GPUs that its own users have. Which GPUs
these are does not matter until then.
"""

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from math import ceil

import numpy as np

from fairlead.cluster.arrays import NodeMask, PerNode
from fairlead.cluster.aspects import Aspect
from fairlead.cluster.changes import ANYWHERE, Mark
from fairlead.cluster.claim_charges import asked_milli
from fairlead.cluster.cluster import Cluster
from fairlead.cluster.holdings import Holding
from fairlead.cluster.nodes import Nodes
from fairlead.engine.advance_known import KnownReservation
from fairlead.engine.backfill.ends import Ends
from fairlead.model.gpus import WHOLE, GpuRequest
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.nodes import GPU
from fairlead.model.pods import Pod
from fairlead.queue.units import Unit

Admits = Callable[[KnownReservation, Pod], bool]

#: Where nothing is reserved.
UNLIMITED = 1 << 30
#: How long a room is kept that was computed from expected ends, and how many of them.
_KEPT_S = 10.0
_MOST_KEPT = 64
_MATTERS = int(
    Aspect.PRESENCE | Aspect.ALLOCATABLE | Aspect.USAGE | Aspect.PODS | Aspect.DEVICES
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class HeldGpusOf:
    """The GPUs that a pod has on its node."""

    pod: Pod
    end_s: float
    #: Where they are among the GPUs of the node, and those of which that is not known.
    slots: frozenset[int]
    unnamed: int

    @property
    def count(self) -> int:
        return len(self.slots) + self.unnamed


@dataclass(slots=True)
class _KeptRooms:
    rooms: PerNode
    mark: Mark
    now: float


class _NodeLook:
    """One look at a node: many reservations ask for the same."""

    def __init__(
        self, rooms: "AdvanceRooms", node: str, held: list[HeldGpusOf], admits: Admits
    ) -> None:
        self._rooms, self._node, self._held, self._admits = rooms, node, held, admits
        self._ends = sorted(has.end_s for has in held)
        self._free: dict[tuple[str, int], int] = {}
        self._users: dict[object, list[HeldGpusOf]] = {}

    def room(self, begun: Iterable[KnownReservation], time_s: float) -> int:
        """What is free then and none of these needs; they need GPUs of one model or of any."""
        needs: dict[str, int] = {}
        for each in begun:
            model = each.spec.model
            needs[model] = needs.get(model, 0) + self.missing(each, time_s)
        lefts = (self._free_at(model, time_s) - gpus for model, gpus in needs.items())
        return min(lefts, default=UNLIMITED)

    def missing(self, each: KnownReservation, time_s: float) -> int:
        """GPUs of it that its users do not have already."""
        who = each.spec.namespaces, each.spec.queues
        if who not in self._users:
            self._users[who] = [has for has in self._held if self._admits(each, has.pod)]
        own = sum(has.count for has in self._users[who] if has.end_s > time_s)
        return max(0, each.gpus_on[self._node] - own)

    def _free_at(self, model: str, time_s: float) -> int:
        key = model, bisect_right(self._ends, time_s)
        if key not in self._free:
            self._free[key] = self._rooms.free(self._node, model, self._held, time_s)
        return self._free[key]


def gpus_asked(pod: Pod, cluster: Cluster) -> int:
    """GPUs that a pending pod will have or share."""
    request = pod.request
    asked = request.gpu_request.gpus if request.gpu_request else request.amount(GPU)
    claimed = asked_milli(request.claims, cluster.claims) if request.claims else 0
    return int(asked) + ceil(claimed / WHOLE)


class AdvanceRooms:
    """`offset_s`: what the clock of reservations shows when that of the engine shows 0."""

    def __init__(
        self, cluster: Cluster, ends: Ends, admits: Admits, offset_s: Callable[[], float]
    ) -> None:
        self._cluster = cluster
        self._ends = ends
        self._admits = admits
        self._offset_s = offset_s
        self._kept: dict[tuple[object, ...], _KeptRooms] = {}

    def clear(self) -> None:
        """Reservations or nodes have changed."""
        self._kept.clear()

    # -- all rows ----------------------------------------------------------------------------

    def closed(
        self, unit: Unit, against: Sequence[KnownReservation], at_s: float, *, planned: bool
    ) -> NodeMask | None:
        """Rows with too few GPUs for a pod of the unit; None: it need not heed reservations.

        `planned`: it starts then, and not now. All of its pods together must then leave room.
        """
        needs = [gpus_asked(pod, self._cluster) for pod in unit.pods]
        least = sum(needs) if planned else min(filter(None, needs), default=0)
        if not least:
            return None
        names = tuple(each.spec.name for each in against)
        rooms = self._rooms((names, at_s if planned else None), against, at_s)
        found: NodeMask = rooms < least
        alone = planned or len(needs) == 1
        return None if alone and not found.any() else found

    def _rooms(
        self, key: tuple[object, ...], against: Sequence[KnownReservation], at_s: float
    ) -> PerNode:
        """By row, from then on; what is kept follows the changes of rows."""
        mark, kept = self._cluster.changes.mark, self._kept.get(key)
        changed = self._changed(kept, at_s)
        if kept is None or changed is None:
            if len(self._kept) >= _MOST_KEPT:
                self._kept.clear()
            size = self._cluster.columns.size
            kept = _KeptRooms(np.full(size, UNLIMITED, dtype=np.int64), mark, at_s)
            self._kept[key] = kept
            changed = {self._cluster.row_of[node] for node in self._nodes(against)}
        for row in changed:
            kept.rooms[row] = self.room(self._cluster.node_at(row).name, against, at_s)
        kept.mark = mark
        return kept.rooms

    def _changed(self, kept: _KeptRooms | None, at_s: float) -> set[int] | None:
        """Rows to be looked at again; None: all of them."""
        if kept is None or len(kept.rooms) != self._cluster.columns.size:
            return None
        changes = self._cluster.changes.since(kept.mark)
        if changes is None or ANYWHERE in changes or not 0.0 <= at_s - kept.now < _KEPT_S:
            return None
        rows = {row for row, aspects in changes.items() if aspects & _MATTERS}
        return {row for row in rows if kept.rooms[row] < UNLIMITED}

    def _nodes(self, against: Iterable[KnownReservation]) -> set[str]:
        every = set[str]().union(*(each.gpus_on for each in against))
        return {node for node in every if node in self._cluster.row_of}

    # -- one node ----------------------------------------------------------------------------

    def room(
        self,
        node: str,
        against: Iterable[KnownReservation],
        at_s: float,
        staying: Collection[str] = (),
    ) -> int:
        """GPUs that others may take from then on; below 0 by as many as are missing.

        Pods that are `staying` do not end before any of the reservations.
        """
        here = [each for each in against if each.gpus_on.get(node)]
        if not here:
            return UNLIMITED
        here.sort(key=lambda each: -each.spec.start_s)
        look = _NodeLook(self, node, self.held(node, at_s, staying), self._admits)
        offset_s, begun, least = self._offset_s(), list[KnownReservation](), UNLIMITED
        while here:
            wall_s = max(at_s + offset_s, here[-1].spec.start_s)
            while here and here[-1].spec.start_s <= wall_s:
                begun.append(here.pop())
            begun = [each for each in begun if wall_s < each.spec.end_s]
            least = min(least, look.room(begun, wall_s - offset_s))
        return least

    def _missing(
        self, each: KnownReservation, node: str, held: list[HeldGpusOf], time_s: float
    ) -> int:
        return _NodeLook(self, node, held, self._admits).missing(each, time_s)

    def missing(self, each: KnownReservation, node: str, now: float) -> int:
        """GPUs of the node that its users do not have now."""
        if node not in self._cluster.row_of or node not in each.gpus_on:
            return 0
        return self._missing(each, node, self.held(node, now), now)

    def in_the_way(
        self,
        each: KnownReservation,
        start_s: float,
        now: float,
        only: Collection[str] | None = None,
    ) -> list[Pod]:
        """Pods of others on GPUs that it needs then: as few as are enough, the least first.

        `only`: those of them with these uids.
        """
        found: list[Pod] = []
        for node in sorted(each.gpus_on.keys() & self._cluster.row_of.keys()):
            held = self.held(node, now)
            lacks = self._missing(each, node, held, start_s) - self.free(
                node, each.spec.model, held, start_s
            )
            others = [
                has
                for has in held
                if has.end_s > start_s
                and not self._admits(each, has.pod)
                and (only is None or has.pod.uid in only)
            ]
            for has in sorted(others, key=lambda has: (has.pod.priority, has.pod.uid)):
                if lacks <= 0:
                    break
                found.append(has.pod)
                lacks -= has.count
        return found

    def free(self, node: str, model: str, held: list[HeldGpusOf], time_s: float) -> int:
        """Whole GPUs of the model that are free now, or will be then."""
        usable, now_free = self.usable(node, model)
        staying = frozenset[int]().union(*(has.slots for has in held if has.end_s > time_s))
        ending = [has for has in held if has.end_s <= time_s]
        freed = frozenset[int]().union(*(has.slots for has in ending)) - staying
        return now_free + len(freed & usable) + sum(has.unnamed for has in ending)

    def held(self, node: str, now: float, staying: Collection[str] = ()) -> list[HeldGpusOf]:
        """Pods with GPUs there, and when they end."""
        found = []
        slot_of = self._cluster.columns.devices.slots_of(self._cluster.row_of[node])
        for held in self._cluster.held_on(node):
            self._cluster.work.pods += 1
            slots, unnamed = _gpus_of(held, slot_of)
            if slots or unnamed:
                end = None if held.pod.uid in staying else self._ends.of(held, now)
                end_s = float("inf") if end is None else end.at_s
                found.append(HeldGpusOf(held.pod, end_s, slots, unnamed))
        return found

    def gpus(self, node: str, model: str) -> int:
        """GPUs of the model that are in order, in use or not."""
        row = self._cluster.row_of[node]
        if self._cluster.columns.devices.slotted[row]:
            return len(self.usable(node, model)[0])
        return 0 if model else int(self._cluster.nodes.at(np.array([row])).allocatable(GPU)[0])

    def usable(self, node: str, model: str) -> tuple[frozenset[int], int]:
        """Slots of GPUs of the model that are in order, and how many of them are free now."""
        row, devices = self._cluster.row_of[node], self._cluster.columns.devices
        free = int(whole_free(self._cluster.nodes.at(np.array([row])))[0])
        if not devices.slotted[row]:
            return frozenset(), 0 if model else free
        there = devices.there[row]
        if model:
            wanted = devices.match.of(GpuRequest(gpus=1, models=frozenset((model,))))
            there = there & wanted[devices.model[row]]
            free = min(free, int((devices.unused[row] & there).sum()))
        return frozenset(np.flatnonzero(there).tolist()), free


def whole_free(nodes: Nodes) -> PerNode:
    """GPUs of each node that no pod has a part of, by name or by number."""
    whole, offered = nodes.free_gpus()[1], nodes.allocatable(GPU)
    found: PerNode = np.where(offered > 0, np.minimum(whole, np.maximum(nodes.free(GPU), 0)), whole)
    return found


def _gpus_of(held: Holding, slot_of: Mapping[str, int]) -> tuple[frozenset[int], int]:
    """Slots of the GPUs that a pod has, and how many more it has."""
    uses = [use for _, grant in held.grants() for use in grant.uses]
    slots = frozenset(slot_of[use.uuid] for use in uses if use.uuid in slot_of)
    counted = dict(held.amounts).get(GPU, 0) - len(slots)
    return slots, max(counted, sum(use.uuid not in slot_of for use in uses), 0)
