"""Gangs whose pods have many different requests: no turn looks at all of them."""

from collections.abc import Sequence

import pytest

from builders import SCHEDULER, a_node, a_pod, an_engine, decide
from fairlead.apps.config.profiles import built_in
from fairlead.cluster.cluster import Cluster
from fairlead.engine import gang_flights, gang_rooms, gang_views
from fairlead.engine.attempts import Outcome
from fairlead.engine.engine import Engine
from fairlead.engine.events import NodeSeen, PodSeen
from fairlead.engine.reasons import INVALID_POD
from fairlead.model.gangs import GangSpec, Membership, TopologyRule
from fairlead.model.nodes import GPU
from fairlead.model.pods import Pod, Toleration
from fairlead.model.topology import Topology, TopologyLevel
from fairlead.placement import views
from fairlead.placement.gang_topology import GangPlans
from fairlead.placement.place import Placement
from fairlead.placement.profile import Profile
from fairlead.plugins.node_resources_fit import NodeResourcesFit
from gang_world import GangWorld

RACK = "example.com/rack"
PODS = 24


def different(count: int = PODS, *rules: TopologyRule, gpus: int = 1, **more: object) -> list[Pod]:
    """Pods of a gang of which no two ask for the same."""
    spec = GangSpec("fairlead/default/job", count, topology=rules)
    return [
        a_pod(
            f"job-{n}", uid=f"job-{n}", gpus=gpus, cpu=1000 + n,
            gang=Membership(spec.key, rank=n, spec=spec), **more,
        )
        for n in range(count)
    ]  # fmt: skip


@pytest.fixture
def engine() -> Engine:
    nodes = [a_node(f"n{n}", gpus=4, labels={RACK: str(n // 2)}) for n in range(6)]
    return an_engine(*nodes)


@pytest.fixture
def world(engine: Engine) -> GangWorld:
    return GangWorld(engine)


@pytest.fixture
def little_work(monkeypatch: pytest.MonkeyPatch) -> int:
    """Enough for some views in a turn."""
    monkeypatch.setattr(gang_views, "WORK", 200)
    monkeypatch.setattr(gang_flights, "SLICE_WORK", 300)
    return 200


@pytest.fixture
def few_views(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer are kept than the gang has requests."""
    monkeypatch.setattr(views, "_FEWEST_VIEWS", 8)
    monkeypatch.setattr(views, "_MOST_VIEWS", 8)


def work_by_turn(world: GangWorld) -> list[int]:
    found: list[int] = []
    work = world.engine.cluster.work
    while True:
        before = work.spent
        if not world.decide():
            return found
        found.append(work.spent - before)
        world.check()
        assert len(found) < 100


@pytest.mark.parametrize("rules", [(), (TopologyRule(RACK, required=False),)])
def test_views_are_made_over_several_turns_and_the_gang_is_placed_whole(
    world: GangWorld, little_work: int, rules: tuple[TopologyRule, ...]
) -> None:
    world.create(*different(PODS, *rules))
    alone = GangWorld(an_engine(a_node("n", gpus=4)))
    alone.create(a_pod("p"))
    one_view = max(work_by_turn(alone))
    turns = work_by_turn(world)
    assert len(turns) > 4
    assert max(turns[:-1]) <= little_work + one_view
    assert len(world.binds) == PODS


def test_no_other_unit_is_tried_meanwhile(world: GangWorld, little_work: int) -> None:
    world.create(*different())
    assert world.decide()
    world.create(a_pod("single", uid="single", gpus=1))
    while not world.binds:
        assert world.decide()
    assert "single" not in world.binds, "the gang has all GPUs"
    assert len(world.binds) == PODS


@pytest.mark.parametrize("after", range(8))
def test_members_may_leave_while_their_views_are_made(
    world: GangWorld, little_work: int, after: int
) -> None:
    world.create(*different())
    for _ in range(after):
        world.decide()
    world.end("job-2")
    world.check()
    world.decide_all()
    world.answer_all()
    world.check()
    assert world.bound("job") in (0, PODS - 1), "whole as it was decided, or not at all"


def test_all_members_may_leave_while_their_views_are_made(
    world: GangWorld, little_work: int
) -> None:
    world.create(*different())
    world.decide()
    for number in range(PODS):
        world.end(f"job-{number}")
    world.create(a_pod("single", uid="single", gpus=1))
    world.decide_all()
    assert world.binds.keys() == {"single"}


@pytest.mark.parametrize("rules", [(), (TopologyRule(RACK, required=False),)])
def test_more_requests_than_views_are_placed_in_slices(
    world: GangWorld, little_work: int, few_views: None, rules: tuple[TopologyRule, ...]
) -> None:
    world.create(*different(PODS, *rules))
    turns = work_by_turn(world)
    assert len(turns) > 4
    assert sum(turns) > 3 * max(turns)
    assert len(world.binds) == PODS
    world.answer_all()
    world.check()
    assert world.bound("job") == PODS


def test_too_many_different_requests_are_refused_with_one_sentence(
    world: GangWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gang_views, "MOST_REQUESTS", 20)
    world.create(*different())
    world.decide_all()
    assert not world.binds
    assert {each.reason for each in world.failures.values()} == {INVALID_POD}
    assert world.failures["job-0"].message == (
        "gang default/job: its pods have 24 different requests, at most 20 are allowed in one gang."
    )
    world.create(a_pod("single", uid="single", gpus=1))
    world.decide_all()
    assert world.binds.keys() == {"single"}


def test_a_refused_gang_of_many_requests_is_woken_by_amounts_alone(engine: Engine) -> None:
    pods = different(PODS + 1)
    for pod in pods:
        GangWorld(engine).create(pod)
    decide(engine)
    entry = engine.queue.gang("fairlead/default/job")
    assert entry is not None
    attempts, work = entry.attempts, engine.cluster.work.spent
    engine.handle(NodeSeen(a_node("small", gpus=0)), now=20.0)
    decide(engine, now=20.0)
    assert entry.attempts == attempts, "there is still one GPU too few"
    asked = engine.cluster.work.spent - work
    assert asked < 20 * len(pods), "no view was made"
    engine.handle(NodeSeen(a_node("large", gpus=1)), now=40.0)
    decide(engine, now=40.0)
    assert entry.attempts == attempts + 1
    assert len(engine.in_flight.gangs) == 1


@pytest.mark.parametrize("kinds", [1, 2, 20])
def test_resources_that_the_profile_ignores_keep_no_gang_waiting(kinds: int) -> None:
    fit = NodeResourcesFit(ignored_resources=("example.com/widget",))
    engine = Engine({SCHEDULER: Profile("p", (fit,))})
    engine.handle(NodeSeen(a_node("n0", gpus=kinds, resources={"pods": 110})), now=0.0)
    spec = GangSpec("fairlead/default/job", kinds + 1)
    for n in range(kinds + 1):
        amounts = {"example.com/widget": 1 + n % kinds, GPU: 1}
        pod = a_pod(f"p{n}", resources=amounts, gang=Membership(spec.key, rank=n, spec=spec))
        engine.handle(PodSeen(pod), now=0.0)
    decide(engine)
    assert not engine.in_flight.gangs
    engine.handle(NodeSeen(a_node("n1", gpus=1)), now=20.0)
    decide(engine, now=20.0)
    assert len(engine.in_flight.gangs) == 1


def test_a_gang_of_many_requests_evicts_no_others(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gang_rooms, "MOST_REQUESTS", 20)
    world = GangWorld(engine)
    world.create(*(a_pod(f"low-{n}", uid=f"low-{n}", gpus=1, node=f"n{n}") for n in range(6)))
    world.create(*different(priority=10))
    world.decide_all()
    assert not world.evictions
    assert "different requests evict no others" in world.failures["job-0"].message


def test_an_attempt_that_fails_by_a_defect_is_reported_and_others_go_on(
    world: GangWorld, little_work: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.create(*different())
    world.decide()

    def broken(*_: object) -> None:
        raise RuntimeError("a defect")

    monkeypatch.setattr(world.engine._parts.gangs._attempts._search, "best", broken)
    outcomes = []
    while (attempt := world.engine.decide(now=0.0)) is not None:
        outcomes.append(attempt.outcome)
        if attempt.outcome is Outcome.ERROR:
            break
    assert outcomes[-1] is Outcome.ERROR
    assert not world.engine._parts.gangs.has_more
    world.create(a_pod("single", uid="single", gpus=1))
    world.decide_all()
    assert world.binds.keys() == {"single"}


# -- plans -----------------------------------------------------------------------------------


def plan_of(cluster: Cluster, pods: Sequence[Pod]) -> GangPlans:
    rule = TopologyRule(RACK, required=False)
    spec = GangSpec("g", len(pods), topology=(rule,))
    placements = {SCHEDULER: Placement(built_in(SCHEDULER), cluster)}
    return GangPlans(spec, pods, {}, cluster, placements, 0.0)


def a_rack_of(nodes: int) -> Cluster:
    cluster = Cluster()
    cluster.topology.configured = Topology((TopologyLevel(RACK),))
    for number in range(nodes):
        cluster.put_node(a_node(f"n{number}", gpus=8, labels={RACK: "r"}))
    return cluster


def test_requests_with_the_same_room_are_planned_as_equal_pods() -> None:
    """Such as pods with a label that others ask about, or with a volume claim each."""
    pods = [a_pod(f"p{n}", gpus=2, tolerations=(Toleration(f"t{n}"),)) for n in range(4)]
    assert len({pod.request for pod in pods}) == 4
    assert len(plan_of(a_rack_of(8), pods).classes(pods)) == 1


def test_many_kinds_are_planned_within_what_is_free() -> None:
    cluster = a_rack_of(40)
    pods = different(100, gpus=2)
    found = plan_of(cluster, pods)
    assert len(found.classes(pods)) <= 32
    plan = next(iter(found))
    used = [0] * 40
    for row in plan.rows.values():
        used[row] += 2
    assert len(plan.rows) == 100
    assert max(used) <= 8
