"""Devices for claims: what the comparison with Kubernetes does not reach."""

from dataclasses import replace

import pytest

from fairlead.claims.allocator import Allocator
from fairlead.claims.errors import AllocationError, InvalidPools, SearchLimit
from fairlead.claims.inventory import DeviceInventory
from fairlead.claims.usage import DeviceUsage
from fairlead.model.behaviour import KUBERNETES_1_37
from fairlead.model.claims import (
    AllocatedDevice,
    Allocation,
    DeviceConstraint,
    DeviceId,
    DeviceNeed,
    DeviceRequest,
    ResourceClaim,
)
from fairlead.model.devices import (
    CounterSet,
    Device,
    DeviceCapacity,
    DeviceClass,
    DeviceForm,
    DeviceNodes,
    RequestPolicy,
    ResourceSlice,
    VersionText,
)

DRIVER = "gpu.example.com"
ROOT = "resource.kubernetes.io/pcieRoot"
CLASSES = {"gpu": DeviceClass("gpu", ('device.driver == "gpu.example.com"',))}


def _device(name: str, root: str = "r0", **form: object) -> Device:
    return Device(DeviceForm(name, **form), ((ROOT, root), ("uuid", f"GPU-{name}")))  # type: ignore[arg-type]


def _slice(node: str, *devices: Device, name: str = "", **fields: object) -> ResourceSlice:
    part = ResourceSlice(
        name or f"{node}-0", DRIVER, node, nodes=DeviceNodes(node), devices=devices
    )
    return replace(part, **fields)  # type: ignore[arg-type]


def _claim(*counts: int, name: str = "c", match: bool = False) -> ResourceClaim:
    requests = (
        DeviceRequest(f"r{index}", DeviceNeed("gpu", count=count))
        for index, count in enumerate(counts)
    )
    constraints = (DeviceConstraint(match_attribute=ROOT),) if match else ()
    return ResourceClaim("team", name, name, requests=tuple(requests), constraints=constraints)


def _world(*slices: ResourceSlice) -> tuple[DeviceInventory, DeviceUsage, Allocator]:
    inventory, usage = DeviceInventory(), DeviceUsage()
    for part in slices:
        inventory.put(part)
    return inventory, usage, Allocator(inventory, CLASSES, usage)


def _names(found: tuple[Allocation, ...] | None) -> list[str] | None:
    if found is None:
        return None
    return [result.device for allocation in found for result in allocation.devices]


def test_devices_are_free_again_after_the_release_of_their_claim() -> None:
    _, usage, allocator = _world(_slice("n", _device("a"), _device("b")))
    first = allocator.allocate("n", {}, [_claim(2)])
    assert first is not None
    usage.hold(first[0])
    assert allocator.allocate("n", {}, [_claim(1)]) is None
    usage.release(first[0])
    assert _names(allocator.allocate("n", {}, [_claim(1)])) == ["a"]


def test_a_question_that_was_just_answered_takes_no_search_until_something_changes() -> None:
    inventory, usage, allocator = _world(_slice("n", _device("a"), _device("b"), _device("c")))

    def asked(*claims: ResourceClaim, blocked: frozenset[DeviceId] = frozenset()) -> object:
        """The devices, and whether they were searched for."""
        before = allocator.steps
        found = allocator.allocate("n", {}, claims, blocked)
        return _names(found), allocator.steps > before

    assert asked(_claim(1)) == (["a"], True)
    assert asked(_claim(1, name="like")) == (["a"], False)
    assert asked(_claim(2)) == (["a", "b"], True), "another claim"
    assert asked(_claim(2), blocked=frozenset({DeviceId(DRIVER, "n", "a")})) == (["b", "c"], True)
    first = allocator.allocate("n", {}, [_claim(1)])
    assert first is not None
    usage.hold(first[0])
    assert asked(_claim(1)) == (["b"], True), "the first device is held"
    usage.release(first[0])
    assert asked(_claim(1)) == (["a"], True)
    inventory.put(_slice("n", _device("z")))
    assert asked(_claim(1)) == (["z"], True), "the devices are others"


def test_a_device_without_a_slice_stays_held_until_its_claim_is_released() -> None:
    inventory, usage, allocator = _world(_slice("n", _device("a")))
    found = allocator.allocate("n", {}, [_claim(1)])
    assert found is not None
    usage.hold(found[0])
    inventory.remove("n-0")
    inventory.put(_slice("n", _device("a"), generation=2))
    assert allocator.allocate("n", {}, [_claim(1)]) is None


def test_a_pool_that_is_published_in_part_gives_out_nothing() -> None:
    inventory, _, allocator = _world(_slice("n", _device("a")))
    inventory.put(_slice("n", _device("b"), name="n-1", generation=2, slice_count=2))
    assert allocator.allocate("n", {}, [_claim(1)]) is None
    inventory.put(_slice("n", _device("a"), generation=2, slice_count=2))
    assert _names(allocator.allocate("n", {}, [_claim(2)])) == ["a", "b"]


class _Compared(str):
    """A name that counts how often it is compared."""

    __slots__ = ()
    times = 0

    def __eq__(self, other: object) -> bool:
        _Compared.times += 1
        return str(self) == other

    __hash__ = str.__hash__


def test_a_name_that_a_pool_has_twice_is_found_at_once() -> None:
    names = [*(f"gpu-{number}" for number in range(1000)), "gpu-998"]
    parts = [_slice("a", *(_device(_Compared(name)) for name in names))]
    inventory, *_ = _world(*parts)
    _Compared.times = 0
    (pool,) = inventory.on("a", {}).pools
    assert pool.invalid == "duplicate device name gpu-998"
    assert _Compared.times < 5000


def test_a_slice_with_a_problem_makes_its_pool_invalid() -> None:
    _, _, allocator = _world(
        _slice("n", _device("a"), slice_count=2), _slice("n", name="n-1", problem="no sense")
    )
    with pytest.raises(InvalidPools, match="invalid resource pools were encountered"):
        allocator.allocate("n", {}, [_claim(1)])


def test_blocked_devices_are_in_use_and_consume_no_counters() -> None:
    half = (CounterSet("s", (("slots", 1),)),)
    devices = _slice(
        "n",
        _device("a", consumes=half, shareable=True),
        _device("b", consumes=half),
        _device("c", consumes=half),
        slice_count=2,
    )
    counters = _slice(
        "n", name="n-1", slice_count=2, counter_sets=(CounterSet("s", (("slots", 2),)),)
    )
    _, _, allocator = _world(devices, counters)
    blocked = {DeviceId(DRIVER, "n", "a")}
    assert _names(allocator.allocate("n", {}, [_claim(2)], blocked)) == ["b", "c"]


def test_devices_of_a_node_do_not_change_when_another_node_changes() -> None:
    inventory, _, allocator = _world(_slice("n", _device("a")), _slice("m", _device("a")))
    before = inventory.on("n", {})
    inventory.put(_slice("m", _device("b")))
    assert inventory.on("n", {}) is before
    inventory.put(_slice("n", _device("b")))
    assert _names(allocator.allocate("n", {}, [_claim(1)])) == ["b"]


def test_a_slice_for_labelled_nodes_follows_the_labels() -> None:
    nodes = DeviceNodes(all_nodes=True)
    _, _, allocator = _world(_slice("n", _device("a")), _slice("pool", _device("z"), nodes=nodes))
    found = allocator.allocate("elsewhere", {}, [_claim(1)])
    assert _names(found) == ["z"]
    assert found is not None
    assert found[0].node_terms is None


def test_many_devices_do_not_nest_calls() -> None:
    """32 devices for each of 40 claims: more levels than the interpreter has."""
    devices = (_device(f"d{index:04}") for index in range(1280))
    inventory, usage, _ = _world(_slice("n", *devices))
    allocator = Allocator(inventory, CLASSES, usage, step_limit=100_000)
    claims = [_claim(32, name=f"c{index}") for index in range(40)]
    found = _names(allocator.allocate("n", {}, claims))
    assert found is not None
    assert len(set(found)) == 1280


@pytest.mark.parametrize("same", [True, False])
def test_what_cannot_fit_is_found_out_in_few_steps(same: bool) -> None:
    """64 devices, eight of each root; kube-scheduler tries all combinations of them."""
    devices = [_device(f"d{index}", f"r{index % 8}") for index in range(64)]
    _, _, allocator = _world(_slice("n", *devices))
    claims = (
        [_claim(*[1] * 9, match=True)]
        if same
        else [_claim(5, match=True), _claim(4, 5, match=True)]
    )
    assert allocator.allocate("n", {}, claims) is None
    assert allocator.steps < 5000


def test_a_long_search_is_stopped_with_the_text_of_kube_scheduler() -> None:
    devices = [_device(f"d{index}", f"r{index % 8}") for index in range(64)]
    inventory, usage, _ = _world(_slice("n", *devices))
    allocator = Allocator(inventory, CLASSES, usage, step_limit=20)
    with pytest.raises(SearchLimit, match="node n: timed out trying to allocate devices"):
        allocator.allocate("n", {}, [_claim(4, 4, 4)])


def test_attributes_of_different_types_are_different() -> None:
    """True equals 1 in Python."""
    one, true = (
        Device(DeviceForm(name), ((ROOT, value),)) for name, value in (("a", 1), ("b", True))
    )
    _, _, allocator = _world(_slice("n", one, true))
    assert allocator.allocate("n", {}, [_claim(1, 1, match=True)]) is None


def test_shares_without_capacity_are_held_until_the_last_is_released() -> None:
    share = AllocatedDevice("r", DRIVER, "n", "a", share_id="1", consumed_capacity=(("m", 1),))
    usage, key = DeviceUsage(), DeviceId(DRIVER, "n", "a")
    usage.hold(Allocation((share,)))
    usage.hold(Allocation((replace(share, share_id="2"),)))
    usage.release(Allocation((share,)))
    assert usage.is_held(key)
    assert dict(usage.consumed(key)) == {"m": 1}
    usage.release(Allocation((share,)))
    assert not usage.is_held(key)
    assert not usage.consumed(key)


def test_an_unknown_class_stops_the_attempt() -> None:
    _, _, allocator = _world()
    claim = ResourceClaim("team", "c", requests=(DeviceRequest("r", DeviceNeed("none")),))
    with pytest.raises(AllocationError, match="could not retrieve device class none"):
        allocator.allocate("n", {}, [claim])


def test_selectors_are_evaluated_once_for_devices_that_differ_in_nothing_they_read() -> None:
    slices = [
        _slice(f"n{node}", *(_device(f"d{index}", f"r{index}") for index in range(8)))
        for node in range(50)
    ]
    inventory, _, allocator = _world(*slices)
    assert all(allocator.allocate(f"n{node}", {}, [_claim(8)]) for node in range(50))
    assert inventory.answers.evaluations == 1


def test_a_version_that_cannot_be_read_is_an_error_of_every_selector() -> None:
    """Also of one that does not read it, and after equal devices without it."""
    odd = Device(DeviceForm("b"), (("version", VersionText("1.01.0")),))
    _, _, allocator = _world(_slice("n", _device("a"), odd))
    assert _names(allocator.allocate("n", {}, [_claim(1)])) == ["a"]
    with pytest.raises(AllocationError, match="Minor number must not contain leading zeroes"):
        allocator.allocate("n", {}, [_claim(2)])


def test_a_changed_class_selects_other_devices_for_the_same_claim() -> None:
    inventory, usage, _ = _world(_slice("n", _device("a")))
    classes = dict(CLASSES)
    allocator, claim = Allocator(inventory, classes, usage), _claim(1)
    assert _names(allocator.allocate("n", {}, [claim])) == ["a"]
    classes["gpu"] = DeviceClass("gpu", ("false",))
    assert allocator.allocate("n", {}, [claim]) is None


def test_counter_slices_for_all_nodes_count_among_the_slices_of_a_node_in_1_37() -> None:
    """One slice too many: the pool is not complete, so what is wrong in it does not matter."""
    inventory = DeviceInventory(KUBERNETES_1_37)
    uses = (CounterSet("unknown", (("slots", 1),)),)
    inventory.put(_slice("n", _device("a", consumes=uses)))
    sets = (CounterSet("s", (("slots", 2),)),)
    every = DeviceNodes(all_nodes=True)
    inventory.put(_slice("n", name="n-1", nodes=every, counter_sets=sets))
    assert Allocator(inventory, CLASSES, DeviceUsage()).allocate("n", {}, [_claim(1)]) is None


def test_more_slices_than_counters_allow_are_refused_without_a_search() -> None:
    """56 slices fit on eight GPUs, and there are as many ways to try 57."""
    slots = [f"slot-{index}" for index in range(7)]
    sets = tuple(CounterSet(f"gpu-{gpu}", tuple((slot, 1) for slot in slots)) for gpu in range(8))
    devices = [
        _device(f"{gpu}-{kind}-{slot}", consumes=(CounterSet(f"gpu-{gpu}", ((slot, 1),)),))
        for gpu in range(8)
        for kind in "ab"
        for slot in slots
    ]
    _, _, allocator = _world(
        _slice("n", *devices, slice_count=2),
        _slice("n", name="n-1", slice_count=2, counter_sets=sets),
    )
    found = _names(allocator.allocate("n", {}, [_claim(28, name="c"), _claim(28, name="d")]))
    assert found is not None
    assert len(found) == 56
    allocator.steps = 0
    assert allocator.allocate("n", {}, [_claim(28, name="c"), _claim(29, name="d")]) is None
    assert allocator.steps == 0


def _shared_gpu() -> tuple[DeviceUsage, Allocator]:
    """One GPU that claims share, or one partition of it: there is room for one of them."""
    whole = (CounterSet("s", (("slots", 2),)),)
    policy = RequestPolicy(default=1)
    devices = _slice(
        "n",
        _device(
            "gpu", consumes=whole, shareable=True, capacity=(("m", DeviceCapacity(4, policy)),)
        ),
        _device("part", consumes=(CounterSet("s", (("slots", 1),)),)),
        slice_count=2,
    )
    counters = _slice(
        "n", name="n-1", slice_count=2, counter_sets=(CounterSet("s", (("slots", 2),)),)
    )
    _, usage, allocator = _world(devices, counters)
    return usage, allocator


def test_a_share_keeps_partitions_away_and_shares_its_counters_with_other_shares() -> None:
    usage, allocator = _shared_gpu()
    for _ in range(4):
        found = allocator.allocate("n", {}, [_claim(1)])
        assert _names(found) == ["gpu"]
        assert found is not None
        assert found[0].devices[0].consumed_capacity == (("m", 1),)
        usage.hold(found[0])
    assert allocator.allocate("n", {}, [_claim(1)]) is None


def test_a_step_back_gives_back_counters() -> None:
    """The second request cannot have the GPU: it is not chosen twice for one request."""
    _, allocator = _shared_gpu()
    assert allocator.allocate("n", {}, [_claim(2)]) is None
    assert _names(allocator.allocate("n", {}, [_claim(1, 1)])) == ["gpu", "gpu"]


def test_a_device_that_does_not_match_the_others_gives_back_its_counters() -> None:
    one, both = (CounterSet("s", (("slots", slots),)) for slots in (1, 2))
    devices = [
        _device(name, root, consumes=(one,)) for name, root in zip("abc", "xyx", strict=True)
    ]
    _, _, allocator = _world(
        _slice("n", *devices, slice_count=2),
        _slice("n", name="n-1", slice_count=2, counter_sets=(both,)),
    )
    assert _names(allocator.allocate("n", {}, [_claim(2, match=True)])) == ["a", "c"]


def test_a_selector_may_cost_much_on_few_kinds_of_devices_only() -> None:
    """Otherwise one claim could hold up the scheduler for minutes."""
    devices = [_device(f"d{index:03}") for index in range(120)]
    inventory, usage, _ = _world(_slice("n", *devices))
    numbers = "lists.range(400).all(x, x >= 0)"
    expression = f"device.attributes['{DRIVER}'].uuid != '' && {numbers}"
    allocator = Allocator(inventory, {"gpu": DeviceClass("gpu", (expression,))}, usage)
    assert allocator.allocate("n", {}, [_claim(32)]) is not None
    claims = [_claim(32, name="a"), _claim(32, name="b"), _claim(32, name="c")]
    with pytest.raises(AllocationError, match="actual cost limit exceeded"):
        allocator.allocate("n", {}, claims)
