"""Drain a backlog of one-GPU pods with kube-scheduler and with Fairlead, on one API server.

    python bench/drain.py                      1,000 nodes × 8 GPUs, 3,000 pods
    BENCH=large python bench/drain.py          5,000 nodes × 8 GPUs, 10,000 pods
    python bench/drain.py --queues 100         Fairlead also with the pods in 100 queues

Both start with the backlog already there, both write events. Pods a second are counted from the
first bind to the last. CPU is all that the scheduler's process used from its start until it was
quiet again, events included; `busy_cpu` leaves out what it used before the first bind, which a
longer run spreads over more pods. Memory is the process's peak.
"""

import argparse
import asyncio
import json
import os
import statistics
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from fairlead.kube.access.kubeconfig import load_access
from fairlead.kube.http.client import Client
from fairlead.sim.controlplane import ChildProcess, ControlPlane
from ground import ROOT, api_cpu_s, assets, bind_times, for_all, say, settle, start_scheduler
from queue_objects import create_queues, remove_queues

SIDES = {"kube-scheduler": "default-scheduler", "fairlead": "gpu-scheduler"}
#: Fairlead, with the pods in queues.
QUEUED = "fairlead, queues"


@dataclass(frozen=True, slots=True)
class Drain:
    side: str
    pods_per_s: float
    cpu_ms_per_pod: float
    busy_cpu_ms_per_pod: float
    peak_rss_mib: float
    first_bind_s: float
    api_cpu_ms_per_pod: float
    events: int


def main() -> None:
    options = _options()
    with (
        tempfile.TemporaryDirectory(prefix="fairlead-bench-") as folder,
        ControlPlane.start(assets(), Path(folder)) as plane,
    ):
        say(f"creating {options.nodes} nodes")
        plane.create_nodes(options.nodes, allocatable={"nvidia.com/gpu": "8"})
        sides = [*SIDES, *([QUEUED] if options.queues else [])]
        drains = [
            _drain(plane, side, options.pods, options.queues if side == QUEUED else 0)
            for number in range(options.rounds)
            for side in (sides if number % 2 == 0 else reversed(sides))
        ]
    report = _report(drains, options)
    _print(report)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(report, indent=1) + "\n")
    say(f"kept in {options.out}")


def _options() -> argparse.Namespace:
    large = os.environ.get("BENCH") == "large"
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--nodes", type=int, default=5000 if large else 1000)
    parser.add_argument("--pods", type=int, default=10_000 if large else 3000)
    parser.add_argument("--rounds", type=int, default=1 if large else 2, help="each side, in turn")
    parser.add_argument("--queues", type=int, default=0, help="Fairlead also with so many queues")
    size = "large" if large else "small"
    parser.add_argument(
        "--out", type=Path, default=ROOT / "bench" / "results" / f"drain-{size}.json"
    )
    return parser.parse_args()


def _drain(plane: ControlPlane, side: str, pods: int, queues: int) -> Drain:
    say(f"{side}: creating {pods} pods")
    admin = str(plane.kubeconfig_for())
    program = "fairlead" if queues else side
    create_queues(plane, queues)
    asyncio.run(_create_pods(admin, SIDES[program], pods, queues))
    settle(plane.process("kube-apiserver"))
    api_before = api_cpu_s(plane)
    with bind_times(admin) as times:
        started = time.monotonic()
        with start_scheduler(plane, program) as process:
            starting_cpu_s = _cpu_at_first_bind(times, process)
            _wait_for_binds(times, pods, process)
            events = _wait_for_events(plane, pods)
            settle(process)
            cpu_s, rss = process.cpu_seconds(), process.peak_rss_bytes()
        api_s = api_cpu_s(plane) - api_before
    drain = Drain(
        side,
        pods_per_s=round((pods - 1) / (times[-1] - times[0]), 1),
        cpu_ms_per_pod=round(cpu_s / pods * 1000, 3),
        busy_cpu_ms_per_pod=round((cpu_s - starting_cpu_s) / pods * 1000, 3),
        peak_rss_mib=round(rss / 2**20, 1),
        first_bind_s=round(times[0] - started, 2),
        api_cpu_ms_per_pod=round(api_s / pods * 1000, 2),
        events=events,
    )
    say("  ".join(f"{key}={value}" for key, value in asdict(drain).items()))
    asyncio.run(_delete_pods(admin))
    remove_queues(plane, queues)
    return drain


async def _create_pods(kubeconfig: str, scheduler: str, pods: int, queues: int) -> None:
    async def create(client: Client, number: int) -> None:
        queue = {"fairlead.dev/queue": f"queue-{number % queues}"} if queues else {}
        body = {
            "metadata": {"name": f"pod-{number:05d}", "labels": {"app": "bench", **queue}},
            "spec": {
                "schedulerName": scheduler,
                "containers": [
                    {
                        "name": "main",
                        "image": "bench",
                        "resources": {
                            "requests": {"cpu": "1", "memory": "1Gi"},
                            "limits": {"nvidia.com/gpu": "1"},
                        },
                    }
                ],
            },
        }
        path = "/api/v1/namespaces/default/pods"
        reply = await client.request("POST", path, body=json.dumps(body).encode())
        assert reply.status == 201, reply.message

    await for_all(kubeconfig, create, pods)


async def _delete_pods(kubeconfig: str) -> None:
    async def delete(client: Client, number: int) -> None:
        path = f"/api/v1/namespaces/default/pods/pod-{number:05d}"
        await client.request("DELETE", path, params={"gracePeriodSeconds": "0"})

    client = Client(load_access(kubeconfig))
    listed = await client.request("GET", "/api/v1/pods", params={"limit": "1"})
    left = json.loads(listed.body)["metadata"].get("remainingItemCount", 0) + 1
    await client.request(
        "DELETE", "/apis/events.k8s.io/v1/namespaces/default/events", timeout_s=300
    )
    await client.close()
    await for_all(kubeconfig, delete, left)


def _cpu_at_first_bind(times: list[float], process: ChildProcess) -> float:
    while not times and process.alive:
        time.sleep(0.01)
    return process.cpu_seconds()


def _wait_for_binds(times: list[float], pods: int, process: ChildProcess) -> None:
    last = time.monotonic()
    while len(times) < pods:
        if not process.alive or time.monotonic() - last > 900:
            raise SystemExit(f"{process.name}: only {len(times)} of {pods} pods were bound")
        time.sleep(0.05)


def _wait_for_events(plane: ControlPlane, pods: int) -> int:
    """Until every pod has its event, or no more come."""
    written, since = 0, time.monotonic()
    while written < pods and time.monotonic() - since < 5:
        time.sleep(0.5)
        path = "/apis/events.k8s.io/v1/namespaces/default/events?limit=1"
        _, found = plane.api("GET", path)
        now = len(found["items"]) + found["metadata"].get("remainingItemCount", 0)
        if now > written:
            written, since = now, time.monotonic()
    return written


def _report(drains: list[Drain], options: argparse.Namespace) -> dict:
    def median(side: str, field: str) -> float:
        return round(statistics.median(getattr(d, field) for d in drains if d.side == side), 3)

    fields = tuple(field for field in Drain.__slots__ if field != "side")
    names = dict.fromkeys(drain.side for drain in drains)
    sides = {side: {field: median(side, field) for field in fields} for side in names}
    ratios = {
        field: round(sides["fairlead"][field] / sides["kube-scheduler"][field], 3)
        for field in fields
    }
    return {
        "nodes": options.nodes,
        "pods": options.pods,
        "rounds": [asdict(drain) for drain in drains],
        "median": sides,
        "fairlead_over_kube_scheduler": ratios,
        "command": f"python bench/drain.py --nodes {options.nodes} --pods {options.pods} "
        f"--rounds {options.rounds}" + (f" --queues {options.queues}" if options.queues else ""),
    }


def _print(report: dict) -> None:
    print(f"\n{report['pods']} one-GPU pods on {report['nodes']} nodes × 8 GPUs, medians:")
    print(f"{'':22}{'kube-scheduler':>16}{'fairlead':>12}{'ratio':>9}")
    for field, ratio in report["fairlead_over_kube_scheduler"].items():
        kube, ours = (report["median"][side][field] for side in SIDES)
        queued = report["median"].get(QUEUED, {}).get(field)
        beside = "" if queued is None else f"   with queues {queued} ({queued / ours:.2f})"
        print(f"{field:22}{kube:>16}{ours:>12}{ratio:>9}{beside}")
    print(f"again: {report['command']}")


if __name__ == "__main__":
    main()
