"""Gangs with topology rules: Fairlead's plans beside HiGHS, values and times.

Equal pods: racks, nodes and GPUs left on them, in this order. HiGHS solves one program for each.
Unequal pods: one weighted sum of the same three, since HiGHS takes seconds for each program.
"""

import argparse
import gc
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from fairlead.apps.config.profiles import built_in
from fairlead.cluster.cluster import Cluster
from fairlead.model.gangs import GangSpec, Membership, TopologyRule
from fairlead.model.pods import Pod
from fairlead.model.topology import Topology, TopologyLevel
from fairlead.placement.gang_topology import GangPlans
from fairlead.placement.place import Placement
from fairlead.placement.tree_knapsack import Knapsack, Objective, Problem
from fairlead.testing.builders import SCHEDULER, a_node, a_pod
from gang_topology_milp import optimum, unequal_optimum

RACK = "example.com/rack"
PREFERRED = TopologyRule(RACK, required=False)
#: The last takes HiGHS minutes.
SIZES = [(100, 64, 1), (500, 64, 1), (500, 64, 4), (1000, 64, 1), (5000, 64, 1), (5000, 64, 4),
         (5000, 64, 8), (5000, 512, 1)]  # fmt: skip
GPUS = 8

T = TypeVar("T")


@dataclass(frozen=True)
class Unequal:
    """Free GPUs and cores by node, and the pods: how many, GPUs, cores."""

    rack: np.ndarray
    gpus: np.ndarray
    cores: np.ndarray
    classes: tuple[tuple[int, int, int], ...]

    @property
    def weights(self) -> tuple[int, int, int]:
        """A rack counts more than all nodes, a node more than all GPUs."""
        node = int(self.gpus.sum()) + 1
        return node * (len(self.gpus) + 1), node, 1

    def value(self, racks: int, nodes: int, left: int) -> int:
        return sum(w * v for w, v in zip(self.weights, (racks, nodes, left), strict=True))


def timed(work: Callable[[], T]) -> tuple[T, float]:
    started = time.process_time()
    found = work()
    return found, time.process_time() - started


def a_cluster(rack: np.ndarray, gpus: np.ndarray, cores: np.ndarray) -> Cluster:
    cluster = Cluster()
    cluster.topology.configured = Topology((TopologyLevel(RACK),))
    for number, (r, g, c) in enumerate(zip(rack, gpus, cores, strict=True)):
        resources = {"cpu": int(c) * 1000}
        node = a_node(f"n{number}", gpus=int(g), resources=resources, labels={RACK: str(r)})
        cluster.put_node(node)
    return cluster


def planned(cluster: Cluster, pods: list[Pod]) -> tuple[dict[str, int], float]:
    """The rows of the first plan, and the seconds that it took when all views exist."""
    placements = {SCHEDULER: Placement(built_in(SCHEDULER), cluster)}
    for pod in pods:
        placements[SCHEDULER].view(pod)
    spec = GangSpec("g", len(pods), topology=(PREFERRED,))
    gc.collect()

    def work() -> dict[str, int]:
        plan = next(iter(GangPlans(spec, pods, {}, cluster, placements, 0.0)), None)
        return dict(plan.rows) if plan else {}

    return timed(work)


def measured(rows: dict[str, int], case: Unequal) -> tuple[int, int, int]:
    used = np.unique(np.array([*rows.values()], dtype=np.intp))
    demand = sum(count * gpus for count, gpus, _ in case.classes)
    return len(np.unique(case.rack[used])), len(used), int(case.gpus[used].sum()) - demand


def pods_of(case: Unequal) -> list[Pod]:
    sizes = [each for count, gpus, cores in case.classes for each in [(gpus, cores)] * count]
    return [
        a_pod(f"p{n}", gpus=gpus, cpu=cores * 1000, gang=Membership("g", "", n))
        for n, (gpus, cores) in enumerate(sizes)
    ]


def equal_pods(limit: int) -> None:
    print("nodes x pods x GPUs   plan           HiGHS          racks, nodes, GPUs left")
    for nodes, pods, gpus in SIZES:
        rng = np.random.default_rng(nodes + pods)
        rack = np.arange(nodes) // 32
        free = rng.integers(0, GPUS + 1, nodes)
        case = Unequal(rack, free, np.full(nodes, 128), ((pods, gpus, 1),))
        rows, seconds = planned(a_cluster(rack, free, case.cores), pods_of(case))
        ours = measured(rows, case)
        problem = Problem(
            pods, free // gpus, rack[None],
            (Objective(np.ones(rack.max() + 1, dtype=np.int64), 0),
             Objective(np.ones(nodes, dtype=np.int64)), Objective(free)),
        )  # fmt: skip
        assert Knapsack(problem).values(0) == (*ours[:2], ours[2] + pods * gpus)
        said = f"{nodes:5} x {pods:3} x {gpus}        {seconds * 1000:6.1f} ms  "
        if nodes > limit:
            print(f"{said}       -         {ours}")
            continue
        theirs, highs = timed(lambda problem=problem: optimum(problem))
        theirs = *theirs[:2], theirs[2] - pods * gpus
        print(f"{said}{highs * 1000:10.1f} ms   {ours} {'=' if ours == theirs else theirs}")


def an_unequal_case(seed: int) -> Unequal:
    rng = np.random.default_rng(seed)
    nodes = int(rng.integers(30, 120))
    rack = np.arange(nodes) // int(rng.integers(6, 17))
    gpus, cores = rng.integers(0, GPUS + 1, nodes), rng.integers(16, 129, nodes)
    sizes = rng.choice([1, 2, 3, 4, 8], size=int(rng.integers(2, 5)), replace=False)
    classes = tuple(
        (int(rng.integers(1, 13)), int(g), int(g) * int(rng.integers(2, 13))) for g in sizes
    )
    return Unequal(rack, gpus, cores, classes)


def unequal_pods(instances: int, limit_s: float) -> None:
    ratios, racks, times, highs_times, missed = [], [], [], [], 0
    for seed in range(instances):
        case = an_unequal_case(seed)
        rows, seconds = planned(a_cluster(case.rack, case.gpus, case.cores), pods_of(case))
        theirs, highs = timed(lambda case=case: unequal_optimum(case, limit_s))
        if theirs is None:
            missed += bool(rows)
            continue
        times.append(seconds)
        highs_times.append(highs)
        if not rows:
            print(f"instance {seed}: no plan, HiGHS {theirs}")
            ratios.append(np.inf)
            continue
        ours = measured(rows, case)
        ratios.append(case.value(*ours) / case.value(*theirs))
        racks.append(ours[0] - theirs[0])
        if ratios[-1] > 1.01:
            print(f"instance {seed}: {ours}, HiGHS {theirs}")
    found = np.array(ratios)
    print(
        f"{len(found)} of {instances} instances have a solution: value / HiGHS mean "
        f"{found.mean():.4f}, largest {found.max():.4f}, within 1 % {np.mean(found <= 1.01):.1%}; "
        f"same racks {np.mean(np.array(racks) == 0):.1%}; plan mean "
        f"{np.mean(times) * 1000:.1f} ms, largest {np.max(times) * 1000:.1f} ms; "
        f"HiGHS mean {np.mean(highs_times):.2f} s; plans where HiGHS has none: {missed}"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--largest", type=int, default=1000, help="nodes that HiGHS is run for")
    parser.add_argument("--instances", type=int, default=200)
    parser.add_argument("--limit", type=float, default=10.0, help="seconds of HiGHS for each")
    options = parser.parse_args()
    equal_pods(options.largest)
    unequal_pods(options.instances, options.limit)
