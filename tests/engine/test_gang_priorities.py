"""The priority of a gang is that of its pods, and finished members count."""

from dataclasses import replace

import pytest

from builders import a_node, a_pod, an_engine
from fairlead.engine.events import GangSeen, PodSeen, ServerKnown
from fairlead.model.behaviour import KUBERNETES_1_36, KUBERNETES_1_37, Behaviour
from fairlead.model.gangs import GangSpec, Membership
from fairlead.model.pods import Pod
from gang_world import GangWorld

KEY = "native/default/g"
LATER_S = 10.0


def a_world(behaviour: Behaviour, priority: int | None, minimum: int = 2) -> GangWorld:
    world = GangWorld(an_engine(a_node("n", gpus=8)))
    world.tell(ServerKnown(behaviour))
    world.tell(GangSeen(GangSpec(KEY, minimum, priority=priority)))
    return world


def members(count: int, priority: int = 0) -> list[Pod]:
    gang = Membership(KEY)
    return [
        a_pod(f"m-{n}", uid=f"m-{n}", gpus=1, priority=priority, gang=gang) for n in range(count)
    ]


def later(world: GangWorld) -> list[str]:
    world.decide_all()
    world.now += LATER_S
    world.decide_all()
    return sorted(world.binds)


@pytest.mark.parametrize("behaviour", [KUBERNETES_1_36, KUBERNETES_1_37])
def test_a_gang_has_no_higher_priority_than_its_pods(behaviour: Behaviour) -> None:
    world = a_world(behaviour, 100)
    world.create(*members(2, priority=10))
    assert later(world) == []
    assert world.failures["m-0"].message == (
        "the gang default/g has priority 100, but pods of it have 10; "
        "give both the same priorityClassName"
    )


@pytest.mark.parametrize(("behaviour", "count"), [(KUBERNETES_1_36, 2), (KUBERNETES_1_37, 0)])
def test_since_1_37_pods_have_no_higher_one_either(behaviour: Behaviour, count: int) -> None:
    world = a_world(behaviour, 0)
    world.create(*members(2, priority=10))
    assert len(later(world)) == count


@pytest.mark.parametrize("priority", [None, 10])
def test_a_gang_without_a_priority_has_that_of_its_pods(priority: int | None) -> None:
    world = a_world(KUBERNETES_1_37, priority)
    world.create(*members(2, priority=10))
    assert len(later(world)) == 2


def test_a_pod_with_another_priority_that_goes_lets_the_others_run() -> None:
    world = a_world(KUBERNETES_1_37, 10)
    odd = a_pod("odd", uid="odd", gpus=1, priority=5, gang=Membership(KEY))
    world.create(*members(2, priority=10), odd)
    assert later(world) == []
    world.end("odd")
    assert later(world) == ["m-0", "m-1"]


def test_the_replacement_of_a_failed_member_runs_after_another_has_finished() -> None:
    world = a_world(KUBERNETES_1_37, None, minimum=4)
    world.create(*members(4))
    world.decide_all()
    world.answer_all()
    world.tell(PodSeen(replace(world.pods.pop("m-0"), finished=True)))
    world.tell(PodSeen(replace(world.pods.pop("m-3"), finished=True, failed=True)))
    world.create(a_pod("m-3", uid="again", gpus=1, gang=Membership(KEY)))
    assert later(world) == ["again"]
