"""What users of other gang schedulers complain about, each as a scenario.

The table in docs/gangs.md names the scenario of each complaint, here or in another file.
"""

import random
from dataclasses import replace

import pytest

from builders import a_node, a_pod, an_engine, pod_term
from examples import so_many
from fairlead.engine.engine import Engine
from fairlead.engine.events import GangSeen, NodeGone, NodeSeen
from fairlead.engine.instructions import AnnounceFailure
from fairlead.engine.reasons import UNSCHEDULABLE, WAITING_FOR_GANG
from fairlead.model.gangs import GangSpec, Membership
from fairlead.model.pods import Pod
from gang_world import GangWorld, a_gang

RACK = "example.com/rack"
KEY = "volcano/default/job"


def a_world(nodes: int, gpus: int = 1) -> GangWorld:
    return GangWorld(an_engine(*(a_node(f"n{n}", gpus=gpus) for n in range(nodes))))


def run(world: GangWorld) -> None:
    """Everything that can be placed is placed, and bound."""
    world.now += 30.0
    world.decide_all()
    world.answer_all()


def members(world: GangWorld, numbers: range, **more: object) -> list[Pod]:
    """Pods of a gang that has an object."""
    pods = [
        a_pod(f"m-{n}", uid=f"m-{n}", gang=Membership(KEY, rank=n), **{"gpus": 1, **more})
        for n in numbers
    ]
    world.create(*pods)
    return pods


def running(world: GangWorld) -> list[str]:
    return sorted(pod.name for pod in world.pods.values() if pod.node)


# -- 1: two gangs hold half of the nodes each ------------------------------------------------


@pytest.mark.parametrize("seed", range(6))
def test_of_two_gangs_that_come_pod_by_pod_one_runs_whole(seed: int) -> None:
    world, rng = a_world(8), random.Random(seed)
    pods = [*a_gang("a", 5), *a_gang("b", 5)]
    rng.shuffle(pods)
    for pod in pods:
        world.create(pod)
        world.decide_all()
        for uid in sorted(world.binds)[: rng.randint(0, 5)]:
            world.answer(uid)
        assert 0 in (world.bound("a"), world.bound("b")), "the other holds nothing at any moment"
    run(world)
    first, second = ("a", "b") if world.bound("a") else ("b", "a")
    assert (world.bound(first), world.bound(second)) == (5, 0)
    world.end(*(f"{first}-{n}" for n in range(5)))
    run(world)
    assert world.bound(second) == 5, "it starts when the first one has ended"


# -- 2: an impossible gang at the head blocks everything -------------------------------------


def test_single_pods_run_at_once_behind_a_gang_that_fits_nowhere() -> None:
    world = a_world(10)
    world.create(*a_gang("large", 100, priority=1000))
    world.decide_all()
    message = world.failures["large-0"].message
    assert "10 of 100 pods fit" in message
    world.create(*(a_pod(f"single-{n}", uid=f"single-{n}", gpus=1) for n in range(10)))
    run(world)
    assert len(running(world)) == 10
    assert not any(name.startswith("large") for name in running(world))


# -- 11: finished members are forgotten ------------------------------------------------------


def test_a_failed_index_is_replaced_after_another_has_completed() -> None:
    world = a_world(4)
    world.tell(GangSeen(GangSpec(KEY, 4)))
    members(world, range(4))
    run(world)
    done = replace(world.pods["m-0"], finished=True)
    world.pods["m-0"] = done
    world.create(done)
    failed = replace(world.pods["m-3"], finished=True, failed=True)
    world.pods.pop("m-3")
    world.create(failed)
    world.pods.pop("m-3")
    world.create(replace(failed, uid="again", node="", grant=None, finished=False, failed=False))
    run(world)
    assert world.pods["again"].node


# -- 12: a gang below its minimum after the loss of a node -----------------------------------


def test_a_gang_that_lost_a_node_gets_a_replacement_before_single_pods() -> None:
    """It has the higher place in the queue by its priority; the others stay where they are."""
    world = a_world(8)
    world.create(*a_gang("job", 8, priority=10))
    run(world)
    world.create(*(a_pod(f"single-{n}", uid=f"single-{n}", gpus=1) for n in range(3)))
    run(world)
    lost = world.pods["job-7"].node
    world.tell(NodeGone(lost))
    world.replace("job-7")
    run(world)
    assert world.bound("job") == 7
    waiting = next(pod for pod in world.pods.values() if pod.name == "job-7")
    assert world.failures[waiting.uid].reason == UNSCHEDULABLE, "it is no silent half gang"
    world.tell(NodeSeen(a_node("new", gpus=1)))
    run(world)
    assert world.bound("job") == 8
    assert not any(name.startswith("single") for name in running(world))


# -- 13: a rolling update deadlocks ----------------------------------------------------------


def test_an_update_goes_on_pod_by_pod_at_the_minimum() -> None:
    """The minimum is the size, and a pod goes before its replacement comes."""
    world = a_world(4)
    world.create(*a_gang("job", 4))
    run(world)
    for number in range(4):
        world.replace(f"job-{number}")
        run(world)
        assert world.bound("job") == 4


def test_a_leader_starts_alone_if_only_it_is_needed() -> None:
    """Workers are created when the leader runs, so the object asks for one pod at first."""
    world = a_world(4)
    world.tell(GangSeen(GangSpec(KEY, 1, least_resources=(("nvidia.com/gpu", 4),))))
    members(world, range(1))
    run(world)
    assert running(world) == ["m-0"]
    world.tell(GangSeen(GangSpec(KEY, 4)))
    members(world, range(1, 4))
    run(world)
    assert len(running(world)) == 4


def test_pods_of_a_gang_that_was_created_again_are_counted_anew() -> None:
    """As a StatefulSet of the same name: the old pods are gone, with other uids."""
    world = a_world(4)
    world.create(*a_gang("job", 4))
    run(world)
    world.end(*(f"job-{n}" for n in range(4)))
    again = [replace(pod, uid=f"{pod.uid}-again") for pod in a_gang("job", 4)]
    world.create(*again[:3])
    run(world)
    assert running(world) == []
    world.create(again[3])
    run(world)
    assert world.bound("job") == 4


# -- 14: the minimum changes -----------------------------------------------------------------


def test_a_raised_minimum_binds_no_part_and_evicts_nothing() -> None:
    world = a_world(8)
    world.tell(GangSeen(GangSpec(KEY, 4)))
    members(world, range(4))
    run(world)
    world.tell(GangSeen(GangSpec(KEY, 8)))
    for number in range(4, 7):
        members(world, range(number, number + 1))
        run(world)
        assert len(running(world)) == 4, "five to seven are no gang of eight"
    members(world, range(7, 8))
    run(world)
    assert len(running(world)) == 8
    assert not world.evictions


def test_a_lowered_minimum_wakes_a_gang_at_once() -> None:
    world = a_world(2)
    world.tell(GangSeen(GangSpec(KEY, 4)))
    members(world, range(4))
    world.decide_all()
    assert world.failures["m-0"].reason == UNSCHEDULABLE
    world.tell(GangSeen(GangSpec(KEY, 2)))
    world.now += 0.1
    world.decide_all()
    world.answer_all()
    assert len(running(world)) == 2


# -- 15: an autoscaler sees too little or too much -------------------------------------------


def test_all_pods_that_need_nodes_say_so_and_none_that_waits_for_pods_does() -> None:
    world = a_world(6)
    world.create(*a_gang("short", 8))
    world.create(*a_gang("incomplete", 4)[:3])
    world.decide_all()
    world.now += 10.0
    world.decide_all()
    reasons = {failure.pod.name: failure.reason for failure in world.failures.values()}
    assert {reasons[f"short-{n}"] for n in range(8)} == {UNSCHEDULABLE}
    assert {reasons[f"incomplete-{n}"] for n in range(3)} == {WAITING_FOR_GANG}


# -- 16: floods of status and events ---------------------------------------------------------


def test_refused_gangs_are_quiet_while_nothing_changes() -> None:
    """Gangs of 64 pods: one condition a pod, which is not written again, for ten minutes."""
    gangs = so_many(200, few=40)
    engine = an_engine(*(a_node(f"n{n}", gpus=8) for n in range(4)))
    world = GangWorld(engine)
    for at in range(gangs):
        world.create(*a_gang(f"g{at}", 64))
    made = _all_that_is_made(engine, 0.0)
    said = {each.pod.uid: (each.reason, each.message, each.nominated) for each in made}
    assert len(made) == len(said) == gangs * 64
    assert sum(each.with_event for each in made) == gangs, "one event a gang"
    later = [each for s in range(1, 21) for each in _all_that_is_made(engine, 30.0 * s)]
    assert all(said[each.pod.uid] == (each.reason, each.message, each.nominated) for each in later)
    assert sum(each.with_event for each in later) <= 2 * gangs, "again after five minutes"


def _all_that_is_made(engine: Engine, now: float) -> list[AnnounceFailure]:
    made = [*engine.tend(now=now)]
    while (attempt := engine.decide(now=now)) is not None:
        made += attempt.instructions
    found = [each for each in made if isinstance(each, AnnounceFailure)]
    assert len(found) == len(made)
    return found


# -- 17: a gang whose bind fails wins every cycle --------------------------------------------


def test_a_gang_whose_binds_fail_lets_others_go_ahead_and_is_released_at_last() -> None:
    world = a_world(8)
    world.create(*a_gang("job", 8))
    world.decide_all()
    for number, uid in enumerate(sorted(world.binds)):
        world.answer(uid, well=number != 4)
    assert world.bound("job") == 7, "those that are bound stay"
    world.tell(NodeSeen(a_node("other", gpus=1)))
    world.create(a_pod("single", uid="single", gpus=1))
    for _ in range(40):
        world.now += 10.0
        world.decide_all()
        for uid in sorted(world.binds):
            world.answer(uid, well=not uid.startswith("job"))
        if world.evictions:
            break
    assert "single" in running(world)
    victims = {pod.name for evict in world.evictions for pod in evict.victims}
    assert len(victims) == 7, "all of it is released after its limit"


# -- 19: affinity among members --------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_members_that_seek_each_other_get_one_rack_in_any_order(seed: int) -> None:
    """And a replacement stays there."""
    nodes = [a_node(f"{r}-{n}", gpus=1, labels={RACK: r}) for r in "abc" for n in range(3)]
    world, rng = GangWorld(an_engine(*nodes)), random.Random(seed)
    world.create(replace(a_pod("filler", uid="filler", gpus=1), node="a-0"))
    near = pod_term(RACK, app="job")
    pods = a_gang("job", 3, labels={"app": "job"}, required_affinity=(near,))
    rng.shuffle(pods)
    world.create(*pods)
    run(world)
    racks = {pod.node[0] for pod in world.pods.values() if pod.name.startswith("job")}
    assert len(racks) == 1
    world.replace("job-1")
    run(world)
    assert {pod.node[0] for pod in world.pods.values() if pod.name.startswith("job")} == racks
