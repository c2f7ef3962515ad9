"""What planned starts cost, however many units, run times and classes users create."""

from dataclasses import replace
from unittest.mock import Mock

import numpy as np
import pytest

from builders import a_node, a_pod
from fairlead.engine.backfill import attempts, heads, made_plans, planner
from fairlead.engine.backfill.ending_pods import lumped
from fairlead.engine.backfill.futures import Futures, Plan
from fairlead.engine.backfill.plan_book import PlanBook
from fairlead.engine.events import NodeSeen
from fairlead.model.backfill import BackfillMode, BackfillTerms
from fairlead.model.gpus import GpuUse, Grant
from fairlead.model.holders import releasing_holder
from fairlead.model.run_times import RunTime
from fairlead.model.start_terms import SHORT_FIRST_TERMS, StartTerms
from timed_world import TimedWorld, a_job
from turn_costs import counting_lines


def _one_class(count: int) -> TimedWorld:
    """Each unit runs for less time than those before it, and too long to start."""
    world = TimedWorld(a_node("n0", gpus=4))
    world.submit(*a_job("r", 1, 1000, gpus=3))
    world.submit(*a_job("head", 1, 10, gpus=4))
    for at in range(count):
        world.submit(*a_job(f"p{at}", 1, 10_000 - at))
    return world


def test_many_run_times_in_one_class_are_looked_at_by_halves() -> None:
    lines = []
    for count in (100, 400):
        world = _one_class(count)
        world.create(*a_job("more", 1, 20_000))
        with counting_lines() as counted:
            world.work()
        lines.append(counted.lines)
        world.submit(*a_job("short", 1, 500))
        assert world.runs("short")
    assert lines[1] < 2 * lines[0]


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


@pytest.mark.slow
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


def test_the_first_of_many_classes_is_planned_for_whenever_it_is_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(heads, "_MOST_CLASSES", 2)
    terms = BackfillTerms(BackfillMode.SHORT_FIRST, resolution_s=0.0)
    world = TimedWorld(a_node("n0", gpus=4), terms=terms)
    world.submit(*a_job("r", 1, 50_000, gpus=3))
    for at in range(6):
        world.submit(*a_job(f"p{at}", 1, 1000 + at, gpus=4, cpu=at + 1))
    for at_s in range(10_000, 50_000, 10_000):
        world.run_until(at_s)
    assert world.planned_s("p0", 1) == 50_000


def test_a_start_is_looked_for_up_to_the_end_of_the_window() -> None:
    ends, terms = np.array([110.0, 105.0, 111.0, 105.0]), BackfillTerms(window_s=10.0)
    for resolution_s in (0.0, 1.0):
        found = lumped(ends, 100.0, replace(terms, resolution_s=resolution_s))
        assert found.tolist() == [105.0, 110.0]


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


def _two_planned(count: int) -> TimedWorld:
    """Two gangs are to start one after the other, when the nodes are free."""
    terms = BackfillTerms(BackfillMode.CONSERVATIVE, resolution_s=0.0)
    world = TimedWorld(*(a_node(f"n{at}", gpus=4) for at in range(count)), terms=terms)
    for at in range(count):
        world.submit(*a_job(f"r{at}", 1, 1000 + at, gpus=3))
    for name in ("first", "second"):
        world.create(*a_job(name, count, 100, gpus=4))
    return world


def test_planning_that_takes_long_has_turns_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(made_plans, "MANY_PODS", 0)
    world = _two_planned(3)
    world.create(*a_job("small", 1, 5000))  # it would delay both
    outcomes = []
    while world.decide():
        outcomes.append(_planned(world))
    unfinished = [found for found in outcomes if found != (None, None)]
    assert unfinished[0] == (1002, None)  # the second one has a turn of its own
    assert _planned(world) == (1002, 1102)
    assert not world.binds


def _planned(world: TimedWorld) -> tuple[float | None, float | None]:
    return world.planned_s("first", 3), world.planned_s("second", 3)


def test_a_pod_that_leaves_while_a_start_is_planned_is_no_part_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(made_plans, "MANY_PODS", 0)
    world = _two_planned(3)
    made = world.engine.plans._book._made
    while made._begun is None:
        assert world.decide()
    world.end("r2")
    world.work()
    assert world.planned_s("first", 3) == 1001


def test_others_are_tried_while_planning_goes_on_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise gangs that come again and again could keep all others from being tried."""
    world = TimedWorld(a_node("n0", gpus=4))
    world.submit(*a_job("r", 1, 1000, gpus=3))
    world.submit(*a_job("head", 1, 100, gpus=4))
    head = next(iter(world.engine.plans._book)).entry.unit
    monkeypatch.setattr(PlanBook, "spent_on", property(lambda _book: head))  # it never ends
    world.create(*a_job("short", 1, 10), *a_job("other", 1, 10))
    for _ in range(8):
        assert world.decide()
        assert not world.binds
    assert world.decide()
    assert list(world.binds) == ["short"]


def test_large_planned_units_keep_their_nodes_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside a small one there would be room."""
    starts = []
    for beside in (planner._MOST_BESIDE, 0):
        monkeypatch.setattr(planner, "_MOST_BESIDE", beside)
        terms = BackfillTerms(BackfillMode.CONSERVATIVE, resolution_s=0.0)
        world = TimedWorld(a_node("n0", gpus=4), terms=terms)
        world.submit(*a_job("r", 1, 1000, gpus=4))
        world.submit(*a_job("first", 1, 100, gpus=3))
        world.submit(*a_job("second", 1, 100, gpus=1))
        starts.append((world.planned_s("first", 1), world.planned_s("second", 1)))
    assert starts == [(1000, 1000), (1000, 1100)]


def test_rows_where_too_many_pods_end_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planner, "_MOST_FREED", 3)
    world = TimedWorld(a_node("n0", gpus=4), a_node("n1", gpus=4))
    for at in range(4):
        world.submit(*a_job(f"r{at}", 1, 1000, gpus=1))
    world.submit(*a_job("last", 1, 2000, gpus=4))
    world.submit(*a_job("head", 1, 10, gpus=4))
    assert world.planned_s("head", 1) == 2000


def test_a_unit_that_looks_for_a_place_for_too_long_waits_and_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(attempts, "_MOST_WORK", 0)
    world = TimedWorld(a_node("n0", gpus=4), a_node("n1", gpus=4))
    world.submit(*a_job("r", 1, 1000, gpus=2))
    world.submit(*a_job("s", 1, 1000, gpus=4))
    world.submit(*a_job("head", 1, 10, gpus=4))
    world.submit(*a_job("long", 2, 5000, gpus=1))
    assert not world.runs("long")
    assert any("not all places were looked at" in each.message for each in world.failures.values())


@pytest.mark.parametrize("free", [0, 2])
def test_a_gang_of_many_pods_uses_only_nodes_that_no_planned_unit_needs(
    free: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With few pods it would start beside the planned unit, which needs three of four GPUs."""
    monkeypatch.setattr(attempts, "_MANY_MEMBERS", 1)
    names = [f"n{at}" for at in range(2)]
    world = TimedWorld(*(a_node(name, gpus=4) for name in names))
    for name in names:
        world.submit(*a_job(f"r-{name}", 1, 1000, gpus=2))
    world.submit(*a_job("head", 2, 10, gpus=3))
    assert world.planned_s("head", 2) == 1000
    for at in range(free):
        world.engine.handle(NodeSeen(a_node(f"free{at}", gpus=1)), now=world.now)
    world.submit(*a_job("long", 2, 5000, gpus=1))
    assert world.runs("long") == bool(free)
    if not free:
        assert "not all places were looked at" in world.failures["long-0"].message
