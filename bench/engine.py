"""The engine alone: decisions a second and CPU a decision, with no API server in the way.

python bench/engine.py [--nodes 5000 20000] [--pods 20000]
"""

import argparse
import json
import time
from pathlib import Path

from fairlead.apps.profiles import built_in
from fairlead.engine.engine import Engine
from fairlead.engine.events import Decide, NodeSeen, PodSeen
from fairlead.engine.instructions import Bind
from fairlead.model.nodes import GPU, Node
from fairlead.model.pods import Pod, PodRequest

SCHEDULER = "gpu-scheduler"
ALLOCATABLE = (("cpu", 128_000), ("memory", 1 << 40), (GPU, 8), ("pods", 110))


def a_cluster(nodes: int) -> Engine:
    engine = Engine({SCHEDULER: built_in(SCHEDULER)})
    for number in range(nodes):
        name = f"node-{number:05d}"
        labels = {"kubernetes.io/hostname": name, "zone": f"z{number % 3}"}
        engine.handle(NodeSeen(Node(name, allocatable=ALLOCATABLE, labels=labels)), now=0.0)
    return engine


def a_request(shape: int, shapes: int) -> PodRequest:
    gpus = 1 + shape % 2 if shapes > 1 else 1
    cpu = 1000 + shape
    selector = (("zone", f"z{shape % 3}"),) if shape % 4 == 1 else ()
    resources = (("cpu", cpu), ("memory", 4 << 30), (GPU, gpus))
    return PodRequest(resources=resources, scored=(cpu, 4 << 30), node_selector=selector)


def measure(nodes: int, pods: int, shapes: int) -> dict[str, float]:
    engine = a_cluster(nodes)
    requests = [a_request(shape, shapes) for shape in range(shapes)]
    for number in range(pods):
        request = requests[number % shapes]
        pod = Pod("bench", f"p{number}", f"uid-{number}", scheduler=SCHEDULER, request=request)
        engine.handle(PodSeen(pod), now=0.0)
    cpu, wall = time.process_time(), time.perf_counter()
    bound = sum(
        isinstance(instruction, Bind)
        for _ in range(pods)
        for instruction in engine.handle(Decide(), now=1.0)
    )
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    assert bound == pods, f"{bound} of {pods} pods were placed"
    return {
        "nodes": nodes,
        "shapes": shapes,
        "pods": pods,
        "decisions_per_s": round(pods / wall),
        "cpu_us_per_decision": round(cpu / pods * 1e6, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, nargs="+", default=[5000, 20000])
    parser.add_argument("--pods", type=int, default=20000)
    parser.add_argument("--shapes", type=int, nargs="+", default=[1, 200])
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    rows = []
    for shapes in options.shapes:
        for nodes in options.nodes:
            rows.append(measure(nodes, options.pods, shapes))
            print("  ".join(f"{key}={value}" for key, value in rows[-1].items()), flush=True)
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
