"""Gangs that are held for the solver or for extenders, whatever happens meanwhile."""

import random
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from builders import SCHEDULER, a_node, a_pod
from fairlead.apps.config.profiles import aiming, built_in
from fairlead.engine.engine import Engine
from fairlead.engine.events import (
    ExtendersAnswered,
    FiguresSeen,
    NodeGone,
    NodeSeen,
    PlanComputed,
    PodGone,
)
from fairlead.engine.in_flight import contradictions
from fairlead.engine.instructions import AskExtenders, AttemptCrashed, Instruction
from fairlead.model.http_extenders import ExtenderAnswer, ExtenderTerms
from fairlead.model.node_figures import NAME, Figure, FigureList, FigureRule, SeenFigures
from fairlead.model.pods import Pod
from fairlead.model.solver import PatternUse, SolverTerms
from fairlead.placement.solver_program import solve_program
from fairlead.plugins.goals import GoalLevel, Goals
from fairlead.plugins.goals_built_in import PodCost, UnusedCost
from gang_world import GangWorld, a_gang, held_in_vain

GOALS = Goals((GoalLevel(((PodCost(), 1.0), (UnusedCost(), 1.0))),))
NODES = [f"n{number}" for number in range(5)]
STEPS = 60


class HeldWorld(GangWorld):
    """Gangs, nodes, solver and extender, at random."""

    def __init__(self, seed: int, *, extended: bool) -> None:
        profile = replace(aiming(built_in(SCHEDULER), GOALS), solver=SolverTerms(0.5))
        extenders = (ExtenderTerms("http://x"),) if extended else ()
        super().__init__(Engine({SCHEDULER: profile}, extenders=extenders))
        self.rng = random.Random(seed)
        self.asked: list[AskExtenders] = []
        self.gangs = 0
        for name in NODES:
            self.node(name)
        rules = tuple(FigureRule(((NAME, name),), 4.0 * n + 4) for n, name in enumerate(NODES))
        self.tell(FiguresSeen(SeenFigures(Figure.PRICE, (FigureList("test", rules),))))

    def node(self, name: str) -> None:
        cores = self.rng.randint(6, 10) * 1000
        self.tell(NodeSeen(a_node(name, gpus=2, resources={"cpu": cores})))

    def _carry_out(self, made: Sequence[Instruction]) -> None:
        assert not [each.error for each in made if isinstance(each, AttemptCrashed)]
        self.asked += [each for each in made if isinstance(each, AskExtenders)]
        super()._carry_out(made)

    def step(self) -> None:
        happening: Callable[[], None] = self.rng.choice(
            [self.arrive, self.arrive, self.leave, self.change, self.plan, self.plan, self.say,
             self.say, self.say, self.wait, self.finish_binds]
        )  # fmt: skip
        happening()
        self.decide_all()

    def arrive(self) -> None:
        self.gangs += 1
        sizes = [self.rng.randint(1, 5) for _ in range(self.rng.randint(2, 4))]
        pods = a_gang(f"g{self.gangs}", len(sizes), gpus=0, priority=self.rng.randint(0, 1))
        self.create(*(of_cores(pod, cores) for pod, cores in zip(pods, sizes, strict=True)))
        if self.rng.random() < 0.3:
            name = f"plain-{self.gangs}"
            self.create(of_cores(a_pod(name, uid=name, gpus=0), self.rng.randint(1, 3)))

    def leave(self) -> None:
        if self.pods:
            uid = self.rng.choice(sorted(self.pods))
            self.binds.pop(uid, None)
            self.tell(PodGone(self.pods.pop(uid)))

    def change(self) -> None:
        name = self.rng.choice(NODES)
        if self.rng.random() < 0.3 and not any(pod.node == name for pod in self.pods.values()):
            self.tell(NodeGone(name))
        else:
            self.node(name)

    def plan(self) -> None:
        """The oldest question is answered well, badly, or not at all."""
        for question in self.engine.solver_questions[:1]:
            answers = [None, (), (PatternUse(0, 0, 1),), solve_program(question)]
            answer = self.rng.choice([*answers, answers[-1], answers[-1]])
            self.tell(PlanComputed(question.gang, question.number, answer))

    def say(self) -> None:
        """Some questions to the extender are answered, in any order."""
        self.rng.shuffle(self.asked)
        for question in [self.asked.pop() for _ in range(min(3, len(self.asked)))]:
            self.tell(ExtendersAnswered(question.pod.uid, self.opinion(question)))

    def opinion(self, question: AskExtenders) -> ExtenderAnswer:
        if self.rng.random() < 0.1:
            return ExtenderAnswer(error="code 500")
        nodes = question.nodes
        refused = {name: "no" for name in nodes if self.rng.random() < 0.2}
        return ExtenderAnswer(tuple(name for name in nodes if name not in refused), refused)

    def wait(self) -> None:
        self.now += self.rng.choice([0.1, 1.0, 3.0, 60.0])

    def finish_binds(self) -> None:
        for uid in list(self.binds):
            self.answer(uid, well=self.rng.random() < 0.9)

    def check(self) -> None:
        """As for all gangs; one that is bound in part may also wait for an extender."""
        engine = self.engine
        assert contradictions(engine.in_flight, engine.cluster, engine.queue) == []
        assert not [pod.uid for pod in self.pods.values() if engine.has_lost(pod)]
        assert held_in_vain(engine) == []

    def end_well(self) -> None:
        """All questions are answered kindly from now on, and time passes."""
        for _ in range(40):
            self.now += 30.0
            for question in self.engine.solver_questions:
                said = solve_program(question)
                self.tell(PlanComputed(question.gang, question.number, said))
            for asked in self.asked:
                self.tell(ExtendersAnswered(asked.pod.uid, ExtenderAnswer(asked.nodes)))
            self.asked.clear()
            self.decide_all()
            self.answer_all()
            self.evict_all()


def of_cores(pod: Pod, cores: int) -> Pod:
    amounts = (("cpu", 1000 * cores),)
    return replace(pod, request=replace(pod.request, resources=amounts), usage=amounts)


@pytest.mark.parametrize("extended", [False, True], ids=["solver", "solver and extender"])
@pytest.mark.parametrize("seed", range(12))
def test_the_books_agree_and_no_room_is_kept_in_vain(seed: int, extended: bool) -> None:
    world = HeldWorld(seed, extended=extended)
    for _ in range(STEPS):
        world.step()
        world.check()
    for name in NODES:
        world.node(name)
    world.end_well()
    world.check()
    engine = world.engine
    assert engine.solver_questions == ()
    known = set(engine.queue.uids())
    assert set(engine.cluster.nominations) <= known, "of pods that are gone"
    for pod in [each for each in world.pods.values() if not each.node]:
        world.tell(PodGone(pod))
        del world.pods[pod.uid]
    assert not list(engine.cluster.nominations)
    world.create(*(of_cores(pod, 1) for pod in a_gang("last", 2, gpus=0, priority=9)))
    world.end_well()
    fits = sum(
        free >= 1000 for free in engine.cluster.nodes.free("cpu").tolist()
    )  # fmt: skip
    assert world.bound("last") == 2 or fits < 2
