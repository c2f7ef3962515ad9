"""Gangs in the engine: whole or not at all, and what happens when a bind is denied."""

import itertools
from collections.abc import Sequence
from dataclasses import replace

import pytest

from builders import SCHEDULER, a_node, a_pod, an_engine, decide, pod_term, see
from examples import so_many
from fairlead.apps.config.profiles import built_in
from fairlead.engine import gang_flights, requeuer
from fairlead.engine.engine import Engine
from fairlead.engine.events import BindDone, GangGone, GangSeen, NodeSeen, PodGone, PodSeen
from fairlead.engine.instructions import (
    AnnounceFailure,
    Bind,
    FindFinished,
    GangStatusChanged,
    Instruction,
)
from fairlead.engine.reasons import INVALID_POD, SCHEDULER_ERROR, UNSCHEDULABLE, WAITING_FOR_GANG
from fairlead.model.gangs import GangSpec, GangState, Membership
from fairlead.model.nodes import GPU, Node
from fairlead.model.pods import Pod
from gang_world import GangWorld, a_gang


def binds(made: Sequence[Instruction]) -> dict[str, str]:
    return {each.pod.name: each.node for each in made if isinstance(each, Bind)}


def failures(made: Sequence[Instruction]) -> dict[str, AnnounceFailure]:
    return {each.pod.name: each for each in made if isinstance(each, AnnounceFailure)}


def members(key: str, count: int, **more: object) -> list[Pod]:
    """Pods whose gang has an object."""
    return [
        a_pod(f"m-{n}", uid=f"m-{n}", gang=Membership(key, rank=n), **{"gpus": 1, **more})
        for n in range(count)
    ]


@pytest.fixture
def engine() -> Engine:
    return an_engine(a_node("n1", gpus=4), a_node("n2", gpus=4))


@pytest.fixture
def world(engine: Engine) -> GangWorld:
    return GangWorld(engine)


def test_a_gang_that_fits_is_bound_whole(world: GangWorld) -> None:
    world.create(*a_gang("job", 8))
    world.decide_all()
    assert len(world.binds) == 8
    world.answer_all()
    world.check()
    assert world.bound("job") == 8


def test_a_gang_that_does_not_fit_gets_nothing_and_says_why(engine: Engine) -> None:
    see(engine, *a_gang("job", 9))
    made = decide(engine)
    assert binds(made) == {}
    said = failures(made)
    assert len(said) == 9, "an autoscaler has to find room for all of them"
    assert {each.reason for each in said.values()} == {UNSCHEDULABLE}
    assert said["job-0"].message == (
        "gang default/job: 8 of 9 pods fit; job-8: 0/2 nodes are available: "
        "2 Insufficient nvidia.com/gpu."
    )
    assert sum(each.with_event for each in said.values()) == 1
    assert not engine.cluster.holdings


def test_a_gang_waits_for_its_pods_with_a_reason_of_its_own(world: GangWorld) -> None:
    pods = a_gang("job", 3)
    world.create(*pods[:2])
    world.decide_all()
    assert not world.failures, "the third may come in a moment"
    world.now = 10.0
    world.decide_all()
    assert {each.reason for each in world.failures.values()} == {WAITING_FOR_GANG}
    assert world.failures["job-0"].message == (
        "gang default/job waits for its pods: 3 are needed without scheduling gates."
    )
    world.create(pods[2])
    world.decide_all()
    assert len(world.binds) == 3


def test_a_refused_gang_is_tried_again_when_there_is_room_for_all_of_it(engine: Engine) -> None:
    busy = [a_pod(f"busy-{n}", gpus=2, node="n1") for n in range(2)]
    see(engine, *busy, *a_gang("job", 8))
    assert binds(decide(engine)) == {}
    engine.handle(PodGone(busy[0]), now=20.0)
    assert decide(engine, now=20.0) == [], "room for six"
    engine.handle(PodGone(busy[1]), now=21.0)
    assert len(binds(decide(engine, now=21.0))) == 8


def test_an_impossible_gang_does_not_hold_back_others(engine: Engine) -> None:
    see(engine, *a_gang("large", 100, priority=10), a_pod("single", gpus=1))
    assert binds(decide(engine)).keys() == {"single"}


def test_a_refused_gang_does_nothing_while_nothing_changes(world: GangWorld) -> None:
    world.create(*a_gang("large", 100))
    world.decide_all()
    world.failures.clear()
    work = world.engine.cluster.work.spent
    for _ in range(100):
        world.now += 0.2
        world.decide_all()
    assert world.failures == {}
    assert world.engine.cluster.work.spent == work


def test_unequal_pods_are_placed_the_largest_first(engine: Engine) -> None:
    spec = GangSpec("fairlead/default/job", 4)
    sizes = [1, 1, 3, 3]
    pods = [
        a_pod(f"p{n}", gpus=size, gang=Membership(spec.key, rank=n, spec=spec))
        for n, size in enumerate(sizes)
    ]
    see(engine, *pods)
    assert len(binds(decide(engine))) == 4


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"minimum": 2}, "minimum is 3 in some and 2 in others"),
        ({"priority": 7}, "priority is 0 in some and 7 in others"),
    ],
)
def test_pods_that_disagree_wait_and_say_about_what(
    world: GangWorld, change: dict[str, int], words: str
) -> None:
    pods = a_gang("job", 3)
    spec = GangSpec("fairlead/default/job", **{"minimum": 3, **change})
    odd = replace(pods[2], gang=Membership(spec.key, spec=spec))
    world.create(*pods[:2], odd)
    world.decide_all()
    world.now = 10.0
    world.decide_all()
    assert not world.binds
    assert words in world.failures["job-0"].message
    assert world.failures["job-0"].reason == WAITING_FOR_GANG
    world.end("job-2")
    world.create(replace(pods[2], uid="job-2b"))
    world.decide_all()
    assert len(world.binds) == 3


CLAIMS = "the pod requests resource claims, which Fairlead does not support yet"


def test_a_pod_that_cannot_be_placed_keeps_its_gang_waiting_with_its_reason(
    world: GangWorld,
) -> None:
    pods = a_gang("job", 2)
    world.create(pods[0], replace(pods[1], problem=CLAIMS))
    world.decide_all()
    world.now = 10.0
    world.decide_all()
    assert not world.binds
    assert (world.failures["job-1"].reason, world.failures["job-1"].message) == (
        INVALID_POD,
        CLAIMS,
    )
    assert world.failures["job-0"].message == (
        f"the gang default/job lacks a pod: job-1 cannot be placed: {CLAIMS}"
    )
    world.create(pods[1])
    world.decide_all()
    assert len(world.binds) == 2


def test_others_are_placed_without_a_pod_that_cannot_be_and_is_not_needed(
    world: GangWorld,
) -> None:
    pods = a_gang("job", 3, minimum=2)
    world.create(*pods[:2], replace(pods[2], problem=CLAIMS))
    world.decide_all()
    world.answer_all()
    world.decide_all()
    assert world.bound("job") == 2
    assert world.failures["job-2"].message == CLAIMS
    world.end("job-2")
    world.check()


def test_members_above_the_minimum_that_do_not_fit_wait_and_hold_no_other_back(
    world: GangWorld,
) -> None:
    world.create(*a_gang("job", 10, minimum=3))
    world.decide_all()
    assert len(world.binds) == 8
    world.answer_all()
    world.create(a_pod("plain", uid="plain"))
    world.now = 20.0
    world.decide_all()
    assert set(world.binds) == {"plain"}
    assert set(world.failures) == {"job-8", "job-9"}


# -- objects ---------------------------------------------------------------------------------


def test_pods_whose_object_is_missing_wait_and_are_never_placed_singly(world: GangWorld) -> None:
    key = "native/default/pg"
    world.create(*members(key, 2))
    world.now = 10.0
    world.decide_all()
    assert not world.binds
    assert world.failures["m-0"].message == (
        "waiting for the object of gang default/pg, which does not exist"
    )
    assert world.failures["m-0"].reason == WAITING_FOR_GANG
    world.tell(GangSeen(GangSpec(key, 2)))
    world.decide_all()
    assert len(world.binds) == 2


def test_pods_wait_again_when_their_object_goes(world: GangWorld) -> None:
    key = "native/default/pg"
    world.tell(GangSeen(GangSpec(key, 2)))
    world.create(*members(key, 1))
    world.tell(GangGone(key))
    world.create(*members(key, 2)[1:])
    world.decide_all()
    assert not world.binds


def test_the_status_of_an_object_is_reported_when_it_changes(engine: Engine) -> None:
    spec = GangSpec("native/default/pg", 9)
    engine.handle(GangSeen(spec), now=0.0)
    see(engine, *members(spec.key, 9))
    decide(engine)
    (told,) = (each for each in engine.tend(now=0.0) if isinstance(each, GangStatusChanged))
    assert (told.status.state, told.status.members) == (GangState.UNSCHEDULABLE, 9)
    assert told.status.message.startswith("gang default/pg: 8 of 9 pods fit;")
    assert engine.tend(now=100.0) == []


# -- members above the minimum, late, dying, replaced and finished ones ----------------------


def test_as_many_members_as_fit_are_placed_with_the_minimum(world: GangWorld) -> None:
    world.create(*a_gang("job", 10, minimum=4))
    world.decide_all()
    assert len(world.binds) == 8
    world.answer_all()
    world.decide_all()
    assert {each.reason for each in world.failures.values()} == {UNSCHEDULABLE}
    world.check()


def test_no_more_members_than_the_maximum_are_placed(world: GangWorld) -> None:
    spec = GangSpec("fairlead/default/job", 2, maximum=3)
    pods = a_gang("job", 5)
    world.create(*(replace(p, gang=Membership(spec.key, rank=n, spec=spec)) for n, p in
                   enumerate(pods)))  # fmt: skip
    world.decide_all()
    assert sorted(world.binds) == ["job-0", "job-1", "job-2"]
    world.answer_all()
    world.now = 20.0
    world.decide_all()
    assert not world.binds
    world.end("job-0")
    world.decide_all()
    assert sorted(world.binds) == ["job-3"]


def test_a_replacement_is_placed_beside_the_others(world: GangWorld) -> None:
    world.create(*a_gang("job", 3))
    world.decide_all()
    world.answer_all()
    world.replace("job-1")
    world.decide_all()
    assert len(world.binds) == 1


def test_pods_that_are_leaving_do_not_count(world: GangWorld) -> None:
    pods = a_gang("job", 2)
    world.create(*pods)
    world.decide_all()
    world.answer_all()
    for uid in ("job-0", "job-1"):
        world.tell(PodSeen(replace(world.pods[uid], deleting=True)))
    world.create(replace(pods[0], uid="new-0"))
    world.decide_all()
    assert not world.binds, "the whole gang is replaced, and comes as a gang"
    world.create(replace(pods[1], uid="new-1"))
    world.decide_all()
    assert len(world.binds) == 2


@pytest.mark.parametrize(("failed", "placed"), [(False, 1), (True, 0)])
def test_finished_members_count_if_they_succeeded(
    world: GangWorld, failed: bool, placed: int
) -> None:
    pods = a_gang("job", 2)
    world.create(*pods)
    world.decide_all()
    world.answer_all()
    done = world.pods.pop("job-0")
    world.tell(PodSeen(replace(done, finished=True, failed=failed)))
    world.end("job-1")
    world.create(replace(pods[1], uid="again"))
    if not failed:  # the driver looks for it, since the watch does not show finished pods
        world.tell(PodSeen(replace(done, finished=True)))
    world.decide_all()
    assert len(world.binds) == placed


def test_finished_members_are_looked_for_before_a_gang_is_called_incomplete(
    engine: Engine,
) -> None:
    pods = a_gang("job", 3)
    world = running(engine, *pods)
    done = world.pods["job-0"]
    world.end("job-0", "job-2")
    world.create(replace(pods[2], uid="again"))
    world.decide_all()
    assert not world.binds
    (asked,) = engine.tend(now=5.0)
    assert asked == FindFinished("fairlead/default/job", "default")
    assert engine.tend(now=6.0) == []
    world.now = 6.0
    world.tell(PodSeen(replace(done, finished=True)))
    world.decide_all()
    assert set(world.binds) == {"again"}


# -- binds that are denied -------------------------------------------------------------------


def test_a_denied_member_is_placed_again_around_those_that_are_bound(world: GangWorld) -> None:
    world.create(*a_gang("job", 8))
    world.decide_all()
    world.answer("job-3", well=False)
    world.answer_all()
    assert world.bound("job") == 7
    assert world.failures["job-3"].reason == SCHEDULER_ERROR
    assert world.failures["job-3"].nominated in ("n1", "n2")
    world.check()
    world.create(a_pod("single", uid="single", gpus=1))
    world.decide_all()
    assert "single" not in world.binds, "the room is kept"
    world.now = 3.0
    world.decide_all()
    assert set(world.binds) == {"job-3"}
    world.answer_all()
    assert world.bound("job") == 8
    world.check()


def test_a_gang_that_cannot_be_completed_is_released_after_its_limit(world: GangWorld) -> None:
    world.create(*a_gang("job", 8))
    world.decide_all()
    world.answer("job-3", well=False)
    world.answer_all()
    world.create(a_pod("vip", uid="vip", gpus=1, priority=100))
    world.decide_all()
    assert set(world.binds) == {"vip"}
    world.answer_all()
    world.now = 299.0
    world.decide_all()
    assert not world.evictions
    world.now = 301.0
    world.decide_all()
    (evict,) = world.evictions
    assert len(evict.victims) == 7
    assert evict.because == (
        "gang default/job is released with 7 of 8 pods bound: "
        "it could not be completed within 300 s"
    )
    world.check()
    world.evict_all()
    assert world.bound("job") == 0
    world.end("vip")
    world.settle(2)
    assert world.bound("job") == 8


def test_a_failed_release_is_tried_again(world: GangWorld) -> None:
    world.create(*a_gang("job", 2))
    world.decide_all()
    world.answer("job-1", well=False)
    world.answer_all()
    world.end("job-1")
    world.now = 301.0
    world.decide_all()
    assert len(world.evictions) == 1
    world.evict_all(well=False)
    world.check()
    world.now = 312.0
    world.decide_all()
    assert len(world.evictions) == 1


def test_a_gang_that_was_whole_is_not_released(world: GangWorld) -> None:
    world.create(*a_gang("job", 8))
    world.decide_all()
    world.answer_all()
    world.create(a_pod("vip", uid="vip", gpus=1, priority=100))
    world.end("job-0")
    world.decide_all()
    world.answer_all()
    world.create(replace(a_gang("job", 1, minimum=8)[0], uid="again"))
    world.settle(4)
    assert world.bound("job") == 7
    assert not world.evictions


def test_nothing_is_bound_if_a_member_leaves_before(engine: Engine) -> None:
    see(engine, *a_gang("job", 2))
    entry = engine.queue.pop(now=0.0)
    assert entry is not None
    engine.queue.remove("job-0")
    engine.queue.retry(entry, now=0.0)
    assert binds(decide(engine, now=5.0)) == {}


@pytest.mark.parametrize("carried_out", range(4))
def test_another_leader_completes_what_was_bound_in_part(carried_out: int) -> None:
    nodes = [a_node("n1", gpus=4)]
    world = GangWorld(an_engine(*nodes))
    world.create(*a_gang("job", 4))
    world.decide_all()
    for uid in sorted(world.binds)[:carried_out]:
        world.answer(uid)
    world.binds.clear()
    world.restart(an_engine(*nodes))
    world.decide_all()
    assert len(world.binds) == 4 - carried_out
    world.answer_all()
    assert world.bound("job") == 4
    world.check()


def test_an_engine_that_begins_anew_goes_on_with_what_is_being_bound(world: GangWorld) -> None:
    world.create(*a_gang("job", 8))
    world.decide_all()
    world.answer("job-0")
    world.engine.forget()
    for node in (a_node("n1", gpus=4), a_node("n2", gpus=4)):
        see_node(world.engine, node)
    for pod in world.pods.values():
        world.tell(PodSeen(pod))
    world.answer_all()
    world.check()
    assert world.bound("job") == 8


def see_node(engine: Engine, node: Node) -> None:
    engine.handle(NodeSeen(node), now=0.0)


# -- members that others evict ---------------------------------------------------------------


def victims_of(world: GangWorld, gpus: int = 1) -> list[str]:
    """Who leaves for an important pod."""
    world.create(a_pod("vip", uid="vip", gpus=gpus, priority=100))
    world.decide_all()
    (evict,) = world.evictions
    return sorted(victim.name for victim in evict.victims)


def running(engine: Engine, *pods: Pod) -> GangWorld:
    world = GangWorld(engine)
    world.create(*pods)
    world.decide_all()
    world.answer_all()
    return world


def test_members_above_the_minimum_go_singly_the_youngest_rank_first(engine: Engine) -> None:
    world = running(engine, *a_gang("job", 8, minimum=5))
    assert victims_of(world) == ["job-7"]


def test_a_gang_at_its_minimum_goes_whole(engine: Engine) -> None:
    world = running(engine, *a_gang("job", 8))
    assert victims_of(world) == [f"job-{n}" for n in range(8)]


def test_a_plain_pod_goes_before_a_gang(engine: Engine) -> None:
    world = running(engine, *a_gang("job", 7), a_pod("plain", uid="plain", gpus=1))
    assert victims_of(world) == ["plain"]


def test_more_members_than_are_spare_take_the_gang_with_them(engine: Engine) -> None:
    world = running(engine, *a_gang("job", 8, minimum=6))
    assert len(victims_of(world, gpus=4)) == 8


def test_no_member_goes_if_another_may_not(engine: Engine) -> None:
    low, high = a_gang("job", 8)[:7], a_gang("job", 8, priority=500)[7:]
    key = "native/default/job"
    pods = [replace(pod, gang=Membership(key)) for pod in (*low, *high)]
    engine.handle(GangSeen(GangSpec(key, 8)), now=0.0)
    world = running(engine, *pods)
    assert world.bound("job") == 0
    assert sum(bool(pod.node) for pod in world.pods.values()) == 8
    world.create(a_pod("vip", uid="vip", gpus=1, priority=100))
    world.decide_all()
    assert world.evictions == []


# -- gangs too large for one turn ------------------------------------------------------------


@pytest.fixture
def small_slices(monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(gang_flights, "SLICE", 3)
    return 3


def turns(engine: Engine) -> list[Sequence[Instruction]]:
    found: list[Sequence[Instruction]] = []
    while (attempt := engine.decide(now=0.0)) is not None:
        assert len(found) < 100
        found.append(attempt.instructions)
    return found


def test_a_large_gang_is_placed_and_bound_in_slices(world: GangWorld, small_slices: int) -> None:
    world.create(*a_gang("job", 8))
    made = turns(world.engine)
    counts = [len(binds(each)) for each in made]
    assert counts == [0, 0, 3, 3, 2], "nothing is bound before all have nodes"
    world._carry_out([each for turn in made for each in turn])
    world.answer_all()
    world.check()
    assert world.bound("job") == 8


def test_a_large_gang_that_does_not_fit_is_refused_in_slices(
    world: GangWorld, small_slices: int
) -> None:
    world.create(*a_gang("job", 9))
    made = turns(world.engine)
    assert [len(failures(each)) for each in made] == [3, 3, 3]
    assert failures(made[0])["job-0"].message == (
        "gang default/job: at most 8 of 9 pods can have a node, 9 are needed."
    )
    assert not world.engine.cluster.holdings


def test_what_a_large_gang_holds_is_free_when_it_fails_at_last(small_slices: int) -> None:
    """The bound says that it may fit; among themselves the pods do not."""
    apart = {"anti_affinity": (pod_term("kubernetes.io/hostname", app="x"),)}
    nodes = [a_node(f"n{n}", gpus=4, labels={"kubernetes.io/hostname": f"n{n}"}) for n in range(5)]
    world = GangWorld(an_engine(*nodes))
    world.create(*a_gang("job", 6, labels={"app": "x"}, **apart))
    made = turns(world.engine)
    assert not any(map(binds, made))
    assert sum(len(failures(each)) for each in made) == 6
    assert not world.engine.cluster.holdings
    assert not world.engine.in_flight.gangs
    world.check()


def test_a_large_gang_is_not_tried_with_every_change(
    small_slices: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requeuer, "_LARGE_GANG", 3)
    apart = {"anti_affinity": (pod_term("kubernetes.io/hostname", app="x"),)}
    nodes = [a_node(f"n{n}", gpus=4, labels={"kubernetes.io/hostname": f"n{n}"}) for n in range(5)]
    world = GangWorld(an_engine(*nodes))
    world.create(*a_gang("job", 6, labels={"app": "x"}, **apart))
    world.decide_all()
    entry = world.engine.queue.gang("fairlead/default/job")
    for _ in range(100):
        world.now += 0.2
        world.create(a_pod("short", uid="short", gpus=1, node="n1"))
        world.end("short")
        world.decide_all()
    assert entry.attempts <= 5, "after 1, 2, 4 and 8 seconds"


@pytest.mark.parametrize("after", range(5))
def test_members_of_a_large_gang_may_leave_at_any_turn(
    world: GangWorld, small_slices: int, after: int
) -> None:
    world.create(*a_gang("job", 8))
    for _ in range(after):
        world.decide()
    world.end("job-2")
    world.check()
    world.decide_all()
    world.answer_all()
    world.check()
    assert world.bound("job") in ((0,) if after < 3 else (7,))
    world.settle(4)
    assert world.bound("job") in (0, 7)


@pytest.mark.parametrize("after", range(6))
def test_an_engine_that_begins_anew_goes_on_with_a_large_gang(
    world: GangWorld, small_slices: int, after: int
) -> None:
    world.create(*a_gang("job", 8))
    for _ in range(after):
        world.decide()
    world.engine.forget()
    for node in (a_node("n1", gpus=4), a_node("n2", gpus=4)):
        see_node(world.engine, node)
    for pod in world.pods.values():
        world.tell(PodSeen(pod))
    world.check()
    world.decide_all()
    world.answer_all()
    world.check()
    world.settle(3)
    assert world.bound("job") == 8


# -- no two gangs wait for each other --------------------------------------------------------


def explore(gpus: int, higher: int, denials: int) -> int:
    """Every order of decisions and outcomes, with so many denials at most; returns how many."""
    explored = 0
    pending: list[tuple[int, ...]] = [()]
    while pending:
        path = pending.pop()
        world = GangWorld(Engine({SCHEDULER: built_in(SCHEDULER)}))
        see_node(world.engine, a_node("n1", gpus=gpus))
        world.create(*a_gang("a", 2))
        world.decide()
        later = a_gang("b", 2, priority=higher)
        left, came = denials, False
        for step in (*path, None):
            choices = [("decide", "")]
            choices += [("well", uid) for uid in sorted(world.binds)]
            choices += [("denied", uid) for uid in sorted(world.binds) if left]
            choices += [] if came else [("b comes", "")]
            if step is None:
                break
            kind, uid = choices[step]
            if kind == "decide":
                world.now += 2.0
                world.decide()
            elif kind == "b comes":
                came = True
                world.create(*later)
            else:
                left -= kind == "denied"
                world.answer(uid, well=kind == "well")
            world.check()
        explored += 1
        if len(path) < DEPTH:
            pending += [(*path, number) for number in range(len(choices))]
            continue
        if not came:
            world.create(*later)
        world.settle()
        whole = [world.bound(name) for name in "ab"]
        assert sorted(whole) == ([0, 2] if gpus < 4 else [2, 2]), (path, whole)
        assert not world.evictions
    return explored


DEPTH = so_many(4, few=3)


@pytest.mark.parametrize(("gpus", "higher"), [*itertools.product((2, 3, 4), (0, 1))])
def test_of_two_gangs_one_runs_whole_whatever_binds_are_denied(gpus: int, higher: int) -> None:
    assert explore(gpus, higher, denials=2) > so_many(100, few=30)


def test_the_sum_that_a_gang_needs_must_be_free_before_its_first_pod_is_placed(
    engine: Engine,
) -> None:
    """The driver of a Spark application creates the others: its minimum is 1."""
    spec = GangSpec("fairlead/default/job", 1, least_resources=((GPU, 12),))
    driver = a_pod("driver", gpus=1, gang=Membership("fairlead/default/job", spec=spec))
    see(engine, driver)
    [said] = failures(decide(engine)).values()
    assert said.message == "gang default/job: the gang needs 12 of nvidia.com/gpu, and 8 is free."
    engine.handle(NodeSeen(a_node("n3", gpus=4)), now=20.0)
    made = decide(engine, now=20.0)
    assert list(binds(made)) == ["driver"]
    engine.handle(BindDone(driver.uid), now=20.0)
    see(engine, replace(driver, node=binds(made)["driver"]), now=20.0)
    see(
        engine,
        a_pod("executor", gpus=4, gang=Membership("fairlead/default/job", spec=spec)),
        now=21.0,
    )
    assert list(binds(decide(engine, now=21.0))) == ["executor"]
