"""Consolidation without an API server: which waiting units start, and what moves for them.

python bench/defrag.py [--nodes 100 500] [--seed 1] [--case all|kai|whole|turn]

"kai" is the consolidation case of KAI's scale suite: every node has 3 GPUs taken by pods of one,
and gangs of 10 pods with 6 GPUs each wait. "whole": nodes with random pods at 75 %, and a tenth as
many pods wait that need a whole node; beside it the optimum that HiGHS finds by counts. "turn": one
plan among many nodes and pods, and the cost of finding that there is none. Rules to compare with:
"none" moves nothing; "descheduler" empties the nodes that are used least (HighNodeUtilization), as
long as their pods fit elsewhere; "greedy" moves the newest pods until the unit and they fit, as
KAI's solver does. GPUs are counted, time is CPU time.
"""

import argparse
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from defrag_milp import least_moves
from engine import ALLOCATABLE, SCHEDULER
from fairlead.apps.config.profiles import built_in
from fairlead.cluster.trial import Trial
from fairlead.engine.consolidation.plans import ConsolidationPlan
from fairlead.engine.engine import Engine
from fairlead.engine.events import NodeSeen, PodGone, PodSeen
from fairlead.model.consolidation import MoveLimits
from fairlead.model.gangs import GangSpec, Membership
from fairlead.model.nodes import GPU, Node
from fairlead.model.pods import Pod, PodRequest
from fairlead.placement.verdicts import Placed

NOW_S = 1_767_268_800.0
BEGAN = "2026-01-01T11:40:00Z"
LIMITS = MoveLimits(most_moves=10_000, horizon_s=1e9, most_gpu_seconds=1e12)
#: HighNodeUtilization: nodes with less in use are emptied.
LEAST_USED = 0.5


def a_pod(name: str, gpus: int, node: str = "", **more: object) -> Pod:
    resources = (("cpu", 1000), (GPU, gpus))
    request = PodRequest(resources=resources, scored=(1000, 4 << 30))
    fields = {"controller": "ReplicaSet/r", "started": BEGAN} if node else {}
    return Pod(
        "bench", name, name, scheduler=SCHEDULER, node=node, request=request, usage=resources,
        **{**fields, **more},
    )  # fmt: skip


def a_gang(name: str, pods: int, gpus: int) -> list[Pod]:
    key = f"fairlead/bench/{name}"
    spec = GangSpec(key, pods)
    return [
        a_pod(f"{name}-{n}", gpus, gang=Membership(key, rank=n, spec=spec)) for n in range(pods)
    ]


def an_engine(nodes: list[list[int]]) -> Engine:
    """Nodes of eight GPUs with pods of these sizes."""
    engine = Engine({SCHEDULER: built_in(SCHEDULER)})
    for number, sizes in enumerate(nodes):
        name = f"node-{number:05d}"
        engine.handle(NodeSeen(Node(name, allocatable=ALLOCATABLE)), now=0.0)
        for place, gpus in enumerate(sizes):
            engine.handle(PodSeen(a_pod(f"{name}-{place}", gpus, name)), now=0.0)
    return engine


@dataclass
class Result:
    started: int = 0
    moves: int = 0
    gpus: int = 0
    seconds: float = 0.0
    longest_s: float = 0.0

    def add(self, seconds: float) -> None:
        self.seconds += seconds
        self.longest_s = max(self.longest_s, seconds)


def place(engine: Engine, pod: Pod) -> str:
    """Where it goes now; it is there then."""
    placement = engine.placement(SCHEDULER)
    assert placement is not None
    verdict = placement.place(replace(pod, node=""), evicts=False)
    if not isinstance(verdict, Placed):
        return ""
    engine.handle(PodSeen(replace(pod, node=verdict.node, started=BEGAN)), now=0.0)
    return verdict.node


Units = list[list[Pod]]
Rule = Callable[[Engine, Units, Result], None]


def start_all(engine: Engine, units: Units, result: Result) -> None:
    """Those that fit as things are."""
    for pods in units:
        with engine.cluster.trial() as trial:
            fits = all(_tried(engine, trial, pod) for pod in pods)
        if fits:
            for pod in pods:
                assert place(engine, pod)
            result.started += 1


def _tried(engine: Engine, trial: Trial, pod: Pod) -> bool:
    placement = engine.placement(SCHEDULER)
    assert placement is not None
    verdict = placement.place(pod, evicts=False)
    if not isinstance(verdict, Placed):
        return False
    trial.assume(pod, verdict.node, verdict.grant)
    return True


def by_plans(engine: Engine, units: Units, result: Result) -> None:
    """Fairlead: one plan for each unit, carried out before the next."""
    for pods in units:
        for pod in pods:
            engine.handle(PodSeen(pod), now=0.0)
        entry = engine.queue.get(pods[0].uid)
        assert entry is not None
        begun = time.process_time()
        found = engine.planning.plan(entry, LIMITS, NOW_S)
        result.add(time.process_time() - begun)
        for pod in pods:
            engine.handle(PodGone(pod), now=0.0)
        if isinstance(found, ConsolidationPlan):
            for move in found.moves:
                engine.handle(PodGone(move.pod), now=0.0)
            for move in found.moves:
                engine.handle(PodSeen(replace(move.pod, node=move.target)), now=0.0)
            for start in found.starts:
                engine.handle(PodSeen(replace(start.pod, node=start.node, started=BEGAN)), now=0.0)
            result.moves += len(found.moves)
            result.gpus += found.moved_milli // 1000
        if isinstance(found, ConsolidationPlan) or found.why == "it fits as things are":
            result.started += 1
            if not isinstance(found, ConsolidationPlan):
                for pod in pods:
                    place(engine, pod)


def by_descheduler(engine: Engine, units: Units, result: Result) -> None:
    cluster, begun = engine.cluster, time.process_time()
    used = sorted((sum(h.pod.request.amount(GPU) for h in cluster.held_on(name)), name)
                  for name in cluster.row_of)  # fmt: skip
    filled: set[str] = set()
    for gpus, name in used:
        if not 0 < gpus < LEAST_USED * 8 or name in filled:
            continue
        pods = cluster.pods_on(name)
        node = cluster.node_named(name)
        assert node is not None
        engine.handle(NodeSeen(replace(node, unschedulable=True)), now=0.0)
        with cluster.trial() as trial:
            for pod in pods:
                trial.evict(pod.uid)
            fits = all(_tried(engine, trial, replace(pod, node="")) for pod in pods)
        for pod in pods if fits else ():
            engine.handle(PodGone(pod), now=0.0)
            filled.add(place(engine, pod))
            result.moves += 1
            result.gpus += pod.request.amount(GPU)
        engine.handle(NodeSeen(node), now=0.0)
    result.add(time.process_time() - begun)
    start_all(engine, units, result)


def by_greedy(engine: Engine, units: Units, result: Result) -> None:
    """Victims by age, the newest first, as many as it takes; doubled, then narrowed down."""
    for pods in units:
        order = sorted(
            engine.cluster.holdings.values(), key=lambda held: held.pod.uid, reverse=True
        )
        victims = [held.pod for held in order if not held.pod.gang]
        begun = time.process_time()
        most = next((n for n in _doubling(len(victims)) if _works(engine, pods, victims[:n])), None)
        least = most // 2 if most else 0
        while most is not None and most - least > 1:
            middle = (least + most) // 2
            most, least = (
                (middle, least) if _works(engine, pods, victims[:middle]) else (most, middle)
            )
        result.add(time.process_time() - begun)
        if most is None:
            continue
        moved = victims[:most]
        for pod in moved:
            engine.handle(PodGone(pod), now=0.0)
        for pod in (*pods, *sorted(moved, key=lambda pod: -pod.request.amount(GPU))):
            place(engine, pod)
        result.started += 1
        result.moves += len(moved)
        result.gpus += sum(pod.request.amount(GPU) for pod in moved)


def _doubling(most: int) -> Iterator[int]:
    yield 0
    size = 1
    while size < 2 * most:
        yield min(size, most)
        size *= 2


def _works(engine: Engine, pods: list[Pod], victims: list[Pod]) -> bool:
    with engine.cluster.trial() as trial:
        for pod in victims:
            trial.evict(pod.uid)
        moved = sorted(victims, key=lambda pod: -pod.request.amount(GPU))
        return all(_tried(engine, trial, replace(pod, node="")) for pod in (*pods, *moved))


RULES: dict[str, Rule] = {
    "none": start_all,
    "descheduler": by_descheduler,
    "greedy": by_greedy,
    "fairlead": by_plans,
}


def compare(title: str, nodes: list[list[int]], units: Units, optimum: str = "") -> None:
    print(f"{title}{optimum}")
    for name, rule in RULES.items():
        result = Result()
        rule(an_engine(nodes), units, result)
        print(
            f"  {name:12} {result.started:4} of {len(units)} started, {result.moves:5} pods and "
            f"{result.gpus:5} GPUs moved, {result.seconds * 1000:8.0f} ms, "
            f"longest {result.longest_s * 1000:6.0f} ms",
            flush=True,
        )


def kai(nodes: int) -> None:
    gangs = 8 * nodes // 100 + nodes // 500
    units = [a_gang(f"gang-{n}", 10, 6) for n in range(gangs)]
    compare(f"kai: {nodes} nodes, {gangs} gangs × 10 × 6 GPUs", [[1, 1, 1]] * nodes, units)


def fragmented(nodes: int, seed: int) -> list[list[int]]:
    """Filled to 75 % by pods of 1, 2 and 4 GPUs that ended at random."""
    drawn, found = random.Random(seed), []
    for _ in range(nodes):
        sizes: list[int] = []
        while sum(sizes) < 8:
            sizes.append(drawn.choice([size for size in (1, 2, 4) if size <= 8 - sum(sizes)]))
        found.append(sizes)
    every = [(row, place) for row, sizes in enumerate(found) for place in range(len(sizes))]
    drawn.shuffle(every)
    taken = 8 * nodes
    for row, place in every:
        if taken <= 6 * nodes:
            break
        taken -= found[row][place]
        found[row][place] = 0
    return [[size for size in sizes if size] for sizes in found]


def whole(nodes: int, seed: int) -> None:
    drawn = fragmented(nodes, seed)
    count = nodes // 10
    empty = sum(not sizes for sizes in drawn)
    begun = time.process_time()
    moves, gpus = least_moves(drawn, count)
    best = f"; optimum {gpus} GPUs, by {moves} pods, {time.process_time() - begun:.1f} s"
    units = [[a_pod(f"whole-{n}", 8)] for n in range(count)]
    compare(f"whole: {nodes} nodes ({empty} empty), {count} pods of 8 GPUs", drawn, units, best)


def turn(nodes: int, seed: int) -> None:
    """The longest searches: with a plan, and without one although the sum is enough."""
    cases = {
        "random": ([sizes or [8] for sizes in fragmented(nodes, seed)], 8),
        "one free each": ([[1] * 7] * nodes, 4),
        "nothing fits": ([[5]] * nodes, 4),
        "full of ones": ([[1] * 8] * nodes, 8),
    }
    for name, (drawn, gpus) in cases.items():
        engine = an_engine(drawn)
        pod = a_pod("big", gpus)
        engine.handle(PodSeen(pod), now=0.0)
        entry = engine.queue.get(pod.uid)
        assert entry is not None
        times = []
        for _ in range(3):
            begun = time.process_time()
            found = engine.planning.plan(entry, LIMITS, NOW_S)
            times.append(time.process_time() - begun)
        said = found.message if isinstance(found, ConsolidationPlan) else found.why
        pods = len(engine.cluster.holdings)
        print(f"turn: {nodes} nodes, {pods} pods, {name}: first {times[0] * 1000:.0f} ms, "
              f"then {min(times) * 1000:.0f} ms: {said[:90]}", flush=True)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, nargs="+", default=[100, 500])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--case", choices=["all", "kai", "whole", "turn"], default="all")
    options = parser.parse_args()
    for nodes in options.nodes:
        if options.case in ("all", "kai"):
            kai(nodes)
        if options.case in ("all", "whole"):
            whole(nodes, options.seed)
        if options.case in ("all", "turn"):
            turn(nodes, options.seed)


if __name__ == "__main__":
    main()
