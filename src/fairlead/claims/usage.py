"""Devices that claims hold, whether slices list them or not."""

from collections import Counter, defaultdict
from collections.abc import Mapping

from fairlead.model.claims import AllocatedDevice, Allocation, DeviceId
from fairlead.model.devices import Exact

_NO_AMOUNTS: Mapping[str, Exact] = {}


class DeviceUsage:
    """What is allocated: whole devices, and shares of devices with what they consume."""

    def __init__(self) -> None:
        self._whole: Counter[DeviceId] = Counter()
        self._shares: Counter[DeviceId] = Counter()
        self._consumers: Counter[DeviceId] = Counter()
        self._consumed: defaultdict[DeviceId, dict[str, Exact]] = defaultdict(dict)
        #: Pools with changes, for a reader that empties it.
        self.changed: set[tuple[str, str]] = set()

    def hold(self, allocation: Allocation) -> None:
        """A claim has got these devices."""
        for result in allocation.devices:
            self._count(result, 1)

    def release(self, allocation: Allocation) -> None:
        """A claim no longer has these devices."""
        for result in allocation.devices:
            self._count(result, -1)

    def is_whole(self, key: DeviceId) -> bool:
        """Some claim has the whole device."""
        return key in self._whole

    def is_held(self, key: DeviceId) -> bool:
        """Some claim has the device or a share of it: its counters are consumed."""
        return key in self._whole or key in self._shares

    def is_shared(self, key: DeviceId) -> bool:
        return key in self._shares

    def is_consumed(self, key: DeviceId) -> bool:
        """Some share of it consumes capacity."""
        return key in self._consumers

    def consumed(self, key: DeviceId) -> Mapping[str, Exact]:
        """How much of each capacity shares of the device consume."""
        return self._consumed[key] if key in self._consumers else _NO_AMOUNTS

    def _count(self, result: AllocatedDevice, sign: int) -> None:
        if result.admin_access:
            return
        key = result.key
        self.changed.add((key.driver, key.pool))
        if result.share_id is None:
            _add(self._whole, key, sign)
            return
        _add(self._shares, key, sign)
        if result.consumed_capacity is not None:
            _add(self._consumers, key, sign)
            amounts = self._consumed[key]
            for name, amount in result.consumed_capacity:
                amounts[name] = amounts.get(name, 0) + sign * amount
            if key not in self._consumers:
                del self._consumed[key]


def _add(counts: Counter[DeviceId], key: DeviceId, sign: int) -> None:
    counts[key] += sign
    if counts[key] <= 0:
        del counts[key]
