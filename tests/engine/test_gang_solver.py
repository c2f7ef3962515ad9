"""Gangs whose pods differ and that find no nodes: plans of the solver are asked for and tried."""

import asyncio
import sys
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import SCHEDULER, a_node
from examples import examples
from fairlead.apps.config import config as configs
from fairlead.apps.config.profiles import built_in
from fairlead.apps.run.solving import Solving, Worker
from fairlead.engine.engine import Engine
from fairlead.engine.events import Event, NodeSeen, PlanComputed, PodGone
from fairlead.model.errors import ConfigError, FairleadError
from fairlead.model.pods import Pod
from fairlead.model.solver import (
    CostLevel,
    NodeClass,
    PatternUse,
    SolverQuestion,
    SolverTerms,
    costs_of,
    is_valid,
)
from fairlead.placement.solver_program import solve_program
from fairlead.plugins.registry import Registry
from fairlead.telemetry.metrics import Metrics
from gang_world import GangWorld, a_gang

#: Largest first, 4 and 3 cores fill the nodes so that a 2 is left over; 4+2+2 and 3+3+2 fit.
CORES = (4, 4, 3, 3, 3, 3, 2, 2, 2, 2, 2, 2)
NODES = 4


def a_world(*, solver: bool = True, cores: int = 8) -> GangWorld:
    terms = SolverTerms(0.5) if solver else None
    engine = Engine({SCHEDULER: replace(built_in("spread"), solver=terms)})
    for number in range(NODES):
        node = a_node(f"n{number}", gpus=0, resources={"cpu": cores * 1000})
        engine.handle(NodeSeen(node), now=0.0)
    return GangWorld(engine)


def mixed(name: str = "mix") -> list[Pod]:
    pods = a_gang(name, len(CORES), gpus=0)
    sizes = zip(pods, CORES, strict=True)
    return [
        replace(
            pod,
            request=replace(pod.request, resources=(("cpu", cores * 1000),)),
            usage=(("cpu", cores * 1000),),
        )
        for pod, cores in sizes
    ]


def answered(world: GangWorld) -> PlanComputed:
    (question,) = world.engine.solver_questions
    return PlanComputed(question.gang, question.number, solve_program(question))


def test_a_gang_that_greedy_refuses_is_placed_by_the_plan() -> None:
    world = a_world()
    world.create(*mixed())
    world.decide_all()
    assert not world.binds
    world.engine.handle(answered(world), now=1.0)
    assert world.engine.solver_questions == ()
    world.now = 20.0
    world.decide_all()
    assert len(world.binds) == len(CORES)


def test_without_the_option_nothing_is_asked() -> None:
    world = a_world(solver=False)
    world.create(*mixed())
    world.decide_all()
    assert not world.binds
    assert world.engine.solver_questions == ()


def test_a_plan_for_nodes_that_have_changed_is_dropped() -> None:
    world = a_world()
    world.create(*mixed())
    world.decide_all()
    plan = answered(world)
    smaller = a_node("n0", gpus=0, resources={"cpu": 1000})
    world.engine.handle(NodeSeen(smaller), now=1.0)
    world.engine.handle(plan, now=1.0)
    world.now = 20.0
    world.decide_all()
    assert not world.binds


def test_answers_to_other_questions_and_impossible_ones_have_no_effect() -> None:
    world = a_world()
    world.create(*mixed())
    world.decide_all()
    plan = answered(world)
    (question,) = world.engine.solver_questions
    world.engine.handle(PlanComputed("fairlead/default/other", 0, plan.answer), now=1.0)
    world.engine.handle(PlanComputed(plan.gang, plan.number + 1, plan.answer), now=1.0)
    assert world.engine.solver_questions == (question,)
    for wrong in ((PatternUse(99, 0, 1),), (PatternUse(0, 0, -1),), (PatternUse(0, 0, 1000),), ()):
        assert not is_valid(question, wrong)
    world.engine.handle(PlanComputed(plan.gang, plan.number, (PatternUse(0, 0, 1),)), now=1.0)
    assert world.engine.solver_questions == ()
    world.now = 20.0
    world.decide_all()
    assert not world.binds


def test_the_same_question_is_asked_once() -> None:
    world = a_world()
    world.create(*mixed())
    world.decide_all()
    (question,) = world.engine.solver_questions
    world.engine.handle(PlanComputed(question.gang, question.number, None), now=1.0)
    for now in (400.0, 800.0):
        world.now = now
        world.decide_all()
        assert world.engine.solver_questions == ()


def test_a_gang_that_is_gone_leaves_nothing() -> None:
    world = a_world()
    world.create(*mixed())
    world.decide_all()
    plan = answered(world)
    for pod in world.pods.values():
        world.engine.handle(PodGone(pod), now=1.0)
    world.engine.handle(plan, now=1.0)
    assert world.engine.solver_questions == ()


def test_two_engines_with_the_same_events_decide_the_same() -> None:
    binds = []
    for _ in range(2):
        world = a_world()
        world.create(*mixed())
        world.decide_all()
        world.engine.handle(answered(world), now=1.0)
        world.now = 20.0
        world.decide_all()
        binds.append({uid: bind.node for uid, bind in world.binds.items()})
    assert binds[0] == binds[1] != {}


@examples(25)
@given(
    st.lists(st.integers(1, 6), min_size=2, max_size=2, unique=True),
    st.tuples(st.integers(1, 3), st.integers(1, 3)),
    st.lists(st.tuples(st.integers(1, 8), st.integers(1, 5)), min_size=1, max_size=3),
)
def test_the_program_finds_the_cheapest_way_of_all(
    sizes: list[int], counts: tuple[int, int], nodes: list[tuple[int, int]]
) -> None:
    """Against all ways to put the pods on nodes of so many cores and prices."""
    patterns = tuple((a, b) for a in range(counts[0] + 1) for b in range(counts[1] + 1) if a + b)
    classes = tuple(
        NodeClass(
            1,
            tuple(
                number
                for number, (a, b) in enumerate(patterns)
                if a * sizes[0] + b * sizes[1] <= cores
            ),
            ((float(price * sizes[0]), float(price * sizes[1])),),
            ((0.0, 0.0),),
        )
        for cores, price in nodes
    )
    question = SolverQuestion("g", 0, 10.0, counts, patterns, classes, (CostLevel(),))
    answer = solve_program(question)
    best = _cheapest(question, 0, counts)
    assert (answer is None) == (best is None)
    if answer is not None:
        assert is_valid(question, answer)
        assert costs_of(question, answer)[0] == pytest.approx(best)


def _cheapest(question: SolverQuestion, number: int, left: tuple[int, ...]) -> float | None:
    if not any(left):
        return 0.0
    if number == len(question.classes):
        return None
    here, found = question.classes[number], [_cheapest(question, number + 1, left)]
    for pattern in (question.patterns[each] for each in here.patterns):
        rest = tuple(a - b for a, b in zip(left, pattern, strict=True))
        if min(rest) >= 0:
            after = _cheapest(question, number + 1, rest)
            cost = sum(a * b for a, b in zip(pattern, here.costs[0], strict=True))
            found.append(None if after is None else after + cost)
    return min((each for each in found if each is not None), default=None)


def test_the_process_answers_and_one_that_dies_or_hangs_costs_no_more_than_its_budget() -> None:
    world = a_world()
    world.create(*mixed())
    world.decide_all()
    (question,) = world.engine.solver_questions
    generous = replace(question, budget_s=10.0)

    async def ask(*command: str) -> object:
        worker = Worker(command)
        try:
            return await worker.ask(generous if "-m" in command else question)
        finally:
            await worker.end()

    answer = asyncio.run(ask(sys.executable, "-m", "fairlead.apps.run.solving"))
    assert isinstance(answer, tuple)
    assert is_valid(question, answer)
    for script, why in (
        ("print('ready', flush=True); input()", "ended"),
        ("print('ready', flush=True); input(); print('[[]]', flush=True)", "Expected"),
        ("print('ready', flush=True); input(); input()", "budget"),
        ("", "ended"),
    ):
        with pytest.raises(FairleadError, match=why):
            asyncio.run(ask(sys.executable, "-c", script))


def test_a_process_that_fails_is_an_answer_without_a_plan() -> None:
    world, fed = a_world(), list[Event]()
    world.create(*mixed())
    world.decide_all()
    command = (sys.executable, "-c", "")
    solving = Solving(world.engine, fed.append, Metrics(), command)
    asyncio.run(solving.answer_next())
    (question,) = world.engine.solver_questions
    assert fed == [PlanComputed(question.gang, question.number, None)]


def test_the_configuration_takes_a_budget() -> None:
    def terms(text: str) -> SolverTerms | None:
        read = configs.parse(f"profiles: [{{schedulerName: s, solver: {text}}}]")
        return configs.build_profiles(read.profiles, Registry())["s"].solver

    assert terms("{budget: 1s}") == SolverTerms(1.0)
    assert terms("{}") == SolverTerms(0.5)
    for wrong in ("{budget: soon}", "{budget: 1h}", "{budget: 1ms}"):
        with pytest.raises(ConfigError, match="50ms to 10s"):
            terms(wrong)
