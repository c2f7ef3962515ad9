"""What planned starts cost, however many units, run times and classes users create."""

from unittest.mock import Mock

import pytest

from builders import a_node, a_pod
from fairlead.engine.backfill.futures import Futures, Plan
from fairlead.engine.events import NodeSeen
from fairlead.model.backfill import BackfillMode, BackfillTerms
from fairlead.model.gpus import GpuUse, Grant
from fairlead.model.holders import releasing_holder
from fairlead.model.run_times import RunTime
from fairlead.model.start_terms import SHORT_FIRST_TERMS, StartTerms
from timed_world import TimedWorld, a_job


def _one_class(count: int) -> TimedWorld:
    """Each unit runs for less time than those before it, and too long to start."""
    world = TimedWorld(a_node("n0", gpus=4))
    world.submit(*a_job("r", 1, 1000, gpus=3))
    world.submit(*a_job("head", 1, 10, gpus=4))
    for at in range(count):
        world.submit(*a_job(f"p{at}", 1, 10_000 - at))
    return world


def test_many_run_times_in_one_class_are_looked_at_by_halves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = _one_class(300)
    asked = Mock(wraps=world.engine.plans.limit)
    monkeypatch.setattr(world.engine.plans, "limit", asked)
    world.submit(*a_job("more", 1, 20_000))
    assert 0 < asked.call_count < 40
    world.submit(*a_job("short", 1, 500))
    assert world.runs("short")


@pytest.mark.parametrize("count", [20, 200])
def test_the_first_of_a_class_that_is_short_enough_starts(count: int) -> None:
    """However many there are, and though shorter ones come after it."""
    world = _one_class(count)
    world.run_until(600)
    for name, run_s in (("no", 500), ("first", 300), ("shorter", 200)):
        world.create(a_pod(name, uid=name, gpus=1, run_time=RunTime(bound_s=run_s, source="test")))
    world.work()
    assert world.runs("first")
    assert not world.runs("no")
    assert not world.runs("shorter")


def test_many_classes_cost_a_decision_no_more_with_short_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    terms = BackfillTerms(BackfillMode.SHORT_FIRST, resolution_s=0.0)
    world = TimedWorld(a_node("n0", gpus=4), terms=terms)
    world.submit(*a_job("r", 1, 50_000, gpus=3))
    for at in range(1500):
        world.submit(*a_job(f"p{at}", 1, 2000 - at, gpus=4, cpu=at + 1))
    world.run_until(40_000)
    looks = Mock(wraps=SHORT_FIRST_TERMS.has_waited)
    monkeypatch.setattr(StartTerms, "has_waited", looks)
    world.submit(*a_job("next", 1, 3000, gpus=4))
    world.run_until(world.now + 1)
    assert world.planned_s("p1499", 1) == 50_000
    for at in range(20):
        before = looks.call_count
        world.submit(*a_job(f"s{at}", 1, 90_000, gpus=1))
        assert looks.call_count - before <= 600
        world.now += 0.01


def _checks_of(monkeypatch: pytest.MonkeyPatch) -> list[Plan]:
    """Plans that were checked in a trial, in order."""
    seen: list[Plan] = []
    held = Futures.held

    def counted(self: Futures, plan: Plan, *rest: object) -> Plan | None:
        seen.append(plan)
        return held(self, plan, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(Futures, "held", counted)
    return seen


def test_pods_that_are_gone_by_the_planned_start_cost_a_plan_no_trial(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = TimedWorld(a_node("n0", gpus=4))
    world.submit(*a_job("r", 1, 1000, gpus=3))
    world.submit(*a_job("head", 1, 10, gpus=4))
    world.submit(*a_job("first", 1, 10))
    checks = _checks_of(monkeypatch)
    for at in range(20):
        world.run_until(20 * at + 10)
        world.submit(*a_job(f"p{at}", 1, 10))
        assert world.runs(f"p{at}")
    assert len(checks) <= 1
    assert world.planned_s("head", 1) == 1000


@pytest.mark.parametrize("change", ["label", "stays", "nominated"])
def test_a_plan_is_checked_in_a_trial_if_anything_else_of_its_node_changes(
    change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = TimedWorld(a_node("n0", gpus=8))
    world.submit(*a_job("r", 1, 1000, gpus=7))
    world.submit(*a_job("head", 1, 10, gpus=7))
    world.submit(*a_job("first", 1, 10))
    world.run_until(20)
    world.submit(*a_job("next", 1, 10))
    checks = _checks_of(monkeypatch)
    if change == "label":
        world.tell(NodeSeen(a_node("n0", gpus=8, labels={"zone": "a"})))
    elif change == "stays":
        world.run_until(40)
        world.submit(*a_job("long", 1, 5000))
        assert world.runs("long")
    else:
        world.engine.cluster.nominations.put(a_pod("other", uid="other", gpus=1), "n0")
        world.engine.cluster.put_node(a_node("n0", gpus=8, labels={"zone": "b"}))
    world.work()
    assert checks
    assert world.planned_s("head", 1) == 1000


def test_gpus_that_are_kept_of_a_pod_that_is_gone_are_no_part_of_a_plan() -> None:
    """Its agent has not said that they are free, so the plan does not count on them."""
    world = TimedWorld(a_node("n0", gpus=2))
    world.submit(*a_job("r", 1, 1000, gpus=1))
    world.submit(*a_job("head", 1, 10, gpus=2))
    plan = next(iter(world.engine.plans._book))
    states, cluster = world.engine.plans._book._made.states, world.engine.cluster
    before = states.of(plan, (), "n0", 0.0, world.now)
    gone = Grant((GpuUse("GPU-0"),))
    cluster.columns.devices.occupy(cluster.row_of["n0"], releasing_holder("gone"), gone)
    assert states.of(plan, (), "n0", 0.0, world.now) != before
