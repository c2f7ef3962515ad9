"""Devices that claims hold, whether slices list them or not."""

from collections import Counter, defaultdict
from collections.abc import Mapping

from fairlead.model.claims import AllocatedDevice, Allocation, DeviceId
from fairlead.model.devices import Exact

_NO_AMOUNTS: Mapping[str, Exact] = {}
#: Pools with changes that are listed for a reader, besides twice as many as there are.
MANY_CHANGED = 4096


class DeviceUsage:
    """What is allocated: whole devices, and shares of devices with what they consume."""

    def __init__(self) -> None:
        #: Devices that some claim has whole.
        self.whole: Counter[DeviceId] = Counter()
        self._shares: Counter[DeviceId] = Counter()
        self._consumers: Counter[DeviceId] = Counter()
        self._consumed: defaultdict[DeviceId, dict[str, Exact]] = defaultdict(dict)
        #: Pools with changes, once a reader has put a set here; it empties the set. None again: too
        #: many have changed, and it has to begin again.
        self.changed: set[tuple[str, str]] | None = None
        self._in_pool: Counter[tuple[str, str]] = Counter()
        self._stamps: dict[tuple[str, str], int] = {}
        self._clock = 0

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
        return key in self.whole

    def is_held(self, key: DeviceId) -> bool:
        """Some claim has the device or a share of it: its counters are consumed."""
        return key in self.whole or key in self._shares

    def is_shared(self, key: DeviceId) -> bool:
        return key in self._shares

    def is_consumed(self, key: DeviceId) -> bool:
        """Some share of it consumes capacity."""
        return key in self._consumers

    def consumed(self, key: DeviceId) -> Mapping[str, Exact]:
        """How much of each capacity shares of the device consume; none consumes below zero."""
        return self._consumed[key] if key in self._consumers else _NO_AMOUNTS

    def stamp(self, pool: tuple[str, str]) -> int:
        """Another number after each change in the pool; 0 where nothing is held."""
        return self._stamps.get(pool, 0)

    def _stamp(self, pool: tuple[str, str], sign: int) -> None:
        self._clock += 1
        self._note(pool)
        self._stamps[pool] = self._clock
        self._in_pool[pool] += sign
        if self._in_pool[pool] <= 0:
            del self._in_pool[pool], self._stamps[pool]

    def _note(self, pool: tuple[str, str]) -> None:
        if self.changed is not None:
            self.changed.add(pool)
            if len(self.changed) > MANY_CHANGED + 2 * len(self._stamps):
                self.changed = None

    def _count(self, result: AllocatedDevice, sign: int) -> None:
        if result.admin_access:
            return
        key = result.key
        self._stamp((key.driver, key.pool), sign)
        if result.share_id is None:
            _add(self.whole, key, sign)
            return
        _add(self._shares, key, sign)
        if result.consumed_capacity is not None:
            _add(self._consumers, key, sign)
            amounts = self._consumed[key]
            for name, amount in result.consumed_capacity:
                amounts[name] = amounts.get(name, 0) + sign * max(amount, 0)
            if key not in self._consumers:
                del self._consumed[key]


def _add(counts: Counter[DeviceId], key: DeviceId, sign: int) -> None:
    counts[key] += sign
    if counts[key] <= 0:
        del counts[key]
