"""What the object of a gang says, from before its first pod until after its last."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from builders import a_node, a_pod, an_engine
from fairlead.engine.engine import Engine
from fairlead.engine.events import GangGone, GangSeen, NodeSeen, PodSeen
from fairlead.engine.instructions import GangStatusChanged, Instruction
from fairlead.model.gangs import GangSpec, GangState, GangStatus, Membership
from fairlead.model.nodes import GPU
from fairlead.model.pods import Pod
from gang_world import GangWorld

KEY = "volcano/default/job"
QUIET_S = 10.0


def spec(gpus: int = 4, scheduler: str = "gpu-scheduler") -> GangSpec:
    return GangSpec(KEY, 4, least_resources=((GPU, gpus),), admitted_by=scheduler)


def members(count: int = 4) -> list[Pod]:
    return [a_pod(f"m-{n}", uid=f"m-{n}", gpus=1, gang=Membership(KEY)) for n in range(count)]


def statuses(made: Sequence[Instruction]) -> list[GangStatus]:
    return [each.status for each in made if isinstance(each, GangStatusChanged)]


def states(made: Sequence[Instruction]) -> list[GangState]:
    return [each.state for each in statuses(made)]


def test_a_gang_without_pods_is_reported_at_once() -> None:
    engine = an_engine(a_node("n", gpus=4))
    engine.handle(GangSeen(spec()), now=0.0)
    assert states(engine.tend(now=0.0)) == [GangState.GATHERING]
    assert engine.tend(now=QUIET_S) == []


def test_a_gang_without_room_is_reported_once_and_again_when_there_is_room() -> None:
    engine = an_engine(a_node("n", gpus=4))
    engine.handle(GangSeen(spec(gpus=8)), now=0.0)
    assert states(engine.tend(now=0.0)) == [GangState.UNSCHEDULABLE]
    assert engine.tend(now=5.0) == []
    engine.handle(NodeSeen(a_node("n2", gpus=4)), now=6.0)
    assert states(engine.tend(now=7.0)) == [GangState.GATHERING]


def test_the_gangs_of_another_scheduler_are_left_alone() -> None:
    engine = an_engine(a_node("n", gpus=4))
    engine.handle(GangSeen(spec(scheduler="other")), now=0.0)
    assert engine.tend(now=QUIET_S) == []


def running(engine: Engine) -> GangWorld:
    """A world in which the gang runs."""
    world = GangWorld(engine)
    world.tell(GangSeen(spec()))
    world.create(*members())
    world.decide_all()
    world.answer_all()
    return world


def finish(world: GangWorld, *pods: Pod, failed: bool = False) -> None:
    for pod in pods:
        world.pods[pod.uid] = replace(pod, finished=True, failed=failed)
        world.tell(PodSeen(world.pods[pod.uid]))


def test_a_gang_whose_members_have_finished_says_so_until_its_object_goes() -> None:
    engine = an_engine(a_node("n", gpus=4))
    world = running(engine)
    assert states(engine.tend(now=1.0))[-1] is GangState.SCHEDULED
    finish(world, *world.pods.values())
    assert statuses(engine.tend(now=30.0)) == [GangStatus(GangState.SCHEDULED, 4, 4, 0, 4)]
    assert statuses(engine.tend(now=40.0)) == []
    world.end(*(pod.name for pod in world.pods.values()))
    world.tell(GangGone(KEY))
    assert statuses(engine.tend(now=60.0)) == []
    assert engine.queue.gang(KEY) is None


@pytest.mark.parametrize("restarts", [False, True])
def test_a_failed_member_is_replaced_beside_those_that_have_finished(restarts: bool) -> None:
    """Also where it was the last one that ran."""
    world = running(an_engine(a_node("n", gpus=4)))
    *done, last = world.pods.values()
    finish(world, *done)
    finish(world, last, failed=True)
    if restarts:
        world.engine = an_engine(a_node("n", gpus=4))
        world.tell(GangSeen(spec()))
        world.restart(world.engine)
    world.create(a_pod("again", uid="again", gpus=1, gang=Membership(KEY)))
    world.decide_all()
    assert world.binds.keys() == {"again"}


def test_members_that_failed_are_counted_until_they_are_replaced() -> None:
    """By a pod of the same name, as the controller of Volcano does it."""
    engine = an_engine(a_node("n", gpus=4))
    world = running(engine)
    *_, last = world.pods.values()
    finish(world, last, failed=True)
    engine.tend(now=30.0)  # asks first whether others have succeeded
    found = statuses(engine.tend(now=40.0))
    assert [(each.with_node, each.finished, each.failed) for each in found] == [(3, 0, 1)]
    world.create(replace(last, uid="again", node="", grant=None, finished=False, failed=False))
    world.now = 41.0
    world.decide_all()
    world.answer_all()
    found = statuses(engine.tend(now=60.0))
    assert [(each.with_node, each.finished, each.failed) for each in found] == [(4, 0, 0)]
