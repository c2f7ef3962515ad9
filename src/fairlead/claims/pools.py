"""Pools: the slices of one driver and pool name that a node can use."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING

from fairlead.claims.constraints import TypedValue, attribute_of
from fairlead.model.claims import DeviceId
from fairlead.model.devices import CounterSet, Device, DeviceForm, Exact, ResourceSlice
from fairlead.model.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from fairlead.claims.pool_index import PoolIndex

#: Kinds of requests, and attributes, that a pool keeps answers for after a search.
_MOST_KINDS = 32
PoolKey = tuple[str, str]
#: Set and counter.
CounterKey = tuple[str, str]
Counters = dict[CounterKey, Exact]


@dataclass(slots=True, eq=False)
class DeviceCandidate:
    """A device that a node can use."""

    key: DeviceId
    device: Device
    slice: ResourceSlice
    pool: "DevicePool"


@dataclass(slots=True, eq=False)
class DevicePool:
    """A pool as nodes see it. Without devices where it is incomplete or invalid."""

    key: PoolKey
    incomplete: bool = False
    #: Why it cannot be used.
    invalid: str = ""
    #: Slices with its devices, in order.
    offering: list[ResourceSlice] = field(default_factory=list)
    #: Counters by set and name.
    counters: Counters = field(default_factory=dict)
    #: Devices of the pool that consume counters: here, and on other nodes.
    consumers: list[Device] = field(default_factory=list)
    #: What claims leave of the counters: of which usage, at which stamp.
    left: tuple[int, int, Counters] | None = None
    #: Answers for all nodes that see the pool, where it has many devices.
    index: "PoolIndex | None" = None
    #: Candidates by what is asked for, whether in use or not; None: some are errors.
    usable: dict[object, list[DeviceCandidate] | None] = field(default_factory=dict)
    _uses: dict[int, list[tuple[CounterKey, Exact]]] = field(default_factory=dict)
    _has_odd_uses: bool | None = None
    _has_shares: bool | None = None
    _rank: tuple[bool, PoolKey] | None = None
    _candidates: list[DeviceCandidate] | None = None
    _values: dict[str, dict[int, TypedValue | None]] = field(default_factory=dict)

    def uses(self, form: DeviceForm) -> list[tuple[CounterKey, Exact]]:
        """What a device of the pool consumes."""
        known = self._uses.get(id(form))
        if known is None:
            known = self._uses[id(form)] = [
                ((use.name, name), amount) for use in form.consumes for name, amount in use.counters
            ]
        return known

    @property
    def has_odd_uses(self) -> bool:
        """Some device consumes less than nothing."""
        if self._has_odd_uses is None:
            amounts = (amount for each in self.consumers for _, amount in self.uses(each.form))
            self._has_odd_uses = any(amount < 0 for amount in amounts)
        return self._has_odd_uses

    @property
    def has_shares(self) -> bool:
        """Some devices can be chosen more than once."""
        if self._has_shares is None:
            self._has_shares = any(each.form.shareable for each in self.devices)
        return self._has_shares

    @property
    def devices(self) -> list[Device]:
        return [device for part in self.offering for device in part.devices]

    @property
    def candidates(self) -> list[DeviceCandidate]:
        """The same as a search needs them."""
        if self._candidates is None:
            self._candidates = [
                DeviceCandidate(DeviceId(*self.key, device.name), device, part, self)
                for part in self.offering
                for device in part.devices
            ]
        return self._candidates

    @property
    def rank(self) -> tuple[bool, PoolKey]:
        """Pools with binding conditions are the last choice."""
        if self._rank is None:
            conditions = (each.form.binding_conditions for each in self.devices)
            self._rank = any(each is not None for each in conditions), self.key
        return self._rank

    def value(self, candidate: DeviceCandidate, attribute: str) -> TypedValue | None:
        """An attribute of a device of the pool, looked up once."""
        known = self._values.setdefault(attribute, {})
        key = id(candidate)
        if key not in known:
            known[key] = attribute_of(candidate.device, candidate.key.driver, attribute)
        return known[key]

    def forget(self) -> None:
        """Before it keeps too much: claims may ask in many ways."""
        if len(self.usable) > _MOST_KINDS:
            self.usable.clear()
        if len(self._values) > _MOST_KINDS:
            self._values.clear()

    def __str__(self) -> str:
        return "/".join(self.key)


@dataclass(slots=True, eq=False)
class NodePools:
    """All pools of a node, in the order in which devices are tried.

    One object for all nodes that see the same, unless devices say which nodes they are for.
    """

    labels: Mapping[str, str]
    pools: list[DevicePool]

    @property
    def candidates(self) -> list[DeviceCandidate]:
        if len(self.pools) == 1:
            return self.pools[0].candidates
        return [each for pool in self.pools for each in pool.candidates]

    @property
    def has_shares(self) -> bool:
        """Some devices can be chosen more than once."""
        return any(pool.has_shares for pool in self.pools)

    def forget(self) -> None:
        """What is kept for searches, if it is much."""
        for pool in self.pools:
            pool.forget()


def newest(slices: Sequence[ResourceSlice]) -> list[ResourceSlice]:
    """The slices of the highest generation."""
    last = max(part.generation for part in slices)
    return [part for part in slices if part.generation == last]


def assembled(
    key: PoolKey, relevant: Sequence[ResourceSlice], every: Iterable[ResourceSlice]
) -> DevicePool | None:
    """The pool from its slices for a node, and from all of them; None: about to be replaced."""
    every = list(every)
    if problem := next((part.problem for part in every if part.problem), ""):
        return DevicePool(key, invalid=problem)
    here = newest(relevant)
    if len(here) == here[0].slice_count:
        return _built(key, here, [])
    generation = here[0].generation
    whole = [part for part in every if part.generation >= generation]
    if any(part.generation > generation for part in whole):
        return None
    if len(whole) != here[0].slice_count:
        return DevicePool(key, incomplete=True)
    names = {part.name for part in here}
    return _built(key, here, [part for part in whole if part.name not in names])


def _built(key: PoolKey, here: list[ResourceSlice], elsewhere: list[ResourceSlice]) -> DevicePool:
    here = sorted(here, key=lambda part: part.name)
    counted = [part for part in (*here, *elsewhere) if part.counter_sets]
    offering = [part for part in here if not part.counter_sets]
    pool = DevicePool(key)
    devices = [device for part in offering for device in part.devices]
    others = [device for part in elsewhere for device in part.devices]
    pool.invalid = (
        _repeated_device(devices)
        or _repeated_set(counted)
        or _unknown_counter(counted, (*devices, *others))
    )
    if not pool.invalid:
        pool.counters = {
            (known.name, name): value
            for part in counted
            for known in part.counter_sets
            for name, value in known.counters
        }
        pool.consumers = [device for device in (*devices, *others) if device.form.consumes]
        pool.offering = offering
    return pool


def _repeated_device(devices: list[Device]) -> str:
    names: set[str] = set()
    for device in devices:
        if device.form.name in names:
            return f"duplicate device name {device.form.name}"
        names.add(device.form.name)
    return ""


def _repeated_set(slices: list[ResourceSlice]) -> str:
    names: set[str] = set()
    for counter_set in (each for part in slices for each in part.counter_sets):
        if counter_set.name in names:
            return f"duplicate counter set name {counter_set.name}"
        names.add(counter_set.name)
    return ""


def _unknown_counter(slices: list[ResourceSlice], devices: Sequence[Device]) -> str:
    known = {each.name: dict(each.counters) for part in slices for each in part.counter_sets}
    checked: set[int] = set()
    for device in devices:
        for use in device.form.consumes:
            if id(use) not in checked and (text := _unknown(use, known)):
                return text
            checked.add(id(use))
    return ""


def _unknown(use: CounterSet, known: Mapping[str, Mapping[str, Exact]]) -> str:
    if use.name not in known:
        return f"counter set {use.name} not found"
    missing = [name for name, _ in use.counters if name not in known[use.name]]
    return f"counter {missing[0]} not found in counter set {use.name}" if missing else ""
