"""Slices that are not of one node, and which of them a node can use.

Slices for the same nodes are looked at once, however many they are: a node looks at selectors.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field

from fairlead.claims.nodes import serves
from fairlead.claims.pools import NodePools, PoolKey
from fairlead.model.devices import DeviceNodes, ResourceSlice
from fairlead.model.lazy_dataclass import dataclass

#: What it takes to compare a node with a selector, in devices that are looked at.
_SELECTOR = 8
_LINES_OF_DEVICE = 4
#: Sets of slices that are kept, by who sees them.
_MOST_VIEWS = 1024


@dataclass(slots=True, eq=False)
class _Group:
    """Slices, or slices with devices, for the same nodes; by name, and when they came."""

    slices: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class SharedView:
    """What some nodes see: one object for all of them."""

    #: In the order in which they came.
    slices: tuple[ResourceSlice, ...] = ()
    #: Pools of nodes that see no other slices, once they are put together.
    alone: NodePools | None = None

    @property
    def is_by_device(self) -> bool:
        """Each device says which nodes it is for."""
        return any(part.per_device for part in self.slices)

    def by_pool(self) -> dict[PoolKey, list[ResourceSlice]]:
        found: dict[PoolKey, list[ResourceSlice]] = {}
        for part in self.slices:
            found.setdefault((part.driver, part.pool), []).append(part)
        return found


class SharedSlices:
    """Slices come and go; `seen_by` says which of them a node can use."""

    def __init__(self) -> None:
        self._slices: dict[str, ResourceSlice] = {}
        self._came = 0
        #: By the nodes that are selected; and by the name of the node, where devices name one.
        self._selected: dict[DeviceNodes, _Group] = {}
        self._named: dict[str, _Group] = {}
        self._views: dict[tuple[int, ...], SharedView] = {}
        #: Devices of these slices, and lines of their selectors.
        self.devices = 0
        self.lines = 0

    def __len__(self) -> int:
        return len(self._slices)

    def __iter__(self) -> Iterator[ResourceSlice]:
        return iter(self._slices.values())

    @property
    def to_look_at(self) -> int:
        """What a node has to look at to know which slices it can use, in devices."""
        return _SELECTOR * len(self._selected) + self.lines // _LINES_OF_DEVICE

    def put(self, part: ResourceSlice) -> None:
        """A slice that is not there yet."""
        self._slices[part.name] = part
        self.devices += len(part.devices)
        self.lines += lines_of(part)
        self._came += 1
        names, selectors = _served(part)
        for name in names:
            self._named.setdefault(name, _Group()).slices[part.name] = self._came
        for nodes in selectors:
            self._selected.setdefault(nodes, _Group()).slices[part.name] = self._came
        self._views.clear()

    def remove(self, name: str) -> None:
        part = self._slices.pop(name, None)
        if part is None:
            return
        self.devices -= len(part.devices)
        self.lines -= lines_of(part)
        names, selectors = _served(part)
        for node in names:
            _drop(self._named, node, name)
        for nodes in selectors:
            _drop(self._selected, nodes, name)
        self._views.clear()

    def forget(self) -> None:
        """What was put together for nodes."""
        self._views.clear()

    def seen_by(self, node: str, labels: Mapping[str, str]) -> SharedView:
        """Kept until a slice comes, changes or goes."""
        groups = [
            group for nodes, group in self._selected.items() if serves(nodes, node, labels)
        ]  # fmt: skip
        if node in self._named:
            groups.append(self._named[node])
        key = tuple(map(id, groups))
        found = self._views.get(key)
        if found is None:
            if len(self._views) >= _MOST_VIEWS:
                self._views.clear()
            found = self._views[key] = SharedView(self._in_order(groups))
        return found

    def _in_order(self, groups: Iterable[_Group]) -> tuple[ResourceSlice, ...]:
        came = {name: at for group in groups for name, at in group.slices.items()}
        return tuple(self._slices[name] for name in sorted(came, key=came.__getitem__))


def lines_of(part: ResourceSlice) -> int:
    """Of the selectors of nodes that a slice or its devices are for."""
    return sum(term.lines for nodes in _served(part)[1] for term in nodes.terms or ())


def _served(part: ResourceSlice) -> tuple[set[str], list[DeviceNodes]]:
    """Names of nodes, and selectors, that the slice or its devices are for."""
    nodes = part.nodes
    if nodes.all_nodes or nodes.terms is not None:
        return set(), [nodes]
    each = (device.form.nodes for device in part.devices) if part.per_device else ()
    said = dict.fromkeys(nodes for nodes in each if nodes is not None)
    names = {nodes.node_name for nodes in said if nodes.node_name}
    return names, [nodes for nodes in said if not nodes.node_name]


def _drop(groups: "dict[str, _Group] | dict[DeviceNodes, _Group]", key: object, name: str) -> None:
    group = groups[key]  # type: ignore[index]
    del group.slices[name]
    if not group.slices:
        del groups[key]  # type: ignore[arg-type]
