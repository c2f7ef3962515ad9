"""All slices of the cluster, and the pools of each node, assembled when they are asked for."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import TypeVar

from fairlead.claims.answers import SelectorAnswers
from fairlead.claims.pools import (
    DevicePool,
    NodePools,
    PoolKey,
    ServedByDevices,
    assembled,
    is_relevant,
    served_by_devices,
)
from fairlead.claims.sharing import SharedParts, SliceShape
from fairlead.claims.turn_limit import TurnLimit
from fairlead.model.behaviour import KUBERNETES_1_36, Behaviour
from fairlead.model.devices import ResourceSlice

_Key = TypeVar("_Key")
#: Devices of nodes whose pools are kept assembled: about 40 MiB.
_MOST_CANDIDATES = 150_000


class DeviceInventory:
    """Slices come and go; `pools` says what a node can use."""

    def __init__(self, behaviour: Behaviour = KUBERNETES_1_36) -> None:
        self._behaviour = behaviour
        self._slices: dict[str, ResourceSlice] = {}
        self._shapes: dict[str, SliceShape] = {}
        self._by_pool: defaultdict[PoolKey, dict[str, ResourceSlice]] = defaultdict(dict)
        self._by_node: defaultdict[str, dict[str, ResourceSlice]] = defaultdict(dict)
        #: Slices that are not of one node; those of counters only in 1.37.
        self._shared: dict[str, ResourceSlice] = {}
        self._served: dict[str, ServedByDevices] = {}
        #: How many selectors and slices a node has to look at to know which of them it can use.
        self._to_look_at = 0
        #: Devices of slices that are not of one node.
        self.shared_devices = 0
        #: Pools with counters that cannot be used: all nodes see them, in 1.36.
        self._unusable: dict[PoolKey, DevicePool] = {}
        #: Pools with changes, in order, once a reader has put a dict here; it empties the dict.
        self.changed: dict[PoolKey, None] | None = None
        self._assembled: dict[str, NodePools] = {}
        self._kept = 0
        self.answers = SelectorAnswers()
        self._parts = SharedParts()
        #: What may be looked at in one turn.
        self.turn = TurnLimit()
        #: Devices and slices that were looked at to put pools together for nodes, in all.
        self.gathered = 0

    @property
    def behaviour(self) -> Behaviour:
        return self._behaviour

    @behaviour.setter
    def behaviour(self, behaviour: Behaviour) -> None:
        """Versions differ in which slices a node sees."""
        self._behaviour = behaviour
        for part in list(self._slices.values()):
            self.put(part)

    def __len__(self) -> int:
        return len(self._slices)

    def slices(self) -> Iterable[ResourceSlice]:
        return self._slices.values()

    def put(self, part: ResourceSlice) -> None:
        """A slice is new, or has changed."""
        self.remove(part.name)
        part, self._shapes[part.name] = self._parts.shared(part)
        self._slices[part.name] = part
        self._by_pool[part.driver, part.pool][part.name] = part
        if part.nodes.node_name:
            self._by_node[part.nodes.node_name][part.name] = part
        elif not part.counter_sets or self.behaviour.counters_of_served_nodes:
            self._shared[part.name] = part
            self._served[part.name] = served_by_devices(part)
            self._count_shared(part, +1)
        self._pool_changed((part.driver, part.pool), part)

    def remove(self, name: str) -> None:
        part = self._slices.pop(name, None)
        if part is None:
            return
        del self._shapes[name]
        key = part.driver, part.pool
        _drop(self._by_pool, key, name)
        _drop(self._by_node, part.nodes.node_name, name)
        if self._shared.pop(name, None) is not None:
            self._count_shared(part, -1)
            del self._served[name]
        self._pool_changed(key, part)

    def _count_shared(self, part: ResourceSlice, sign: int) -> None:
        self.shared_devices += sign * len(part.devices)
        self._to_look_at += sign * (1 + 8 * len(self._served[part.name].others))

    def shared_slices(self) -> Iterable[ResourceSlice]:
        """Slices with devices that are not of one node."""
        return (part for part in self._shared.values() if part.devices)

    @property
    def is_by_node(self) -> bool:
        """All that nodes see are pools of their own."""
        return not self._shared and not self._unusable

    def pool_keys(self) -> Iterable[PoolKey]:
        return self._by_pool

    def slices_of(self, key: PoolKey) -> list[ResourceSlice]:
        return list(self._by_pool.get(key, {}).values())

    def shape_of(self, part: ResourceSlice) -> SliceShape:
        return self._shapes[part.name]

    def on(self, node: str, labels: Mapping[str, str]) -> NodePools:
        """What the node can use. In 1.36 also pools of others that stop requests for all."""
        known = self._assembled.get(node)
        if known is None or (self._shared and known.labels != labels):
            known = NodePools(labels, self._gathered(node, labels))
            self._remember(node, known)
        if not self._unusable:
            return known
        own = {pool.key for pool in known.pools}
        foreign = [pool for key, pool in self._unusable.items() if key not in own]
        return NodePools(labels, sorted((*known.pools, *foreign), key=lambda pool: pool.rank))

    def _remember(self, node: str, pools: NodePools) -> None:
        self.gathered += len(pools.candidates)
        self._kept += len(pools.candidates) + 1
        if self._kept > _MOST_CANDIDATES:
            self._assembled.clear()
            self._kept = len(pools.candidates) + 1
        self._assembled[node] = pools

    def _gathered(self, node: str, labels: Mapping[str, str]) -> list[DevicePool]:
        of_node: defaultdict[PoolKey, list[ResourceSlice]] = defaultdict(list)
        self.gathered += self._to_look_at
        for part in self._by_node.get(node, {}).values():
            of_node[part.driver, part.pool].append(part)
        for name, part in self._shared.items():
            if is_relevant(part, self._served[name], node, labels):
                of_node[part.driver, part.pool].append(part)
        found = (self._pool(key, parts) for key, parts in of_node.items())
        return sorted((pool for pool in found if pool is not None), key=lambda pool: pool.rank)

    def _pool(self, key: PoolKey, relevant: list[ResourceSlice]) -> DevicePool | None:
        every = self._by_pool[key].values()
        self.gathered += len(every) // 2
        if not self.behaviour.counters_of_served_nodes:
            names = {part.name for part in relevant}
            counted = [part for part in every if part.counter_sets and part.name not in names]
            relevant = [*relevant, *counted]
        pool = assembled(key, relevant, every)
        self.gathered += (_devices(every) - _devices(pool.offering if pool else ())) // 8
        return pool

    def _pool_changed(self, key: PoolKey, part: ResourceSlice) -> None:
        if self.changed is not None:
            self.changed[key] = None
        every = self._by_pool.get(key, {}).values()
        for each in (part, *every):
            if each.nodes.node_name:
                self._assembled.pop(each.nodes.node_name, None)
            else:
                self._assembled.clear()
        self._unusable.pop(key, None)
        counted = [each for each in every if each.counter_sets]
        if counted and not self.behaviour.counters_of_served_nodes:
            pool = assembled(key, counted, every)
            if pool is not None and (pool.incomplete or pool.invalid):
                self._unusable[key] = pool


def _devices(parts: Iterable[ResourceSlice]) -> int:
    return sum(len(part.devices) for part in parts)


def _drop(groups: dict[_Key, dict[str, ResourceSlice]], key: _Key, name: str) -> None:
    group = groups.get(key, {})
    group.pop(name, None)
    if not group:
        groups.pop(key, None)
