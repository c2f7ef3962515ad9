"""The engine alone: decisions a second and CPU a decision, with no API server in the way.

python bench/engine.py [--nodes 5000 20000] [--pods 20000]

The last rows are the mixed shape: of 200 kinds of pods, a sixth each has nothing special, required
affinity to its own kind by zone, anti-affinity by node, hard and soft spreading over zones, and
node affinity. `--profile FILE` writes what cProfile saw of it, for `python -m pstats FILE`.
"""

import argparse
import cProfile
import json
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

from fairlead.apps.profiles import built_in
from fairlead.engine.engine import Engine
from fairlead.engine.events import Decide, NodeSeen, PodSeen
from fairlead.engine.instructions import Bind
from fairlead.kube.codec import decode_pod
from fairlead.model.nodes import GPU, Node
from fairlead.model.pods import Pod, PodRequest
from pods import HOST, ZONE, Body, apart, in_zones, near, plain, spread

SCHEDULER = "gpu-scheduler"
ALLOCATABLE = (("cpu", 128_000), ("memory", 1 << 40), (GPU, 8), ("pods", 110))


def a_cluster(nodes: int) -> Engine:
    engine = Engine({SCHEDULER: built_in(SCHEDULER)})
    for number in range(nodes):
        name = f"node-{number:05d}"
        labels = {HOST: name, ZONE: f"z{number % 3}"}
        engine.handle(NodeSeen(Node(name, allocatable=ALLOCATABLE, labels=labels)), now=0.0)
    return engine


def a_request(shape: int, shapes: int) -> PodRequest:
    gpus = 1 + shape % 2 if shapes > 1 else 1
    cpu = 1000 + shape
    selector = ((ZONE, f"z{shape % 3}"),) if shape % 4 == 1 else ()
    resources = (("cpu", cpu), ("memory", 4 << 30), (GPU, gpus))
    return PodRequest(resources=resources, scored=(cpu, 4 << 30), node_selector=selector)


def simple_pods(pods: int, shapes: int) -> list[Pod]:
    requests = [a_request(shape, shapes) for shape in range(shapes)]
    return [
        Pod("bench", f"p{number}", f"uid-{number}", scheduler=SCHEDULER, request=request)
        for number in range(pods)
        for request in [requests[number % shapes]]
    ]


#: What a kind of pod minds; each gives a body from a plain one and the group of the kind.
MINDS: tuple[Callable[[Body, str], Body], ...] = (
    lambda pod, _: pod,
    near,
    apart,
    lambda pod, group: spread(pod, group, "DoNotSchedule"),
    lambda pod, group: spread(pod, group, "ScheduleAnyway"),
    lambda pod, _: in_zones(pod, ("z0", "z1")),
)


def mixed_pods(pods: int, shapes: int) -> list[Pod]:
    """Read from JSON, so that what Fairlead does not read yet costs nothing yet."""
    kinds = [
        MINDS[shape % len(MINDS)](plain(gpus=1 + shape // len(MINDS) % 2), f"g{shape}")
        for shape in range(shapes)
    ]
    return [_named(kinds[number % shapes], number) for number in range(pods)]


def _named(kind: Body, number: int) -> Pod:
    name = {"namespace": "bench", "name": f"p{number}", "uid": f"uid-{number}"}
    spec = kind["spec"] | {"schedulerName": SCHEDULER}
    body = {"metadata": kind["metadata"] | name, "spec": spec}
    return decode_pod(json.dumps(body).encode())


def measure(
    nodes: int, pods: list[Pod], kind: str, profile: cProfile.Profile | None
) -> dict[str, float | str]:
    engine = a_cluster(nodes)
    for pod in pods:
        engine.handle(PodSeen(pod), now=0.0)
    cpu, wall = time.process_time(), time.perf_counter()
    with profile or nullcontext():
        bound = sum(
            isinstance(instruction, Bind)
            for _ in pods
            for instruction in engine.handle(Decide(), now=1.0)
        )
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    assert bound == len(pods), f"{bound} of {len(pods)} pods were placed"
    return {
        "nodes": nodes,
        "shapes": kind,
        "pods": len(pods),
        "decisions_per_s": round(len(pods) / wall),
        "cpu_us_per_decision": round(cpu / len(pods) * 1e6, 1),
    }


def main() -> None:
    options = _options()
    profile = cProfile.Profile() if options.profile else None
    kinds = {str(shapes): simple_pods(options.pods, shapes) for shapes in options.shapes}
    if options.mixed:
        kinds[f"{options.mixed} mixed"] = mixed_pods(options.pods, options.mixed)
    rows = []
    for kind, pods in kinds.items():
        for nodes in options.nodes:
            rows.append(measure(nodes, pods, kind, profile if "mixed" in kind else None))
            print("  ".join(f"{key}={value}" for key, value in rows[-1].items()), flush=True)
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(rows, indent=1))
    if profile:
        profile.dump_stats(options.profile)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--nodes", type=int, nargs="+", default=[5000, 20000])
    parser.add_argument("--pods", type=int, default=20000)
    parser.add_argument("--shapes", type=int, nargs="*", default=[1, 200])
    parser.add_argument("--mixed", type=int, default=200, help="kinds of mixed pods; 0 for none")
    parser.add_argument("--profile", type=Path, help="write what cProfile saw of the mixed shape")
    parser.add_argument("--out", type=Path)
    return parser.parse_args()


if __name__ == "__main__":
    main()
