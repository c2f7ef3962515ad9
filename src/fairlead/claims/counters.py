"""Counters that devices of a pool share: what is left, and what a search has chosen of it."""

from fairlead.claims.pools import DeviceCandidate, DevicePool, PoolKey
from fairlead.claims.usage import DeviceUsage
from fairlead.model.claims import DeviceId
from fairlead.model.devices import Device, Exact


class PoolCounters:
    """The counters of one pool during a search."""

    def __init__(self, pool: DevicePool, usage: DeviceUsage) -> None:
        self._left = dict(pool.counters)
        self._chosen: dict[tuple[str, str], Exact] = {}
        for device in pool.consumers:
            if usage.is_held(DeviceId(*pool.key, device.name)):
                self._consume(device)
        amounts = [amount for device in pool.consumers for _, amount in _uses(device)]
        #: With amounts below zero, or too much consumed, counters of others matter, too.
        self._all_matter = min(amounts, default=0) < 0 or min(self._left.values(), default=0) < 0

    def _consume(self, device: Device) -> None:
        for key, amount in _uses(device):
            self._left[key] -= amount

    def take(self, device: Device) -> bool:
        """Choose the device, if there is enough left for it."""
        for key, amount in _uses(device):
            self._chosen[key] = self._chosen.get(key, 0) + amount
        keys = self._left if self._all_matter else (key for key, _ in _uses(device))
        if all(self._left[key] >= self._chosen.get(key, 0) for key in keys):
            return True
        self.give_back(device)
        return False

    def give_back(self, device: Device) -> None:
        for key, amount in _uses(device):
            self._chosen[key] -= amount


def _uses(device: Device) -> list[tuple[tuple[str, str], Exact]]:
    return [
        ((use.name, name), amount) for use in device.form.consumes for name, amount in use.counters
    ]


class SearchCounters:
    """The counters of all pools, each read when a device of the pool is tried."""

    def __init__(self, usage: DeviceUsage) -> None:
        self._usage = usage
        self._pools: dict[PoolKey, PoolCounters] = {}

    def of(self, candidate: DeviceCandidate) -> PoolCounters:
        key = candidate.pool.key
        known = self._pools.get(key)
        if known is None:
            known = self._pools[key] = PoolCounters(candidate.pool, self._usage)
        return known
