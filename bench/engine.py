"""The engine alone: decisions a second and CPU a decision, with no API server in the way.

python bench/engine.py [--nodes 5000 20000] [--pods 20000]

Rows with "GPUs" have every GPU listed and gaps priced: pods with one whole GPU each, and the mix
of the openb trace. "rebuild" is a start with pods bound already: seconds until all are booked.
In the mixed shape, of 200 kinds of pods, a sixth each has nothing special, required affinity to its
own kind by zone, anti-affinity by node, hard and soft spreading over zones, and node affinity.
In "preemption" four pods fill every node, and each pod must evict three of them: from its refusal
to its bind it is counted as one decision, with what the API server would tell of it meanwhile.
`--profile FILE` writes what cProfile saw of these two, for `python -m pstats FILE`.
"""

import argparse
import cProfile
import json
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

from fairlead.apps.collection import spare_the_collector
from fairlead.apps.config.profiles import built_in
from fairlead.engine.attempts import Outcome
from fairlead.engine.engine import Engine
from fairlead.engine.events import (
    BindDone,
    EvictionEnded,
    NodeSeen,
    PodGone,
    PodSeen,
    PricesComputed,
)
from fairlead.engine.instructions import Bind, Evict, Instruction
from fairlead.kube.codec import decode_pod
from fairlead.model.gpus import WHOLE, GpuUse, Grant
from fairlead.model.nodes import GPU, Node
from fairlead.model.pods import Pod, PodRequest
from gpu_pods import eight_gpus, one_gpu_pods, openb_pods, openb_prices
from pods import HOST, ZONE, Body, apart, in_zones, near, plain, spread

SCHEDULER = "gpu-scheduler"
#: The profile that is kube-scheduler's defaults, and the nodes of bench/shapes.py.
DEFAULT = "default-scheduler"
SMALL = (("cpu", 4000), ("memory", 32 << 30), ("pods", 110))
LOW, HIGH = plain(cpu="900m"), plain(cpu="3")
ALLOCATABLE = (("cpu", 128_000), ("memory", 1 << 40), (GPU, 8), ("pods", 110))


def a_cluster(nodes: int, *, listed: bool = False) -> Engine:
    engine = Engine({SCHEDULER: built_in(SCHEDULER)})
    if listed and (prices := openb_prices(8 * nodes)):
        engine.handle(PricesComputed(prices), now=0.0)
    for number in range(nodes):
        name = f"node-{number:05d}"
        labels = {HOST: name, ZONE: f"z{number % 3}"}
        gpus = eight_gpus(name) if listed else None
        node = Node(name, allocatable=ALLOCATABLE, labels=labels, inventory=gpus)
        engine.handle(NodeSeen(node), now=0.0)
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


def _named(kind: Body, number: int | str, **more: object) -> Pod:
    name = {"namespace": "bench", "name": f"p{number}", "uid": f"uid-{number}"}
    spec = kind["spec"] | {"schedulerName": SCHEDULER} | more
    body = {"metadata": kind["metadata"] | name, "spec": spec}
    return decode_pod(json.dumps(body).encode())


def measure(
    nodes: int, pods: list[Pod], kind: str, profile: cProfile.Profile | None
) -> dict[str, float | str]:
    engine = a_cluster(nodes, listed="GPUs" in kind)
    for pod in pods:
        engine.handle(PodSeen(pod), now=0.0)
    cpu, wall = time.process_time(), time.perf_counter()
    with profile or nullcontext():
        attempts = (engine.decide(now=1.0) for _ in pods)
        bound = sum(each is not None and each.outcome is Outcome.SCHEDULED for each in attempts)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    assert bound == len(pods), f"{bound} of {len(pods)} pods were placed"
    return {
        "nodes": nodes,
        "shapes": kind,
        "pods": len(pods),
        "decisions_per_s": round(len(pods) / wall),
        "cpu_us_per_decision": round(cpu / len(pods) * 1e6, 1),
    }


def preempt(nodes: int, pods: int, profile: cProfile.Profile | None) -> dict[str, float | str]:
    """All are refused at first; then the victims go, one preemptor's after the other's."""
    engine = a_full_cluster(nodes)
    for number in range(pods):
        engine.handle(PodSeen(_named(HIGH, number, priority=10)), now=0.0)
    cpu, wall = time.process_time(), time.perf_counter()
    with profile or nullcontext():
        evictions = [made for made in _decided(engine, now=1.0) if isinstance(made, Evict)]
        bound = sum(_carry_out(engine, evict) for evict in evictions)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    assert bound == len(evictions) == pods, f"{bound} of {pods} pods were placed"
    return {
        "nodes": nodes,
        "shapes": "preemption",
        "pods": pods,
        "decisions_per_s": round(pods / wall),
        "cpu_us_per_decision": round(cpu / pods * 1e6, 1),
    }


def a_full_cluster(nodes: int) -> Engine:
    engine = Engine({SCHEDULER: built_in(DEFAULT)})
    for number in range(4 * nodes):
        name = f"node-{number % nodes:05d}"
        if number < nodes:
            node = Node(name, allocatable=SMALL, labels={HOST: name, ZONE: f"z{number % 3}"})
            engine.handle(NodeSeen(node), now=0.0)
        low = _named(LOW, f"low-{number}")
        bound = replace(low, node=name, usage=low.request.resources)
        engine.handle(PodSeen(bound), now=0.0)
    return engine


def _decided(engine: Engine, now: float) -> Iterator[Instruction]:
    while attempt := engine.decide(now=now):
        yield from attempt.instructions


def _carry_out(engine: Engine, evict: Evict) -> bool:
    """Does as the API server does, and tells whether the pod is bound after it."""
    engine.handle(PodSeen(replace(evict.pod, nominated=evict.node)), now=2.0)
    for victim in evict.victims:
        engine.handle(PodSeen(replace(victim, evicted=True)), now=2.0)
        engine.handle(PodGone(victim), now=2.0)
    engine.handle(EvictionEnded(evict.pod.uid), now=2.0)
    binds = [made for made in _decided(engine, now=2.0) if isinstance(made, Bind)]
    for bind in binds:
        engine.handle(BindDone(bind.pod.uid), now=2.0)
        engine.handle(PodSeen(replace(bind.pod, node=bind.node)), now=2.0)
    return [bind.pod.uid for bind in binds] == [evict.pod.uid]


def rebuild(nodes: int, pods: int) -> dict[str, float | str]:
    """A new engine gets the nodes, and pods that have their GPUs already."""
    engine = a_cluster(nodes, listed=True)
    made = one_gpu_pods(pods, SCHEDULER)
    bound = [
        replace(
            pod,
            node=f"node-{at % nodes:05d}",
            usage=pod.request.resources,
            grant=_grant(at, nodes),
        )
        for at, pod in enumerate(made)
    ]
    cpu, wall = time.process_time(), time.perf_counter()
    for pod in bound:
        engine.handle(PodSeen(pod), now=0.0)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    assert len(engine.cluster.holdings) == pods
    return {"nodes": nodes, "shapes": "rebuild", "pods": pods, "seconds": round(wall, 2),
            "cpu_seconds": round(cpu, 2)}  # fmt: skip


def _grant(at: int, nodes: int) -> Grant:
    """Two pods share a GPU where there are more pods than GPUs."""
    use = GpuUse(f"GPU-node-{at % nodes:05d}-{at // nodes % 8}", False, WHOLE // 2)
    return Grant((use,), "fairlead")


def main() -> None:
    spare_the_collector()  # as `fairlead run` does
    options = _options()
    profile = cProfile.Profile() if options.profile else None
    kinds = {str(shapes): simple_pods(options.pods, shapes) for shapes in options.shapes}
    if options.gpus:
        kinds["1, GPUs"] = one_gpu_pods(options.pods, SCHEDULER)
        kinds["openb, GPUs"] = openb_pods(options.pods, SCHEDULER)
    if options.mixed:
        kinds[f"{options.mixed} mixed"] = mixed_pods(options.pods, options.mixed)
    rows = []
    for kind, pods in kinds.items():
        for nodes in options.nodes:
            rows.append(measure(nodes, pods, kind, profile if "mixed" in kind else None))
            print("  ".join(f"{key}={value}" for key, value in rows[-1].items()), flush=True)
    for nodes in options.nodes if options.preempt else ():
        rows.append(preempt(nodes, options.preempt, profile))
        print("  ".join(f"{key}={value}" for key, value in rows[-1].items()), flush=True)
    if options.gpus:
        rows.append(rebuild(options.nodes[0], 50_000))
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
    parser.add_argument("--preempt", type=int, default=1000, help="pods that evict; 0 for none")
    parser.add_argument("--no-gpus", dest="gpus", action="store_false", help="no GPUs listed")
    parser.add_argument("--profile", type=Path, help="write what cProfile saw")
    parser.add_argument("--out", type=Path)
    return parser.parse_args()


if __name__ == "__main__":
    main()
