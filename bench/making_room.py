"""Making room in the engine alone: CPU time of the attempt that decides who is evicted.

python bench/making_room.py [--repeat 3] [--nodes 5000] [--only NAME ...]

8 x 8        a gang of 8 pods with 8 GPUs each; every node is full of pods with 1 GPU each
64 x 1       a gang of 64 pods with 1 GPU each, among the same
gangs        a gang of 8 pods with 8 GPUs each; the cluster is full of gangs of 16 pods with 4 GPUs
rack         the gang of 8 x 8 in one rack of 32 nodes
impossible   the gang of 8 x 8 where every node has a pod of a higher priority
reclaim      a pod with 1 GPU of a queue that has nothing; another one has all GPUs
protected    the gang of 8 x 8 where a disruption budget protects every pod

"first" is the first attempt, "again" one after a pod has left, when sums are there already.
"""

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from engine import ALLOCATABLE, SCHEDULER
from fairlead.apps.config.profiles import built_in
from fairlead.engine.engine import Engine
from fairlead.engine.events import BudgetSeen, NodeSeen, PodGone, PodSeen, QueueSeen
from fairlead.engine.instructions import Evict
from fairlead.model.budgets import Budget
from fairlead.model.gangs import GangSpec, Membership, TopologyRule
from fairlead.model.nodes import GPU, Node
from fairlead.model.pods import Pod, PodRequest
from fairlead.model.queues import QueueSpec
from fairlead.model.selectors import LabelSelector, Requirement

RACK = 32


@dataclass(frozen=True)
class Case:
    #: Pods and GPUs of each; members of each gang that is there, and their GPUs.
    pods: int
    gpus: int
    others: tuple[int, int] = (1, 1)
    rack: bool = False
    #: A pod of each node has a higher priority; pods are of queues.
    mixed: bool = False
    queues: bool = False
    protected: bool = False


CASES = {
    "8 x 8": Case(8, 8),
    "64 x 1": Case(64, 1),
    "gangs": Case(8, 8, (16, 4)),
    "rack": Case(8, 8, rack=True),
    "impossible": Case(8, 8, mixed=True),
    "reclaim": Case(1, 1, queues=True),
    "protected": Case(8, 8, protected=True),
}


def a_request(gpus: int) -> PodRequest:
    return PodRequest(resources=(("cpu", 1000), (GPU, gpus)), scored=(1000, 4 << 30))


def filled(count: int, case: Case) -> Engine:
    engine = Engine({SCHEDULER: built_in(SCHEDULER)})
    for number in range(count):
        labels = {"rack": f"r{number // RACK}"}
        node = Node(f"node-{number:05d}", allocatable=ALLOCATABLE, labels=labels)
        engine.handle(NodeSeen(node), now=0.0)
    for name in ("a", "b") if case.queues else ():
        engine.handle(QueueSeen(QueueSpec(f"fairlead/{name}")), now=0.0)
    size, gpus = case.others
    request = a_request(gpus)
    per_node = 8 // gpus
    for number in range(count * per_node):
        spec = GangSpec(f"fairlead/bench/low{number // size}", size)
        pod = Pod(
            "bench",
            f"low-{number}",
            f"low-{number}",
            scheduler=SCHEDULER,
            node=f"node-{number // per_node:05d}",
            request=request,
            usage=request.resources,
            labels={"app": "low"},
            priority=20 if case.mixed and number % per_node == 0 else 0,
            queue="fairlead/a" if case.queues else "",
            started=f"1970-01-01T{number % 24:02d}:{number % 60:02d}:00Z",
            gang=Membership(spec.key, rank=number % size, spec=spec) if size > 1 else None,
        )
        engine.handle(PodSeen(pod), now=0.0)
    if case.protected:
        selector = LabelSelector((Requirement("app", "In", ("low",)),))
        engine.handle(BudgetSeen(Budget("bench", "pdb", selector=selector)), now=0.0)
    return engine


def coming(case: Case) -> list[Pod]:
    count = case.pods
    topology = (TopologyRule("rack"),) if case.rack else ()
    spec = GangSpec("fairlead/bench/high", count, priority=10, topology=topology)
    request = a_request(case.gpus)
    return [
        Pod("bench", f"high-{n}", f"high-{n}", scheduler=SCHEDULER, priority=10, request=request,
            usage=request.resources, queue="fairlead/b" if case.queues else "",
            gang=None if case.queues else Membership(spec.key, rank=n, spec=spec))
        for n in range(count)
    ]  # fmt: skip


def decide_ms(engine: Engine, now: float) -> tuple[float, int]:
    engine.tend(now=now)
    begun = time.process_time()
    attempt = engine.decide(now=now)
    took = time.process_time() - begun
    made = attempt.instructions if attempt else ()
    return 1000 * took, sum(len(each.victims) for each in made if isinstance(each, Evict))


def measure(nodes: int, case: Case) -> tuple[float, float, int]:
    engine = filled(nodes, case)
    gang = coming(case)
    for pod in gang:
        engine.handle(PodSeen(pod), now=86_400.0)
    first, evicted = decide_ms(engine, 86_400.0)
    for pod in gang:  # the same again, with another key
        engine.handle(PodGone(pod), now=86_500.0)
    again = [_renamed(pod) for pod in gang]
    for pod in again:
        engine.handle(PodSeen(pod), now=86_600.0)
    second, _ = decide_ms(engine, 86_600.0)
    return first, second, evicted


def _renamed(pod: Pod) -> Pod:
    if pod.gang is None or pod.gang.spec is None:
        return replace(pod, uid=f"{pod.uid}-2", name=f"{pod.name}-2")
    spec = replace(pod.gang.spec, key=f"{pod.gang.gang}-2")
    membership = replace(pod.gang, gang=spec.key, spec=spec)
    return replace(pod, uid=f"{pod.uid}-2", name=f"{pod.name}-2", gang=membership)


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--only", nargs="+", choices=CASES, default=list(CASES))
    options = parser.parse_args(argv)
    for name in options.only:
        found = [measure(options.nodes, CASES[name]) for _ in range(options.repeat)]
        first, again = min(f for f, _, _ in found), min(a for _, a, _ in found)
        print(f"case={name!r}  first_ms={first:.1f}  again_ms={again:.1f}  evicted={found[0][2]}")


if __name__ == "__main__":
    main()
