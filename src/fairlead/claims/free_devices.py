"""Whether a device, or so much of one, could be held as it was held before."""

from fairlead.claims.counters import PoolCounters
from fairlead.claims.pools import DeviceCandidate, NodePools
from fairlead.claims.usage import DeviceUsage
from fairlead.model.claims import AllocatedDevice


def can_be_held(device: AllocatedDevice, pools: NodePools, usage: DeviceUsage) -> bool:
    """Whether the node has it, no claim has it, and its counters and capacity are left."""
    key = device.key
    pool = next((each for each in pools.pools if each.key == (key.driver, key.pool)), None)
    found = (each for each in pool.candidates if each.key == key) if pool else iter(())
    candidate = next(found, None)
    if candidate is None or usage.is_whole(key) or device.admin_access:
        return False
    if device.share_id is None:
        return not usage.is_held(key) and _has_counters(candidate, usage)
    if not usage.is_held(key) and not _has_counters(candidate, usage):
        return False
    return candidate.device.form.shareable and _has_capacity(device, candidate, usage)


def _has_counters(candidate: DeviceCandidate, usage: DeviceUsage) -> bool:
    form = candidate.device.form
    return not form.consumes or PoolCounters(candidate.pool, usage).take(form)


def _has_capacity(device: AllocatedDevice, candidate: DeviceCandidate, usage: DeviceUsage) -> bool:
    amounts, used = dict(device.consumed_capacity or ()), usage.consumed(device.key)
    offered = dict(candidate.device.form.capacity)
    return amounts.keys() == offered.keys() and all(
        used.get(name, 0) + amount <= offered[name].value for name, amount in amounts.items()
    )
