"""Trials of planned starts that take several turns: the same plan, whatever happens meanwhile."""

import pytest

from builders import a_node, a_pod
from fairlead.engine.backfill import made_plans, trial_parts
from fairlead.engine.events import PodSeen
from fairlead.model.backfill import PlannedStart
from fairlead.placement.place import Placement
from timed_world import TimedWorld, a_job

_PODS = 6


@pytest.fixture
def one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A part places one pod."""
    monkeypatch.setattr(trial_parts, "_PART_WORK", 0)


def _world() -> TimedWorld:
    """A gang of six waits for eight nodes, two of which are free later than the others."""
    world = TimedWorld(*(a_node(f"n{at}", gpus=4) for at in range(_PODS + 2)))
    for at in range(_PODS + 2):
        world.submit(*a_job(f"r{at}", 1, 1000 if at < _PODS else 3000, gpus=4))
    world.create(*a_job("gang", _PODS, 100, gpus=4))
    return world


def _plan(world: TimedWorld) -> PlannedStart:
    (plan,) = world.engine.plans
    return plan


def _begin(world: TimedWorld, turns: int) -> None:
    """So many parts of the trial."""
    made = world.engine.plans._book._made
    while made._begun is None or len(made._begun.parts.before._found) < turns:
        assert world.decide()


def test_a_plan_in_parts_is_the_plan_of_one_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = _world()
    whole.work()
    monkeypatch.setattr(trial_parts, "_PART_WORK", 0)
    parts = _world()
    _begin(parts, _PODS - 1)
    assert not list(parts.engine.plans)
    parts.work()
    assert _plan(parts) == _plan(whole)
    assert _plan(parts).start_s == 1000


@pytest.mark.usefixtures("one_by_one")
def test_pods_that_were_placed_are_not_placed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    placed = []
    place = Placement.place

    def counted(self: Placement, pod: object, *args: object, **more: object) -> object:
        placed.append(pod)
        return place(self, pod, *args, **more)  # type: ignore[arg-type]

    world = _world()
    _begin(world, 1)
    monkeypatch.setattr(Placement, "place", counted)
    world.work()
    assert len(placed) == _PODS - 1
    assert _plan(world).start_s == 1000


@pytest.mark.usefixtures("one_by_one")
def test_a_node_that_is_taken_between_parts_is_not_planned_for() -> None:
    world = _world()
    _begin(world, _PODS - 1)
    begun = world.engine.plans._book._made._begun
    assert begun is not None
    found = begun.parts.before._found[1][1]
    other = a_pod("other", uid="other", gpus=4, node=getattr(found, "node"))  # noqa: B009
    world.engine.handle(PodSeen(other), now=world.now)
    world.work()
    plan = _plan(world)
    assert plan.start_s == 3000
    assert other.node not in {node for _, node in plan.nodes}
    assert len({node for _, node in plan.nodes}) == _PODS


@pytest.mark.usefixtures("one_by_one")
def test_a_trial_that_never_ends_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial_parts, "_MOST_PARTS", 2)
    world = _world()
    world.work()
    assert not list(world.engine.plans)


@pytest.mark.usefixtures("one_by_one")
def test_an_earlier_start_is_found_in_parts() -> None:
    world = TimedWorld(*(a_node(f"n{at}", gpus=4) for at in range(_PODS + 1)))
    for at, run_s in enumerate((500, 500, 500, 500, 500, 1000, 3000)):
        world.submit(*a_job(f"r{at}", 1, run_s, gpus=4))
    world.create(*a_job("gang", _PODS, 100, gpus=4))
    world.work()
    assert _plan(world).start_s == 1000
    world.run_until(200)
    world.end("r6")
    world.work()
    assert _plan(world).start_s == 500


@pytest.mark.usefixtures("one_by_one")
def test_a_large_gang_is_planned_again_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(made_plans, "_MANY_MEMBERS", 2)
    world = _world()
    world.work()
    other = a_pod("other", uid="other", gpus=4, node=_plan(world).nodes[0][1])
    world.engine.handle(PodSeen(other), now=world.now)
    world.work()
    assert _plan(world).start_s == 3000
    assert other.node not in {node for _, node in _plan(world).nodes}
