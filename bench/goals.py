"""Goals in the engine: mixed decisions for each second of CPU time, with and without goals.

python bench/goals.py [--nodes 5000] [--pods 4000] [--shapes 20] [--records]

--records: what goals counted on the chosen node and on others is noted, as for a decision log.

Nodes of three prices, a third of them spot, in four zones with their own carbon. Pods of so many
shapes with 0 to 8 GPUs, one in ten with an annotation about capacity, arrive in turn.
"""

import argparse
import time
from collections.abc import Sequence
from dataclasses import replace

from engine import a_request
from fairlead.apps.collection import spare_the_collector
from fairlead.apps.config.profiles import aiming, built_in
from fairlead.engine.engine import Engine
from fairlead.engine.events import FiguresSeen, NodeSeen, PodSeen
from fairlead.engine.instructions import Bind
from fairlead.model.capacity_types import CapacityTerms
from fairlead.model.node_figures import (
    CAPACITY,
    LABEL,
    Figure,
    FigureList,
    FigureRule,
    SeenFigures,
)
from fairlead.model.nodes import GPU, Node
from fairlead.model.pods import Pod
from fairlead.placement.profile import Profile
from fairlead.plugins.goals import GoalLevel, Goals
from fairlead.plugins.goals_built_in import Carbon, LostTime, PodCost, UnusedCost, Watts

SCHEDULER = "gpu-scheduler"
ZONE = "topology.kubernetes.io/zone"
ALL = Goals((
    GoalLevel(((PodCost(), 1.0), (UnusedCost(), 1.0), (LostTime(), 4 / 3600)), 0.05),
    GoalLevel(((Carbon(), 1.0),), 0.1),
    GoalLevel(((Watts(), 1.0),)),
))  # fmt: skip
COST = Goals((GoalLevel(((PodCost(), 1.0),)),))


def figures() -> list[SeenFigures]:
    spot = FigureRule(((CAPACITY, "spot"),), 1.5, per_gpu=True)
    zones = [FigureRule(((LABEL + ZONE, f"z{n}"),), 3.0 + n, per_gpu=True) for n in range(4)]
    carbon = [FigureRule(((LABEL + ZONE, f"z{n}"),), 100.0 * (n + 1)) for n in range(4)]
    watts = FigureRule((), 700.0, per_gpu=True)
    return [
        SeenFigures(Figure.PRICE, (FigureList("table", (spot, *zones)),)),
        SeenFigures(Figure.CARBON, (FigureList("table", tuple(carbon)),)),
        SeenFigures(Figure.WATTS, (FigureList("table", (watts,)),)),
    ]


def a_node(number: int) -> Node:
    labels = {ZONE: f"z{number % 4}"}
    labels |= {"karpenter.sh/capacity-type": "spot"} if number % 3 == 0 else {}
    amounts = {"cpu": 64_000, "memory": 1 << 40, "pods": 110, GPU: 8}
    return Node(f"n{number}", allocatable=tuple(sorted(amounts.items())), labels=labels)


def pods(count: int, shapes: int) -> list[Pod]:
    terms = (CapacityTerms(on_demand_only=True), CapacityTerms(prefers_spot=True))
    requests = [a_request(shape, shapes) for shape in range(shapes)]
    for place in range(0, shapes, 10):
        requests[place] = replace(requests[place], capacity=terms[place // 10 % 2])
    return [
        Pod("bench", f"p{n}", f"uid-{n}", scheduler=SCHEDULER, request=requests[n % shapes])
        for n in range(count)
    ]


def per_second(
    profile: Profile, nodes: int, queue: Sequence[Pod], *, records: bool = False
) -> float:
    """Decisions for each second of CPU time."""
    engine = Engine({SCHEDULER: profile})
    engine.keeps_records = records
    for number in range(nodes):
        engine.handle(NodeSeen(a_node(number)), now=0.0)
    for seen in figures():
        engine.handle(FiguresSeen(seen), now=0.0)
    for pod in queue:
        engine.handle(PodSeen(pod), now=0.0)
    start, bound, decided = time.process_time(), 0, 0
    while (attempt := engine.decide(now=0.0)) is not None:
        decided += 1
        bound += sum(isinstance(made, Bind) for made in attempt.instructions)
    took = time.process_time() - start
    print(f"    {bound} bound of {decided}, {1000 * took / decided:.3f} ms each")
    return decided / took


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=4000)
    parser.add_argument("--shapes", type=int, default=20)
    parser.add_argument("--records", action="store_true")
    asked = parser.parse_args()
    spare_the_collector()
    queue = pods(asked.pods, asked.shapes)
    plain = built_in(SCHEDULER)
    for name, profile in (
        ("without goals", plain), ("cost", aiming(plain, COST)), ("all goals", aiming(plain, ALL)),
    ):  # fmt: skip
        found = per_second(profile, asked.nodes, queue, records=asked.records)
        print(f"{name}: {found:,.0f} decisions/s")


if __name__ == "__main__":
    main()
