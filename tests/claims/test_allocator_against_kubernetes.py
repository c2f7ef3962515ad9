"""Random slices, classes and claims: the same devices and errors as Kubernetes' own allocator.

FAIRLEAD_CLAIM_CASES=20000 compares more of them, FAIRLEAD_CLAIM_SEED=7 others.
"""

import json
import os
import random
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from claims_reading import read_allocation, read_claim, read_class, read_slice
from drawn_claims import LABELS, NODE, World
from fairlead.claims.allocator import Allocator
from fairlead.claims.errors import AllocationError, InvalidPools
from fairlead.claims.inventory import DeviceInventory
from fairlead.claims.usage import DeviceUsage
from fairlead.model.behaviour import KUBERNETES_1_36, KUBERNETES_1_37, Behaviour

Json = dict[str, Any]
COUNT = int(os.environ.get("FAIRLEAD_CLAIM_CASES", "3000"))
SEED = int(os.environ.get("FAIRLEAD_CLAIM_SEED", "53"))
#: Kubernetes gives up where the search is long; ours may be shorter.
GAVE_UP = ("error", "filter operation aborted: context deadline exceeded")
#: Enough for all that is drawn.
STEPS = 2_000_000


@pytest.fixture(scope="module")
def dra_allocator(assets: Path) -> Path:
    """The program that asks k8s.io/dynamic-resource-allocation/structured of 1.36."""
    return assets / "dra-allocator"


@pytest.fixture(scope="module")
def dra_allocator_1_37(assets: Path) -> Path:
    """The same with the package of 1.37."""
    return assets / "dra-allocator-1.37"


def _theirs(program: Path, questions: list[Json]) -> list[tuple[str, Any]]:
    lines = "".join(f"{json.dumps(each)}\n" for each in questions)
    done = subprocess.run([program], input=lines, capture_output=True, text=True, check=True)
    return [_read(json.loads(line)) for line in done.stdout.splitlines()]


def _read(answer: Json) -> tuple[str, Any]:
    if "error" in answer:
        return "node" if answer.get("nodeOnly") else "error", answer["error"]
    if not answer["found"]:
        return "none", None
    return "found", tuple(read_allocation(each) for each in answer.get("results", ()))


def _ours(question: Json, behaviour: Behaviour) -> tuple[str, Any]:
    inventory = DeviceInventory(behaviour)
    for each in question["slices"]:
        inventory.put(read_slice(each))
    usage = DeviceUsage()
    for each in question["held"]:
        held = read_claim(each).allocation
        assert held is not None
        usage.hold(held)
    classes = {each["metadata"]["name"]: read_class(each) for each in question["classes"]}
    allocator = Allocator(inventory, classes, usage, STEPS)
    try:
        found = allocator.allocate(NODE, LABELS, [read_claim(each) for each in question["claims"]])
    except InvalidPools as error:
        return "node", str(error)
    except AllocationError as error:
        return "error", str(error)
    return ("none", None) if found is None else ("found", found)


class SensibleWorld(World):
    """1.36 counts below zero, and beyond 64 bits from below; Fairlead does not."""

    odd_share = 0.0


def _compare(program: Path, behaviour: Behaviour, count: int) -> None:
    world = World if behaviour.strict_capacity else SensibleWorld
    questions = [world(random.Random(SEED * 1_000_003 + case)).question() for case in range(count)]
    theirs = _theirs(program, questions)
    ours = [_ours(each, behaviour) for each in questions]
    kinds = Counter(kind for kind, _ in theirs)

    assert kinds["found"] > count // 5, kinds
    assert min(kinds["error"], kinds["node"]) > count // 50, kinds
    assert theirs.count(GAVE_UP) < count // 50
    assert [
        (case, expected, found)
        for case, (expected, found) in enumerate(zip(theirs, ours, strict=True))
        if expected not in (found, GAVE_UP)
    ] == []


def test_devices_and_errors_are_those_of_kubernetes(dra_allocator: Path) -> None:
    _compare(dra_allocator, KUBERNETES_1_36, COUNT)


def test_devices_and_errors_are_those_of_kubernetes_1_37(dra_allocator_1_37: Path) -> None:
    _compare(dra_allocator_1_37, KUBERNETES_1_37, COUNT // 2)
