"""What is kept free is counted: for which unit or reservation, since when, and what it costs."""

from collections.abc import Iterator

import pytest

from builders import a_node, a_pod
from fairlead.apps.live.start_forecasts import StartScope, held_answer
from fairlead.apps.queues.reader import QueueReader
from fairlead.engine.events import AdvanceSeen
from fairlead.engine.held_gpus import EVERY_S, HeldKind
from fairlead.model.advance import AdvanceReservation
from timed_world import TimedWorld, a_job


def counting(world: TimedWorld, until_s: float) -> None:
    """Time passes, and the driver calls the engine now and then."""
    while world.now < until_s:
        world.now = min(until_s, world.now + EVERY_S)
        world.engine.tend(now=world.now)


def with_a_plan() -> TimedWorld:
    """Six of eight GPUs are busy until 1000, and a gang of eight waits."""
    world = TimedWorld(*(a_node(f"n{at}", gpus=1) for at in range(8)))
    world.submit(*a_job("r1", 6, 1000))
    world.submit(*a_job("head", 8, 50))
    world.engine.tend(now=world.now)
    return world


def test_free_gpus_of_a_planned_start_are_counted() -> None:
    world = with_a_plan()
    counting(world, 100.0)
    held = world.engine.held_gpus.of("fairlead/default/head")
    assert held is not None
    assert (held.kind, held.gpus, held.since_s) == (HeldKind.PLANNED_START, 2.0, 0.0)
    assert len(held.nodes) == 2
    assert held.gpu_s == pytest.approx(200.0)
    assert world.engine.held_gpus.totals == {HeldKind.PLANNED_START: pytest.approx(200.0)}


def test_what_a_short_unit_uses_meanwhile_is_not_idle() -> None:
    world = with_a_plan()
    world.submit(*a_job("short", 1, 500))
    counting(world, EVERY_S)
    held = world.engine.held_gpus.of("fairlead/default/head")
    assert held is not None
    assert held.gpus == 1.0


def test_nothing_is_kept_when_the_unit_has_started() -> None:
    world = with_a_plan()
    world.run_until(1000.0)
    counting(world, 1000.0 + EVERY_S)
    assert world.runs("head")
    assert not [*world.engine.held_gpus]
    total = world.engine.held_gpus.totals[HeldKind.PLANNED_START]
    counting(world, 2000.0)
    assert world.engine.held_gpus.totals[HeldKind.PLANNED_START] == total


def test_explain_and_queue_say_what_it_costs() -> None:
    world = with_a_plan()
    counting(world, 3600.0)
    pod = world.pods["head-0"]
    told = held_answer(world.engine, pod)["keptFree"]
    assert told["gpuHours"] == pytest.approx(2.0, rel=0.01)
    assert told["message"].startswith("kept free for it: 2 GPUs on n")
    assert told["message"].endswith(" (2.0 GPU-hours)")
    hidden = held_answer(world.engine, pod, scope=StartScope(nodes=False))["keptFree"]
    assert hidden["nodes"] == []
    assert " on n" not in hidden["message"]
    (note,) = QueueReader(world.engine).listing().notes
    assert note == "free GPUs that are kept: 2 for planned starts (2.0 GPU-hours so far)"


def test_free_gpus_of_a_reservation_are_counted_while_it_is_active() -> None:
    world = TimedWorld(*(a_node(f"n{at}", gpus=4, labels={"rack": "a"}) for at in range(2)))
    world.submit(a_pod("runs", uid="runs", gpus=3))
    spec = AdvanceReservation("demo", 100.0, 200.0, (("rack", "a"),))
    world.tell(AdvanceSeen(spec))
    counting(world, 90.0)
    assert not [*world.engine.held_gpus]
    counting(world, 150.0)
    (held,) = world.engine.held_gpus
    assert (held.kind, held.key, held.gpus) == (HeldKind.RESERVATION, "demo", 5.0)
    counting(world, 210.0)
    assert not [*world.engine.held_gpus]
    assert world.engine.held_gpus.totals[HeldKind.RESERVATION] == pytest.approx(500.0, rel=0.11)


def test_a_gpu_counts_once_and_room_of_evictions_counts() -> None:
    world = TimedWorld(a_node("n", gpus=2))
    pod = a_pod("waits", uid="waits", gpus=2, priority=5)
    world.engine.cluster.nominations.put(pod, "n")
    world.tell(AdvanceSeen(AdvanceReservation("demo", 0.0, 1e6, (), gpus=2)))
    world.engine.tend(now=0.0)
    counting(world, EVERY_S)
    assert {held.kind: held.gpus for held in world.engine.held_gpus} == {HeldKind.ROOM: 2.0}


def test_many_reservations_of_the_same_nodes_are_counted_by_node() -> None:
    """The nodes of the second one are not looked at: the first has their GPUs."""
    world = TimedWorld(*(a_node(f"n{at}", gpus=1, labels={"all": "yes"}) for at in range(50)))
    for number in range(40):
        spec = AdvanceReservation(f"r{number}", 0.0, 1e6, node_selector=(("all", "yes"),))
        world.tell(AdvanceSeen(spec))
    looks = 0

    class Watched(set[str]):
        def __iter__(self) -> Iterator[str]:
            nonlocal looks
            looks += len(self)
            return super().__iter__()

    for each in world.engine.plans.advance._known.values():
        each.nodes = Watched(each.nodes)
    world.engine.held_gpus.tend(100.0)
    (held,) = world.engine.held_gpus
    assert (held.key, held.gpus, len(held.nodes)) == ("r0", 50.0, 50)
    assert looks <= 100
