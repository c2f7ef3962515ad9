"""Counters that devices of a pool share: what is left, and what a search has chosen of it."""

from collections import Counter, defaultdict
from collections.abc import Sequence

from fairlead.claims.pools import CounterKey, Counters, DeviceCandidate, DevicePool, PoolKey
from fairlead.claims.usage import DeviceUsage
from fairlead.model.claims import DeviceId
from fairlead.model.devices import Device, DeviceForm, Exact

#: So that what is computed in floats is not less than it should be.
_ROUNDING = 1e-6


class PoolCounters:
    """The counters of one pool during a search."""

    def __init__(self, pool: DevicePool, usage: DeviceUsage) -> None:
        self._pool = pool
        self._left = _left(pool, usage)
        self._chosen: dict[CounterKey, Exact] = {}
        #: With amounts below zero, or too much consumed, counters of others matter, too.
        self._all_matter = pool.has_odd_uses or min(self._left.values(), default=0) < 0

    def could_take(self, form: DeviceForm) -> bool:
        """Whether there is enough left for the device alone."""
        if self._all_matter:
            return True
        return all(self._left[key] >= amount for key, amount in self._pool.uses(form))

    def without_too_large(self, candidates: Sequence[DeviceCandidate]) -> list[DeviceCandidate]:
        """Without devices that too little is left for; shares may need nothing more."""
        could = {0: True}
        for each in candidates:
            form = each.device.form
            if (key := self._key(form)) not in could:
                could[key] = self.could_take(form)
        return [each for each in candidates if could[self._key(each.device.form)]]

    @staticmethod
    def _key(form: DeviceForm) -> int:
        """The same for devices that consume the same; 0: nothing, or it may need nothing."""
        return id(form.consumes) if form.consumes and not form.shareable else 0

    def most(self, candidates: Sequence[DeviceCandidate]) -> int:
        """An upper bound for how many of the devices can be chosen together."""
        forms = [each.device.form for each in candidates if each.device.form.consumes]
        without = len(candidates) - len(forms)
        if self._all_matter:
            return len(candidates)
        equal = Counter(id(form.consumes) for form in forms)
        by_set: defaultdict[str, list[DeviceForm]] = defaultdict(list)
        for form in {id(form.consumes): form for form in forms}.values():
            if self.could_take(form):
                by_set[form.consumes[0].name].append(form)
        return without + sum(
            self._most_of(name, each, sum(equal[id(form.consumes)] for form in each))
            for name, each in by_set.items()
        )

    def _most_of(self, name: str, forms: list[DeviceForm], count: int) -> int:
        """Of so many devices that consume the same set, in the ways of these.

        Each counter that is consumed counts for one, and a device for the parts that it takes of
        them: so many of the smallest devices would take all. Also by each counter alone.
        """
        parts = [self._parts(name, form) for form in forms]
        known = {key for each in parts for key in each}
        smallest = [min(each.get(key, 0.0) for each in parts) for key in known]
        smallest.append(min(sum(each.values()) for each in parts) / max(1, len(known)))
        return min(int(1 / part + _ROUNDING) if part > 0 else count for part in smallest)

    def _parts(self, name: str, form: DeviceForm) -> dict[CounterKey, float]:
        """Which part of what is left of each counter the device takes."""
        return {
            key: float(amount / self._left[key])
            for key, amount in self._pool.uses(form)
            if key[0] == name and amount > 0
        }

    def take(self, form: DeviceForm) -> bool:
        """Choose the device, if there is enough left for it."""
        uses, chosen, left = self._pool.uses(form), self._chosen, self._left
        if self._all_matter:
            return self._take_odd(form)
        if any(left[key] < chosen.get(key, 0) + amount for key, amount in uses):
            return False
        for key, amount in uses:
            chosen[key] = chosen.get(key, 0) + amount
        return True

    def _take_odd(self, form: DeviceForm) -> bool:
        for key, amount in self._pool.uses(form):
            self._chosen[key] = self._chosen.get(key, 0) + amount
        if all(left >= self._chosen.get(key, 0) for key, left in self._left.items()):
            return True
        self.give_back(form)
        return False

    def give_back(self, form: DeviceForm) -> None:
        for key, amount in self._pool.uses(form):
            self._chosen[key] -= amount


class FormSizes:
    """Which devices would fit alone into counters that nothing is held of.

    Pools of many nodes have equal counters, and devices of the same forms.
    """

    def __init__(self, counters: Counters) -> None:
        self.counters = counters
        self._known: dict[int, tuple[DeviceForm, bool]] = {}
        self._has_odd_counters = min(counters.values(), default=0) < 0

    def all_fit(self, devices: Sequence[Device]) -> bool:
        return not self._has_odd_counters and all(self._fits(each.form) for each in devices)

    def _fits(self, form: DeviceForm) -> bool:
        known = self._known.get(id(form))
        if known is None:
            fits = not form.shareable and all(
                0 <= amount <= self.counters[use.name, name]
                for use in form.consumes
                for name, amount in use.counters
            )
            known = self._known[id(form)] = form, fits
        return known[1]


def _left(pool: DevicePool, usage: DeviceUsage) -> Counters:
    """What claims leave of the counters; kept until claims of the pool change."""
    stamp = usage.stamp(pool.key)
    if not stamp:
        return pool.counters
    if pool.left is None or pool.left[:2] != (id(usage), stamp):
        left = dict(pool.counters)
        for device in pool.consumers:
            if usage.is_held(DeviceId(*pool.key, device.name)):
                for key, amount in pool.uses(device.form):
                    left[key] -= amount
        pool.left = id(usage), stamp, left
    return pool.left[2]


class SearchCounters:
    """The counters of all pools, each read when a device of the pool is tried."""

    def __init__(self, usage: DeviceUsage) -> None:
        self._usage = usage
        self._pools: dict[PoolKey, PoolCounters] = {}

    def of(self, candidate: DeviceCandidate) -> PoolCounters:
        return self.of_pool(candidate.pool)

    def of_pool(self, pool: DevicePool) -> PoolCounters:
        known = self._pools.get(pool.key)
        if known is None:
            known = self._pools[pool.key] = PoolCounters(pool, self._usage)
        return known
