"""Gangs in the engine alone, without an API server: CPU time until all is decided.

python bench/gangs.py [--repeat 3] [--only NAME ...]

one 512      one gang of 512 pods with 1 GPU each on 500 nodes with 8 GPUs
one 10000    one gang of 10,000 pods on 2,500 nodes: also its longest turn
impossible   80 pods with 8 GPUs each where 49 nodes have 8: until all pods are announced, and then
             what 20 s cost in which nothing changes, in turns of 0.2 s
many         1,000 gangs of 8 pods with 1 GPU each on 1,000 nodes
singles      10,000 gangs of one pod on 2,500 nodes
plain        8,000 plain pods on 1,000 nodes, for comparison with "many"
different    one gang of 200 pods on 5,000 nodes, of which no two ask for the same
racks        the same, in few racks
groups       one gang of 1,000 groups of 2 pods, each group in one rack, on 5,000 nodes

Each row is the best of all repeats. "gather" is the time to take in the pods, "decide" that of all
attempts, "turn" the longest single attempt.
"""

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from engine import ALLOCATABLE, SCHEDULER
from fairlead.apps.config.profiles import built_in
from fairlead.engine.engine import Engine
from fairlead.engine.events import NodeSeen, PodSeen
from fairlead.engine.instructions import AnnounceFailure, Bind
from fairlead.model.gangs import GangSpec, Group, Membership, TopologyRule
from fairlead.model.nodes import GPU, Node
from fairlead.model.pods import Pod, PodRequest

RACK = "example.com/rack"


@dataclass(frozen=True)
class Measured:
    decide_ms: float
    gather_ms: float
    turn_ms: float
    bound: int
    refused: int
    quiet_ms: float


def nodes(count: int) -> list[Node]:
    return [
        Node(f"node-{number:05d}", allocatable=ALLOCATABLE, labels={RACK: str(number // 32)})
        for number in range(count)
    ]


def pods(count: int, gpus: int, gang_size: int) -> list[Pod]:
    request = PodRequest(resources=(("cpu", 1000), (GPU, gpus)), scored=(1000, 4 << 30))
    specs = [
        GangSpec(f"fairlead/bench/g{number}", gang_size)
        for number in range(count // gang_size if gang_size else 0)
    ]
    return [
        Pod(
            "bench",
            f"p{number}",
            f"uid-{number}",
            scheduler=SCHEDULER,
            request=request,
            usage=request.resources,
            gang=_member(specs[number // gang_size], number % gang_size) if gang_size else None,
        )
        for number in range(count)
    ]


def _member(spec: GangSpec, rank: int) -> Membership:
    return Membership(spec.key, rank=rank, spec=spec)


def different(count: int, *rules: TopologyRule) -> list[Pod]:
    spec = GangSpec("fairlead/bench/g", count, topology=rules)
    found = []
    for number, pod in enumerate(pods(count, 1, 0)):
        amounts = (("cpu", 1000 + number), (GPU, 1))
        request = PodRequest(resources=amounts, scored=(1000 + number, 4 << 30))
        found.append(replace(pod, request=request, usage=amounts, gang=_member(spec, number)))
    return found


def grouped(count: int) -> list[Pod]:
    """Groups of two pods of 16 kinds, each in one rack."""
    groups = tuple(Group(f"g{n}", 2, topology=(TopologyRule(RACK),)) for n in range(count))
    spec = GangSpec("fairlead/bench/g", 2 * count, groups=groups)
    found = []
    for number, pod in enumerate(pods(2 * count, 1, 0)):
        amounts = (("cpu", 1000 + number % 16), (GPU, 1 + number % 4))
        request = PodRequest(resources=amounts, scored=(1000 + number % 16, 4 << 30))
        member = Membership(spec.key, group=f"g{number // 2}", rank=number, spec=spec)
        found.append(replace(pod, request=request, usage=amounts, gang=member))
    return found


CASES: dict[str, Callable[[], tuple[list[Node], list[Pod]]]] = {
    "one 512": lambda: (nodes(500), pods(512, 1, 512)),
    "one 10000": lambda: (nodes(2500), pods(10_000, 1, 10_000)),
    "impossible": lambda: (nodes(49), pods(80, 8, 80)),
    "many": lambda: (nodes(1000), pods(8000, 1, 8)),
    "singles": lambda: (nodes(2500), pods(10_000, 1, 1)),
    "plain": lambda: (nodes(1000), pods(8000, 1, 0)),
    "different": lambda: (nodes(5000), different(200)),
    "racks": lambda: (nodes(5000), different(200, TopologyRule(RACK, required=False))),
    "groups": lambda: (nodes(5000), grouped(1000)),
}


def measure(cluster: Sequence[Node], coming: Sequence[Pod]) -> Measured:
    engine = Engine({SCHEDULER: built_in(SCHEDULER)})
    for node in cluster:
        engine.handle(NodeSeen(node), now=0.0)
    start = time.process_time()
    for pod in coming:
        engine.handle(PodSeen(pod), now=0.0)
    gathered = time.process_time()
    bound = refused = 0
    longest = decided = 0.0
    while True:
        begun = time.process_time()
        attempt = engine.decide(now=0.0)
        took = time.process_time() - begun
        if attempt is None:
            break
        longest, decided = max(longest, took), decided + took
        bound += sum(isinstance(made, Bind) for made in attempt.instructions)
        refused += sum(isinstance(made, AnnounceFailure) for made in attempt.instructions)
    begun = time.process_time()
    for turn in range(100):
        engine.tend(now=0.2 * turn)
        engine.decide(now=0.2 * turn)
    quiet = time.process_time() - begun
    times = (decided, gathered - start, longest)
    return Measured(*(1000 * each for each in times), bound, refused, 1000 * quiet)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--only", nargs="+", choices=CASES, default=list(CASES))
    options = parser.parse_args()
    for name in options.only:
        cluster, coming = CASES[name]()
        best = min((measure(cluster, coming) for _ in range(options.repeat)), key=_decide_ms)
        print(
            f"case={name!r}  decide_ms={best.decide_ms:.1f}  gather_ms={best.gather_ms:.1f}  "
            f"turn_ms={best.turn_ms:.1f}  bound={best.bound}  refused={best.refused}  "
            f"quiet_20s_ms={best.quiet_ms:.1f}",
            flush=True,
        )


def _decide_ms(measured: Measured) -> float:
    return measured.decide_ms


if __name__ == "__main__":
    main()
