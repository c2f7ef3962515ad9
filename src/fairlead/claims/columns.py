"""All devices of single nodes as columns: which can serve a request, and how many a node has free.

Pools that are not simply the devices of one node have no rows; their nodes are asked one by one.
"""

from collections.abc import Iterator
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from fairlead.claims.constraints import attribute_of
from fairlead.claims.pools import DevicePool, PoolKey
from fairlead.claims.turn_limit import TurnLimit
from fairlead.claims.usage import DeviceUsage
from fairlead.model.claims import DeviceId
from fairlead.model.devices import Device, DeviceForm

Rows = npt.NDArray[np.int32]
Codes = npt.NDArray[np.int8]
Flags = npt.NDArray[np.bool_]

_Kind = TypeVar("_Kind", bound=np.generic)
_FEW = 1024
_NO_DEVICE = Device(DeviceForm(""))
_MOST_COLUMNS = 64
#: Rows that are filled in before the limit of the turn is asked again.
ROWS_AT_ONCE = 256


class DeviceColumns:
    """Rows of devices by node; what is known of them is found when it is asked for."""

    def __init__(self, turn: TurnLimit) -> None:
        self._turn = turn
        self.nodes: dict[str, int] = {}
        #: Row by row: the device and its driver, the number of its node (-1: gone), and if claims
        #: hold it whole.
        self.devices: list[Device] = []
        self.drivers: list[str] = []
        self.node: Rows = np.full(_FEW, -1, np.int32)
        self.held: Flags = np.zeros(_FEW, np.bool_)
        self._pools: dict[PoolKey, tuple[int, int]] = {}
        self._gone = 0
        #: What selectors and the like say, by kind of request: 0 where nothing is known yet.
        self.codes: dict[object, Codes] = {}
        #: Values of an attribute as numbers: 0 not looked up yet, 1 without one.
        self._values: dict[str, Rows] = {}
        self._numbers: dict[object, int] = {}

    def number(self, node: str) -> int:
        return self.nodes.setdefault(node, len(self.nodes))

    def count(self, key: PoolKey) -> int:
        """Devices of a pool."""
        first, last = self._pools.get(key, (0, 0))
        return last - first

    def put(self, pool: DevicePool, node: str) -> None:
        """Adds the devices of a pool."""
        number, first = self.number(node), len(self.devices)
        self.devices += pool.devices
        last = len(self.devices)
        self.drivers += [pool.key[0]] * (last - first)
        if last > len(self.node):
            self.node = _longer(self.node, last, -1)
            self.held = _longer(self.held, last, 0)
        self.node[first:last] = number
        self.held[first:last] = False
        self._pools[pool.key] = first, last

    def remove(self, key: PoolKey) -> None:
        first, last = self._pools.pop(key, (0, 0))
        self.node[first:last] = -1
        self.devices[first:last] = [_NO_DEVICE] * (last - first)
        self._gone += last - first

    def is_mostly_gone(self) -> bool:
        """Time to build it again."""
        return self._gone > _FEW + len(self.devices) // 2

    def hold(self, key: PoolKey, usage: DeviceUsage) -> None:
        """Which devices of a pool claims hold whole, as it is now."""
        first, last = self._pools.get(key, (0, 0))
        if not usage.stamp(key):
            self.held[first:last] = False
            return
        self.held[first:last] = [
            DeviceId(*key, device.name) in usage.whole for device in self.devices[first:last]
        ]

    def column(self, kind: object) -> Codes:
        """What is known for a kind of request; rows with 0 are to be filled in."""
        if len(self.codes) > _MOST_COLUMNS:
            self.codes.clear()
        known = self.codes.get(kind)
        if known is None or len(known) < len(self.node):
            known = _longer(known if known is not None else np.zeros(0, np.int8), len(self.node), 0)
            self.codes[kind] = known
        return known[: len(self.devices)]

    def values(self, attribute: str) -> Rows:
        """Numbers for the values of an attribute; 1 for devices without it.

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
        found = known[: len(self.devices)]
        for rows in in_parts(np.flatnonzero(found == 0)):
            found[rows] = [self._value(row, attribute) for row in rows]
            self._turn.spend(devices=len(rows))
        return found

    def _value(self, row: int, attribute: str) -> int:
        value = attribute_of(self.devices[row], self.drivers[row], attribute)
        if value is None:
            return 1
        number = self._numbers.get(value)
        if number is None:
            number = self._numbers[value] = len(self._numbers) + 2
        return number


def in_parts(rows: npt.NDArray[np.intp]) -> Iterator[list[int]]:
    """The rows, some at a time."""
    for first in range(0, len(rows), ROWS_AT_ONCE):
        yield rows[first : first + ROWS_AT_ONCE].tolist()


def _longer(column: npt.NDArray[_Kind], length: int, value: int) -> npt.NDArray[_Kind]:
    longer = np.full(max(_FEW, 2 * length), value, column.dtype)
    longer[: len(column)] = column
    return longer
