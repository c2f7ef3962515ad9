"""How much of its capacities a device gives to a request.

A request concerns every capacity of the device: one that it does not name is consumed by the
default of its policy, or whole.
"""

from collections.abc import Mapping
from math import ceil

from fairlead.claims.errors import AllocationError
from fairlead.model.devices import CapacityRange, DeviceCapacity, DeviceForm, Exact, RequestPolicy
from fairlead.model.quantities import spelled

Amounts = tuple[tuple[str, Exact], ...]
_LARGEST = 2**63 - 1
_NO_POLICY = RequestPolicy()


def consumed(form: DeviceForm, wanted: Amounts | None, *, strict: bool) -> Amounts | None:
    """What the request consumes of each capacity; None: the device cannot serve it.

    `strict` is 1.37: raises AllocationError where an amount makes no sense. One below zero that is
    asked for is an error in every version.
    """
    asked = dict(wanted or ())
    offered = form.capacity
    if asked and not asked.keys() <= {name for name, _ in offered}:
        return None
    amounts: list[tuple[str, Exact]] = []
    for name, capacity in offered:
        amounts.append((name, _amount(name, capacity, asked.get(name), strict=strict)))
    for (_, capacity), (_, amount) in zip(offered, amounts, strict=True):
        if capacity.policy is not None and _violates(amount, capacity.policy):
            return None
        if amount > capacity.value:
            return None
    return tuple(amounts)


def fits(
    form: DeviceForm, amounts: Amounts, used: Mapping[str, Exact], chosen: Mapping[str, Exact]
) -> bool:
    """Whether these amounts are left beside what shares have, and what this search has chosen."""
    if not used and not chosen:
        return True
    for (name, capacity), (_, amount) in zip(form.capacity, amounts, strict=True):
        if used.get(name, 0) + chosen.get(name, 0) + amount > capacity.value:
            return False
    return True


def _amount(name: str, capacity: DeviceCapacity, asked: Exact | None, *, strict: bool) -> Exact:
    policy = capacity.policy or _NO_POLICY
    if asked is None:
        amount = capacity.value if policy.default is None else policy.default
    elif policy.valid_range is not None:
        amount = _in_range(name, asked, policy.valid_range, strict=strict)
    else:
        amount = next((value for value in policy.valid_values if asked <= value), asked)
    # Who consumes less than nothing would give others more than there is. Without `strict`, a
    # driver that publishes such amounts of its own is left alone.
    if amount < 0 and (strict or asked is not None):
        raise AllocationError(f'capacity "{name}": capacity value is negative')
    return amount


def _in_range(name: str, asked: Exact, valid: CapacityRange, *, strict: bool) -> Exact:
    """At least the least, on the steps from there. Steps are whole numbers to kube-scheduler."""
    if asked < valid.least:
        return valid.least
    if valid.step is None:
        return asked
    least, step = ceil(valid.least), ceil(valid.step)
    amount = least - (least - ceil(asked)) // step * step
    if strict and (asked > _LARGEST or amount > _LARGEST):
        raise AllocationError(f'capacity "{name}": {_beyond(asked)}')
    return amount


def _beyond(asked: Exact) -> str:
    text = "capacity request cannot be represented in the device's range arithmetic"
    if asked > _LARGEST:
        return f"{text}: request {spelled(asked)} exceeds MaxInt64"
    return f"{text}: rounding request {spelled(asked)} up to the next step passes MaxInt64"


def _violates(amount: Exact, policy: RequestPolicy) -> bool:
    if policy.default is not None and amount == policy.default:
        return False
    valid = policy.valid_range
    if valid is None:
        return bool(policy.valid_values) and amount not in policy.valid_values
    if valid.most is not None and amount > valid.most:
        return True
    if valid.step is None:
        return False
    return (ceil(amount) - ceil(valid.least)) % ceil(valid.step) != 0
