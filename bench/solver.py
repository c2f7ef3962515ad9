"""Gangs on generated clusters: greedy, the exact method for topology, and the solver.

python bench/solver.py [--cases 60] [--nodes 40] [--seed 1]

Each row compares a method with greedy and with the optimum of the same instances. Nodes have 0 to 8
free GPUs, 8 to 64 cores, one of three prices, and are in racks. A gang fits in at least one way. It
is placed by the engine itself; the optimum is HiGHS with 30 seconds for each level of costs.

With prices: greedy is the engine without the solver, the method is the engine with it, with 0.5
seconds. With racks: greedy is the engine without topology rules, the method is the plan by them,
and costs are racks, nodes and GPUs left in one weighted sum (see gang_topology.py).
"""

import argparse
import random
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from statistics import median

import numpy as np

from fairlead.apps.config.profiles import aiming, built_in
from fairlead.engine.engine import Engine
from fairlead.engine.events import FiguresSeen, NodeSeen, PlanComputed, PodSeen
from fairlead.engine.instructions import Bind
from fairlead.model.gangs import GangSpec, Membership
from fairlead.model.node_figures import LABEL, Figure, FigureList, FigureRule, SeenFigures
from fairlead.model.nodes import GPU, Node
from fairlead.model.pods import Pod, PodRequest
from fairlead.model.solver import SolverTerms, costs_of
from fairlead.placement.gang_costs import gang_costs
from fairlead.placement.solver_program import solve_program
from fairlead.placement.solver_question import ask
from fairlead.plugins.goals import GoalLevel, Goals
from fairlead.plugins.goals_built_in import PodCost, UnusedCost
from gang_topology import Unequal, a_cluster, an_unequal_case, measured, planned, pods_of
from gang_topology_milp import unequal_optimum

SCHEDULER = "gpu-scheduler"
PRICE = "price"
COST = Goals((GoalLevel(((PodCost(), 1.0),)),))
WHOLE_NODES = Goals((GoalLevel(((PodCost(), 1.0), (UnusedCost(), 1.0))),))
RULES = tuple(
    FigureRule(((LABEL + PRICE, kind),), price)
    for kind, price in {"a": 8, "b": 20, "c": 32}.items()
)
PRICES = SeenFigures(Figure.PRICE, (FigureList("bench", RULES),))
#: For the optimum.
LONG_S = 30.0

Size = tuple[int, int]  # GPUs and cores


@dataclass(frozen=True)
class Result:
    """What an instance costs; None: it was not placed."""

    greedy: float | None
    method: float | None
    optimum: float | None
    seconds: float


# -- prices --------------------------------------------------------------------------------------


def some_nodes(rng: random.Random, nodes: int) -> tuple[list[Node], list[Size]]:
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


def a_gang(rng: random.Random, free: list[Size], kinds: int, part: float) -> list[Pod]:
    """Nodes are cut into pods of a few sizes, so that the gang fits at least in one way."""
    sizes = [(gpus, rng.randint(2, 16)) for gpus in rng.sample(range(7), kinds)]
    asked: list[Size] = []
    for gpus, cores in free:
        used = [0, 0]
        while fitting := [g for g in sizes if used[0] + g[0] <= gpus and used[1] + g[1] <= cores]:
            asked.append(rng.choice(fitting))
            used = [used[0] + asked[-1][0], used[1] + asked[-1][1]]
    rng.shuffle(asked)
    asked = asked[: max(2, int(len(asked) * part))]
    spec = GangSpec("fairlead/bench/gang", len(asked))
    return [
        Pod(
            "bench", f"p{rank}", f"u{rank}", scheduler=SCHEDULER, usage=amounts,
            request=PodRequest(resources=amounts), gang=Membership(spec.key, rank, spec=spec),
        )
        for rank, amounts in enumerate((("cpu", 1000 * c), (GPU, g)) for g, c in asked)
    ]  # fmt: skip


class Priced:
    """One gang on one cluster, with prices."""

    def __init__(self, nodes: list[Node], pods: list[Pod], goals: Goals) -> None:
        self._nodes, self._pods, self._goals = nodes, pods, goals

    def engine(self, solver: SolverTerms | None) -> Engine:
        profile = replace(aiming(built_in(SCHEDULER), self._goals), solver=solver)
        engine = Engine({SCHEDULER: profile})
        for node in self._nodes:
            engine.handle(NodeSeen(node), now=0.0)
        engine.handle(FiguresSeen(PRICES), now=0.0)
        return engine

    def cost(self, nodes: dict[str, str]) -> float | None:
        """Of these nodes before any pod was there."""
        engine = self.engine(None)
        placement = engine.placement(SCHEDULER)
        if not nodes or placement is None:
            return None
        placed = ((pod, nodes[pod.uid]) for pod in self._pods)
        return gang_costs(placed, engine.cluster, {SCHEDULER: placement})[0]

    def optimum(self) -> float | None:
        engine = self.engine(None)
        placement = engine.placement(SCHEDULER)
        assert placement is not None
        by_name = {SCHEDULER: placement}
        asked = ask("gang", 0, self._pods, engine.cluster, by_name, LONG_S)
        best = solve_program(asked.question) if asked else None
        return costs_of(asked.question, best)[0] if asked and best else None

    def decided(self, solver: SolverTerms | None) -> tuple[dict[str, str], float]:
        """The nodes of its pods, and the seconds of the solver."""
        engine, took = self.engine(solver), 0.0
        for pod in self._pods:
            engine.handle(PodSeen(pod), now=0.0)
        found = binds(engine, 0.0)
        for question in engine.solver_questions:
            start = time.process_time()
            answer = solve_program(question)
            took = time.process_time() - start
            engine.handle(PlanComputed(question.gang, question.number, answer), now=0.1)
            found |= binds(engine, 0.1)
        return found, took

    def result(self) -> Result:
        greedy, _ = self.decided(None)
        method, seconds = self.decided(SolverTerms(0.5))
        return Result(self.cost(greedy), self.cost(method), self.optimum(), seconds)


def binds(engine: Engine, now: float) -> dict[str, str]:
    found = {}
    while (attempt := engine.decide(now=now)) is not None:
        found |= {
            each.pod.uid: each.node for each in attempt.instructions if isinstance(each, Bind)
        }
    return found


def priced(kinds: int | None, part: tuple[float, float], goals: Goals) -> Callable[..., Result]:
    """`kinds`: of pods; None: 2 to 4. `part`: of the free nodes that the gang needs."""

    def run(seed: int, nodes: int) -> Result:
        rng = random.Random(seed)
        made, free = some_nodes(rng, nodes)
        pods = a_gang(rng, free, kinds or rng.randint(2, 4), rng.uniform(*part))
        return Priced(made, pods, goals).result()

    return run


# -- racks ---------------------------------------------------------------------------------------


def in_racks(seed: int, nodes: int, *, alike: bool) -> Result:
    case = an_unequal_case(seed)
    if alike:
        rng = np.random.default_rng(seed)
        gpus = int(rng.choice([1, 2, 4]))
        case = replace(case, classes=((int(rng.integers(4, 40)), gpus, 2),))
    best = unequal_optimum(case, LONG_S)
    rows, seconds = planned(a_cluster(case.rack, case.gpus, case.cores), pods_of(case))
    return Result(
        _value(case, _by_scores(case)), _value(case, rows), case.value(*best) if best else None,
        seconds,
    )  # fmt: skip


def _value(case: Unequal, rows: dict[str, int]) -> float | None:
    return case.value(*measured(rows, case)) if rows else None


def _by_scores(case: Unequal) -> dict[str, int]:
    """The rows of the engine's choice without topology rules."""
    engine = Engine({SCHEDULER: built_in(SCHEDULER)})
    for node in a_cluster(case.rack, case.gpus, case.cores).nodes.objects():
        engine.handle(NodeSeen(node), now=0.0)
    pods = pods_of(case)
    spec = GangSpec("fairlead/bench/gang", len(pods))
    for rank, pod in enumerate(pods):
        engine.handle(PodSeen(replace(pod, gang=Membership(spec.key, rank, spec=spec))), now=0.0)
    found = binds(engine, 0.0)
    return {uid: engine.cluster.row_of[node] for uid, node in found.items()}


# -- the table -----------------------------------------------------------------------------------

FAMILIES: dict[str, tuple[str, Callable[..., Result]]] = {
    "prices, nearly full, pods differ": ("solver", priced(None, (0.9, 1.0), COST)),
    "prices, half full, pods differ": ("solver", priced(None, (0.4, 0.6), COST)),
    "prices of whole nodes, equal pods": ("solver", priced(1, (0.2, 0.6), WHOLE_NODES)),
    "racks, equal pods": ("tree", lambda seed, nodes: in_racks(seed, nodes, alike=True)),
    "racks, pods differ": ("tree", lambda seed, nodes: in_racks(seed, nodes, alike=False)),
}
HEADER = (
    "| Gangs | Method | Possible | Placed: greedy, method | Above the least: greedy | method "
    "| Time of the method |\n|---|---|---|---|---|---|---|"
)


def row(name: str, method: str, results: Iterable[Result]) -> str:
    known = [each for each in results if each.optimum is not None]
    greedy = sum(each.greedy is not None for each in known)
    by_method = sum(each.method is not None for each in known)
    took = [each.seconds for each in known if each.seconds]
    times = f"{1000 * median(took):.0f} ms, at most {1000 * max(took):.0f}" if took else "none"
    return (
        f"| {name} | {method} | {len(known)} | {greedy}, {by_method} "
        f"| {_above(known, 'greedy')} | {_above(known, 'method')} | {times} |"
    )


def _above(results: Iterable[Result], which: str) -> str:
    """Where both placed the gang: the median, and the worst."""
    both = [each for each in results if each.greedy is not None and each.method is not None]
    found = [getattr(each, which) / each.optimum - 1 for each in both if each.optimum]
    return f"{median(found):.1%}, at most {max(found):.1%}" if found else "none"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=60)
    parser.add_argument("--nodes", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    print(HEADER, flush=True)
    for name, (method, run) in FAMILIES.items():
        seeds = range(options.seed * 1000, options.seed * 1000 + options.cases)
        results = [run(seed, options.nodes) for seed in seeds]
        print(row(name, method, results), flush=True)


if __name__ == "__main__":
    main()
