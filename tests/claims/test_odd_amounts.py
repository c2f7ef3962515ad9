"""Amounts of capacity that make no sense: the API server takes them from anyone."""

import pytest

from fairlead.claims.allocator import Allocator
from fairlead.claims.errors import AllocationError
from fairlead.claims.inventory import DeviceInventory
from fairlead.claims.usage import DeviceUsage
from fairlead.model.behaviour import KNOWN, KUBERNETES_1_36, KUBERNETES_1_37, Behaviour
from fairlead.model.claims import (
    AllocatedDevice,
    Allocation,
    DeviceNeed,
    DeviceRequest,
    ResourceClaim,
)
from fairlead.model.devices import (
    CapacityRange,
    Device,
    DeviceCapacity,
    DeviceClass,
    DeviceForm,
    DeviceNodes,
    DeviceTaint,
    Exact,
    RequestPolicy,
    ResourceSlice,
)

DRIVER = "gpu.example.com"
IN_STEPS = RequestPolicy(1, valid_range=CapacityRange(1, step=1))


def _found(
    rules: Behaviour,
    amount: Exact,
    policy: RequestPolicy,
    *held: Exact,
    taints: tuple[DeviceTaint, ...] = (),
) -> list[Allocation] | None:
    """What a claim gets of a device with 4 of a capacity, beside shares that hold some."""
    capacity = (("m", DeviceCapacity(4, policy)),)
    form = DeviceForm("a", shareable=True, capacity=capacity, taints=taints)
    nodes = DeviceNodes("n")
    inventory, usage = DeviceInventory(rules), DeviceUsage()
    inventory.put(ResourceSlice("n-0", DRIVER, "n", nodes=nodes, devices=(Device(form, ()),)))
    for number, consumed in enumerate(held):
        key = "r", DRIVER, "n", "a"
        consumes = (("m", consumed),)
        share = AllocatedDevice(*key, share_id=str(number), consumed_capacity=consumes)
        usage.hold(Allocation((share,)))
    need = DeviceNeed("gpu", capacity=(("m", amount),))
    claim = ResourceClaim("team", "c", "c", requests=(DeviceRequest("r", need),))
    return Allocator(inventory, {"gpu": DeviceClass("gpu")}, usage).allocate("n", {}, [claim])


@pytest.mark.parametrize("rules", KNOWN, ids=lambda rules: rules.name)
def test_nobody_gets_less_than_nothing(rules: Behaviour) -> None:
    with pytest.raises(AllocationError) as told:
        _found(rules, -2, RequestPolicy(1))
    where = "claim team/c, request r: checking capacity for device gpu.example.com/n/a"
    assert str(told.value) == f'{where}: capacity "m": capacity value is negative'


@pytest.mark.parametrize("rules", KNOWN, ids=lambda rules: rules.name)
def test_who_holds_less_than_nothing_gives_nothing_to_others(rules: Behaviour) -> None:
    assert _found(rules, 2, RequestPolicy(1), 2, -2) is not None
    assert _found(rules, 3, RequestPolicy(1), 2, -2) is None


def test_an_amount_beyond_64_bits_is_too_much_in_1_36() -> None:
    assert _found(KUBERNETES_1_36, 10**19, IN_STEPS) is None


def test_an_amount_beyond_64_bits_is_named_in_the_error_of_1_37() -> None:
    with pytest.raises(AllocationError, match="request 10E exceeds MaxInt64"):
        _found(KUBERNETES_1_37, 10**19, IN_STEPS)


def test_an_amount_is_an_error_of_a_tainted_device_too() -> None:
    """Taints are looked at last."""
    sick = (DeviceTaint("sick", effect="NoSchedule"),)
    with pytest.raises(AllocationError, match="request 10E exceeds MaxInt64"):
        _found(KUBERNETES_1_37, 10**19, IN_STEPS, taints=sick)
