"""All nodes at once: what a glance says is what asking each node says."""

import random
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from claim_objects import DRIVER, GPU_CLASS, a_claim, a_gpu_device, a_slice, an_allocation
from claims_reading import read_claim, read_class, read_slice
from drawn_claims import LABELS, NODE, World
from examples import so_many
from fairlead.claims import answers, columns, inventory, usage
from fairlead.claims.allocator import Allocator
from fairlead.claims.errors import AllocationError, InvalidPools, LookUnfinished
from fairlead.claims.glance import ASK, NO, YES
from fairlead.claims.inventory import DeviceInventory
from fairlead.claims.usage import DeviceUsage
from fairlead.model.behaviour import KUBERNETES_1_36, KUBERNETES_1_37
from fairlead.model.claims import DeviceConstraint, ResourceClaim
from fairlead.model.devices import (
    AttributeValue,
    CounterSet,
    DeviceClass,
    ResourceSlice,
    VersionText,
)

Json = dict[str, Any]
NODES = (NODE, "node-b", "elsewhere")


def _asked(allocator: Allocator, node: str, claims: list[ResourceClaim]) -> int:
    try:
        found = allocator.allocate(node, LABELS if node == NODE else {}, claims)
    except (AllocationError, InvalidPools):
        return ASK
    return NO if found is None else YES


def _check(allocator: Allocator, claims: list[ResourceClaim], seen: Counter[int]) -> None:
    try:
        said = allocator.glance(NODES, claims).tolist()
    except AllocationError:
        assert [_asked(allocator, node, claims) for node in NODES] == [ASK] * 3
        return
    for node, code in zip(NODES, said, strict=True):
        seen[code] += 1
        assert code in (ASK, _asked(allocator, node, claims)), node


def test_what_a_glance_says_is_what_asking_each_node_says() -> None:
    """Also after slices came and went, and claims got devices and lost them."""
    seen: Counter[int] = Counter()
    for case in range(so_many(600, few=120)):
        draw = random.Random(1_000_033 + case)
        drawn = World(draw).question()
        usage = DeviceUsage()
        inventory = DeviceInventory(draw.choice((KUBERNETES_1_36, KUBERNETES_1_37)))
        classes = {each["metadata"]["name"]: read_class(each) for each in drawn["classes"]}
        allocator = Allocator(inventory, classes, usage, 100_000)
        claims = [read_claim(each) for each in drawn["claims"]]
        held = [allocation for each in drawn["held"] if (allocation := read_claim(each).allocation)]
        for part in drawn["slices"]:
            inventory.put(read_slice(part))
        for change in range(4):
            _check(allocator, claims, seen)
            if change < len(held):
                usage.hold(held[change])
            part = draw.choice(drawn["slices"]) if drawn["slices"] else None
            if part is not None and draw.random() < 0.5:
                inventory.remove(part["metadata"]["name"])
            elif part is not None:
                inventory.put(read_slice(part))
    assert seen[NO] > so_many(1000, few=200), seen
    assert seen[YES] > so_many(50, few=0), seen


def test_a_node_without_devices_is_refused_at_a_glance() -> None:
    allocator = Allocator(DeviceInventory(), {}, DeviceUsage())
    assert allocator.glance([], []).tolist() == []
    assert allocator.glance(["n"], []).tolist() == [ASK]


def _with_counters(slots: int) -> tuple[ResourceSlice, ResourceSlice]:
    """A device that takes two slots of its pool, which has so many."""
    taken, there = (CounterSet("s", (("slots", number),)) for number in (2, slots))
    gpu = a_gpu_device("gpu-0", "GPU-0")
    device = replace(gpu, form=replace(gpu.form, consumes=(taken,)))
    return (
        a_slice("n1", device, slice_count=2),
        a_slice("n1", name="n1-counters", slice_count=2, counter_sets=(there,)),
    )


@pytest.mark.parametrize(("slots", "said"), [(1, ASK), (2, YES)])
def test_a_device_is_promised_at_a_glance_if_its_counters_are_enough(slots: int, said: int) -> None:
    inventory = DeviceInventory()
    for part in _with_counters(slots):
        inventory.put(part)
    allocator = Allocator(inventory, {"gpu": GPU_CLASS}, DeviceUsage())
    assert allocator.glance(["n1"], [a_claim()]).tolist() == [said]


def test_a_device_whose_pool_has_no_counters_any_more_is_promised_at_a_glance() -> None:
    inventory = DeviceInventory()
    devices, counters = _with_counters(1)
    for part in (devices, counters):
        inventory.put(part)
    allocator = Allocator(inventory, {"gpu": GPU_CLASS}, DeviceUsage())
    assert allocator.glance(["n1"], [a_claim()]).tolist() == [ASK]
    inventory.remove(counters.name)
    inventory.put(a_slice("n1", a_gpu_device("gpu-0", "GPU-0"), slice_count=1))
    assert allocator.glance(["n1"], [a_claim()]).tolist() == [YES]


def test_a_node_without_slices_has_no_devices_where_another_has_some() -> None:
    inventory = DeviceInventory()
    inventory.put(a_slice("n1", "gpu-0", "gpu-1"))
    allocator = Allocator(inventory, {"gpu": GPU_CLASS}, DeviceUsage())
    counts = allocator.counts(["n2", "n1"], [a_claim(count=2)])
    assert counts is not None
    assert [(each.asked, each.free.tolist(), each.every.tolist()) for each in counts] == [
        (2, [0, 2], [0, 2])
    ]


TYPED = DeviceClass("gpu", (f"device.attributes['{DRIVER}'].type == 'gpu'",))


def _of_many_nodes(version: AttributeValue, nodes: int = 40) -> tuple[DeviceInventory, list[str]]:
    """Eight devices of each, in an order of its own: drivers publish them so."""
    inventory, names = DeviceInventory(), [f"n{number}" for number in range(nodes)]
    for number, node in enumerate(names):
        gpus = [(number + place) % 8 for place in range(8)]
        devices = [a_gpu_device(f"gpu-{gpu}", f"{node}-{gpu}", version=version) for gpu in gpus]
        inventory.put(a_slice(node, *devices))
    return inventory, names


def test_equal_devices_of_many_nodes_are_asked_about_once() -> None:
    """They differ in their UUIDs, which no selector reads."""
    for known in (GPU_CLASS, TYPED):
        inventory, names = _of_many_nodes(VersionText("1.0.0"))
        allocator = Allocator(inventory, {"gpu": known}, DeviceUsage())
        matched = DeviceConstraint(match_attribute=f"{DRIVER}/type")
        claim = a_claim(count=9, constraints=(matched,))
        assert set(allocator.glance(names, [claim]).tolist()) == {NO}
        assert inventory.answers.asked == 1
        assert set(allocator.glance(names, [a_claim(count=8)]).tolist()) == {YES}
        assert inventory.answers.asked == 1


def test_a_look_that_takes_several_turns_goes_on_where_it_was() -> None:
    """Also where each device has to be evaluated: nothing is known of its version."""
    inventory, names = _of_many_nodes(VersionText("1.0"), nodes=400)
    allocator = Allocator(inventory, {"gpu": TYPED}, DeviceUsage())
    turns = 0
    while True:
        turns += 1
        before = inventory.answers.work
        try:
            with inventory.turn.limited():
                codes = allocator.glance(names, [a_claim()])
            break
        except LookUnfinished:
            assert inventory.answers.work > before
    assert turns > 1
    assert set(codes.tolist()) == {ASK}  # "1.0" is no version: an error of every expression
    assert inventory.answers.asked == 400 * 8


def test_changes_are_not_listed_without_end_where_no_claim_is_asked_about(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for module in (inventory, usage):
        monkeypatch.setattr(module, "MANY_CHANGED", 8, raising=False)
    slices, names = _of_many_nodes(VersionText("1.0.0"), nodes=3)
    held = DeviceUsage()
    allocator = Allocator(slices, {"gpu": GPU_CLASS}, held)
    assert allocator.glance(names, [a_claim(count=8)]).tolist() == [YES] * 3
    for number in range(50):
        slices.put(a_slice(f"gone-{number}", a_gpu_device("gpu-0", f"g-{number}")))
        slices.remove(f"gone-{number}-slice")
        held.hold(an_allocation(f"gone-{number}", "gpu-0"))
        held.release(an_allocation(f"gone-{number}", "gpu-0"))
        assert len(slices.changed or ()) <= 8 + 2 * 4
        assert len(held.changed or ()) <= 8 + 2
    held.hold(an_allocation("n1", "gpu-0"))
    assert allocator.glance(names, [a_claim(count=8)]).tolist() == [YES, NO, YES]


def test_nodes_without_a_usable_pool_that_are_gone_are_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(columns, "_FEW", 16)
    slices, names = _of_many_nodes(VersionText("1.0.0"), nodes=3)
    allocator = Allocator(slices, {"gpu": GPU_CLASS}, DeviceUsage())
    for number in range(200):
        part = a_slice(f"gone-{number}", slice_count=1 + number % 2)  # every second is incomplete
        slices.put(part)
        assert allocator.glance(names, [a_claim(count=8)]).tolist() == [YES] * 3
        slices.remove(part.name)
    assert allocator._glance is not None
    kept = allocator._glance._columns
    assert len(kept.nodes) < 64
    assert len(kept._slices) < 64


def test_answers_of_all_selectors_together_have_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "_MOST_ANSWERS", 50, raising=False)
    slices, names = _of_many_nodes(VersionText("1.0.0"), nodes=3)
    for number in range(40):
        text = f"device.attributes['{DRIVER}'].uuid != 'GPU-{number}'"
        allocator = Allocator(slices, {"gpu": DeviceClass("gpu", (text,))}, DeviceUsage())
        assert allocator.glance(names, [a_claim(count=8)]).tolist() == [YES] * 3
        kept = sum(len(each._answers) for each in slices.answers._known.values())
        assert kept <= 50
