"""All slices of the cluster, and the pools of each node, assembled when they are asked for."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TypeVar

from fairlead.claims.answers import SelectorAnswers
from fairlead.claims.pools import (
    DevicePool,
    NodePools,
    PoolKey,
    assembled,
)
from fairlead.claims.shared_slices import SharedSlices, SharedView
from fairlead.claims.sharing import SharedParts, SliceShape
from fairlead.claims.turn_limit import TurnLimit
from fairlead.claims.usage import MANY_CHANGED
from fairlead.model.behaviour import KUBERNETES_1_36, Behaviour
from fairlead.model.devices import ResourceSlice

_Key = TypeVar("_Key")
#: Devices of nodes whose pools are kept assembled: about 40 MiB.
_MOST_CANDIDATES = 150_000
#: Pools with more devices have an index.
FEW_DEVICES = 256
#: Expressions that are evaluated for all nodes at once: a second.
EVALUATIONS = 100_000


class DeviceInventory:
    """Slices come and go; `pools` says what a node can use."""

    def __init__(self, behaviour: Behaviour = KUBERNETES_1_36) -> None:
        self._behaviour = behaviour
        self._slices: dict[str, ResourceSlice] = {}
        self._shapes: dict[str, SliceShape] = {}
        self._by_pool: defaultdict[PoolKey, dict[str, ResourceSlice]] = defaultdict(dict)
        self._by_node: defaultdict[str, dict[str, ResourceSlice]] = defaultdict(dict)
        #: Slices that are not of one node; those of counters only in 1.37.
        self._shared = SharedSlices()
        #: Pools with counters that cannot be used: all nodes see them, in 1.36.
        self._unusable: dict[PoolKey, DevicePool] = {}
        #: Pools with changes, in order, once a reader has put a dict here; it empties the dict.
        #: None again: too many have changed, and it has to begin again.
        self.changed: dict[PoolKey, None] | None = None
        #: What was put together for nodes, with their labels.
        self._assembled: dict[str, tuple[Mapping[str, str], NodePools]] = {}
        #: Pools of no single node, by the slices that a node sees of them.
        self._pools: dict[PoolKey, dict[tuple[str, ...], DevicePool | None]] = {}
        self._kept = 0
        self.answers = SelectorAnswers()
        self._parts = SharedParts()
        #: What may be looked at in one turn.
        self.turn = TurnLimit()
        #: Devices and slices that were looked at to put pools together for nodes, in all.
        self.gathered = 0
        #: Expressions that were evaluated once for all nodes.
        self.evaluated_for_all = 0

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
            self._shared.put(part)
        self._pool_changed((part.driver, part.pool), part)

    def remove(self, name: str) -> None:
        part = self._slices.pop(name, None)
        if part is None:
            return
        del self._shapes[name]
        key = part.driver, part.pool
        _drop(self._by_pool, key, name)
        _drop(self._by_node, part.nodes.node_name, name)
        self._shared.remove(name)
        self._pool_changed(key, part)

    @property
    def looked(self) -> int:
        """Devices that nodes were asked about, and what putting them together took."""
        return self.gathered + 2 * self.answers.asked

    @property
    def shared_devices(self) -> int:
        """Devices of slices that are not of one node."""
        return self._shared.devices

    @property
    def shared_lines(self) -> int:
        """Lines of selectors that say which nodes such slices are for."""
        return self._shared.lines

    def shared_slices(self) -> Iterable[ResourceSlice]:
        """Slices with devices that are not of one node."""
        return (part for part in self._shared if part.devices)

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
        if known is None or (self._shared and known[0] != labels):
            known = labels, self._gathered(node, labels)
            self._remember(node, known)
        return known[1]

    def _remember(self, node: str, known: tuple[Mapping[str, str], NodePools]) -> None:
        own = sum(len(pool.candidates) for pool in known[1].pools if pool.key not in self._pools)
        self.gathered += own
        self._keep(own + 1)
        self._assembled[node] = known

    def _keep(self, count: int) -> None:
        """So many candidates more are kept."""
        self._kept += count
        if self._kept > _MOST_CANDIDATES:
            self._forget()
            self._kept = count

    def _forget(self) -> None:
        """What was put together for nodes."""
        self._assembled.clear()
        self._pools.clear()
        self._shared.forget()
        self._kept = 0

    def _gathered(self, node: str, labels: Mapping[str, str]) -> NodePools:
        self.gathered += self._shared.to_look_at
        view, own = self._shared.seen_by(node, labels), self._by_node.get(node, {})
        if own or view.is_by_device or self._unusable:
            return NodePools(labels, self._in_order(view, own.values()))
        if view.alone is None:
            view.alone = NodePools(labels, self._in_order(view, ()))
        return view.alone

    def _in_order(self, view: SharedView, own: Iterable[ResourceSlice]) -> list[DevicePool]:
        of_node: defaultdict[PoolKey, list[ResourceSlice]] = defaultdict(list)
        for part in own:
            of_node[part.driver, part.pool].append(part)
        shared = view.by_pool()
        found = [self._pool(key, [*parts, *shared.pop(key, ())]) for key, parts in of_node.items()]
        found += [self._shared_pool(key, parts) for key, parts in shared.items()]
        there = {pool.key: pool for pool in found if pool is not None}
        foreign = (pool for key, pool in self._unusable.items() if key not in there)
        return sorted((*there.values(), *foreign), key=lambda pool: pool.rank)

    def _shared_pool(self, key: PoolKey, parts: list[ResourceSlice]) -> DevicePool | None:
        """One for all nodes that see the same slices of it."""
        names = tuple(part.name for part in parts)
        known = self._pools.setdefault(key, {})
        if names not in known:
            pool = self._pool(key, parts)
            count = len(pool.candidates) if pool else 0
            self.gathered += count
            self._keep(count + len(names))
            self._pools.setdefault(key, {})[names] = pool
            return pool
        return known[names]

    def _pool(self, key: PoolKey, relevant: list[ResourceSlice]) -> DevicePool | None:
        every = self._by_pool[key].values()
        self.gathered += len(every) // 2
        if not self.behaviour.counters_of_served_nodes:
            names = {part.name for part in relevant}
            counted = [part for part in every if part.counter_sets and part.name not in names]
            relevant = [*relevant, *counted]
        pool = assembled(key, relevant, every)
        offered = pool.offering if pool else ()
        self.gathered += (_devices(every) - _devices(offered)) // 8
        by_device = any(part.per_device for part in offered)
        if pool is not None and (by_device or _devices(offered) > FEW_DEVICES):
            from fairlead.claims.pool_index import PoolIndex  # not at the start of the program

            pool.index = PoolIndex(pool, self)
        return pool

    def _pool_changed(self, key: PoolKey, part: ResourceSlice) -> None:
        self._note(key)
        every = self._by_pool.get(key, {}).values()
        if all(each.nodes.node_name for each in (part, *every)):
            for each in (part, *every):
                self._assembled.pop(each.nodes.node_name, None)
        else:
            self._assembled.clear()
            self._shared.forget()
            self._pools.pop(key, None)
        self._find_unusable(key, every)

    def _note(self, key: PoolKey) -> None:
        if self.changed is not None:
            self.changed[key] = None
            if len(self.changed) > MANY_CHANGED + 2 * len(self._by_pool):
                self.changed = None

    def _find_unusable(self, key: PoolKey, every: Collection[ResourceSlice]) -> None:
        before = self._unusable.pop(key, None)
        counted = [each for each in every if each.counter_sets]
        if counted and not self.behaviour.counters_of_served_nodes:
            pool = assembled(key, counted, every)
            if pool is not None and (pool.incomplete or pool.invalid):
                self._unusable[key] = pool
        if before is not None or key in self._unusable:
            self._assembled.clear()
            self._shared.forget()

    @contextmanager
    def looking_for_all(self) -> Iterator[None]:
        """What is evaluated meanwhile serves all nodes: it counts for the turn, and for no node."""
        before = self.answers.work
        try:
            with self.answers.limited(EVALUATIONS, "all nodes: "):
                yield
        finally:
            self.evaluated_for_all += self.answers.work - before


def _devices(parts: Iterable[ResourceSlice]) -> int:
    return sum(len(part.devices) for part in parts)


def _drop(groups: dict[_Key, dict[str, ResourceSlice]], key: _Key, name: str) -> None:
    group = groups.get(key, {})
    group.pop(name, None)
    if not group:
        groups.pop(key, None)
