"""Gangs that found nodes: the solver looks for cheaper ones, and nothing becomes worse by it."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import SCHEDULER, a_node, a_pod
from examples import examples
from fairlead.apps.config.profiles import aiming, built_in
from fairlead.engine.engine import Engine
from fairlead.engine.events import FiguresSeen, NodeGone, NodeSeen, PlanComputed, PodGone
from fairlead.model.node_figures import LABEL, Figure, FigureList, FigureRule, SeenFigures
from fairlead.model.pods import Pod
from fairlead.model.solver import CostLevel, PatternUse, SolverTerms, is_better
from fairlead.placement.solver_program import solve_program
from fairlead.plugins.goals import GoalLevel, Goals
from fairlead.plugins.goals_built_in import LostTime, PodCost, UnusedCost
from gang_world import GangWorld, a_gang

COST = Goals((GoalLevel(((PodCost(), 1.0),)),))
#: Largest first, 5 cores go to the cheap node, and both 4 to the dear one; 4+4 there are cheaper.
CORES = (5, 4, 4)
CHEAP, DEAR = ("cheap", 8, 8.0), ("dear", 8, 16.0)
#: Name, cores and price.
Sold = tuple[str, int, float]


def a_world(
    *nodes: Sold, goals: Goals | None = COST, improves: bool = True, solver: bool = True
) -> GangWorld:
    profile = replace(
        built_in("spread"), solver=SolverTerms(0.5, improves) if solver else None
    )  # fmt: skip
    engine = Engine({SCHEDULER: aiming(profile, goals) if goals else profile})
    for name, cores, _ in nodes:
        node = a_node(name, gpus=0, resources={"cpu": cores * 1000}, labels={"node": name})
        engine.handle(NodeSeen(node), now=0.0)
    rules = tuple(FigureRule(((LABEL + "node", name),), price) for name, _, price in nodes)
    prices = SeenFigures(Figure.PRICE, (FigureList("test", rules),))
    engine.handle(FiguresSeen(prices), now=0.0)
    return GangWorld(engine)


def of_cores(name: str, cores: Sequence[int], **more: object) -> list[Pod]:
    pods = a_gang(name, len(cores), gpus=0, **more)
    amounts = [(("cpu", 1000 * each),) for each in cores]
    return [
        replace(pod, request=replace(pod.request, resources=amount), usage=amount)
        for pod, amount in zip(pods, amounts, strict=True)
    ]


def placed(world: GangWorld) -> dict[str, str]:
    return {uid: bind.node for uid, bind in world.binds.items()}


def cost(world: GangWorld, nodes: Sequence[Sold], pods: Sequence[Pod]) -> float:
    """Money for an hour: a core has the same part of the price of its node."""
    by_core = {name: price / cores for name, cores, price in nodes}
    where = placed(world)
    return sum(by_core[where[pod.uid]] * pod.request.amount("cpu") / 1000 for pod in pods)


def answer(world: GangWorld, now: float = 0.1) -> None:
    (question,) = world.engine.solver_questions
    world.now = now
    world.tell(PlanComputed(question.gang, question.number, solve_program(question)))
    world.decide_all()


def test_a_gang_gets_the_cheaper_nodes_of_the_plan_as_soon_as_it_is_answered() -> None:
    world, pods = a_world(CHEAP, DEAR), of_cores("g", CORES)
    world.create(*pods)
    world.decide_all()
    assert not world.binds
    assert not world.failures, "it fits, and no autoscaler is to see anything else"
    answer(world)
    assert cost(world, (CHEAP, DEAR), pods) == 18.0
    assert world.engine.cluster.nominations.node_of(pods[0].uid) == ""


@pytest.mark.parametrize("without", [{"improves": False}, {"solver": False}, {"goals": None}])
def test_it_is_placed_at_once_without_the_option_or_goals(without: dict[str, None]) -> None:
    world = a_world(CHEAP, DEAR, **without)  # type: ignore[arg-type]
    world.create(*of_cores("g", CORES))
    world.decide_all()
    assert len(world.binds) == len(CORES)


def test_a_gang_that_has_the_cheapest_nodes_is_not_asked_about() -> None:
    world = a_world(("cheap", 16, 16.0), DEAR)
    world.create(*of_cores("g", CORES))
    world.decide_all()
    assert set(placed(world).values()) == {"cheap"}


def test_a_gang_that_is_too_large_to_be_filled_several_times_in_a_turn_is_placed_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("fairlead.engine.gang_solver._MOST_COMPARED", len(CORES) - 1)
    world = a_world(CHEAP, DEAR)
    world.create(*of_cores("g", CORES))
    world.decide_all()
    assert len(world.binds) == len(CORES)


def test_what_it_found_is_kept_for_it_meanwhile() -> None:
    world, pods = a_world(CHEAP, DEAR), of_cores("g", CORES)
    world.create(*pods)
    world.decide_all()
    world.create(a_pod("other", uid="other", gpus=0, resources={"cpu": 4000}))
    world.decide_all()
    assert not world.binds, "7 cores are not promised"
    answer(world)
    assert placed(world).keys() == {pod.uid for pod in pods}


def test_the_plan_of_a_second_gang_leaves_what_is_kept_for_the_first() -> None:
    nodes = CHEAP, DEAR, ("dearer", 8, 24.0), ("dearest", 8, 32.0)
    world, first, second = a_world(*nodes), of_cores("first", CORES), of_cores("second", CORES)
    world.create(*first)
    world.decide_all()
    world.now = 0.6
    world.create(*second)
    world.decide_all()
    kept, question = world.engine.solver_questions
    plan = solve_program(question)
    assert plan is not None
    world.tell(PlanComputed(question.gang, question.number, plan))
    world.decide_all()
    assert cost(world, nodes, second) == 8 * 3 + 5 * 4, "its plan could be used"
    world.tell(PlanComputed(kept.gang, kept.number, solve_program(kept)))
    world.decide_all()
    assert cost(world, nodes, first) == 18.0


@pytest.mark.parametrize("reply", ["none", "late", "wrong"])
def test_without_a_useful_answer_it_gets_what_it_found(reply: str) -> None:
    world, pods = a_world(CHEAP, DEAR), of_cores("g", CORES)
    world.create(*pods)
    world.decide_all()
    (question,) = world.engine.solver_questions
    if reply == "late":
        due_s = world.engine.wake_at_s()
        assert due_s is not None
        world.now = due_s + 1.0
        world.decide_all()
    else:
        said = None if reply == "none" else (PatternUse(0, 0, 1),)
        world.tell(PlanComputed(question.gang, question.number, said))
        world.decide_all()
    assert cost(world, (CHEAP, DEAR), pods) == 21.0
    world.tell(PlanComputed(question.gang, question.number, solve_program(question)))
    world.decide_all()
    assert len(world.binds) == len(CORES)


def test_a_plan_that_is_dearer_by_the_prices_of_the_moment_is_not_used() -> None:
    world, pods = a_world(CHEAP, DEAR), of_cores("g", CORES)
    world.create(*pods)
    world.decide_all()
    swapped = (FigureRule(((LABEL + "node", "cheap"),), 16.0),
               FigureRule(((LABEL + "node", "dear"),), 8.0))  # fmt: skip
    prices = SeenFigures(Figure.PRICE, (FigureList("test", swapped),))
    world.tell(FiguresSeen(prices))
    answer(world)
    # 5 cores are on the node that is cheap now, as without the plan.
    assert placed(world)[pods[0].uid] == "dear"


def test_a_plan_for_a_node_that_is_gone_is_dropped() -> None:
    world, pods = a_world(CHEAP, DEAR, ("third", 8, 40.0)), of_cores("g", CORES)
    world.create(*pods)
    world.decide_all()
    (question,) = world.engine.solver_questions
    plan = solve_program(question)
    world.tell(NodeGone("dear"))
    world.tell(PlanComputed(question.gang, question.number, plan))
    world.decide_all()
    world.now = 30.0
    world.decide_all()
    if world.engine.solver_questions:
        answer(world, 30.1)
    assert set(placed(world).values()) == {"cheap", "third"}


def test_a_gang_that_lacks_a_pod_meanwhile_keeps_no_room() -> None:
    world, pods = a_world(CHEAP, DEAR), of_cores("g", CORES)
    world.create(*pods)
    world.decide_all()
    world.tell(PodGone(pods[0]))
    due_s = world.engine.wake_at_s()
    assert due_s is not None
    world.now = due_s + 1.0
    world.decide_all()
    assert not list(world.engine.cluster.nominations)
    assert world.engine.solver_questions == ()
    world.create(*of_cores("other", (8, 8)))
    world.decide_all()
    assert len(world.binds) == 2


def test_no_pod_is_evicted_while_the_solver_is_asked() -> None:
    """Largest first leaves a 2 over; the solver finds 4+2+2 and 3+3+2 without an eviction."""
    sizes = (4, 4, 3, 3, 3, 3, 2, 2, 2, 2, 2, 2)
    nodes = [(f"n{number}", 8, 8.0) for number in range(4)]
    evicted = []
    for solver in (False, True):
        world = a_world(*nodes, ("low", 8, 8.0), solver=solver)
        world.create(a_pod("low", uid="low", gpus=0, node="low", resources={"cpu": 8000}))
        world.create(*of_cores("high", sizes, priority=10))
        world.decide_all()
        if world.engine.solver_questions:
            answer(world)
        evicted.append(len(world.evictions))
    assert evicted == [1, 0]


def test_a_level_with_a_tolerance_leaves_equal_costs_to_the_next_one() -> None:
    levels = CostLevel(tolerance=0.1), CostLevel()
    assert is_better(levels, (100.0, 3.0), (109.0, 5.0))
    assert is_better(levels, (100.0, 9.0), (111.0, 5.0))
    assert not is_better(levels, (100.0, 5.0), (109.0, 5.0))
    assert not is_better(levels, (101.0, 1.0), (100.0, 5.0)), "never more than what is known"


def test_the_second_level_is_improved_where_the_first_is_equal() -> None:
    """Both nodes cost the same, one of them is spot capacity."""
    goals = Goals((GoalLevel(((PodCost(), 1.0),)), GoalLevel(((LostTime(), 1.0),))))
    nodes = ("spot", 8, 8.0), ("steady", 8, 8.0)
    world, pods = a_world(*nodes, goals=goals), of_cores("g", CORES)
    labels = {"node": "spot", "karpenter.sh/capacity-type": "spot"}
    spot = a_node("spot", gpus=0, resources={"cpu": 8000}, labels=labels)
    world.tell(NodeSeen(spot))
    world.create(*pods)
    world.decide_all()
    answer(world)
    assert placed(world) == {pods[0].uid: "spot", pods[1].uid: "steady", pods[2].uid: "steady"}


def test_equal_pods_are_asked_about_where_a_node_is_paid_for_once() -> None:
    """A small node is cheaper than a large one, and all pods fit on the large one."""
    goals = Goals((GoalLevel(((PodCost(), 1.0), (UnusedCost(), 1.0))),))
    nodes = ("small", 4, 10.0), ("large", 16, 12.0), ("small-2", 4, 10.0)
    world, pods = a_world(*nodes, goals=goals), of_cores("g", (2,) * 8)
    world.create(*pods)
    world.decide_all()
    assert not world.binds
    answer(world)
    assert set(placed(world).values()) == {"large"}


def test_two_engines_with_the_same_events_decide_the_same() -> None:
    found = []
    for _ in range(2):
        world = a_world(CHEAP, DEAR)
        world.create(*of_cores("g", CORES))
        world.decide_all()
        answer(world)
        found.append(placed(world))
    assert found[0] == found[1] != {}


@examples(40)
@given(
    st.lists(st.tuples(st.integers(2, 9), st.integers(1, 30)), min_size=2, max_size=5),
    st.lists(st.integers(1, 6), min_size=2, max_size=7),
    st.sampled_from([0.0, 0.05, 0.5]),
)
def test_no_gang_costs_more_with_the_solver(
    sold: list[tuple[int, int]], cores: list[int], tolerance: float
) -> None:
    nodes = [(f"n{n}", size, float(price)) for n, (size, price) in enumerate(sold)]
    goals, costs = Goals((GoalLevel(((PodCost(), 1.0),), tolerance),)), []
    for solver in (False, True):
        world, pods = a_world(*nodes, goals=goals, solver=solver), of_cores("g", cores)
        world.create(*pods)
        world.decide_all()
        if world.engine.solver_questions:
            answer(world)
        costs.append(cost(world, nodes, pods) if world.binds else float("inf"))
    assert costs[1] <= costs[0] + 1e-6
