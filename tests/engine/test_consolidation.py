"""Plans are carried out: places are held, pods evicted, and everything is released in time."""

from dataclasses import replace

from builders import a_pod
from consolidation_world import NOW_S, a_world, running
from fairlead.engine.events import EvictionEnded, PodGone
from fairlead.engine.instructions import AnnounceNotice, Evict
from fairlead.model.start_times import StartTimes
from gang_world import GangWorld, a_gang

AFTER_S = 300.0


def wait(world: GangWorld, seconds: float = AFTER_S) -> None:
    world.now += seconds
    world.decide_all()


def node_of(world: GangWorld, name: str) -> str:
    return next(pod.node for pod in world.pods.values() if pod.name == name)


EIGHT = [f"n{n} abcdefg." for n in range(1, 9)]


def test_moved_pods_run_elsewhere_and_the_waiting_pod_starts() -> None:
    world = a_world(*EIGHT)
    world.create(a_pod("big", gpus=4))
    world.decide_all()
    assert not world.evictions
    wait(world)
    [evict] = world.evictions
    assert evict.moves
    assert evict.because == (
        "moved so that pod default/big can start; a place elsewhere is held for it"
    )
    emptied = {victim.node for victim in evict.victims}
    world.evict_all()
    world.decide_all()
    world.answer_all()
    assert {node_of(world, "big")} == emptied
    assert all(pod.node for pod in world.pods.values())
    assert not world.engine.cluster.nominations
    world.check()


def test_nothing_moves_for_a_unit_that_does_not_start_yet() -> None:
    world = a_world(*EIGHT)
    start = StartTimes(NOW_S, NOW_S + 4 * AFTER_S)
    world.create(replace(a_pod("big", gpus=4), start=start))
    world.decide_all()
    for _ in range(3):
        wait(world)
    assert not world.evictions
    wait(world)
    assert world.evictions


def test_nothing_moves_unless_it_is_enabled() -> None:
    world = a_world(*EIGHT, enabled=False)
    world.create(a_pod("big", gpus=4))
    world.decide_all()
    for _ in range(10):
        wait(world)
    assert not world.evictions


def test_the_places_are_held_against_pods_that_come_meanwhile() -> None:
    world = a_world(*EIGHT)
    world.create(a_pod("big", gpus=4))
    world.decide_all()
    wait(world)
    fillers = [a_pod(f"filler-{n}", gpus=1) for n in range(8)]
    world.create(*fillers)
    world.decide_all()
    world.answer_all()
    # Of eight free GPUs one is on the node of the waiting pod, and three are for moved pods.
    assert sum(bool(node_of(world, pod.name)) for pod in fillers) == 4
    world.evict_all()
    world.decide_all()
    world.answer_all()
    assert node_of(world, "big")
    moved = [pod for pod in world.pods.values() if pod.name.startswith("n")]
    assert all(pod.node for pod in moved)


def test_a_pod_of_higher_priority_may_take_the_room() -> None:
    world = a_world(*EIGHT)
    world.create(a_pod("big", gpus=4))
    world.decide_all()
    wait(world)
    world.create(a_pod("urgent", gpus=1, priority=9))
    world.decide_all()
    world.answer_all()
    assert node_of(world, "urgent")


def test_a_refused_eviction_ends_the_plan_and_holds_nothing() -> None:
    world = a_world(*EIGHT)
    world.create(a_pod("big", gpus=4))
    world.decide_all()
    wait(world)
    assert world.engine.cluster.nominations
    world.evict_all(well=False)
    assert not world.engine.cluster.nominations
    wait(world, 1000.0)
    assert not world.evictions, "another plan for it comes only after half an hour"
    wait(world, 1000.0)
    assert world.evictions


def test_a_plan_is_over_when_all_have_nodes_and_the_next_one_begins() -> None:
    world = a_world(*EIGHT)
    world.create(a_pod("big", gpus=4), a_pod("next", gpus=2))
    world.decide_all()
    wait(world)
    [evict] = world.evictions
    for victim in evict.victims:
        world.replace(victim.uid)
        world.decide_all()
        world.answer_all()
    assert node_of(world, "big")
    assert not world.engine.cluster.nominations
    world.evictions.clear()
    world.tell(EvictionEnded(evict.pod.uid))
    wait(world, 11.0)
    assert [each.pod.name for each in world.evictions] == ["next"]


def test_everything_held_is_released_when_successors_never_come() -> None:
    world = a_world(*EIGHT, held_s=600.0)
    world.create(a_pod("big", gpus=4))
    world.decide_all()
    wait(world)
    [evict] = world.evictions
    for victim in evict.victims:
        world.tell(PodGone(world.pods.pop(victim.uid)))
    world.tell(EvictionEnded(evict.pod.uid))
    world.evictions.clear()
    world.decide_all()
    world.answer_all()
    assert node_of(world, "big")
    assert world.engine.cluster.nominations
    assert world.engine.wake_at_s() is not None
    wait(world, 601.0)
    assert not world.engine.cluster.nominations


def test_moves_are_limited_by_the_hour() -> None:
    """A unit that comes and goes in order to have others moved."""
    world = a_world(*EIGHT, moves_per_hour=7)
    moves = 0
    for turn in range(12):
        pod = a_pod(f"flapping-{turn}", gpus=4)
        world.create(pod)
        world.decide_all()
        wait(world)
        moves += sum(len(evict.victims) for evict in world.evictions)
        world.evict_all()
        world.decide_all()
        world.answer_all()
        world.end(pod.name)
        world.decide_all()
        _restart_times(world)
    assert 0 < moves <= 7
    assert world.engine.moved.moves == moves


def _restart_times(world: GangWorld) -> None:
    """Pods are shown as they are: a defragmented cluster stays so."""
    for uid, pod in list(world.pods.items()):
        if not pod.started:
            world.pods[uid] = replace(pod, started="2026-01-01T12:00:00Z")


def test_work_that_is_lost_is_limited_by_the_hour() -> None:
    world = a_world(*EIGHT, gpu_seconds_per_hour=3 * 1200.0)
    world.create(a_pod("big", gpus=4))
    world.decide_all()
    wait(world)
    assert not world.evictions, "each of three pods has lost 1500 GPU-seconds by now"


def test_a_gang_waits_and_gangs_move() -> None:
    world = a_world(*(f"n{n} ...." for n in range(1, 5)))
    members = [
        running(f"old-{rank}", 2, f"n{rank + 1}", gang=pod.gang, controller="Job/old")
        for rank, pod in enumerate(a_gang("old", 4))
    ]
    world.create(*members)
    world.create(*a_gang("new", 2, gpus=4))
    world.decide_all()
    wait(world)
    [evict] = world.evictions
    assert {victim.name for victim in evict.victims} == {"old-0", "old-1", "old-2", "old-3"}
    world.evict_all()
    world.decide_all()
    world.answer_all()
    world.decide_all()
    world.answer_all()
    assert world.bound("new") == 2
    assert world.bound("old") == 4
    assert not world.engine.cluster.nominations
    world.check()


def test_a_restart_in_the_middle_loses_nothing() -> None:
    world = a_world(*EIGHT)
    world.create(a_pod("big", gpus=4))
    world.decide_all()
    wait(world)
    [evict] = world.evictions
    first, *others = evict.victims
    world.replace(first.uid)
    another = a_world(*(f"n{n} ........" for n in range(1, 9))).engine
    world.restart(another)
    world.decide_all()
    world.answer_all()
    world.check()
    assert all(pod.node for pod in world.pods.values() if pod.name != "big")
    assert {victim.uid for victim in others} <= world.pods.keys()


def test_the_waiting_pod_is_told() -> None:
    world = a_world(*EIGHT)
    pod = a_pod("big", gpus=4)
    world.create(pod)
    world.decide_all()
    world.now += AFTER_S
    notice, evict = world.engine.tend(now=world.now)
    assert isinstance(notice, AnnounceNotice)
    assert isinstance(evict, Evict)
    assert (notice.pod, notice.reason) == (pod, "Consolidated")
    assert "3 pod(s) with 3 GPU(s) move" in notice.message


def test_units_that_moves_do_not_help_are_left_for_a_while() -> None:
    world = a_world("n1 aaaaa...", "n2 aaaaa...")
    world.create(a_pod("big", gpus=4))
    world.decide_all()
    wait(world)
    before = world.engine.cluster.work.spent
    wait(world, 20.0)
    assert world.engine.cluster.work.spent - before < 200
    assert not world.evictions
