"""Answers about the devices of a large pool, found once for all nodes that see the pool.

What is found is kept piece by piece, so that the next turn goes on where one has ended.
"""

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from fairlead.claims.columns import Codes, DeviceRows, Flags
from fairlead.claims.constraints import TypedValue, attribute_of
from fairlead.claims.counters import PoolCounters
from fairlead.claims.filling import ERROR, UNCOUNTABLE, USABLE, fill
from fairlead.claims.nodes import serves
from fairlead.claims.pools import DeviceCandidate, DevicePool
from fairlead.claims.requests import WantedDevices
from fairlead.claims.usage import DeviceUsage
from fairlead.model.devices import DeviceNodes
from fairlead.model.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from fairlead.claims.inventory import DeviceInventory

#: Kinds of requests that are kept: more than a claim can have.
_MOST_KINDS = 300
#: Values of attributes that are kept, in all.
_MOST_VALUES = 500_000
_Candidates = list[DeviceCandidate]


@dataclass(frozen=True, slots=True)
class _Answer:
    """Of all devices, for one kind of request."""

    codes: Codes
    #: Devices that can serve it, whatever nodes they are for; None: a selector fails on one.
    usable: _Candidates | None
    has_uncountable: bool


class PoolIndex:
    """Of one pool, which does not change: a pool that changes is another one."""

    def __init__(self, pool: DevicePool, inventory: "DeviceInventory") -> None:
        self._pool, self._inventory = pool, inventory
        self._rows: list[DeviceRows] = []
        for part in pool.offering:
            first = self._rows[-1].last if self._rows else 0
            last = first + len(part.devices)
            self._rows.append(DeviceRows(first, last, part, inventory.shape_of(part)))
        self._served = _Served(pool) if any(part.per_device for part in pool.offering) else None
        self._begin()

    def _begin(self) -> None:
        self._columns: dict[object, Codes] = {}
        self._answers: dict[object, _Answer] = {}
        #: Lists with the same devices are one object.
        self._lists: dict[bytes, _Candidates] = {}
        #: By identity of such a list: of it, what is free, and how many of that can be chosen.
        self._free: dict[int, tuple[int, _Candidates]] = {}
        self._most: dict[int, tuple[int, _Candidates, int]] = {}
        self._counts: dict[tuple[int, str], Counter[TypedValue | None]] = {}
        #: Of the node that was asked about last.
        self._here: dict[object, _Candidates | None] = {}

    def usable(
        self, wanted: WantedDevices, node: str, labels: Mapping[str, str]
    ) -> _Candidates | None:
        """Devices that can serve the request, in use or not; None: some device is an error.

        Raises LookUnfinished and SearchLimit.
        """
        kind = wanted.is_for_all, wanted.kind
        answer = self._answers.get(kind) or self._find(kind, wanted)
        if self._served is None:
            return None if answer.has_uncountable else answer.usable
        if self._served.turn_to(node, labels):
            self._here.clear()
        if kind not in self._here:
            self._here[kind] = self._for_node(answer, self._served.flags)
        return self._here[kind]

    def _for_node(self, answer: _Answer, served: Flags) -> _Candidates | None:
        codes = np.where(served, answer.codes, 0)
        if answer.usable is None or (codes == UNCOUNTABLE).any():
            return None
        return self._listed(codes)

    def _find(self, kind: object, wanted: WantedDevices) -> _Answer:
        if len(self._columns) >= _MOST_KINDS and kind not in self._columns:
            self._begin()
        column = self._columns.get(kind)
        if column is None:
            column = self._columns[kind] = np.zeros(len(self._pool.candidates), np.int8)
        left = (rows for rows in self._rows if not column[rows.first : rows.last].all())
        with self._inventory.looking_for_all():
            fill(left, wanted, column, self._inventory)
        usable = None if (column == ERROR).any() else self._listed(column)
        has_uncountable = bool((column == UNCOUNTABLE).any())
        answer = self._answers[kind] = _Answer(column, usable, has_uncountable)
        return answer

    def _listed(self, codes: Codes) -> _Candidates:
        chosen = codes == USABLE
        if self._served is not None:  # others for each node
            return self._at(chosen)
        return self._lists.get(key := chosen.tobytes()) or self._lists.setdefault(
            key, self._at(chosen)
        )

    def _at(self, chosen: Flags) -> _Candidates:
        candidates = self._pool.candidates
        return [candidates[place] for place in np.flatnonzero(chosen).tolist()]

    def free(self, usable: _Candidates, usage: DeviceUsage) -> _Candidates:
        """Of these, the devices that claims leave, also by counters. Raises LookUnfinished."""
        stamp = usage.stamp(self._pool.key)
        if not stamp:
            return usable
        known = self._free.get(id(usable))
        if known is None or known[0] != stamp:
            known = stamp, self._left(usable, usage)
            if self._served is not None:
                return known[1]
            self._free[id(usable)] = known
            self._inventory.turn.spend(devices=len(usable) // 4)
        return known[1]

    def _left(self, usable: _Candidates, usage: DeviceUsage) -> _Candidates:
        whole = usage.whole
        free = [each for each in usable if each.key not in whole]
        if not self._pool.counters:
            return free
        return PoolCounters(self._pool, usage).without_too_large(free)

    def most(self, free: _Candidates, counters: PoolCounters, usage: DeviceUsage) -> int:
        """An upper bound for how many of these can be chosen together. Raises LookUnfinished."""
        stamp, known = usage.stamp(self._pool.key), self._most.get(id(free))
        if known is None or known[0] != stamp or known[1] is not free:
            known = self._most[id(free)] = stamp, free, counters.most(free)
            if len(self._most) > _MOST_KINDS:
                self._most.clear()
            self._inventory.turn.spend(devices=2 * len(free))
        return known[2]

    def counts(self, usable: _Candidates, attribute: str) -> Counter[TypedValue | None]:
        """How many of them have which value of the attribute. Raises LookUnfinished."""
        known = self._counts.get((id(usable), attribute))
        if known is None:
            driver = self._pool.key[0]
            known = Counter(attribute_of(each.device, driver, attribute) for each in usable)
            if self._served is not None:
                return known
            self._keep_counts(id(usable), attribute, known)
            self._inventory.turn.spend(devices=len(usable))
        return known

    def _keep_counts(
        self, usable: int, attribute: str, counts: Counter[TypedValue | None]
    ) -> None:  # fmt: skip
        if sum(map(len, self._counts.values())) > _MOST_VALUES:
            self._counts.clear()
        self._counts[usable, attribute] = counts


class _Served:
    """Which devices of a pool are for a node, where devices say so."""

    def __init__(self, pool: DevicePool) -> None:
        count = len(pool.candidates)
        self._always: Flags = np.zeros(count, np.bool_)
        self._named: dict[str, list[int]] = {}
        self._selected: dict[DeviceNodes, list[int]] = {}
        for place, each in enumerate(pool.candidates):
            nodes = each.device.form.nodes
            if not each.slice.per_device:
                self._always[place] = True
            elif nodes is not None and nodes.node_name:
                self._named.setdefault(nodes.node_name, []).append(place)
            elif nodes is not None:
                self._selected.setdefault(nodes, []).append(place)
        self._node: tuple[str, Mapping[str, str]] | None = None
        self.flags = self._always

    def turn_to(self, node: str, labels: Mapping[str, str]) -> bool:
        """The flags are those of this node from now on; whether it is another one than before."""
        if self._node == (node, labels):
            return False
        self._node, self.flags = (node, labels), self._always.copy()
        self.flags[self._named.get(node, [])] = True
        for nodes, places in self._selected.items():
            if serves(nodes, node, labels):
                self.flags[places] = True
        return True
