"""Which units to evict so that pods have room, by what nodes have and what their pods take.

Nothing is tried: amounts are added up row by row. So the units that are found are enough as far as
amounts go, and a trial decides. Rows are filled one pod at a time, each time where that costs
least; a gang that is evicted for one row makes room on others as well.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from heapq import heapify, heappop, heappush

import numpy as np
import numpy.typing as npt

from fairlead.claims.device_counts import DeviceCounts
from fairlead.cluster.arrays import NodeMask, PerNode, Rows
from fairlead.cluster.claim_room import freed_by
from fairlead.cluster.cluster import Cluster
from fairlead.cluster.holdings import Holding
from fairlead.cluster.priority_sums import AmountsByRow
from fairlead.model.extended import has_class, may_be_unoffered
from fairlead.model.gpus import WHOLE
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.nodes import GPU
from fairlead.model.pods import Pod, PodRequest
from fairlead.model.quantities import PODS
from fairlead.placement.disruption_units import NO_COST, Cost, DisruptionUnit, DisruptionUnits

#: In place of a resource: thousandths of GPUs, for requests that no resource counts.
_MILLI = ""

#: What it costs to look at the claims of a pod (see `Work.spent`).
_WORK_OF_CLAIMS = 10

AmountVector = npt.NDArray[np.int64]

#: What a row costs, and which units that are.
Step = tuple[Cost, tuple[DisruptionUnit, ...]]


@dataclass(frozen=True, slots=True)
class PodKind:
    """Equal pods that need room."""

    request: PodRequest
    count: int
    #: Rows that would fit one of them, if enough pods were evicted.
    rows: NodeMask
    #: Devices that their claims need, where these can be counted.
    devices: Sequence[DeviceCounts] = ()

    @property
    def needs(self) -> dict[str, int]:
        uses, resources = self.request.claims, self.request.resources
        found = {PODS: 1} | {
            name: n for name, n in resources if n > 0 and not may_be_unoffered(uses, name)
        }
        ask = None if has_class(uses, GPU) else self.request.gpu_request
        if ask is not None and not ask.profile and GPU not in found:
            milli = ask.gpus * (WHOLE if ask.whole else ask.milli)
            found |= {_MILLI: milli} if milli else {}
        return found


class FreeAmounts:
    """What is free on each row, of the resources that the pods need."""

    def __init__(
        self,
        cluster: Cluster,
        kinds: Sequence[PodKind],
        reserved: tuple[Rows, AmountsByRow] | None,
        frees_for: Pod | None = None,
    ) -> None:
        """`reserved`: what nominated pods are to have, by row. `frees_for`: who gets devices."""
        self._cluster, self._columns, self._frees_for = cluster, cluster.columns, frees_for
        names = {name for kind in kinds for name in kind.needs}
        self.names = tuple(sorted(names & {*cluster.columns.resource_index, _MILLI}))
        #: What claims need comes after the resources.
        self._devices = list({each.kind: each for kind in kinds for each in kind.devices}.values())
        #: Devices that the claims of a pod free, by its uid.
        self._freed: dict[str, list[int]] = {}
        self.needs = [self._needed_by(kind) for kind in kinds]
        nodes = cluster.nodes
        amounts = [nodes.free_gpus()[0] if n == _MILLI else nodes.free(n) for n in self.names]
        amounts += [each.free for each in self._devices]
        self.free: AmountsByRow = np.array(amounts, dtype=np.int64)
        if reserved is not None:
            for at, index in self._indexed():
                self.free[at, reserved[0]] -= reserved[1][index]

    def _needed_by(self, kind: PodKind) -> tuple[int, ...]:
        asked = {each.kind: each.asked for each in kind.devices}
        return (
            *(kind.needs.get(name, 0) for name in self.names),
            *(asked.get(each.kind, 0) for each in self._devices),
        )

    @property
    def have_gpu_parts(self) -> bool:
        """Whether what a pod takes depends on the GPUs that it has."""
        return _MILLI in self.names

    def _indexed(self) -> Iterable[tuple[int, int]]:
        index = self._columns.resource_index
        return [(at, index[name]) for at, name in enumerate(self.names) if name != _MILLI]

    def with_evicted(self, evictable: AmountsByRow) -> AmountsByRow:
        """The same if all of this were evicted; of shares of GPUs, and of devices, everything."""
        found = self.free.copy()
        for at, index in self._indexed():
            found[at] += evictable[index, : found.shape[1]]
        if _MILLI in self.names:
            found[self.names.index(_MILLI)] = np.iinfo(np.int64).max // 2
        pods = evictable[self._columns.resource_index[PODS], : found.shape[1]]
        for at, devices in enumerate(self._devices, len(self.names)):
            found[at] = np.where(pods > 0, devices.every, devices.free)
        return found

    def taken_by(self, held: Holding) -> tuple[int, ...]:
        amounts = {PODS: 1} | dict(held.amounts)
        if _MILLI in self.names:
            amounts[_MILLI] = WHOLE * amounts.get(GPU, 0)
            if held.grant:
                amounts[_MILLI] = sum(WHOLE if u.whole else u.milli for u in held.grant.uses)
        found = tuple(amounts.get(name, 0) for name in self.names)
        return (*found, *self._devices_of(held)) if self._devices else found

    def _devices_of(self, held: Holding) -> list[int]:
        """Devices of claims that no other pod uses."""
        found = self._freed.get(held.pod.uid)
        if found is None:
            found = self._freed[held.pod.uid] = self._counted(held)
        return found

    def _counted(self, held: Holding) -> list[int]:
        if self._frees_for is None:
            return [0] * len(self._devices)
        self._cluster.work.terms += _WORK_OF_CLAIMS
        freed = freed_by((held.pod,), self._cluster, self._frees_for)
        claims = (each.allocation for each in freed)
        keys = [device.key for each in claims if each is not None for device in each.devices]
        return [sum(map(devices.serves, keys)) for devices in self._devices]


def fitting_pods(free: AmountsByRow, needs: tuple[int, ...], most: int) -> PerNode:
    """For each row, how many pods with these needs fit, up to `most`."""
    found: PerNode = np.full(free.shape[1], most, dtype=np.int64)
    for at, need in enumerate(needs):
        if need > 0:
            found = np.minimum(found, np.maximum(free[at], 0) // need)
    return found


@dataclass(slots=True)
class RoomRows:
    """Rows as they would be with some units evicted and some of the pods there."""

    cluster: Cluster
    units: DisruptionUnits
    amounts: FreeAmounts
    #: Units that go, in the order in which they were chosen.
    chosen: dict[str, DisruptionUnit] = field(default_factory=dict)
    #: What it may cost until then (see `Work.spent`).
    work_until: int = 0
    #: No more pods are evicted.
    most: int = 0
    #: Rows that have no room for the first pods whatever is evicted; more are added.
    barren: set[int] = field(default_factory=set)
    _free: dict[int, list[int]] = field(default_factory=dict)
    _gone: set[str] = field(default_factory=set)

    def pack(self, kinds: Sequence[PodKind], rows: Rows) -> bool:
        """Chooses units so that the pods have room on the rows; whether that is possible."""
        for kind, needs in zip(kinds, self.amounts.needs, strict=True):
            own = [int(row) for row in rows if kind.rows[row]]
            barren = self.barren if kind is kinds[0] else set()
            if not self._pack(needs, kind.count, own, barren):
                return False
        return True

    @property
    def cost(self) -> Cost:
        total = NO_COST
        for unit in self.chosen.values():
            total = total.plus(unit.cost)
        return total

    def _pack(
        self, needs: tuple[int, ...], count: int, rows: Sequence[int], barren: set[int]
    ) -> bool:
        place = {row: at for at, row in enumerate(rows)}
        steps = self._first_steps(needs, place, barren)
        while count and steps and len(self._gone) <= self.most:
            cost, at, row = heappop(steps)
            step = self._step(row, needs)
            if step is None:
                continue
            if step[0] > cost:  # what it would take is taken, or may not go any more
                heappush(steps, (step[0], at, row))
                continue
            for other in self._evict(step[1]) & place.keys():
                if other != row and (again := self._step(other, needs)):
                    heappush(steps, (again[0], place[other], other))
            free = self._free_on(row)
            self._free[row] = [have - need for have, need in zip(free, needs, strict=True)]
            count -= 1
            if again := self._step(row, needs):
                heappush(steps, (again[0], at, row))
        return not count

    def _first_steps(
        self, needs: tuple[int, ...], place: Mapping[int, int], barren: set[int]
    ) -> list[tuple[Cost, int, int]]:
        """As a heap."""
        steps: list[tuple[Cost, int, int]] = []
        for row, at in place.items():
            if row in barren:
                continue
            if self.cluster.work.spent > self.work_until:
                break
            if first := self._step(row, needs):
                steps.append((first[0], at, row))
            else:
                barren.add(row)
        heapify(steps)
        return steps

    def _free_on(self, row: int) -> list[int]:
        found = self._free.get(row)
        if found is None:
            found = self._free[row] = self.amounts.free[:, row].tolist()
        return found

    def _step(self, row: int, needs: tuple[int, ...]) -> Step | None:
        """What one more pod on the row costs; None if there is no room for it."""
        self.cluster.work.asks += 1
        short = [need - have for need, have in zip(needs, self._free_on(row), strict=True)]
        if not any(lack > 0 for lack in short):
            return NO_COST, ()
        picked = self._picked(row, short)
        if picked is None:
            return None
        total = NO_COST
        for unit in picked:
            total = total.plus(unit.cost)
        return total, tuple(picked)

    def _picked(self, row: int, short: list[int]) -> list[DisruptionUnit] | None:
        """The cheapest units that give the row what it lacks; none that could stay."""
        rule, node = self.units.rule, self.cluster.node_at(row).name
        picked: list[tuple[DisruptionUnit, list[int]]] = []
        for unit in self.units.on(row):
            if unit.key in self.chosen or not rule.allows(unit):
                continue
            gain = self._gain(unit, node)
            if not any(more > 0 and lack > 0 for more, lack in zip(gain, short, strict=True)):
                continue
            rule.take(unit, +1)
            picked.append((unit, gain))
            short = [lack - more for lack, more in zip(short, gain, strict=True)]
            if not any(lack > 0 for lack in short):
                break
        for unit, _ in picked:
            rule.take(unit, -1)
        return _needed(picked, short) if not any(lack > 0 for lack in short) else None

    def _gain(self, unit: DisruptionUnit, node: str) -> list[int]:
        """What the row has more without the unit."""
        gain = [0] * len(self.amounts.free)
        for held in unit.held:
            if held.node == node and held.pod.uid not in self._gone:
                taken = self.amounts.taken_by(held)
                gain = [one + more for one, more in zip(gain, taken, strict=True)]
        return gain

    def _evict(self, units: Sequence[DisruptionUnit]) -> set[int]:
        """The rows that have more room now."""
        touched: set[int] = set()
        for unit in units:
            self.chosen[unit.key] = unit
            self.units.rule.take(unit, +1)
            for held in unit.held:
                row = self.cluster.row_of.get(held.node)
                if row is None or held.pod.uid in self._gone:
                    continue
                free, taken = self._free_on(row), self.amounts.taken_by(held)
                self._free[row] = [have + more for have, more in zip(free, taken, strict=True)]
                touched.add(row)
            self._gone |= {held.pod.uid for held in unit.held}
            self._drop_part_of(unit)
        return touched

    def _drop_part_of(self, whole: DisruptionUnit) -> None:
        """Members that were to go singly go with their gang."""
        if whole.key != whole.gang:
            return
        for key in [k for k, unit in self.chosen.items() if unit.gang == whole.gang != k]:
            self.units.rule.take(self.chosen.pop(key), -1)

    def release(self) -> None:
        """The rule forgets what was taken."""
        for unit in self.chosen.values():
            self.units.rule.take(unit, -1)


def _needed(
    picked: Sequence[tuple[DisruptionUnit, list[int]]], short: list[int]
) -> list[DisruptionUnit]:
    """Without those that the others make unnecessary, the costliest first."""
    left = list(picked)
    for unit, gain in reversed(picked[:-1]):
        without = [lack + more for lack, more in zip(short, gain, strict=True)]
        if not any(lack > 0 for lack in without):
            short = without
            left.remove((unit, gain))
    return [unit for unit, _ in left]


class RoomLeft:
    """How many pods of each kind would have room on some rows, as units come back."""

    def __init__(
        self, cluster: Cluster, amounts: FreeAmounts, kinds: Sequence[PodKind], rows: NodeMask
    ) -> None:
        self._row_of = cluster.row_of
        self._amounts = amounts
        self._kinds = kinds
        self._rows = rows
        self._free = amounts.free.copy()
        self._room: list[PerNode] = []

    def evict(self, units: Iterable[DisruptionUnit]) -> None:
        """Before any comes back."""
        for row, more in self._taken_by(units).items():
            self._free[:, row] += more
        kinds = zip(self._kinds, self._amounts.needs, strict=True)
        self._room = [
            np.where(kind.rows & self._rows, fitting_pods(self._free, needs, kind.count), 0)
            for kind, needs in kinds
        ]
        self._sums = [int(room.sum()) for room in self._room]

    def may_return(self, unit: DisruptionUnit) -> bool:
        """Whether there would still be room for all, each kind by itself."""
        lost = [0] * len(self._kinds)
        for row, more in self._taken_by((unit,)).items():
            room = self._room_on(row, more)
            lost = [
                n + int(all_[row]) - m for n, all_, m in zip(lost, self._room, room, strict=True)
            ]
        sums = zip(self._sums, lost, self._kinds, strict=True)
        return all(total - less >= kind.count for total, less, kind in sums)

    def give_back(self, unit: DisruptionUnit) -> None:
        for row, more in self._taken_by((unit,)).items():
            room = self._room_on(row, more)
            self._free[:, row] -= more
            for at, count in enumerate(room):
                self._sums[at] -= int(self._room[at][row]) - count
                self._room[at][row] = count

    def _room_on(self, row: int, less: AmountVector) -> list[int]:
        free = (self._free[:, row] - less).tolist()
        kinds = zip(self._kinds, self._amounts.needs, strict=True)
        return [
            _fitting(free, needs, kind.count) if kind.rows[row] and self._rows[row] else 0
            for kind, needs in kinds
        ]

    def _taken_by(self, units: Iterable[DisruptionUnit]) -> dict[int, AmountVector]:
        found: dict[int, AmountVector] = {}
        for held in (each for unit in units for each in unit.held):
            row = self._row_of.get(held.node)
            if row is not None:
                taken = np.array(self._amounts.taken_by(held), dtype=np.int64)
                found[row] = found[row] + taken if row in found else taken
        return found


def _fitting(free: list[int], needs: tuple[int, ...], most: int) -> int:
    return min(most, *(max(0, f) // n for f, n in zip(free, needs, strict=True) if n > 0))
