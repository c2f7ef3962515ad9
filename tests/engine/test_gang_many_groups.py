"""Gangs of many groups with topology rules of their own: they are planned over several turns."""

import pytest

from builders import a_node, a_pod, an_engine
from fairlead.engine import gang_flights
from fairlead.model.gangs import GangSpec, Group, Membership, TopologyRule
from fairlead.model.pods import Pod
from fairlead.placement import gang_part
from gang_world import GangWorld

RACK = "example.com/rack"
GROUPS, RACKS = 12, 4


def grouped(*, gpus: int = 1, patience_s: float | None = None) -> list[Pod]:
    """Two pods in each group, which belong in one rack."""
    rule = TopologyRule(RACK, patience_s=patience_s)
    groups = tuple(Group(f"g{n}", 2, topology=(rule,)) for n in range(GROUPS))
    spec = GangSpec("fairlead/default/job", 2 * GROUPS, groups=groups)
    return [
        a_pod(
            f"job-{n}", uid=f"job-{n}", gpus=gpus,
            gang=Membership(spec.key, group=f"g{n // 2}", rank=n, spec=spec),
        )
        for n in range(2 * GROUPS)
    ]  # fmt: skip


@pytest.fixture
def world() -> GangWorld:
    nodes = [a_node(f"n{n}", gpus=3, labels={RACK: str(n // 2)}) for n in range(2 * RACKS)]
    return GangWorld(an_engine(*nodes))


@pytest.fixture(autouse=True)
def _little_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """One group in a turn."""
    monkeypatch.setattr(gang_part, "_MOST_AT_ONCE", 1)
    monkeypatch.setattr(gang_flights, "SLICE_WORK", 1)


def turns(world: GangWorld) -> int:
    count = 0
    while world.decide():
        world.check()
        count += 1
        assert count < 500
    return count


def test_the_gang_is_planned_over_several_turns_and_each_group_is_in_one_rack(
    world: GangWorld,
) -> None:
    world.create(*grouped())
    assert turns(world) > GROUPS
    racks = {uid: int(bind.node[1:]) // 2 for uid, bind in world.binds.items()}
    assert len(racks) == 2 * GROUPS
    for number in range(GROUPS):
        assert racks[f"job-{2 * number}"] == racks[f"job-{2 * number + 1}"]


@pytest.mark.parametrize("patience_s", [None, 60.0])
def test_a_gang_that_does_not_fit_is_refused_and_others_go_on(
    world: GangWorld, patience_s: float | None
) -> None:
    world.create(*grouped(gpus=2, patience_s=patience_s))
    world.create(a_pod("single", uid="single", gpus=1))
    turns(world)
    assert world.binds.keys() == {"single"}


@pytest.mark.parametrize("after", [1, 3, 8, 14])
def test_a_member_may_leave_while_the_gang_is_planned(world: GangWorld, after: int) -> None:
    world.create(*grouped())
    for _ in range(after):
        world.decide()
    world.end("job-2")
    world.check()
    turns(world)
    world.answer_all()
    world.check()
    assert world.bound("job") in (0, 2 * GROUPS - 1), "whole as it was decided, or not at all"


def test_no_other_unit_is_tried_meanwhile(world: GangWorld) -> None:
    world.create(*grouped())
    world.decide()
    world.create(a_pod("single", uid="single", gpus=1))
    for _ in range(GROUPS // 2):
        assert world.decide()
    assert "single" not in world.binds
    turns(world)
    assert len(world.binds) == 2 * GROUPS, "the gang has all GPUs"
