"""Garbage is collected in passes over what is new, and over everything only when all is quiet."""

import asyncio
import gc
import time
from collections.abc import Iterator
from unittest.mock import Mock

import pytest

from fairlead.apps import collection
from fairlead.apps.collection import GarbageCollection, spare_the_collector


class Cycle:
    """Only the collector frees it."""

    alive = 0

    def __init__(self) -> None:
        self.itself = self
        Cycle.alive += 1

    def __del__(self) -> None:
        Cycle.alive -= 1


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    thresholds = gc.get_threshold()
    yield
    gc.set_threshold(*thresholds)
    gc.unfreeze()
    gc.collect()


@pytest.fixture
def spared() -> None:
    gc.collect()
    spare_the_collector()
    Cycle.alive = 0


def many_objects() -> list[list[int]]:
    """More than one pass over the youngest leaves alone."""
    new, passes, _ = gc.get_threshold()
    return [[] for _ in range(new * (passes + 3))]


@pytest.mark.usefixtures("spared")
def test_no_pass_is_over_all_objects_by_itself() -> None:
    before = gc.get_stats()[2]["collections"]
    kept = [many_objects() for _ in range(3)]
    assert gc.get_stats()[2]["collections"] == before
    assert kept


@pytest.mark.usefixtures("spared")
def test_new_objects_are_looked_through_once_and_stay() -> None:
    collecting = GarbageCollection(lambda: True)
    kept, garbage = many_objects(), Cycle()
    del garbage
    collecting.look(0.0, 0.0)
    assert Cycle.alive == 0
    assert gc.get_freeze_count() >= len(kept)
    passes = gc.get_stats()[2]["collections"]
    collecting.look(0.0, 1000.0)  # nothing is new
    assert gc.get_stats()[2]["collections"] == passes


@pytest.mark.usefixtures("spared")
def test_objects_are_looked_through_between_turns_before_that_comes_in_one() -> None:
    gc.collect()
    gc.freeze()
    before, (new, passes, _) = gc.get_stats()[1]["collections"], gc.get_threshold()
    kept: list[list[list[int]]] = []
    for _ in range(4 * passes):  # turns
        kept.append([[] for _ in range(new // 2)])
        GarbageCollection(lambda: True).look(0.0, 0.0)
    assert gc.get_stats()[1]["collections"] == before
    assert gc.get_freeze_count() >= passes // 2 * new


@pytest.mark.usefixtures("spared")
def test_objects_that_replace_old_ones_are_looked_through_in_short_passes() -> None:
    """Python counts what came less what went: that is nothing, while all is replaced."""
    new, passes, _ = gc.get_threshold()
    there = [[number] for number in range(2 * passes * new)]
    gc.collect()
    gc.freeze()
    collecting, most, cpu_s = GarbageCollection(lambda: True), 0, time.process_time()
    for number in range(len(there)):
        there[number] = [number]
        if number % 4000 == 0:  # between turns
            most = max(most, sum(len(gc.get_objects(age)) for age in range(3)))
            cpu_s += 0.02
            collecting.look(0.0, cpu_s)
    assert most <= passes // 2 * new + 24_000


@pytest.mark.usefixtures("spared")
def test_objects_are_not_counted_while_nothing_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    count = Mock(return_value=())
    monkeypatch.setattr(gc, "get_objects", count)
    collecting, cpu_s = GarbageCollection(lambda: True), time.process_time()
    for _ in range(100):
        collecting.look(0.0, cpu_s)
    assert not count.called
    collecting.look(0.0, cpu_s + collection._COUNT_S + 0.1)
    assert count.call_count == 2


@pytest.mark.usefixtures("spared")
def test_all_objects_are_looked_through_when_nothing_is_under_way() -> None:
    quiet = False
    collecting = GarbageCollection(lambda: True, lambda: quiet)
    garbage = [Cycle()]
    gc.freeze()  # it was in use when it was looked at
    garbage.clear()
    later = collecting._all_s + collection._ALL_S + 1.0  # sums of seconds are rounded
    for _ in range(2 * collection._QUIET_LOOKS):
        collecting.look(later, 0.0)
    assert Cycle.alive == 1
    quiet = True
    for _ in range(collection._QUIET_LOOKS - 1):
        collecting.look(later, 0.0)
    assert Cycle.alive == 1
    collecting.look(later, 0.0)
    assert Cycle.alive == 0


@pytest.mark.usefixtures("spared")
async def test_what_was_listed_stays_and_the_end_of_the_work_ends_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(collection, "_LOOK_S", 0.001)
    ready, listed = False, [[0] for _ in range(1000)]
    collecting = GarbageCollection(lambda: ready)
    frozen = gc.get_freeze_count()

    async def work() -> None:
        nonlocal ready
        await asyncio.sleep(0)
        assert gc.get_freeze_count() <= frozen
        ready = True
        while gc.get_freeze_count() < frozen + len(listed):
            await asyncio.sleep(0.001)

    await collecting.during(work())
    others = asyncio.all_tasks() - {asyncio.current_task()}
    await asyncio.gather(*others, return_exceptions=True)
    assert all(task.cancelled() for task in others)
