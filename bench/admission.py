"""How long the webhook takes to answer, at a steady rate, on one core.

    .venv/bin/python bench/admission.py [--rate 200] [--seconds 30] [--realtime]
    .venv/bin/python bench/admission.py --hostile

Starts `fairlead webhook` in a process that may use one core, and asks it about new pods over TLS
on connections that stay open, as an API server does: one question to put variables in and one to
check, by turns, of pods of three sizes. A question is sent when its time has come, whether or not
those before it were answered, and is timed from then on. The client is another process on the same
machine: with few cores the two compete. On a machine that others use as well, `--realtime` (as
root) lets the two go before them: else it is the others' work that is measured.

With `--hostile` it asks about the largest pods that an API server could send instead, each several
times at once, and prints the CPU time of one review, the length of the answer and the memory.
"""

import argparse
import asyncio
import datetime as dt
import io
import os
import ssl
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import aiohttp
import msgspec

from fairlead.kube.admission.certificates import Subject, make

GOAL_MS = 20.0


def main() -> None:
    options = _parse()
    with tempfile.TemporaryDirectory() as folder:
        trusted = _certificates(Path(folder))
        log = Path(folder) / "log"
        core = min(os.sched_getaffinity(0))
        command = [
            sys.executable, "-c", "from fairlead.apps.entry import main; main()", "webhook",
            "--cert-dir", folder, "--address", "127.0.0.1", "--port", "0",
        ]  # fmt: skip
        with log.open("wb") as out:
            server = subprocess.Popen(command, stderr=out)
        os.sched_setaffinity(server.pid, {core})
        if options.realtime:
            for pid in (0, server.pid):
                os.sched_setscheduler(pid, os.SCHED_RR, os.sched_param(1))
        try:
            port = _port(server, log)
            work = measure_hostile if options.hostile else measure
            asyncio.run(work(options, server.pid, port, trusted))
        finally:
            server.terminate()
            server.wait(10)


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rate", type=int, default=200)
    parser.add_argument("--seconds", type=int, default=30)
    parser.add_argument("--realtime", action="store_true")
    parser.add_argument("--hostile", action="store_true")
    return parser.parse_args()


def _certificates(folder: Path) -> bytes:
    subject = Subject(("127.0.0.1",), dt.timedelta(hours=1))
    pair, authority = make(subject, dt.datetime.now(dt.UTC))
    (folder / "tls.crt").write_bytes(pair.certificate)
    (folder / "tls.key").write_bytes(pair.key)
    return authority


def _port(server: subprocess.Popen[bytes], log: Path) -> int:
    while True:
        for line in log.read_text().splitlines():
            found = msgspec.json.decode(line)
            if found["event"] == "started":
                return int(found["health"].rpartition(":")[2])
        assert server.poll() is None, log.read_text()
        time.sleep(0.05)


def reviews() -> list[bytes]:
    """A small pod, one with sidecars, and one with a great many variables."""
    sizes = {1: 3, 4: 20, 8: 200}
    return [
        _review(number, containers, size) for number, (containers, size) in enumerate(sizes.items())
    ]


def _review(number: int, containers: int, variables: int) -> bytes:
    env = [{"name": f"SETTING_{n}", "value": "x" * 40} for n in range(variables)]
    amounts = {"nvidia.com/gpu": "1", "cpu": "4", "memory": "16Gi"}
    made = [
        {
            "name": f"c{n}", "image": "registry.example.com/team/trainer:v1", "env": env,
            "resources": {"limits": amounts, "requests": amounts} if n == 0 else {},
        }
        for n in range(containers)
    ]  # fmt: skip
    pod = {
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"generateName": "train-", "namespace": "team", "labels": {"app": "train"}},
        "spec": {"schedulerName": "gpu-scheduler", "containers": made, "initContainers": made[:1]},
    }  # fmt: skip
    request = {
        "uid": f"705ab4f5-6393-11e8-b7cc-{number:012d}", "operation": "CREATE",
        "kind": {"group": "", "version": "v1", "kind": "Pod"}, "object": pod,
    }  # fmt: skip
    about = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    return msgspec.json.encode(about)


async def measure(options: argparse.Namespace, pid: int, port: int, trusted: bytes) -> None:
    tls = ssl.create_default_context(cadata=trusted.decode())
    bodies = reviews()
    headers = {"Content-Type": "application/json"}
    took_ms: list[float] = []
    late_ms: list[float] = []
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=tls, limit=0)) as session:

        async def ask(number: int, due: float) -> None:
            route = ("mutate", "validate")[number % 2]
            body = bodies[number // 2 % len(bodies)]
            url = f"https://127.0.0.1:{port}/{route}"
            late_ms.append((time.perf_counter() - due) * 1000)
            async with session.post(url, data=body, headers=headers) as reply:
                answer = await reply.read()
                assert reply.status == 200, answer
            took_ms.append((time.perf_counter() - due) * 1000)

        await asyncio.gather(*(ask(n, 0.0) for n in range(12)))  # connections, and warm caches
        took_ms.clear()
        late_ms.clear()
        cpu_before, started = _cpu_s(pid), time.perf_counter()
        tasks = []
        for number in range(options.rate * options.seconds):
            due = started + number / options.rate
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            tasks.append(asyncio.create_task(ask(number, due)))
        await asyncio.gather(*tasks)
        lasted_s, cpu_s = time.perf_counter() - started, _cpu_s(pid) - cpu_before
    print(f"sent late by ms, before any server: {_percentiles(late_ms)}")
    _report(took_ms, lasted_s, cpu_s, [len(body) for body in bodies])


def hostile() -> dict[str, bytes]:
    """Pods of up to 3 MiB, the most that an API server takes, with as much as possible of a thing.

    Just below the limits of objects and fields, and beyond them.
    """
    container = {"name": "c"}
    anti = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"a": "b"}}}
    expression = {"key": "a", "operator": "In", "values": ["a"] * 700_000}
    node = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    apart = {"podAntiAffinity": {required: [anti] * 6_000}}
    cuda = {"name": "CUDA_VISIBLE_DEVICES"}
    shapes: dict[str, tuple[dict[str, object], dict[str, object]]] = {
        "3,000 containers": ({"containers": [container] * 3_000}, {}),
        "19,000 containers": ({"containers": [container] * 19_000}, {}),
        "1,000,000 containers": ({"containers": [{}] * 1_000_000}, {}),
        "19,000 variables": ({"containers": [{"env": [cuda] * 19_000}]}, {}),
        "19,000 volumes": ({"volumes": [{"name": "v"}] * 19_000}, {}),
        "19,000 tolerations": ({"tolerations": [{"key": "a"}] * 19_000}, {}),
        "6,000 anti-affinity terms": ({"affinity": apart}, {}),
        "700,000 values": ({"affinity": {"nodeAffinity": {required: node}}}, {}),
        "99,000 labels": ({}, {"labels": {f"label-{n}": "x" for n in range(99_000)}}),
        "a map of 250 KiB": ({}, {"annotations": {"gpu-scheduling-map": "0=node1:0,1\n" * 21_000}}),
    }  # fmt: skip
    return {name: _hostile(*shape) for name, shape in shapes.items()}


def _hostile(spec: dict[str, object], meta: dict[str, object]) -> bytes:
    served = {"schedulerName": "gpu-scheduler", "containers": [{"name": "c"}], **spec}
    pod = {"metadata": {"name": "p-0", **meta}, "spec": served}
    request = {"uid": "u", "operation": "CREATE", "kind": {"kind": "Pod"}, "object": pod}
    about = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    return msgspec.json.encode(about)


async def measure_hostile(
    _options: argparse.Namespace, pid: int, port: int, trusted: bytes
) -> None:
    tls = ssl.create_default_context(cadata=trusted.decode())
    headers = {"Content-Type": "application/json"}
    longest_ms, at_once = 0.0, 8
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=tls, limit=0)) as session:

        async def ask(route: str, body: bytes) -> int:
            url = f"https://127.0.0.1:{port}/{route}"
            async with session.post(url, data=io.BytesIO(body), headers=headers) as reply:
                return len(await reply.read())

        for name, body in hostile().items():
            for route in ("mutate", "validate"):
                before = _cpu_s(pid)
                sizes = await asyncio.gather(*(ask(route, body) for _ in range(at_once)))
                each_ms = (_cpu_s(pid) - before) / at_once * 1000
                longest_ms = max(longest_ms, each_ms)
                kib = max(sizes) / 1024
                print(f"{name:26} {route:9} {each_ms:6.0f} ms of CPU, answer {kib:7.1f} KiB")
    peak = f"{_peak_mib(pid):.0f} MiB"
    print(f"longest: {longest_ms:.0f} ms; most memory, with {at_once} at once: {peak}")


def _peak_mib(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    (peak_kib,) = (int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
    return peak_kib / 1024


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _percentiles(ms: list[float]) -> str:
    shares = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99.9": 0.999, "max": 1.0}
    return " ".join(f"{name} {_percentile(ms, share):.2f}" for name, share in shares.items())


def _percentile(ms: list[float], share: float) -> float:
    return sorted(ms)[min(len(ms) - 1, int(len(ms) * share))]


def _report(took_ms: list[float], lasted_s: float, cpu_s: float, sizes: list[int]) -> None:
    rate = len(took_ms) / lasted_s
    kib = ", ".join(f"{size / 1024:.1f}" for size in sizes)
    print(f"{len(took_ms)} questions in {lasted_s:.1f} s ({rate:.0f}/s), of {kib} KiB by turns")
    print(f"answered after ms: {_percentiles(took_ms)}")
    each_ms = cpu_s / len(took_ms) * 1000
    print(f"server: {each_ms:.2f} ms of CPU a question, {cpu_s / lasted_s:.0%} of one core")
    met = _percentile(took_ms, 0.99) < GOAL_MS
    print(f"goal: p99 under {GOAL_MS:g} ms: {'met' if met else 'missed'}")


if __name__ == "__main__":
    main()
