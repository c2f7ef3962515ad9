"""All nodes at once: where claims surely cannot be allocated, and where they surely can.

Counts of devices by node decide most nodes in one pass. The others are asked one by one.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice

import numpy as np
import numpy.typing as npt

from fairlead.claims.columns import Codes, DeviceColumns, Flags, Rows
from fairlead.claims.constraints import Constraint, MatchConstraint
from fairlead.claims.counters import FormSizes
from fairlead.claims.device_counts import DeviceCounts, asked_by_kind
from fairlead.claims.filling import ERROR, USABLE, fill
from fairlead.claims.inventory import DeviceInventory
from fairlead.claims.pools import DevicePool, PoolKey, assembled
from fairlead.claims.requests import WantedDevices
from fairlead.claims.usage import DeviceUsage
from fairlead.model.claims import ALL_DEVICES
from fairlead.model.devices import ResourceSlice

#: Ask for the node; nothing can be allocated there; something can.
ASK, NO, YES = range(3)
#: Kinds of requests that are counted: for more, nodes are asked one by one.
_MOST_KINDS = 32
#: Devices of a node of which it is not known how many there are.
_MANY = 1 << 20
#: Rows of devices that are sorted by the values of attributes, in all.
_MOST_SORTED = 500_000


class NodeGlance:
    """Follows the inventory and the usage that it is made for."""

    def __init__(self, inventory: DeviceInventory, usage: DeviceUsage) -> None:
        self._inventory, self._usage = inventory, usage
        self._begin()

    def _begin(self) -> None:
        self._inventory.changed = dict.fromkeys(self._inventory.pool_keys())
        self._usage.changed = set()
        self._columns = DeviceColumns(self._inventory.turn)
        #: Nodes with pools that have no rows, and with pools whose devices affect each other.
        self._unknown: dict[PoolKey, set[int]] = {}
        self._coupled: dict[PoolKey, set[int]] = {}
        #: Of these, pools whose counters are enough for each device alone.
        self._loose: set[PoolKey] = set()
        self._sizes = FormSizes({})

    def codes(
        self,
        names: Sequence[str],
        requests: Sequence[list[list[WantedDevices]]],
        constraints: Sequence[list[Constraint]],
    ) -> Codes:
        """ASK, NO or YES for each node. Raises LookUnfinished."""
        wanted = [each for claim in requests for request in claim for each in request]
        asks_for_all = any(each.need.mode == ALL_DEVICES for each in wanted)
        many = len(wanted) > _MOST_KINDS and len({each.kind for each in wanted}) > _MOST_KINDS
        if not self._inventory.is_by_node or asks_for_all or many or not wanted:
            return np.full(len(names), ASK, np.int8)
        self._follow()
        found = _Counts(self._columns, self._flags(self._coupled))
        for each in wanted:
            found.look(each, self._filled(each))
        codes = np.where(found.hopeless(requests, constraints), NO, ASK).astype(np.int8)
        if _is_simple(requests, constraints):
            codes[(codes == ASK) & ~self._flags(self._entangled(wanted))] = YES
        codes[self._flags(self._unknown) | found.errors] = ASK
        places = self._columns.nodes
        return codes[np.fromiter((places.get(name, -1) for name in names), np.intp, len(names))]

    def counts(
        self, names: Sequence[str], requests: Sequence[list[list[WantedDevices]]]
    ) -> list[DeviceCounts] | None:
        """For each kind of devices that the claims ask for; None: they cannot be counted."""
        asked = asked_by_kind(requests)
        if not self._inventory.is_by_node or not asked or len(asked) > _MOST_KINDS:
            return None
        self._follow()
        columns = self._columns
        places = np.fromiter((columns.nodes.get(name, -1) for name in names), np.intp, len(names))
        kinds = {each.kind: each for claim in requests for (each,) in claim}
        return [self._count(kinds[kind], count, places) for kind, count in asked.items()]

    def _count(
        self, wanted: WantedDevices, asked: int, places: npt.NDArray[np.intp]
    ) -> DeviceCounts:
        node, held = _nodes(self._columns)
        usable: Flags = (node >= 0) & (self._filled(wanted) == USABLE)
        unknown = self._flags(self._unknown)
        every, free = (
            np.where(unknown, _MANY, np.bincount(node[rows], minlength=len(unknown)))[places]
            for rows in (usable, usable & ~held)
        )
        return DeviceCounts(wanted.kind, asked, free, every, usable, self._columns)

    def _entangled(self, wanted: list[WantedDevices]) -> dict[PoolKey, set[int]]:
        """Pools of which more than the count matters; for one device, counters that are held."""
        if len(wanted) > 1 or wanted[0].count > 1:
            return self._coupled
        return {
            key: nodes
            for key, nodes in self._coupled.items()
            if key not in self._loose or self._usage.stamp(key)
        }

    def _flags(self, pools: dict[PoolKey, set[int]]) -> Flags:
        """By number of the node; the last one is for nodes without devices."""
        flags = np.zeros(len(self._columns.nodes) + 1, np.bool_)
        flags[[number for numbers in pools.values() for number in numbers]] = True
        return flags

    # -- following changes

    def _follow(self) -> None:
        is_lost = self._inventory.changed is None or self._usage.changed is None
        if is_lost or self._columns.is_mostly_gone(len(self._inventory)):
            self._begin()
        changed, held, turn = self._inventory.changed, self._usage.changed, self._inventory.turn
        for key in list(changed or ()):
            looked = self._replace(key)
            if self._usage.stamp(key):
                looked += self._columns.hold(key, self._usage)
            del (changed or {})[key]
            turn.spend(steps=1, devices=looked)
        for key in sorted(held or ()):
            looked = self._columns.hold(key, self._usage)
            (held or set()).discard(key)
            turn.spend(devices=looked)

    def _replace(self, key: PoolKey) -> int:
        """Takes in a pool as it is now; how many devices had to be looked at for it."""
        self._columns.remove(key)
        self._unknown.pop(key, None)
        self._coupled.pop(key, None)
        self._loose.discard(key)
        every, shapes = self._inventory.slices_of(key), self._inventory.shape_of
        nodes = {part.nodes.node_name for part in every}
        if len(nodes) != 1:
            if nodes:
                self._unknown[key] = {self._columns.number(each) for each in nodes}
            return 0
        (node,) = nodes
        if _is_whole_pool(every) and shapes(every[0]).is_simple:
            self._columns.put(key, node, [(every[0], shapes(every[0]))])
            return 0
        pool = assembled(key, every, every)
        if pool is None or pool.incomplete or pool.invalid:
            self._unknown[key] = {self._columns.number(node)}
            return 0
        self._columns.put(key, node, [(part, shapes(part)) for part in pool.offering])
        self._note_coupling(pool, node)
        return len(pool.devices)

    def _note_coupling(self, pool: DevicePool, node: str) -> None:
        if any(each.form.consumes or each.form.shareable for each in pool.devices):
            self._coupled[pool.key] = {self._columns.number(node)}
            if self._sizes.counters != pool.counters:
                self._sizes = FormSizes(pool.counters)
            if self._sizes.all_fit(pool.devices):
                self._loose.add(pool.key)

    def _filled(self, wanted: WantedDevices) -> Codes:
        column = self._columns.column(wanted.kind)
        empty = self._columns.alive(column == 0)
        if len(empty):
            fill(self._columns.slices_at(empty), wanted, column, self._inventory)
        return column


class _Counts:
    """How many devices of each node can serve a request."""

    def __init__(self, columns: DeviceColumns, coupled: Flags) -> None:
        self._columns, self._coupled = columns, coupled
        self._size = len(columns.nodes) + 1
        self._node, self._held = _nodes(columns)
        self._rows: dict[object, Flags] = {}
        self._free: dict[object, Rows] = {}
        self.errors: Flags = np.zeros(self._size, np.bool_)

    def look(self, wanted: WantedDevices, column: Codes) -> None:
        key = _key(wanted)
        if key in self._rows:
            return
        alive = self._node >= 0
        rows = alive & (column == USABLE)
        self._rows[key] = rows if wanted.need.admin_access else rows & ~self._held
        counts = np.bincount(self._node[self._rows[key]], minlength=self._size)
        self._free[key] = counts.astype(np.int32)
        self.errors[self._node[alive & (column >= ERROR)]] = True

    def hopeless(
        self,
        requests: Sequence[list[list[WantedDevices]]],
        constraints: Sequence[list[Constraint]],
    ) -> Flags:
        """Where some request has not enough devices."""
        found = np.zeros(self._size, np.bool_)
        for request in (each for claim in requests for each in claim):
            enough = [self._free[_key(wanted)] >= wanted.count for wanted in request]
            found |= ~np.logical_or.reduce(enough)
        for key, count in _totals(_single(requests)).items():
            found |= ~self._coupled & (self._free[key] < count)
        most = max(1, _MOST_SORTED // max(1, len(self._node)))
        for claim, constraint in islice(_matches(constraints), most):
            found |= ~self._has_value(requests[claim], constraint)
        return found

    def _has_value(self, claim: list[list[WantedDevices]], constraint: MatchConstraint) -> Flags:
        """Where some value of the attribute is that of enough devices."""
        meant = [
            wanted
            for wanted in _single([claim])
            if constraint.concerns(wanted.request, wanted.alternative)
        ]
        if not meant:
            return np.ones(self._size, np.bool_)
        values = self._columns.values(constraint.attribute).astype(np.int64)
        if not len(values):
            return np.zeros(self._size, np.bool_)
        groups, group = np.unique(self._node * (values.max() + 1) + values, return_inverse=True)
        enough = np.ones(len(groups), np.bool_)
        for key, count in self._needed(meant).items():
            rows = self._rows[key] & (values > 1)
            enough &= np.bincount(group[rows], minlength=len(groups)) >= count
        found = np.zeros(self._size, np.bool_)
        found[groups[enough] // (values.max() + 1)] = True
        return found

    def _needed(self, meant: list[WantedDevices]) -> dict[object, int]:
        """All of the same kind; only the largest where devices may serve several requests."""
        if not self._coupled.any():
            return _totals(iter(meant)) | {
                _key(each): each.count for each in meant if each.need.admin_access
            }
        needed: Counter[object] = Counter()
        for wanted in meant:
            needed[_key(wanted)] = max(needed[_key(wanted)], wanted.count)
        return needed


def _is_whole_pool(slices: Sequence[ResourceSlice]) -> bool:
    """One slice is all of the pool, and can be used."""
    first = slices[0]
    return len(slices) == first.slice_count == 1 and not (first.problem or first.counter_sets)


def _nodes(columns: DeviceColumns) -> tuple[Rows, Flags]:
    """Row by row: the number of the node, and whether claims hold the device whole."""
    rows = slice(columns.size)
    return columns.node[rows], columns.held[rows]


def _is_simple(
    requests: Sequence[list[list[WantedDevices]]], constraints: Sequence[list[Constraint]]
) -> bool:
    """Whether enough devices are all that is needed, unless devices affect each other."""
    wanted = [each for claim in requests for request in claim for each in request]
    alone = all(len(request) == 1 for claim in requests for request in claim)
    if not alone or len({_key(each) for each in wanted}) > 1 or wanted[0].need.admin_access:
        return False
    of_claims = [each for of_claim in constraints for each in of_claim]
    matched = len(wanted) == 1 and all(isinstance(each, MatchConstraint) for each in of_claims)
    return not of_claims or (matched and len(of_claims) == 1)


def _key(wanted: WantedDevices) -> object:
    return wanted.kind, wanted.need.admin_access


def _single(requests: Sequence[list[list[WantedDevices]]]) -> Iterator[WantedDevices]:
    """Requests without alternatives."""
    return (request[0] for claim in requests for request in claim if len(request) == 1)


def _totals(wanted: Iterator[WantedDevices]) -> dict[object, int]:
    """Devices by what is asked for; with admin access, a device may serve several claims."""
    totals: Counter[object] = Counter()
    for each in wanted:
        if not each.need.admin_access:
            totals[_key(each)] += each.count
    return totals


def _matches(constraints: Sequence[list[Constraint]]) -> Iterator[tuple[int, MatchConstraint]]:
    for claim, of_claim in enumerate(constraints):
        for constraint in of_claim:
            if isinstance(constraint, MatchConstraint):
                yield claim, constraint
