"""The shapes of scheduler_perf, scheduled by kube-scheduler and by Fairlead on one API server.

    python bench/shapes.py                          all shapes, 5,000 nodes: under half an hour
    python bench/shapes.py --quick                  500 nodes, 300 pods: to try it out
    python bench/shapes.py --shape affinity mixed   only these

As scheduler_perf does: the scheduler runs and has seen the pods that are there before; then the
measured pods are created as fast as they go in. Pods a second are counted from the first create
to the last bind. CPU is what the scheduler's process used from the first create until it was quiet
again, events included. Memory is the peak of the process. `created_per_s` is how fast the pods
came in: a scheduler that is nearly as fast was waiting for them, and could do more.

kube-scheduler may send 5,000 requests a second, as in scheduler_perf (its default is 50). Fairlead
runs as users run it. Who goes first changes from shape to shape.
"""

import argparse
import asyncio
import json
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from fairlead.apps.profiles import NAMES
from fairlead.kube.http.client import Client
from fairlead.sim.controlplane import ControlPlane, Process
from ground import FAIRLEAD, ROOT, assets, bind_times, for_all, say, settle
from pods import BASE, HIGH_PRIORITY, MEASURED, SHAPES, ZONE, ZONES, Body, Shape, plain
from shapes_report import SIDES, Run, beside, keep_report, print_report

SCHEDULER = "default-scheduler"
#: The profile that decides as kube-scheduler does, where this Fairlead has it.
PROFILE = SCHEDULER if SCHEDULER in NAMES else "gpu-scheduler"
#: As upstream's node template.
NODE = {"cpu": "4", "memory": "32Gi", "pods": "110"}
PATIENCE_S = 30.0


def main() -> None:
    options = _options()
    report = _head(options)
    with (
        tempfile.TemporaryDirectory(prefix="fairlead-bench-") as folder,
        ControlPlane.start(assets(), Path(folder)) as plane,
    ):
        _furnish(plane, options.nodes)
        for number, name in enumerate(options.shape):
            sides = SIDES if number % 2 == 0 else SIDES[::-1]
            report["shapes"][name] = _compare(plane, name, sides, options)
            keep_report(report, options.out)
    print_report(report)
    say(f"kept in {options.out}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--shape", nargs="+", choices=SHAPES, default=list(SHAPES), metavar="NAME")
    parser.add_argument("--quick", action="store_true", help="500 nodes, 300 pods")
    parser.add_argument("--nodes", type=int)
    parser.add_argument("--pods", type=int, help="measured pods of every shape")
    parser.add_argument("--out", type=Path, help="bench/results/shapes.json, or -quick.json")
    options = parser.parse_args()
    options.nodes = options.nodes or (500 if options.quick else 5000)
    options.pods = options.pods or (300 if options.quick else None)
    name = "shapes-quick.json" if options.quick else "shapes.json"
    options.out = options.out or ROOT / "bench" / "results" / name
    return options


def _furnish(plane: ControlPlane, nodes: int) -> None:
    say(f"creating {nodes} nodes")
    for number, zone in enumerate(ZONES):
        names = [_node(n) for n in range(number, nodes, len(ZONES))]
        plane.create_nodes(names, allocatable=NODE, labels={ZONE: zone})
    for name in (BASE, MEASURED):
        plane.api("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    path = "/apis/scheduling.k8s.io/v1/priorityclasses"
    plane.api("POST", path, {"metadata": {"name": HIGH_PRIORITY}, "value": 10})


def _compare(
    plane: ControlPlane, name: str, sides: Sequence[str], options: argparse.Namespace
) -> dict:
    shape = SHAPES[name]
    base = _base_pods(shape, options.nodes)
    measured = [
        _pod(shape.measured, MEASURED, f"measured-{n:05d}")
        for n in range(options.pods or shape.pods)
    ]
    runs: dict[str, Run] = {}
    for side in sides:
        if not runs or shape.base_is_used_up:
            say(f"{name}: creating {len(base)} pods that are there before")
            _create(plane, base)
        runs[side] = _run(plane, side, measured)
        say(f"{name}: {side}: " + "  ".join(f"{k}={v}" for k, v in asdict(runs[side]).items()))
        used_up = base if shape.base_is_used_up or len(runs) == len(sides) else []
        _delete(plane, [*measured, _warm_up(), *used_up])
    return beside(runs, len(measured))


def _run(plane: ControlPlane, side: str, measured: Sequence[Body]) -> Run:
    admin = str(plane.kubeconfig_for())
    _create(plane, [_warm_up()])
    with _start(plane, side) as process:
        _wait_for_warm_up(plane, process)
        settle(process)
        with bind_times(admin) as times:
            cpu_s, started = process.cpu_seconds(), time.monotonic()
            _create(plane, measured)
            created = time.monotonic()
            _wait_for_binds(times, len(measured), process)
        settle(process)
        cpu_s, rss = process.cpu_seconds() - cpu_s, process.peak_rss_bytes()
    bound = len(times)
    return Run(
        bound,
        pods_per_s=round(bound / (times[-1] - started), 1) if bound else 0.0,
        cpu_ms_per_pod=round(cpu_s / len(measured) * 1000, 3),
        peak_rss_mib=round(rss / 2**20, 1),
        created_per_s=round(len(measured) / (created - started), 1),
    )


@contextmanager
def _start(plane: ControlPlane, side: str) -> Iterator[Process]:
    if side == "kube-scheduler":
        config = {"clientConnection": {"qps": 5000, "burst": 5000}}
        with plane.start_kube_scheduler(config) as process:
            yield process
        return
    command = [
        FAIRLEAD, "run", "--port", "0", "--scheduler-name", SCHEDULER, "--profile", PROFILE,
        "--kubeconfig", str(plane.kubeconfig_for("system:kube-scheduler")),
    ]  # fmt: skip
    with Process("fairlead", command, plane.logs / "fairlead.log") as process:
        yield process


# -- pods ----------------------------------------------------------------------------------------


def _node(number: int) -> str:
    return f"node-{number:05d}"


def _pod(kind: Body, namespace: str, name: str, node: str = "") -> Body:
    spec = kind["spec"] | {"schedulerName": SCHEDULER} | ({"nodeName": node} if node else {})
    return {"metadata": kind["metadata"] | {"namespace": namespace, "name": name}, "spec": spec}


def _base_pods(shape: Shape, nodes: int) -> list[Body]:
    return [
        _pod(kind, BASE, f"base-{number}-{n:05d}", _node(n % nodes) if shape.base_bound else "")
        for number, (per_node, kind) in enumerate(shape.base)
        for n in range(round(per_node * nodes))
    ]


def _warm_up() -> Body:
    """Tried after all pods that are there before: when it is bound, the scheduler knows them."""
    return _pod(plain(), MEASURED, "warm-up")


def _create(plane: ControlPlane, pods: Sequence[Body]) -> None:
    async def create(client: Client, number: int) -> None:
        reply = await client.request(
            "POST", _path(pods[number]), body=json.dumps(pods[number]).encode()
        )
        assert reply.status == 201, reply.message

    asyncio.run(for_all(str(plane.kubeconfig_for()), create, len(pods)))


def _delete(plane: ControlPlane, pods: Sequence[Body]) -> None:
    async def delete(client: Client, number: int) -> None:
        path = f"{_path(pods[number])}/{pods[number]['metadata']['name']}"
        reply = await client.request("DELETE", path, params={"gracePeriodSeconds": "0"})
        assert reply.status in (200, 404), reply.message

    async def delete_events(client: Client, number: int) -> None:
        path = f"/apis/events.k8s.io/v1/namespaces/{(BASE, MEASURED)[number]}/events"
        await client.request("DELETE", path, timeout_s=300)

    admin = str(plane.kubeconfig_for())
    asyncio.run(for_all(admin, delete, len(pods)))
    asyncio.run(for_all(admin, delete_events, 2))


def _path(pod: Body) -> str:
    return f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods"


# -- waiting -------------------------------------------------------------------------------------


def _wait_for_warm_up(plane: ControlPlane, process: Process, within_s: float = 600) -> None:
    deadline = time.monotonic() + within_s
    path = f"/api/v1/namespaces/{MEASURED}/pods/warm-up"
    while not plane.api("GET", path)[1]["spec"].get("nodeName"):
        if not process.alive or time.monotonic() > deadline:
            raise process.died("binding a first pod")
        time.sleep(0.2)


def _wait_for_binds(times: list[float], pods: int, process: Process) -> None:
    """Until all are bound, or none was for a while: the report says how many were."""
    seen, since = 0, time.monotonic()
    while len(times) < pods and time.monotonic() - since < PATIENCE_S:
        if not process.alive:
            raise process.died("scheduling")
        if len(times) > seen:
            seen, since = len(times), time.monotonic()
        time.sleep(0.05)


def _head(options: argparse.Namespace) -> dict:
    words = ["python bench/shapes.py", f"--nodes {options.nodes}"]
    words += [f"--pods {options.pods}"] if options.pods else []
    if options.shape != list(SHAPES):
        words += ["--shape", *(f"'{name}'" for name in options.shape)]
    return {
        "nodes": options.nodes,
        "fairlead_profile": PROFILE,
        "kube_scheduler_qps": 5000,
        "command": " ".join(words),
        "shapes": {},
    }


if __name__ == "__main__":
    main()
