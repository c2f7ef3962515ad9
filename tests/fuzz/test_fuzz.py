"""Mutated objects of every kind that is read: no object ends anything but itself.

`make fuzz SEED=7 FOR=600` tries others, for so many seconds, and shows how far it is.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from random import Random

import pytest

from fairlead.model.scheduling_map import MAP
from fuzz.cases import OBJECTS, run_case, try_case
from fuzz.objects import configurations, small_pods
from fuzz.searching import batches
from fuzz.target import Target

REGRESSIONS = sorted((Path(__file__).parent / "regressions").glob("*.json"))
CASES = 10_000 // OBJECTS


@pytest.mark.parametrize("seeds", batches(CASES, 10))
def test_no_object_ends_anything_but_itself(seeds: Iterable[int]) -> None:
    for seed in seeds:
        try_case(seed)


@pytest.mark.parametrize("path", REGRESSIONS, ids=lambda path: path.stem)
def test_what_was_found_once_stays_mended(path: Path) -> None:
    target = Target(Random(0))
    for obj in json.loads(path.read_text()):
        target.show(obj)
        target.decide(3)
    assert target.failures.counts == {}, "the API server accepts all of these"
    target.check()


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
