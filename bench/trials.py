"""Trials over many nodes, without an API server: many equal pods decided as one, and undone.

python bench/trials.py [--nodes 500 5000] [--pods 512] [--repeat 5]

Each pod is placed beside those before it and assumed in the trial; then all is rolled back. CPU
time, the best of all repeats. "listed" has every GPU by its uuid, otherwise they are counted.
"within" limits the same pods to a tenth of the nodes by a mask. "impossible" are 80 pods with 8
GPUs each within 49 nodes: until the first pod without a node is refused, with its reasons.
"""

import argparse
import time

import numpy as np

from engine import ALLOCATABLE, SCHEDULER
from fairlead.apps.config.profiles import built_in
from fairlead.cluster.arrays import NodeMask
from fairlead.cluster.cluster import Cluster
from fairlead.model.nodes import GPU, Node
from fairlead.model.pods import Pod, PodRequest
from fairlead.placement.place import Placement
from fairlead.placement.verdicts import Placed
from gpu_pods import eight_gpus, one_gpu_pods


def a_cluster(nodes: int, *, listed: bool) -> Cluster:
    cluster = Cluster()
    for number in range(nodes):
        name = f"node-{number:05d}"
        gpus = eight_gpus(name) if listed else None
        cluster.put_node(Node(name, allocatable=ALLOCATABLE, inventory=gpus))
    return cluster


def equal_pods(pods: int, gpus: int) -> list[Pod]:
    request = PodRequest(resources=(("cpu", 1000), (GPU, gpus)), scored=(1000, 4 << 30))
    return [
        Pod("bench", f"p{number}", f"uid-{number}", scheduler=SCHEDULER, request=request)
        for number in range(pods)
    ]


def decide(
    cluster: Cluster, placement: Placement, pods: list[Pod], within: NodeMask | None = None
) -> tuple[float, float, int]:
    """Seconds of CPU deciding and undoing, and how many pods got a node."""
    start, placed = time.process_time(), 0
    with cluster.trial() as trial:
        for pod in pods:
            verdict = placement.place(pod, within)
            if not isinstance(verdict, Placed):
                break
            trial.assume(pod, verdict.node, verdict.grant)
            placed += 1
        decided = time.process_time()
    return decided - start, time.process_time() - decided, placed


def row(
    nodes: int, kind: str, pods: list[Pod], measured: list[tuple[float, float, int]]
) -> str:  # fmt: skip
    decided, undone, placed = min(measured)
    times = f"deciding_ms={1000 * decided:.1f}  rollback_ms={1000 * undone:.1f}"
    return f"nodes={nodes}  kind={kind}  pods={len(pods)}  placed={placed}  {times}"


def measure(nodes: int, count: int, repeat: int) -> None:
    numbers = np.arange(nodes)
    for kind, pods in (
        ("counted", equal_pods(count, 1)),
        ("listed", one_gpu_pods(count, SCHEDULER)),
    ):
        cluster = a_cluster(nodes, listed=kind == "listed")
        placement = Placement(built_in(SCHEDULER), cluster)
        placement.place(pods[0])
        for name, asking, within in (
            (kind, pods, None),
            (f"{kind}, within", pods, numbers < max(64, nodes // 10)),
            (f"{kind}, impossible", equal_pods(80, 8), numbers < 49),
        ):
            measured = [decide(cluster, placement, asking, within) for _ in range(repeat)]
            print(row(nodes, name, asking, measured), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--nodes", type=int, nargs="+", default=[500, 5000])
    parser.add_argument("--pods", type=int, default=512)
    parser.add_argument("--repeat", type=int, default=5)
    options = parser.parse_args()
    for nodes in options.nodes:
        measure(nodes, options.pods, options.repeat)


if __name__ == "__main__":
    main()
