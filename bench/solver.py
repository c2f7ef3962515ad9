"""Gangs whose pods differ: what greedy places, what the solver adds, and the optimum.

python bench/solver.py [--cases 60] [--nodes 40] [--seed 1]

Generated clusters: nodes with 0 to 8 free GPUs, 8 to 64 cores, and one of three prices. Gangs of 2
to 4 kinds of pods (0 to 6 GPUs, 2 to 16 cores) that need nearly all that is free, and fit in at
least one way. Placed by the engine itself; the optimum is the same program with 30 seconds. For
gangs that greedy places: what its nodes cost above the least possible.
"""

import argparse
import random
import time
from dataclasses import replace
from statistics import median

from fairlead.apps.config.profiles import aiming, built_in
from fairlead.engine.engine import Engine
from fairlead.engine.events import FiguresSeen, NodeSeen, PlanComputed, PodSeen
from fairlead.engine.instructions import Bind
from fairlead.model.gangs import GangSpec, Membership
from fairlead.model.node_figures import LABEL, Figure, FigureList, FigureRule, SeenFigures
from fairlead.model.nodes import GPU, Node
from fairlead.model.pods import Pod, PodRequest
from fairlead.model.solver import SolverTerms
from fairlead.placement.solver_program import solve_program, total_cost
from fairlead.placement.solver_question import ask
from fairlead.plugins.goals import GoalLevel, Goals
from fairlead.plugins.goals_built_in import PodCost

SCHEDULER = "gpu-scheduler"
PRICE = "price"
COST = Goals((GoalLevel(((PodCost(), 1.0),)),))
PROFILE = replace(aiming(built_in(SCHEDULER), COST), solver=SolverTerms(0.5))
RULES = tuple(
    FigureRule(((LABEL + PRICE, kind),), price)
    for kind, price in {"a": 8, "b": 20, "c": 32}.items()
)
PRICES = SeenFigures(Figure.PRICE, (FigureList("bench", RULES),))


Size = tuple[int, int]  # GPUs and cores


def a_cluster(rng: random.Random, nodes: int) -> tuple[list[Node], list[Size]]:
    free = [(rng.randint(0, 8), rng.randint(8, 64)) for _ in range(nodes)]
    made = [
        Node(
            f"n{number}",
            allocatable=(("cpu", 1000 * cores), (GPU, gpus), ("pods", 110)),
            labels={PRICE: rng.choice("abc")},
        )
        for number, (gpus, cores) in enumerate(free)
    ]
    return made, free


def a_gang(rng: random.Random, free: list[Size]) -> list[Pod]:
    """Nodes are cut into pods of a few sizes, so that the gang fits at least in one way."""
    sizes = [(gpus, rng.randint(2, 16)) for gpus in rng.sample(range(7), rng.randint(2, 4))]
    asked: list[Size] = []
    for gpus, cores in free:
        used = [0, 0]
        while fitting := [g for g in sizes if used[0] + g[0] <= gpus and used[1] + g[1] <= cores]:
            asked.append(rng.choice(fitting))
            used = [used[0] + asked[-1][0], used[1] + asked[-1][1]]
    rng.shuffle(asked)
    asked = asked[: max(2, int(len(asked) * rng.uniform(0.9, 1.0)))]
    spec = GangSpec("fairlead/bench/gang", len(asked))
    return [
        Pod(
            "bench", f"p{rank}", f"u{rank}", scheduler=SCHEDULER, usage=amounts,
            request=PodRequest(resources=amounts), gang=Membership(spec.key, rank, spec=spec),
        )
        for rank, amounts in enumerate((("cpu", 1000 * c), (GPU, g)) for g, c in asked)
    ]  # fmt: skip


def decided(engine: Engine, now: float) -> dict[str, str]:
    found = {}
    while (attempt := engine.decide(now=now)) is not None:
        found |= {
            each.pod.uid: each.node for each in attempt.instructions if isinstance(each, Bind)
        }
    return found


class Case:
    def __init__(self, rng: random.Random, nodes: int) -> None:
        self.engine = Engine({SCHEDULER: PROFILE})
        made, free = a_cluster(rng, nodes)
        for node in made:
            self.engine.handle(NodeSeen(node), now=0.0)
        self.engine.handle(FiguresSeen(PRICES), now=0.0)
        self.pods = a_gang(rng, free)
        placement = self.engine.placement(SCHEDULER)
        assert placement is not None
        start = time.process_time()
        by_name = {SCHEDULER: placement}
        self.asked = ask("gang", 0, self.pods, self.engine.cluster, by_name, 30.0)
        self.asking_s = time.process_time() - start

    def run(self) -> tuple[dict[str, str], dict[str, str], float]:
        """Nodes by greedy, nodes in the end, and seconds of the solver."""
        for pod in self.pods:
            self.engine.handle(PodSeen(pod), now=0.0)
        greedy, took = decided(self.engine, 0.0), 0.0
        if greedy or not self.engine.solver_questions:
            return greedy, greedy, took
        question = self.engine.solver_questions[0]
        start = time.process_time()
        answer = solve_program(question)
        took = time.process_time() - start
        self.engine.handle(PlanComputed(question.gang, question.number, answer), now=1.0)
        return greedy, decided(self.engine, 60.0), took


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=60)
    parser.add_argument("--nodes", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    by_greedy = in_the_end = possible = asked = 0
    took, asking, above = [], [], []
    for number in range(options.cases):
        case = Case(random.Random(options.seed * 1000 + number), options.nodes)
        if case.asked is None:
            continue
        asked += 1
        best = solve_program(case.asked.question)
        greedy, last, seconds = case.run()
        possible, by_greedy, in_the_end = (
            possible + (best is not None), by_greedy + bool(greedy), in_the_end + bool(last)
        )  # fmt: skip
        asking.append(case.asking_s)
        took += [seconds] if seconds else []
        if greedy and best is not None:
            above.append(_cost(case, greedy) / total_cost(case.asked.question, best)[0] - 1)
    print(f"{options.cases} gangs on {options.nodes} nodes, {asked} within the solver's size")
    print(f"  can be placed: {possible}; greedy: {by_greedy}; greedy and solver: {in_the_end}")
    if took:
        print(f"  solver: median {1000 * median(took):.0f} ms, longest {1000 * max(took):.0f} ms")
    print(f"  question: longest {1000 * max(asking):.0f} ms of the scheduler")
    if above:
        print(f"  greedy costs above the least: median {median(above):.1%}, worst {max(above):.1%}")


def _cost(case: Case, nodes: dict[str, str]) -> float:
    placement = case.engine.placement(SCHEDULER)
    assert placement is not None
    total, rows = 0.0, case.engine.cluster.row_of
    for pod in case.pods:
        counted = PodCost().count(placement.request(pod), case.engine.cluster.nodes)
        total += float(counted[rows[nodes[pod.uid]]])
    return total


if __name__ == "__main__":
    main()
