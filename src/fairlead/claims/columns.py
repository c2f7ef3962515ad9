"""All devices of single nodes as columns: which can serve a request, and how many a node has free.

Pools that are not simply the devices of one node have no rows; their nodes are asked one by one.
"""

from collections.abc import Iterator, Sequence
from operator import attrgetter, itemgetter
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from fairlead.claims.constraints import attribute_of
from fairlead.claims.pools import PoolKey
from fairlead.claims.sharing import SliceShape
from fairlead.claims.turn_limit import TurnLimit
from fairlead.claims.usage import DeviceUsage
from fairlead.model.claims import DeviceId
from fairlead.model.devices import AttributeValue, Device, ResourceSlice

Rows = npt.NDArray[np.int32]
Codes = npt.NDArray[np.int8]
Flags = npt.NDArray[np.bool_]

_Kind = TypeVar("_Kind", bound=np.generic)
_FEW = 1024
_MOST_COLUMNS = 64
#: Rows that are filled in together take a part of the time that others take.
ROWS_TOGETHER = 4
_attributes = attrgetter("attributes")


class DeviceRows(NamedTuple):
    """The devices of a slice, row by row."""

    first: int
    last: int
    part: ResourceSlice
    shape: SliceShape

    def place(self, name: str) -> int | None:
        """Where the attribute is in all of the devices; None: not in all, or not at one place."""
        common = self.shape.common
        return common.index(name) if common and name in common else None

    def pairs(self, place: int) -> Iterator[tuple[str, AttributeValue]]:
        """The attribute at the place, of each device."""
        return map(itemgetter(place), map(_attributes, self.part.devices))


class DeviceColumns:
    """Rows of devices by node; what is known of them is found when it is asked for."""

    def __init__(self, turn: TurnLimit) -> None:
        self._turn = turn
        self.nodes: dict[str, int] = {}
        #: Number of rows, with those of devices that are gone.
        self.size = 0
        #: Row by row: the number of its node (-1: gone), if claims hold the device whole, and the
        #: number of its slice.
        self.node: Rows = np.full(_FEW, -1, np.int32)
        self.held: Flags = np.zeros(_FEW, np.bool_)
        self._slice: Rows = np.zeros(_FEW, np.int32)
        #: None: gone.
        self._slices: list[DeviceRows | None] = []
        self._pools: dict[PoolKey, list[int]] = {}
        self._gone = 0
        #: What selectors and the like say, by kind of request: 0 where nothing is known yet.
        self.codes: dict[object, Codes] = {}
        #: Values of an attribute as numbers: 0 not looked up yet, 1 without one.
        self._values: dict[str, Rows] = {}
        self._numbers: dict[object, int] = {}
        #: The same for pairs of name and value, by identity; and the pairs, so that they stay.
        self._by_pair: dict[int, int] = {}
        self._pairs: list[tuple[str, AttributeValue]] = []

    def number(self, node: str) -> int:
        return self.nodes.setdefault(node, len(self.nodes))

    def _rows_of(self, key: PoolKey) -> list[DeviceRows]:
        found = (self._slices[number] for number in self._pools.get(key, ()))
        return [rows for rows in found if rows is not None]

    def pools_with(self, flags: Flags) -> set[PoolKey]:
        """Pools with a device that has the flag."""
        rows_of = self._rows_of
        return {key for key in self._pools
                if any(flags[rows.first : rows.last].any() for rows in rows_of(key))}  # fmt: skip

    def row_of(self, key: DeviceId) -> int:
        """The row of a device; -1 if it has none."""
        for rows in self._rows_of((key.driver, key.pool)):
            for at, device in enumerate(rows.part.devices):
                if device.name == key.device:
                    return rows.first + at
        return -1

    def put(
        self, key: PoolKey, node: str, slices: Sequence[tuple[ResourceSlice, SliceShape]]
    ) -> None:
        """Adds the devices of a pool."""
        first = self.size
        self.size += sum(len(part.devices) for part, _ in slices)
        if self.size > len(self.node):
            self.node = _longer(self.node, self.size, -1)
            self.held = _longer(self.held, self.size, 0)
            self._slice = _longer(self._slice, self.size, 0)
        self.node[first : self.size] = self.number(node)
        self.held[first : self.size] = False
        self._pools[key] = []
        for part, shape in slices:
            last = first + len(part.devices)
            self._slice[first:last] = len(self._slices)
            self._pools[key].append(len(self._slices))
            self._slices.append(DeviceRows(first, last, part, shape))
            first = last

    def remove(self, key: PoolKey) -> None:
        for rows in self._rows_of(key):
            self.node[rows.first : rows.last] = -1
            self._gone += rows.last - rows.first
        for number in self._pools.pop(key, ()):
            self._slices[number] = None

    def is_mostly_gone(self, slices: int) -> bool:
        """Time to build it again; so many slices there are. Some have no devices."""
        known = max(len(self.nodes), len(self._slices))
        return self._gone > _FEW + self.size // 2 or known > _FEW + 2 * slices

    def hold(self, key: PoolKey, usage: DeviceUsage) -> int:
        """Which devices of a pool claims hold whole, as it is now; how many it has."""
        is_held, found = usage.stamp(key), self._rows_of(key)
        for rows in found:
            self.held[rows.first : rows.last] = is_held and [
                DeviceId(*key, device.name) in usage.whole for device in rows.part.devices
            ]
        return sum(rows.last - rows.first for rows in found)

    def slices_at(self, rows: npt.NDArray[np.intp]) -> Iterator[DeviceRows]:
        """Slices with devices in these rows."""
        found = (self._slices[number] for number in np.unique(self._slice[rows]).tolist())
        return (each for each in found if each is not None)

    def column(self, kind: object) -> Codes:
        """What is known for a kind of request; rows with 0 are to be filled in, or gone."""
        if len(self.codes) > _MOST_COLUMNS:
            self.codes.clear()
        known = self.codes.get(kind)
        if known is None or len(known) < len(self.node):
            known = _longer(known if known is not None else np.zeros(0, np.int8), len(self.node), 0)
            self.codes[kind] = known
        return known[: self.size]

    def values(self, attribute: str) -> Rows:
        """Numbers for the values of an attribute; 1 for devices without it, 0 for some gone.

        Raises LookUnfinished.
        """
        if len(self._values) > _MOST_COLUMNS:
            self._values.clear()
        known = self._values.get(attribute)
        if known is None or len(known) < len(self.node):
            known = _longer(
                known if known is not None else np.zeros(0, np.int32), len(self.node), 0
            )
            self._values[attribute] = known
        found = known[: self.size]
        for rows in self.slices_at(self.alive(found == 0)):
            self._find_values(rows, attribute, found)
        return found

    def alive(self, rows: Flags) -> npt.NDArray[np.intp]:
        """Of these rows, those whose devices are not gone."""
        return np.flatnonzero(rows & (self.node[: len(rows)] >= 0))

    def _find_values(self, rows: DeviceRows, attribute: str, found: Rows) -> None:
        place, devices = rows.place(attribute), rows.part.devices
        if place is None:
            driver = rows.part.driver
            found[rows.first : rows.last] = [
                self._value(each, driver, attribute) for each in devices
            ]
            self._turn.spend(devices=len(devices))
            return
        try:
            numbers = list(map(self._by_pair.__getitem__, map(id, rows.pairs(place))))
        except KeyError:
            numbers = [self._number_of(pair) for pair in rows.pairs(place)]
        found[rows.first : rows.last] = numbers
        self._turn.spend(devices=-(-len(devices) // ROWS_TOGETHER))

    def _number_of(self, pair: tuple[str, AttributeValue]) -> int:
        known = self._by_pair.get(id(pair))
        if known is None:
            known = self._by_pair[id(pair)] = self._number((type(pair[1]), pair[1]))
            self._pairs.append(pair)
        return known

    def _value(self, device: Device, driver: str, attribute: str) -> int:
        value = attribute_of(device, driver, attribute)
        return 1 if value is None else self._number(value)

    def _number(self, value: object) -> int:
        number = self._numbers.get(value)
        if number is None:
            number = self._numbers[value] = len(self._numbers) + 2
        return number


def _longer(column: npt.NDArray[_Kind], length: int, value: int) -> npt.NDArray[_Kind]:
    longer = np.full(max(_FEW, 2 * length), value, column.dtype)
    longer[: len(column)] = column
    return longer
