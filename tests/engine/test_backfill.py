"""Units that start before others only if they do not delay them."""

from dataclasses import replace

import pytest

from builders import a_node
from fairlead.engine.events import NodeGone, PodGone, QueueGone, QueueSeen
from fairlead.engine.reasons import WAIT_TIMED_OUT, WAITING_FOR_PLANNED_START
from fairlead.model.backfill import FILLER, BackfillMode, BackfillTerms
from fairlead.model.queues import QueueSpec, UnitOrder
from fairlead.model.run_times import RunTime
from fairlead.model.start_times import StartTimes
from timed_world import EXACT, TimedWorld, a_job


def eight_nodes(terms: BackfillTerms = EXACT) -> TimedWorld:
    """One GPU each."""
    return TimedWorld(*(a_node(f"n{at}", gpus=1) for at in range(8)), terms=terms)


def with_head(head: int, terms: BackfillTerms = EXACT) -> TimedWorld:
    """R1 holds 6 nodes until 10, and the head waits."""
    world = eight_nodes(terms)
    world.submit(*a_job("r1", 6, 10))
    world.submit(*a_job("head", head, 5))
    return world


def test_the_head_is_planned_for_when_there_is_room() -> None:
    world = with_head(8)
    assert world.planned_s("head", 8) == 10
    planned = world.engine.plans.start_of("fairlead/default/head")
    assert planned is not None
    assert planned.bounded
    assert planned.end_s == 15
    assert sorted(planned.basis) == [f"r1-{at}" for at in range(6)]
    assert len({node for _, node in planned.nodes}) == 8


def test_a_unit_that_ends_in_time_starts_and_a_longer_one_waits() -> None:
    world = with_head(8)
    world.submit(*a_job("b2", 2, 11))
    assert not world.runs("b2")
    assert world.failures["b2-0"].reason == WAITING_FOR_PLANNED_START
    assert "planned for 1970-01-01T00:00:10Z" in world.failures["b2-0"].message
    world.submit(*a_job("b1", 2, 10))
    assert world.runs("b1")
    world.run_until(100)
    assert world.start_of("head") == 10
    assert world.start_of("b2") == 15


def test_one_node_more_is_for_any_run_time_and_a_second_is_not() -> None:
    world = with_head(7)
    assert world.planned_s("head", 7) == 10
    world.submit(*a_job("long", 1, 1000))
    assert world.runs("long")
    world.submit(*a_job("too-long", 1, 11))
    assert not world.runs("too-long")
    assert world.failures["too-long"].reason == WAITING_FOR_PLANNED_START
    world.submit(*a_job("short", 1, 10))
    assert world.runs("short")
    world.run_until(10)
    assert world.start_of("head") == 10


@pytest.mark.parametrize("mode", [BackfillMode.EASY, BackfillMode.CONSERVATIVE])
def test_no_room_is_held_for_a_head_that_has_timed_out(mode: BackfillMode) -> None:
    world = eight_nodes(replace(EXACT, mode=mode))
    world.engine.wall_offset_s = 1e9
    world.submit(*a_job("r1", 6, 10))
    world.submit(*a_job("head", 8, 5, start=StartTimes(1e9, give_up_s=1e9 + 4)))
    world.submit(*a_job("b", 2, 20))
    assert world.planned_s("head", 8) == 10
    assert not world.runs("b")
    world.run_until(4)
    assert world.failures["head-0"].reason == WAIT_TIMED_OUT
    assert world.planned_s("head", 8) is None
    assert world.runs("b")


def test_a_service_waits_as_the_longest_unit_does() -> None:
    world = with_head(8)
    world.submit(*a_job("service", 1, None))
    assert not world.runs("service")
    world.run_until(15)
    assert world.start_of("head") == 10
    assert world.start_of("service") == 15


def test_without_backfill_the_head_is_passed() -> None:
    world = with_head(8, BackfillTerms())
    world.submit(*a_job("b2", 2, 11))
    assert world.runs("b2")
    assert world.planned_s("head", 8) is None


def test_a_head_behind_units_without_an_end_holds_nothing() -> None:
    world = eight_nodes()
    world.submit(*a_job("r1", 6, None))
    world.submit(*a_job("head", 8, 5))
    assert world.planned_s("head", 8) is None
    world.submit(*a_job("b", 2, 1000))
    assert world.runs("b")


def test_units_without_an_end_may_be_taken_to_end_some_time() -> None:
    """And when they do not, the head gives the room back after a limit."""
    terms = BackfillTerms(BackfillMode.EASY, resolution_s=0.0, unknown_s=60.0, hold_s=600.0)
    world = eight_nodes(terms)
    world.submit(*a_job("r1", 6, None))
    world.submit(*a_job("head", 8, 5))
    assert world.planned_s("head", 8) == 60
    world.submit(*a_job("b", 2, 1000))
    assert not world.runs("b")
    world.run_until(5000)
    assert 600 < world.start_of("b") < 1300
    assert not world.runs("head")


def test_a_higher_priority_goes_first_and_the_head_is_planned_again() -> None:
    world = with_head(8)
    world.submit(*a_job("urgent", 2, 100, priority=10))
    assert world.runs("urgent")
    assert world.planned_s("head", 8) == 100
    world.submit(*a_job("b", 6, 50))  # r1 still runs
    world.run_until(10)
    assert world.runs("b")
    world.run_until(200)
    assert world.start_of("head") == 100


def test_a_head_that_ends_early_lets_others_go_at_once() -> None:
    world = with_head(8)
    world.submit(*a_job("b", 2, 11))
    assert not world.runs("b")
    world.end(*(f"head-{at}" for at in range(8)))
    world.work()
    assert world.runs("b")


def test_the_start_moves_earlier_when_units_end_early() -> None:
    world = eight_nodes()
    world.submit(*a_job("r1", 3, 10), runs_s=4)
    world.submit(*a_job("r2", 3, 20))
    world.submit(*a_job("head", 8, 5))
    assert world.planned_s("head", 8) == 20
    world.submit(*a_job("next", 5, 5))
    assert not world.runs("next")
    world.run_until(4)
    assert world.runs("next")  # it ends before 20


def test_the_head_is_planned_again_when_its_node_is_gone() -> None:
    world = TimedWorld(*(a_node(f"n{at}", gpus=2) for at in range(4)))
    world.submit(*a_job("r1", 4, 10, gpus=1))
    world.submit(*a_job("r2", 4, 30, gpus=1))
    world.submit(*a_job("head", 2, 5, gpus=2))
    before = world.engine.plans.start_of("fairlead/default/head")
    assert before is not None
    lost = before.nodes[0][1]
    for pod in [pod for pod in world.pods.values() if pod.node == lost]:
        del world.pods[pod.uid]
        world.tell(PodGone(pod))
    world.tell(NodeGone(lost))
    world.work()
    after = world.engine.plans.start_of("fairlead/default/head")
    assert after is None or lost not in {node for _, node in after.nodes}
    world.run_until(100)
    assert world.runs("head")


def test_an_overrun_is_corrected_and_the_head_keeps_its_room() -> None:
    """The run time of r1 was too short: the start is planned again, a few times at most."""
    world = eight_nodes()
    world.submit(*a_job("r1", 6, None, run_time=RunTime(estimate_s=10, source="test")), runs_s=75)
    world.submit(*a_job("head", 8, 5))
    starts = [world.planned_s("head", 8)]
    world.submit(*a_job("b", 2, 70))
    assert not world.runs("b")
    for at in range(1, 75):
        world.run_until(at)
        if world.planned_s("head", 8) != starts[-1]:
            starts.append(world.planned_s("head", 8))
    assert starts[0] == 10
    assert len(starts) <= 6
    world.run_until(75)
    assert world.start_of("head") == 75


def test_a_filler_starts_for_any_time_and_is_evicted_for_the_head() -> None:
    world = eight_nodes()
    world.submit(*a_job("r1", 6, 10, priority=5))
    world.submit(*a_job("head", 8, 5, priority=5))
    world.submit(*a_job("plain", 1, None))
    assert not world.runs("plain")
    world.submit(*a_job("filler", 1, None, annotations={FILLER: "true"}))
    assert world.runs("filler")
    assert world.planned_s("head", 8) == 10
    world.run_until(10)
    assert [victim.name for evict in world.evictions for victim in evict.victims] == ["filler"]
    world.evict_all()
    world.work()
    assert world.start_of("head") == 10


def test_a_filler_of_equal_priority_waits() -> None:
    world = with_head(8)
    world.submit(*a_job("filler", 1, None, annotations={FILLER: "true"}))
    assert not world.runs("filler")


@pytest.mark.parametrize("size", [1, 2])
def test_shares_of_gpus_are_kept_free(size: int) -> None:
    """A share that runs past the start goes to the GPU that the head does not need."""
    world = TimedWorld(a_node("n0", gpus=2))
    world.submit(*a_job("r", 1, 10, gpus=1))
    world.submit(*a_job("head", 1, 5, gpus=2))
    assert world.planned_s("head", 1) == 10
    world.submit(*a_job("share", size, 11, gpus=1))
    assert not world.runs("share")


def test_units_that_are_held_back_are_quiet() -> None:
    world = with_head(8)
    world.submit(*a_job("b", 2, 50))
    attempts = world.engine.queue.gang("fairlead/default/b")
    assert attempts is not None
    before = attempts.attempts
    for at in range(1, 10):
        world.run_until(at)
    assert attempts.attempts == before


def test_all_waiting_units_can_be_planned_without_a_change() -> None:
    """Also without backfill; in the order of the units, each beside those before it."""
    world = with_head(8, BackfillTerms(resolution_s=0.0))
    world.submit(*a_job("second", 8, 20))
    world.submit(*a_job("third", 4, None))
    planned = {each.unit_key: each for each in world.engine.plans.plan_all(10, now=world.now)}
    starts = {key.rpartition("/")[2]: each.start_s for key, each in planned.items()}
    assert starts == {"head": 10, "second": 15, "third": 35}
    assert not world.engine.plans.are_made
    assert [each.unit_key for each in world.engine.plans.plan_all(1, now=0.0)] == [
        "fairlead/default/head"
    ]
    world.run_until(100)
    assert [world.start_of(name) for name in ("head", "second", "third")] == [10, 15, 35]


def test_a_queue_has_a_mode_of_its_own() -> None:
    """Also one that comes while units wait; it holds for queues beneath it."""
    world = eight_nodes(BackfillTerms(resolution_s=0.0))
    world.tell(QueueSeen(QueueSpec("fairlead/a")))
    world.tell(QueueSeen(QueueSpec("fairlead/b", parent="fairlead/a")))
    world.submit(*a_job("r1", 6, 10))
    world.submit(*a_job("head", 8, 5, queue="fairlead/b"))
    assert world.planned_s("head", 8) is None
    world.tell(QueueSeen(QueueSpec("fairlead/a", backfill=BackfillMode.EASY)))
    world.work()
    assert world.planned_s("head", 8) == 10
    world.submit(*a_job("long", 2, 11))
    assert world.failures["long-0"].reason == WAITING_FOR_PLANNED_START
    world.tell(QueueGone("fairlead/a"))
    world.work()
    assert world.planned_s("head", 8) is None
    assert world.runs("long")


def test_a_queue_without_backfill_in_a_cluster_with_it_holds_nothing() -> None:
    world = eight_nodes()
    world.tell(QueueSeen(QueueSpec("fairlead/a", backfill=BackfillMode.NONE)))
    world.submit(*a_job("r1", 6, 10))
    world.submit(*a_job("head", 8, 5, queue="fairlead/a"))
    assert world.planned_s("head", 8) is None
    world.submit(*a_job("other", 8, 5))
    assert world.planned_s("other", 8) == 10
    world.run_until(100)
    assert world.runs("head")


def one_node(terms: BackfillTerms) -> TimedWorld:
    return TimedWorld(a_node("n0", gpus=4), terms=terms)


SHORT_FIRST = BackfillTerms(BackfillMode.SHORT_FIRST, resolution_s=0.0)


def test_with_short_first_the_smallest_service_starts_first_within_its_priority() -> None:
    world = one_node(SHORT_FIRST)
    world.submit(*a_job("r", 1, 10, gpus=4))
    world.submit(*a_job("unknown", 1, None, gpus=4))
    world.submit(*a_job("long", 1, 20, gpus=4))
    world.submit(*a_job("short", 1, 5, gpus=4))
    world.submit(*a_job("urgent", 1, 30, gpus=4, priority=5))
    world.run_until(100)
    starts = [world.start_of(name) for name in ("urgent", "short", "long", "unknown")]
    assert starts == [10, 40, 45, 65]


def test_with_short_first_a_start_is_planned_for_a_unit_that_has_waited_long_enough() -> None:
    """Others may then put it off by a part of the time that it was first to wait."""
    world = one_node(SHORT_FIRST)
    world.submit(*a_job("r", 1, 100, gpus=3))
    world.submit(*a_job("head", 1, 10, gpus=4))
    assert world.planned_s("head", 1) is None
    world.run_until(12)
    world.submit(*a_job("more", 1, 2, gpus=1))
    assert world.planned_s("head", 1) == 100
    world.run_until(20)
    world.submit(*a_job("beyond", 1, 140, gpus=1))
    assert "would delay" in world.failures["beyond"].message
    world.submit(*a_job("longer", 1, 1000, gpus=1))
    assert "runs for long past 1970-01-01T00:01:40Z" in world.failures["longer"].message
    world.submit(*a_job("within", 1, 130, gpus=1))
    assert world.runs("within")
    assert world.planned_s("head", 1) == 150
    world.run_until(400)
    assert world.start_of("head") == 150


def test_a_queue_has_short_first_of_its_own() -> None:
    world = one_node(BackfillTerms(resolution_s=0.0))
    spec = QueueSpec(
        "fairlead/a", order=UnitOrder.SMALLEST_FIRST, backfill=BackfillMode.SHORT_FIRST
    )
    world.tell(QueueSeen(spec))
    world.submit(*a_job("r", 1, 10, gpus=4))
    world.submit(*a_job("long", 1, 20, gpus=4, queue="fairlead/a"))
    world.submit(*a_job("short", 1, 5, gpus=4, queue="fairlead/a"))
    world.run_until(100)
    assert [world.start_of(name) for name in ("short", "long")] == [10, 15]


@pytest.mark.parametrize(("said", "delay_s"), [("bound_s", 0), ("estimate_s", 8)])
def test_a_unit_that_runs_100_times_longer_than_it_said_is_evicted_for_the_planned_one(
    said: str, delay_s: float
) -> None:
    """One with an estimate is given twice its time."""
    world = with_head(8)
    world.run_until(2)
    liar = RunTime(**{said: 8.0}, source="test", enforced=False)
    world.submit(*a_job("liar", 2, None, run_time=liar), runs_s=800)
    assert world.runs("liar")
    world.run_until(10 + delay_s)
    assert {victim.name for evict in world.evictions for victim in evict.victims} == {
        "liar-0", "liar-1",
    }  # fmt: skip
    world.evict_all()
    world.work()
    assert world.start_of("head") == 10 + delay_s


def test_a_unit_that_overruns_stays_where_it_delays_none_or_the_configuration_says_so() -> None:
    liar = RunTime(bound_s=8.0, source="test", enforced=False)
    for head, terms in ((6, EXACT), (8, replace(EXACT, evicts_overruns=False))):
        world = with_head(head, terms)
        world.submit(*a_job("liar", 2, None, run_time=liar), runs_s=800)
        world.run_until(30)
        assert not world.evictions


@pytest.mark.parametrize("jump_s", [-86_400.0, -3.0, 3.0, 3600.0, 3e9])
def test_a_wall_clock_that_jumps_delays_no_head_and_evicts_no_unit(jump_s: float) -> None:
    """Plans are made on a clock that never goes back; pods start by that on the wall."""
    world = with_head(8)
    world.engine.wall_offset_s = 1.8e9
    world.submit(*a_job("b1", 2, 9))
    world.run_until(4)
    world.engine.wall_offset_s += jump_s
    world.submit(*a_job("b2", 2, 1000))
    world.run_until(100)
    assert world.start_of("b1") == 0
    assert not world.evictions
    assert world.start_of("head") <= 10 + 1
    assert world.start_of("b2") >= world.start_of("head")
