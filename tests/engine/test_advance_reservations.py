"""Nodes that people keep free for a time in the future."""

from dataclasses import replace

import pytest

from builders import a_node
from fairlead.engine import advance_choice
from fairlead.engine.advance import _MOST_WORK, MOST
from fairlead.engine.events import (
    AdvanceGone,
    AdvanceSeen,
    NodeGone,
    NodeSeen,
    PodSeen,
    QueueSeen,
)
from fairlead.engine.instructions import AdvanceStatusChanged, Instruction
from fairlead.engine.reasons import WAITING_FOR_RESERVATION
from fairlead.model.advance import AdvancePhase, AdvanceReservation, AdvanceStatus
from fairlead.model.backfill import BackfillTerms
from fairlead.model.pods import Pod
from fairlead.model.queues import QueueSpec
from fairlead.model.run_times import RunTime
from fairlead.queue.units import PodUnit
from fairlead.testing.builders import a_gpu_node
from timed_world import EXACT, TimedWorld, a_job

DEMO = AdvanceReservation(
    "demo", start_s=100, end_s=200, node_selector=(("rack", "a"),), namespaces=frozenset({"demo"})
)


class AdvanceWorld(TimedWorld):
    """Two racks of two nodes with one GPU each."""

    def __init__(self, terms: BackfillTerms | None = None) -> None:
        self.statuses: dict[str, AdvanceStatus] = {}
        nodes = [
            a_node(f"{rack}{at}", gpus=1, labels={"rack": rack}) for rack in "ab" for at in "12"
        ]
        super().__init__(*nodes, terms=terms or BackfillTerms())

    def _carry_out(self, made: "list[Instruction]") -> None:  # type: ignore[override]
        super()._carry_out(made)
        for each in made:
            if isinstance(each, AdvanceStatusChanged):
                self.statuses[each.name] = each.status

    def reserve(self, reservation: AdvanceReservation = DEMO) -> None:
        self.tell(AdvanceSeen(reservation))
        self.work()

    def node_of(self, name: str) -> str:
        return self.pods[name].node


def demo(name: str, run_s: float | None = 1000) -> list[Pod]:
    return [replace(pod, namespace="demo") for pod in a_job(name, 1, run_s)]


def test_units_that_would_still_run_are_not_started_on_reserved_nodes() -> None:
    world = AdvanceWorld()
    world.reserve()
    assert world.statuses["demo"] == AdvanceStatus(AdvancePhase.PENDING, ("a1", "a2"), 2)
    for name in ("one", "two", "three"):
        world.submit(*a_job(name, 1, 1000))
    assert {world.node_of(name) for name in ("one", "two")} == {"b1", "b2"}
    failure = world.failures["three"]
    assert failure.reason == WAITING_FOR_RESERVATION
    assert failure.message == (
        "it could still run when the nodes that fit it are reserved, at 1970-01-01T00:01:40Z"
    )
    world.submit(*a_job("short", 1, 100))
    assert world.node_of("short").startswith("a")
    world.run_until(199)
    assert not world.runs("three")
    world.run_until(201)
    assert world.start_of("three") == 200
    assert world.statuses["demo"].phase is AdvancePhase.ENDED


def test_its_users_start_there_before_and_in_it() -> None:
    world = AdvanceWorld()
    world.reserve()
    for name in ("x", "y"):
        world.submit(*a_job(name, 1, None))
    world.submit(*demo("early"))
    assert world.node_of("early").startswith("a")
    world.run_until(150)
    assert world.statuses["demo"].phase is AdvancePhase.ACTIVE
    world.submit(*a_job("other", 1, 10))
    assert not world.runs("other")
    world.submit(*demo("late"))
    assert world.node_of("late").startswith("a")


def test_queues_may_be_its_users() -> None:
    world = AdvanceWorld()
    world.tell(QueueSeen(QueueSpec("fairlead/team")))
    world.tell(QueueSeen(QueueSpec("fairlead/team-a", parent="fairlead/team")))
    world.reserve(replace(DEMO, namespaces=frozenset(), queues=frozenset({"fairlead/team"})))
    for name in ("x", "y", "z"):
        world.submit(*a_job(name, 1, None))
    assert not world.runs("z")
    world.submit(*a_job("mine", 1, None, queue="fairlead/team-a"))
    assert world.node_of("mine").startswith("a")


def test_maintenance_is_for_no_unit_and_ends_with_its_object() -> None:
    world = AdvanceWorld()
    world.reserve(replace(DEMO, namespaces=frozenset(), start_s=0))
    for name in ("x", "y"):
        world.submit(*demo(name))
    world.submit(*demo("z", 1))
    assert not world.runs("z")
    world.tell(AdvanceGone("demo"))
    world.work()
    assert world.runs("z")


def test_what_still_runs_is_counted_and_stays() -> None:
    world = AdvanceWorld()
    for name in ("w", "x", "y", "z"):
        world.submit(*a_job(name, 1, None))
    world.reserve()
    assert world.statuses["demo"].conflicts == 2
    assert world.statuses["demo"].message == (
        "2 pod(s) of others may still run when it begins on its nodes"
    )
    world.run_until(150)
    assert world.statuses["demo"].conflicts == 2
    assert not world.evictions


def test_what_still_runs_is_evicted_if_it_says_so() -> None:
    world = AdvanceWorld()
    for name in ("w", "x", "y", "z"):
        world.submit(*a_job(name, 1, None))
    world.reserve(replace(DEMO, preempts=True))
    world.run_until(99)
    assert not world.evictions
    world.run_until(100)
    victims = [victim for evict in world.evictions for victim in evict.victims]
    assert {victim.node for victim in victims} == {"a1", "a2"}
    assert all(evict.because and evict.moves for evict in world.evictions)


def test_gangs_are_limited_too() -> None:
    world = AdvanceWorld()
    world.reserve()
    world.submit(*a_job("gang", 3, 1000))
    assert world.failures["gang-0"].reason == WAITING_FOR_RESERVATION
    world.submit(*a_job("pair", 2, 1000))
    assert {world.node_of(f"pair-{at}") for at in range(2)} == {"b1", "b2"}


def test_planned_starts_leave_reserved_nodes() -> None:
    world = AdvanceWorld(EXACT)
    world.submit(*a_job("r", 4, 50))
    world.reserve()
    world.submit(*a_job("head", 3, 100))
    assert world.planned_s("head", 3) == 200
    world.run_until(210)
    assert world.start_of("head") == 200


def test_gpus_of_a_model_are_reserved_as_whole_nodes_and_replaced() -> None:
    world = TimedWorld(
        *(a_gpu_node(f"h{at}", gpus=2, model="H100") for at in range(3)),
        a_gpu_node("t0", gpus=4, model="T4"),
        terms=BackfillTerms(),
    )
    world.submit(*a_job("service", 1, None, node_selector=()))
    busy = world.pods["service"].node
    ask = AdvanceReservation("train", 100, 200, gpus=3, model="H100")
    world.tell(AdvanceSeen(ask))
    world.work()
    chosen = set(world.engine.plans.advance.nodes_of("train"))
    assert len(chosen) == 2
    assert "t0" not in chosen
    assert busy not in chosen
    lost = min(chosen)
    world.tell(NodeGone(lost))
    world.run_until(20)
    again = set(world.engine.plans.advance.nodes_of("train"))
    assert len(again) == 2
    assert lost not in again
    assert chosen - {lost} <= again


def test_a_node_with_the_label_is_reserved_from_when_it_comes() -> None:
    world = AdvanceWorld()
    world.reserve(replace(DEMO, node_selector=(("rack", "c"),)))
    assert world.statuses["demo"].message == "no node matches it"
    world.tell(NodeSeen(a_node("c1", gpus=8, labels={"rack": "c"})))
    for name in ("w", "x", "y", "z"):
        world.submit(*a_job(name, 1, None))
    world.submit(*a_job("more", 1, None))
    assert not world.runs("more")


@pytest.mark.parametrize("problem", ["spec.end is before spec.start"])
def test_an_invalid_one_has_no_effect_and_says_why(problem: str) -> None:
    world = AdvanceWorld()
    world.reserve(AdvanceReservation("bad", problem=problem))
    assert world.statuses["bad"] == AdvanceStatus(AdvancePhase.INVALID, message=problem)
    for name in ("w", "x", "y", "z"):
        world.submit(*a_job(name, 1, None))
        assert world.runs(name)


def test_many_reservations_are_looked_at_over_several_turns() -> None:
    """A turn looks at a bounded number of pods, also if there are not enough GPUs for all."""
    world = AdvanceWorld()
    for number in range(400):
        world.tell(NodeSeen(a_node(f"n{number}", gpus=4)))
    pods = [
        replace(a_job(f"p{number}", 1, 50)[0], node=f"n{number % 400}") for number in range(1600)
    ]
    for pod in pods:
        world.tell(PodSeen(pod))
    for number in range(MOST + 100):
        gpus = 4 if number % 2 else 100_000
        world.tell(AdvanceSeen(replace(DEMO, name=f"r{number}", node_selector=(), gpus=gpus)))
    work, turns = world.engine.cluster.work, 0
    while turns == 0 or world.engine.plans.advance.due_s() == 0.0:
        before = work.spent
        world.engine.tend(now=world.now)
        assert work.spent - before < 2 * _MOST_WORK
        turns += 1
    assert turns > 1
    before = work.spent
    world.engine.tend(now=world.now + 11)
    assert work.spent - before < 2 * _MOST_WORK


def test_of_many_nodes_those_with_the_fewest_pods_are_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """To find when all pods of a large cluster end would take too long for one turn."""
    monkeypatch.setattr(advance_choice, "_MOST_RANKED", 3)
    world = AdvanceWorld()
    for at in range(20):
        world.tell(NodeSeen(a_node(f"n{at}", gpus=4)))
        for number in range(2 if at < 17 else 1):
            pod = a_job(f"p{at}-{number}", 1, None if at == 18 else 50)[0]
            world.tell(PodSeen(replace(pod, node=f"n{at}")))
    for rack in "ab":
        for at in "12":
            world.tell(NodeGone(f"{rack}{at}"))
    before = world.engine.cluster.work.pods
    world.reserve(replace(DEMO, node_selector=(), gpus=8))
    assert world.statuses["demo"].nodes == ("n17", "n19"), "of n17 to n19, n18 has no end"
    assert world.engine.cluster.work.pods - before < 37, "not all pods were looked at"
    world.reserve(replace(DEMO, name="large", node_selector=(), gpus=24))
    assert world.statuses["large"].gpus == 24


def test_the_rows_of_reservations_are_read_once_until_nodes_change() -> None:
    world = AdvanceWorld()
    for number in range(30):
        world.reserve(replace(DEMO, name=f"r{number}"))
    advance, unit = world.engine.plans.advance, PodUnit(a_job("u", 1, None)[0])
    first, again = advance.closed(unit, 0.0, 150.0), advance.closed(unit, 0.0, 150.0)
    assert first is not None
    assert again is not None
    assert first.rows is again.rows
    assert first.rows.sum() == 2
    world.tell(NodeSeen(a_node("a1", gpus=1, labels={"rack": "c"})))
    world.tell(NodeSeen(a_node("b1", gpus=1, labels={"rack": "a"})))
    world.tell(NodeGone("a2"))
    changed = advance.closed(unit, 0.0, 150.0)
    assert changed is not None
    rows = world.engine.cluster.row_of
    assert [node for node in rows if changed.rows[rows[node]]] == ["b1"]


# -- clocks that are set --------------------------------------------------------------------------


def with_a_clock(reservation: AdvanceReservation = DEMO, *, full: bool = False) -> AdvanceWorld:
    world = AdvanceWorld()
    if full:
        for name in ("w", "x", "y", "z"):
            world.submit(*a_job(name, 1, None))
    world.reserve(reservation)
    return world


@pytest.mark.parametrize(
    ("jump_s", "phase"),
    [
        (-86_400.0, AdvancePhase.PENDING),
        (-3.0, AdvancePhase.PENDING),
        (60.0, AdvancePhase.ACTIVE),
        (86_400.0, AdvancePhase.ENDED),
        (3e9, AdvancePhase.ENDED),
    ],
)
def test_a_clock_that_jumps_changes_the_phase_and_a_clock_that_is_right_again_changes_it_back(
    jump_s: float, phase: AdvancePhase
) -> None:
    world = with_a_clock()
    world.run_until(50)
    world.engine.wall_offset_s += jump_s
    world.run_until(61)
    assert world.statuses["demo"].phase is phase
    world.engine.wall_offset_s -= jump_s
    world.run_until(72)
    assert world.statuses["demo"].phase is AdvancePhase.PENDING
    for name in ("one", "two", "three"):
        world.submit(*a_job(name, 1, 1000))
    assert not world.runs("three"), "its nodes are kept again"
    world.run_until(201)
    assert world.start_of("three") == 200


def test_a_clock_that_jumps_into_a_reservation_evicts_no_pod_if_it_is_put_right() -> None:
    world = with_a_clock(replace(DEMO, preempts=True), full=True)
    world.run_until(20)
    world.engine.wall_offset_s += 100
    world.run_until(50)
    assert world.statuses["demo"].phase is AdvancePhase.ACTIVE
    world.engine.wall_offset_s -= 100
    world.run_until(99)
    assert not world.evictions
    world.run_until(125)
    assert world.evictions, "it has begun"


def test_a_clock_that_was_wrong_before_evicts_after_a_minute() -> None:
    world = with_a_clock(replace(DEMO, preempts=True, end_s=1000), full=True)
    world.run_until(20)
    world.engine.wall_offset_s += 100
    world.run_until(79)
    assert not world.evictions
    world.run_until(95)
    assert world.evictions


def test_a_clock_that_jumps_past_the_end_lets_units_start_at_once() -> None:
    world = with_a_clock()
    for name in ("one", "two", "three"):
        world.submit(*a_job(name, 1, 1000))
    world.run_until(20)
    assert not world.runs("three")
    world.engine.wall_offset_s += 500
    world.run_until(31)
    assert world.runs("three")


@pytest.mark.parametrize("jump_s", [-1e6, -30.0, 30.0, 1e6])
def test_a_clock_that_jumps_starts_nothing_on_reserved_gpus_after_it_is_right(
    jump_s: float,
) -> None:
    world = with_a_clock(replace(DEMO, node_selector=(), gpus=2, gpus_per_node=1))
    kept = set(world.engine.plans.advance.gpus_of("demo"))
    world.run_until(20)
    for change_s in (jump_s, -jump_s):
        world.engine.wall_offset_s += change_s
        world.run_until(world.now + 11)
    for name in ("one", "two", "three"):
        world.submit(*a_job(name, 1, 1000))
    assert not world.runs("three")
    assert set(world.engine.plans.advance.gpus_of("demo")) == kept


# -- run times that are wrong on purpose ----------------------------------------------------------


def a_liar(name: str, nodes: int = 1, **said: float) -> list[Pod]:
    """It says that it ends long before it does, and nothing enforces that."""
    run_time = RunTime(**said, source="test", enforced=False)
    return a_job(name, nodes, None, run_time=run_time)


@pytest.mark.parametrize(
    ("said", "gone_s"), [({"bound_s": 90.0}, 100), ({"estimate_s": 60.0}, 120)]
)
def test_a_unit_that_runs_a_hundred_times_longer_than_it_said_loses_its_place_to_a_reservation(
    said: dict[str, float], gone_s: float
) -> None:
    """A bound is taken at its word, an estimate at twice as long; the reservation asks for none."""
    world = AdvanceWorld()
    world.reserve()
    for name in ("honest-1", "honest-2"):
        world.submit(*a_job(name, 1, None))
    world.submit(*a_liar("liar", **said), runs_s=9000)
    assert world.node_of("liar").startswith("a")
    world.run_until(gone_s - 1)
    assert not world.evictions
    world.run_until(gone_s + 31)
    victims = {victim.name for evict in world.evictions for victim in evict.victims}
    assert victims == {"liar"}
    assert world.evictions[0].because == (
        "it started before the reservation demo as a unit that ends in time, and runs longer than "
        "it said"
    )


def test_a_gang_that_overruns_loses_its_place_as_a_whole() -> None:
    world = AdvanceWorld()
    world.reserve()
    world.submit(*a_liar("liar", 4, bound_s=90.0), runs_s=9000)
    world.run_until(131)
    victims = {victim.name for evict in world.evictions for victim in evict.victims}
    assert victims == {f"liar-{at}" for at in range(4)}


def test_what_ran_before_the_reservation_was_made_is_not_held_to_what_it_said() -> None:
    world = AdvanceWorld()
    for name in ("w", "x", "y", "z"):
        world.submit(*a_liar(name, bound_s=90.0), runs_s=9000)
    world.reserve()
    world.run_until(190)
    assert not world.evictions


def test_overruns_stay_where_the_configuration_says_so() -> None:
    world = AdvanceWorld(replace(BackfillTerms(), evicts_overruns=False))
    world.reserve()
    world.submit(*a_liar("liar", 4, bound_s=90.0), runs_s=9000)
    world.run_until(190)
    assert not world.evictions
