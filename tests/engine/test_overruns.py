"""Units that ran longer than they said are evicted for units that came before them alone."""

from dataclasses import replace

import pytest

from builders import a_node
from fairlead.engine.events import PodSeen
from fairlead.model.run_times import RunTime
from timed_world import TimedWorld, a_job

_WORD = RunTime(bound_s=8.0, source="test", enforced=False)


def victims(world: TimedWorld) -> list[set[str]]:
    return [{victim.name for victim in evict.victims} for evict in world.evictions]


@pytest.mark.parametrize("priority", [0, -5])
def test_a_unit_that_comes_later_evicts_none_that_overran_its_word(priority: int) -> None:
    """It said so to a unit that came before it: others gain nothing by that."""
    world = TimedWorld(a_node("n0", gpus=4), a_node("n1", gpus=4))
    world.submit(*a_job("r", 1, 10, gpus=4))
    world.submit(*a_job("head", 2, 5, gpus=4))
    world.submit(*a_job("liar", 1, None, gpus=2, run_time=_WORD), runs_s=1e6)
    assert world.runs("liar")
    world.end("head-0", "head-1")
    world.run_until(30)
    world.submit(*a_job("later", 2, 5, gpus=4, priority=priority))
    world.run_until(200)
    assert not world.evictions
    assert not world.runs("later")


def test_a_unit_that_came_before_evicts_it_even_if_another_was_planned_then() -> None:
    world = TimedWorld(a_node("n0", gpus=4), a_node("n1", gpus=4))
    world.submit(*a_job("r", 1, 10, gpus=4))
    world.submit(*a_job("head", 2, 5, gpus=4))
    world.submit(*a_job("second", 2, 5, gpus=4))
    world.submit(*a_job("liar", 1, None, gpus=2, run_time=_WORD), runs_s=1e6)
    world.end("head-0", "head-1")
    world.run_until(30)
    assert victims(world) == [{"liar"}]


def test_a_gang_that_overran_is_evicted_by_one_instruction() -> None:
    """All or none of its pods may be evicted, and pods that said nothing belong to it as well."""
    world = TimedWorld(*(a_node(f"n{at}", gpus=4) for at in range(80)))
    world.submit(*a_job("r", 20, 10, gpus=4))
    world.submit(*a_job("head", 80, 5, gpus=4))
    world.submit(*a_job("liar", 60, None, gpus=2, run_time=_WORD), runs_s=1e6)
    assert world.runs("liar")
    silent = world.pods["liar-7"] = replace(world.pods["liar-7"], run_time=None)
    world.tell(PodSeen(silent))
    world.run_until(12)
    assert victims(world) == [{f"liar-{at}" for at in range(60)}]


def test_a_plan_does_not_count_for_long_on_a_unit_that_may_not_be_evicted() -> None:
    """A disruption budget of its owner must not keep the planned unit from other nodes."""
    world = TimedWorld(a_node("n0", gpus=4), a_node("n1", gpus=4))
    world.submit(*a_job("r", 1, 10_000, gpus=4))
    world.submit(*a_job("r2", 1, 20))
    world.submit(*a_job("head", 2, 5, gpus=4))
    world.submit(*a_job("second", 1, 5, gpus=4))
    world.submit(*a_job("liar", 1, None, gpus=2, run_time=_WORD), runs_s=1e6)
    assert world.runs("liar")
    world.end("head-0", "head-1")
    world.run_until(30)
    assert victims(world) == [{"liar"}]
    for _ in range(20):
        world.evictions.clear()
        world.run_until(world.now + 30)
    assert not world.evictions
    assert (world.planned_s("second", 1) or 0) > world.now
