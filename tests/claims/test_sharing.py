"""Equal parts of devices are one object, as long as that takes little memory."""

import random

import pytest

from claim_objects import a_gpu_device, a_slice
from claims_reading import read_claim, read_class, read_slice
from drawn_claims import LABELS, NODE, World
from fairlead.claims import sharing
from fairlead.claims.allocator import Allocator
from fairlead.claims.errors import AllocationError, InvalidPools
from fairlead.claims.inventory import DeviceInventory
from fairlead.claims.usage import DeviceUsage
from fairlead.model.claims import Allocation
from fairlead.model.devices import ResourceSlice, VersionText

NODES = (NODE, "node-b")


@pytest.fixture
def small_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharing, "_MOST_BYTES", 1 << 16, raising=False)


def _of_node(number: int, version: str = "1.0.0") -> ResourceSlice:
    uuids = [f"GPU-{number}-{place}" for place in range(8)]
    devices = [
        a_gpu_device(f"gpu-{place}", uuid, version=VersionText(version))
        for place, uuid in enumerate(uuids)
    ]
    return a_slice(f"n{number}", *devices)


def _parts(inventory: DeviceInventory) -> int:
    return len(inventory._parts._known)


def test_nodes_that_come_and_go_leave_no_parts(small_bound: None) -> None:
    inventory, most = DeviceInventory(), 0
    for number in range(600):
        part = _of_node(number)
        inventory.put(part)
        inventory.remove(part.name)
        most = max(most, _parts(inventory))
    assert 100 < most < 1000
    assert inventory._parts._bytes <= 2 << 16


def test_a_slice_that_changes_leaves_no_parts(small_bound: None) -> None:
    inventory = DeviceInventory()
    for number in range(600):
        part = a_slice("n1", a_gpu_device("gpu-0", "GPU-0", temperature=number), name="slice")
        inventory.put(part)
    assert len(inventory) == 1
    assert _parts(inventory) < 1000


def test_large_parts_count_for_what_they_are(small_bound: None) -> None:
    inventory = DeviceInventory()
    for number in range(40):
        inventory.put(a_slice("n1", a_gpu_device("gpu-0", f"{number:04000}"), name="slice"))
    assert 0 < _parts(inventory) < 60


def test_equal_parts_of_slices_are_one_object() -> None:
    inventory = DeviceInventory()
    for number in range(20):
        inventory.put(_of_node(number))
    devices = [device for part in inventory.slices() for device in part.devices]
    assert len({id(device.form) for device in devices}) == 8
    pairs = [pair for device in devices for pair in device.attributes if pair[0] != "uuid"]
    assert len({id(pair) for pair in pairs}) == len(set(pairs))


def test_shapes_are_right_before_and_after_parts_are_dropped(small_bound: None) -> None:
    """1.0 is no version, so nothing can be known of a device with it."""
    inventory = DeviceInventory()
    for number in range(200):
        inventory.put(_of_node(number, "1.0" if number % 3 else "1.0.0"))
    plain = [inventory.shape_of(part).is_plain for part in inventory.slices()]
    assert plain == [not number % 3 for number in range(200)]


class _Drawn:
    """Slices, classes and claims, and what nodes can give for these."""

    def __init__(self, case: int) -> None:
        question = World(random.Random(2_000_003 + case)).question()
        self._claims = [read_claim(each) for each in question["claims"]]
        self._slices = [read_slice(each) for each in question["slices"]]
        self._classes = {each["metadata"]["name"]: read_class(each) for each in question["classes"]}

    def answers(self) -> list[tuple[Allocation, ...] | str | None]:
        inventory = DeviceInventory()
        for part in self._slices:
            inventory.put(part)
        allocator = Allocator(inventory, self._classes, DeviceUsage(), 100_000)
        return [self._answer(allocator, node) for node in NODES]

    def _answer(self, allocator: Allocator, node: str) -> tuple[Allocation, ...] | str | None:
        try:
            return allocator.allocate(node, LABELS if node == NODE else {}, self._claims)
        except (AllocationError, InvalidPools) as error:
            return str(error)


def test_claims_get_the_same_devices_where_no_part_is_shared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    drawn = [_Drawn(case) for case in range(150)]
    shared = [each.answers() for each in drawn]
    assert sum(isinstance(answer, tuple) for each in shared for answer in each) > 20
    monkeypatch.setattr(sharing, "_MOST_BYTES", -1, raising=False)  # dropped before every slice
    assert [each.answers() for each in drawn] == shared
