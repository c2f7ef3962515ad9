"""How many devices of a class each node has, and how many of them claims hold.

A class may stand in for an extended resource: these are the amounts that scores count for it, as
kube-scheduler counts them. Every slice counts, also of a pool that is not whole.
"""

from collections import OrderedDict
from typing import TYPE_CHECKING

import numpy as np

from fairlead.claims.selecting import DeviceSelection
from fairlead.cluster.arrays import NodeMask, PerNode
from fairlead.cluster.node_terms import any_term
from fairlead.cluster.nodes import Nodes
from fairlead.model.claims import DeviceId
from fairlead.model.devices import Device, DeviceClass, DeviceNodes, ResourceSlice
from fairlead.model.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from fairlead.cluster.device_claims import DeviceClaims

#: Classes whose devices are kept counted.
_MOST_CLASSES = 32


@dataclass(slots=True)
class _Counted:
    """Devices of one slice that are of a class."""

    part: ResourceSlice
    #: By position in the slice.
    chosen: tuple[int, ...]
    #: Devices on which a selector fails.
    failed: tuple[int, ...]
    #: How many of them are held, at a stamp of their pool.
    stamp: int = -1
    used: int = 0


class DeviceTotals:
    """Kept by class and slice, so that only what has changed is counted again."""

    def __init__(self, state: "DeviceClaims") -> None:
        self._state = state
        self._known: OrderedDict[DeviceClass, dict[str, _Counted]] = OrderedDict()

    def of(self, resource: str, nodes: Nodes) -> tuple[PerNode, PerNode]:
        """Devices that stand in for the resource on each node, and those of them that are held.

        Raises LookUnfinished: there may be many devices.
        """
        capacity, used = np.zeros((2, len(nodes)), dtype=np.int64)
        found = self._state.classes.get(self._state.extended.class_of(resource))
        if found is None:
            return capacity, used
        totals, places = _Totals(capacity, used, nodes.none()), _Places(nodes)
        known = self._slices_of(found)
        for row, node in enumerate(nodes.objects()):
            for part in self._state.slices_on(node.name) if node else ():
                totals.add(row, self._counted(known, found, part))
        for part in self._state.inventory.shared_slices():
            counted = self._counted(known, found, part)
            if part.per_device:
                self._add_each(totals, places, counted)
            else:
                totals.add(places.of(part.nodes), counted)
        capacity[totals.fails] = used[totals.fails] = 0
        return capacity, used

    def _add_each(self, totals: "_Totals", places: "_Places", counted: _Counted) -> None:
        """Of a slice whose devices say themselves which nodes can use them."""
        part = counted.part
        for place in counted.failed:
            totals.fails[places.of(part.devices[place].form.nodes)] = True
        for place in counted.chosen:
            there = places.of(part.devices[place].form.nodes)
            totals.capacity[there] += 1
            totals.used[there] += self._is_held(part, part.devices[place])

    def _counted(
        self, slices: dict[str, _Counted], of_class: DeviceClass, part: ResourceSlice
    ) -> _Counted:
        counted = slices.get(part.name)
        if counted is None or counted.part is not part:
            counted = slices[part.name] = _Counted(part, *self._chosen(of_class, part))
            self._state.inventory.turn.spend(devices=len(part.devices))
        stamp = self._state.usage.stamp((part.driver, part.pool))
        if counted.stamp != stamp:
            held = (self._is_held(part, part.devices[place]) for place in counted.chosen)
            counted.stamp, counted.used = stamp, sum(held) if stamp else 0
        return counted

    def _slices_of(self, of_class: DeviceClass) -> dict[str, _Counted]:
        found = self._known.setdefault(of_class, {})
        self._known.move_to_end(of_class)
        if len(self._known) > _MOST_CLASSES:
            self._known.popitem(last=False)
        return found

    def forget(self, slice_name: str) -> None:
        """The slice is gone."""
        for slices in self._known.values():
            slices.pop(slice_name, None)

    def _chosen(
        self, of_class: DeviceClass, part: ResourceSlice
    ) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Devices that the class selects, and devices on which a selector fails."""
        selection = DeviceSelection(of_class.name, of_class.selectors, ())
        answers = self._state.inventory.answers
        said = [answers.of(selection, part.driver, device) for device in part.devices]
        chosen = tuple(place for place, each in enumerate(said) if each is True)
        return chosen, tuple(place for place, each in enumerate(said) if not isinstance(each, bool))

    def _is_held(self, part: ResourceSlice, device: Device) -> bool:
        return self._state.usage.is_held(DeviceId(part.driver, part.pool, device.form.name))


@dataclass(slots=True)
class _Totals:
    capacity: PerNode
    used: PerNode
    #: Nodes with a device on which a selector fails: nothing counts there.
    fails: NodeMask

    def add(self, there: int | NodeMask, counted: _Counted) -> None:
        """All devices of a slice, for one row or some of them."""
        self.capacity[there] += len(counted.chosen)
        self.used[there] += counted.used
        if counted.failed:
            self.fails[there] = True


class _Places:
    """Rows on which devices can be used: one, or a mask. Each selector is looked up once."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        self._masks: dict[DeviceNodes | None, NodeMask] = {}
        self._rows: dict[str, int] | None = None

    def of(self, where: DeviceNodes | None) -> int | NodeMask:
        if where is not None and where.node_name:
            row = self._row(where.node_name)
            return self._nodes.none() if row is None else row
        found = self._masks.get(where)
        if found is None:
            found = self._masks[where] = self._mask(where or DeviceNodes())
        return found

    def _mask(self, where: DeviceNodes) -> NodeMask:
        return self._nodes.all() if where.all_nodes else any_term(where.terms or (), self._nodes)

    def _row(self, node: str) -> int | None:
        if self._rows is None:
            objects = enumerate(self._nodes.objects())
            self._rows = {node.name: row for row, node in objects if node}
        return self._rows.get(node)
