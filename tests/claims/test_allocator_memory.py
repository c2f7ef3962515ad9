"""An allocator remembers what it found last, and answers as one that remembers nothing."""

import random
from typing import Any

import pytest

from claims_reading import read_claim, read_class, read_slice
from drawn_claims import LABELS, NODE, World
from fairlead.claims.allocator import Allocator
from fairlead.claims.errors import AllocationError, InvalidPools
from fairlead.claims.inventory import DeviceInventory
from fairlead.claims.usage import DeviceUsage
from fairlead.model.claims import Allocation, DeviceId, ResourceClaim
from fairlead.model.devices import DeviceClass, ResourceSlice

WORLDS, CHANGES = 120, 12


class _Changing:
    """Slices, classes and claims of a drawn world, of which one after the other changes."""

    def __init__(self, draw: random.Random) -> None:
        question = World(draw).question()
        self._draw = draw
        self._slices: list[ResourceSlice] = [read_slice(each) for each in question["slices"]]
        self.claims: list[ResourceClaim] = [read_claim(each) for each in question["claims"]]
        self._classes: dict[str, DeviceClass] = {
            each["metadata"]["name"]: read_class(each) for each in question["classes"]
        }
        self._usage, self._inventory = DeviceUsage(), DeviceInventory()
        for part in self._slices:
            self._inventory.put(part)
        self._held: list[Allocation] = []
        self.blocked: frozenset[DeviceId] = frozenset()
        self.kept = Allocator(self._inventory, self._classes, self._usage)

    def fresh(self) -> Allocator:
        return Allocator(self._inventory, self._classes, self._usage)

    def change(self, found: tuple[Allocation, ...] | None) -> None:
        """`found`: what claims would get now."""
        for allocation in found or ():
            if self._draw.random() < 0.5:
                self._usage.hold(allocation)
                self._held.append(allocation)
        kind = self._draw.randrange(5)
        if kind == 0 and self._held:
            self._usage.release(self._held.pop(self._draw.randrange(len(self._held))))
        elif kind == 1 and self._slices:
            self._replace_a_slice()
        elif kind == 2 and self._classes:
            name = self._draw.choice(sorted(self._classes))
            self._classes[name] = DeviceClass(name, self._classes[name].selectors[1:])
        elif kind == 3:
            devices = (each.key for allocation in found or () for each in allocation.devices)
            self.blocked = frozenset(key for key in devices if self._draw.random() < 0.5)

    def _replace_a_slice(self) -> None:
        part = self._draw.choice(self._slices)
        self._inventory.remove(part.name)
        if self._draw.random() < 0.5:
            self._inventory.put(part)


def _answer(allocator: Allocator, world: _Changing) -> tuple[str, Any]:
    try:
        found = allocator.allocate(NODE, LABELS, world.claims, world.blocked)
    except InvalidPools as error:
        return "node", str(error)
    except AllocationError as error:
        return "error", str(error)
    return "found", found


@pytest.mark.parametrize("part", range(4))
def test_answers_are_the_same_with_and_without_what_was_found_before(part: int) -> None:
    asked_again = 0
    for number in range(WORLDS // 4):
        world = _Changing(random.Random(part * 1000 + number))
        for _ in range(CHANGES):
            kind, found = _answer(world.kept, world)
            assert (kind, found) == _answer(world.fresh(), world)
            before = world.kept.steps
            assert (kind, found) == _answer(world.kept, world)
            asked_again += kind == "found" and bool(found) and world.kept.steps == before
            world.change(found if kind == "found" else None)
    assert asked_again > 20, "some answers were remembered"
