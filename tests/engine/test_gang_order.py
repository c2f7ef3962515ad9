"""Which comes first when room is freed: the rest of a gang, or a pod by itself."""

import pytest

from builders import a_node, a_pod, an_engine
from fairlead.engine.events import GangSeen, NodeSeen
from fairlead.model.gangs import GangSpec, Membership
from fairlead.model.pods import Pod
from gang_world import GangWorld

KEY = "native/default/g"
LATER_S = 100.0


def member(name: str) -> Pod:
    return a_pod(name, uid=name, gpus=2, gang=Membership(KEY))


def running() -> GangWorld:
    """Two members have nodes, and there is no room left."""
    world = GangWorld(an_engine(a_node("n1", gpus=4)))
    world.tell(GangSeen(GangSpec(KEY, 1)))
    world.create(member("p1"), member("p2"))
    world.decide_all()
    world.answer_all()
    return world


def placed_on_a_new_node(world: GangWorld, gpus: int) -> list[str]:
    """After all waits are over."""
    world.decide_all()
    world.now += LATER_S
    world.tell(NodeSeen(a_node("n2", gpus=gpus)))
    world.decide_all()
    return sorted(world.binds)


@pytest.mark.parametrize("first", ["gang", "pod"])
def test_a_higher_priority_comes_first(first: str) -> None:
    world = running()
    pods = [member("p3"), a_pod("high", uid="high", gpus=4, priority=1000, preempts=False)]
    for pod in pods if first == "gang" else reversed(pods):
        world.create(pod)
        world.decide_all()
        world.now += 1.0
    assert placed_on_a_new_node(world, gpus=4) == ["high"]


def test_of_equal_priority_the_older_comes_first() -> None:
    world = running()
    world.create(member("p3"))
    world.decide_all()
    world.now += 1.0
    world.create(a_pod("plain", uid="plain", gpus=2))
    assert placed_on_a_new_node(world, gpus=2) == ["p3"]


def test_a_member_that_comes_later_does_not_pass_an_older_pod() -> None:
    world = running()
    world.create(a_pod("plain", uid="plain", gpus=2))
    world.decide_all()
    world.now += 1.0
    world.create(member("p3"))
    assert placed_on_a_new_node(world, gpus=2) == ["plain"]
