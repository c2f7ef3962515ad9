"""Mutated objects of every kind that is read: no object ends anything but itself.

`make fuzz SEED=7 FOR=600` tries others, for so many seconds, and shows how far it is.
"""

import json
import logging
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
import structlog

from fairlead.model.scheduling_map import MAP
from fuzz.cases import OBJECTS, run_case, try_case
from fuzz.objects import KINDS, configurations, small_pods
from fuzz.target import Target

REGRESSIONS = sorted((Path(__file__).parent / "regressions").glob("*.json"))
CASES = 10_000 // OBJECTS
_SEED = int(os.environ.get("FUZZ_SEED") or 1)
_FOR_S = float(os.environ.get("FUZZ_FOR") or 0)


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Thousands of objects that cannot be read make thousands of lines."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    yield
    structlog.reset_defaults()


@pytest.mark.parametrize("first", range(0, CASES, 10))
def test_no_object_ends_anything_but_itself(first: int) -> None:
    for case in range(first, first + 10):
        try_case(_SEED * 1_000_000 + case)


@pytest.mark.parametrize("path", REGRESSIONS, ids=lambda path: path.stem)
def test_what_was_found_once_stays_mended(path: Path) -> None:
    target = Target(Random(0))
    for obj in json.loads(path.read_text()):
        target.show(obj)
        target.decide(3)
    assert target.failures.counts == {}, "the API server accepts all of these"
    target.check()


def test_every_kind_that_is_watched_is_mutated() -> None:
    watched = {each.path for each in Target(Random(0)).mirrors}
    assert watched == {path.replace("/namespaces/{namespace}", "") for path, _ in KINDS.values()}


def test_unchanged_configurations_are_accepted_and_pods_with_maps_are_placed() -> None:
    target = Target(Random(0))
    for each in configurations():
        target.configure(each, strict=True)
    mapped = [pod for pod in small_pods() if MAP in pod["metadata"]["annotations"]]
    for number, pod in enumerate(mapped):
        target.show({**pod, "metadata": {**pod["metadata"], "name": f"mapped-{number}"}})
    target.decide(30)
    assert target.bound, target.refused


def test_a_case_is_the_same_each_time() -> None:
    assert list(run_case(5)) == list(run_case(5))


@pytest.mark.skipif(not _FOR_S, reason="a longer search: make fuzz SEED= FOR=")
@pytest.mark.timeout(0)
def test_as_long_as_asked() -> None:
    until, case = time.monotonic() + _FOR_S, _SEED * 1_000_000 + CASES
    while time.monotonic() < until:
        try_case(case)
        case += 1
        left = f"{max(0, until - time.monotonic()):.0f} s left"
        print(f"\rcase {case}, {OBJECTS} objects each, {left} ", end="", file=sys.stderr)
