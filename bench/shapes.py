"""The shapes of scheduler_perf, scheduled by kube-scheduler and by Fairlead on one API server.

    python bench/shapes.py                          all shapes, 5,000 nodes: under half an hour
    python bench/shapes.py --quick                  500 nodes, 300 pods: to try it out
    python bench/shapes.py --shape affinity mixed   only these
    python bench/shapes.py --stream                 pods come while the scheduler runs
    python bench/shapes.py --rounds 3               each side three times, in turn; medians
    python bench/shapes.py --floor                  also a client that only writes

All pods are there before the scheduler starts, so that it never waits for pods to be created. Pods
a second are counted from the first change that it makes (a bind, a condition, an eviction) to the
last bind, CPU from that change until it is quiet again, events included. `busy_share` is the CPU
it used in that time over the time: what is missing to 1 it waited, for the API server or for a
core. `told_per_s` are pods a second until the last event is written, which both schedulers do
later than the bind. `api_cpu_ms_per_pod` and `etcd_cpu_ms_per_pod` are what those two used. Memory
is the peak of the process.

With --stream it is as in scheduler_perf: the scheduler runs and has seen the pods that are there
before; then the measured pods are created as fast as they go in, and the clock runs from the first
create. `created_per_s` is how fast they came in: a scheduler that is nearly as fast was waiting.

kube-scheduler may send 5,000 requests a second, as in scheduler_perf (its default is 50). Fairlead
runs as users run it. Who goes first changes from shape to shape.
"""

import argparse
import asyncio
import json
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

from fairlead.apps.config.profiles import NAMES
from fairlead.kube.http.client import Client
from fairlead.sim.controlplane import ChildProcess, ControlPlane, served
from ground import (
    ROOT,
    assets,
    bind_times,
    event_times,
    first_change,
    for_all,
    say,
    settle,
    start_scheduler,
)
from pods import BASE, HIGH_PRIORITY, MEASURED, SHAPES, ZONE, ZONES, Body, Shape, plain
from shapes_report import FLOOR, SIDES, Run, beside, keep_report, print_report

SCHEDULER = "default-scheduler"
#: The profile that decides as kube-scheduler does, where this Fairlead has it.
PROFILE = SCHEDULER if SCHEDULER in NAMES else "gpu-scheduler"
#: As upstream's node template.
NODE = {"cpu": "4", "memory": "32Gi", "pods": "110"}
#: kube-scheduler evicts for every pod before it binds the first: that may take minutes.
PATIENCE_S = 180.0
FAIRLEAD_OPTIONS = ("--scheduler-name", SCHEDULER, "--profile", PROFILE)


def main() -> None:
    options = _options()
    report = _head(options)
    with (
        tempfile.TemporaryDirectory(prefix="fairlead-bench-") as folder,
        ControlPlane.start(assets(), Path(folder)) as plane,
    ):
        _furnish(plane, options.nodes)
        for number, name in enumerate(options.shape):
            sides = (*SIDES, FLOOR) if options.floor else SIDES
            report["shapes"][name] = _compare(plane, name, sides[:: (1, -1)[number % 2]], options)
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
    parser.add_argument("--rounds", type=int, default=1, help="of each side; medians are kept")
    parser.add_argument("--floor", action="store_true", help="also a client that only writes")
    parser.add_argument("--stream", action="store_true", help="pods come while it runs")
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
    served.priority_class(plane, HIGH_PRIORITY, 10)


def _compare(
    plane: ControlPlane, name: str, sides: Sequence[str], options: argparse.Namespace
) -> dict:
    shape = SHAPES[name]
    base = _base_pods(shape, options.nodes)
    measured = [
        _pod(shape.measured, MEASURED, f"measured-{n:05d}")
        for n in range(options.pods or shape.pods)
    ]
    runs: dict[str, list[Run]] = {side: [] for side in sides}
    order = [side for number in range(options.rounds) for side in sides[:: (1, -1)[number % 2]]]
    for number, side in enumerate(order):
        if not number or shape.base_is_used_up:
            say(f"{name}: creating {len(base)} pods that are there before")
            _create(plane, base)
        run = _run_stream if options.stream else _run_backlog
        runs[side].append(run(plane, side, shape, measured))
        say(f"{name}: {side}: " + "  ".join(f"{k}={v}" for k, v in asdict(runs[side][-1]).items()))
        used_up = base if shape.base_is_used_up or number + 1 == len(order) else []
        _delete(plane, [*measured, _warm_up(), *used_up])
    return beside(runs, len(measured))


def _run_backlog(plane: ControlPlane, side: str, shape: Shape, measured: Sequence[Body]) -> Run:
    """All pods are there before the scheduler is."""
    admin = str(plane.kubeconfig_for())
    _create(plane, measured)
    settle(plane.process("kube-apiserver"))
    # Pods that fit nowhere are refused before any other is tried: they do not start the clock.
    where = "" if shape.base_bound else MEASURED
    with (
        first_change(admin, where) as began,
        bind_times(admin, MEASURED) as times,
        event_times(admin, where) as told,
        start_scheduler(plane, side, *FAIRLEAD_OPTIONS, victims=shape.victims) as process,
    ):
        _wait_for_sign(began, process)
        meter = Meter(plane, process)
        _wait_for_binds(times, len(measured), process)
        return meter.read(times, told, began[0], len(measured))


def _run_stream(plane: ControlPlane, side: str, _: Shape, measured: Sequence[Body]) -> Run:
    """The scheduler is there, and then they come."""
    admin = str(plane.kubeconfig_for())
    _create(plane, [_warm_up()])
    with start_scheduler(plane, side, *FAIRLEAD_OPTIONS) as process:
        _wait_for_warm_up(plane, process)
        settle(process)
        with bind_times(admin, MEASURED) as times, event_times(admin, MEASURED) as told:
            meter, began = Meter(plane, process), time.monotonic()
            _create(plane, measured)
            created = time.monotonic()
            _wait_for_binds(times, len(measured), process)
            run = meter.read(times, told, began, len(measured))
    return replace(run, created_per_s=round(len(measured) / (created - began), 1))


class Meter:
    """What the scheduler and the API server use from now on."""

    def __init__(self, plane: ControlPlane, process: ChildProcess) -> None:
        self._plane, self._process = plane, process
        self._before = self._now()

    def read(
        self, bound: Sequence[float], told: Sequence[tuple[float, int]], began: float, pods: int
    ) -> Run:
        """Call it when the last pod is bound: it waits until the scheduler is quiet."""
        busy_s = self._used()[0]
        took_s = bound[-1] - began if bound else 0.0
        settle(self._process)
        used_s = self._used()
        return Run(
            len(bound),
            _rate(len(bound), took_s),
            _rate(len(bound), told[-1][0] - began if told else 0.0),
            cpu_ms_per_pod=round(used_s[0] / pods * 1000, 3),
            peak_rss_mib=round(self._process.peak_rss_bytes() / 2**20, 1),
            busy_share=round(busy_s / took_s, 2) if took_s else 0.0,
            api_cpu_ms_per_pod=round(used_s[1] / pods * 1000, 3),
            etcd_cpu_ms_per_pod=round(used_s[2] / pods * 1000, 3),
        )

    def _used(self) -> list[float]:
        return [now - before for now, before in zip(self._now(), self._before, strict=True)]

    def _now(self) -> list[float]:
        beside = (self._plane.process(name) for name in ("kube-apiserver", "etcd"))
        return [process.cpu_seconds() for process in (self._process, *beside)]


def _rate(count: int, took_s: float) -> float:
    return round(count / took_s, 1) if took_s > 0 else 0.0


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


def _wait_for_warm_up(plane: ControlPlane, process: ChildProcess, within_s: float = 600) -> None:
    deadline = time.monotonic() + within_s
    path = f"/api/v1/namespaces/{MEASURED}/pods/warm-up"
    while not plane.api("GET", path)[1]["spec"].get("nodeName"):
        if not process.alive or time.monotonic() > deadline:
            raise process.died("binding a first pod")
        time.sleep(0.2)


def _wait_for_sign(began: list[float], process: ChildProcess, within_s: float = 600) -> None:
    deadline = time.monotonic() + within_s
    while not began:
        if not process.alive or time.monotonic() > deadline:
            raise process.died("touching a first pod")
        time.sleep(0.005)


def _wait_for_binds(times: list[float], pods: int, process: ChildProcess) -> None:
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
    words += [f"--rounds {options.rounds}"] if options.rounds > 1 else []
    words += [f"--{word}" for word in ("stream", "floor") if getattr(options, word)]
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
