"""Telemetry of a large cluster while pods are being decided: CPU a scrape, and who waits for it.

    python bench/telemetry.py [--nodes 5000] [--kind dcgm|agent] [--takes 4]

Every node has an exporter that tells all series of eight GPUs, served by a process whose CPU does
not count. The reader process asks each of them over HTTP, as in production, and the engine decides
one pod after the other meanwhile, by `LowUtilisation`. "held up" is the CPU that telemetry used
between two decisions in the process that decides, at most; "decision" the longest one.
"""

import argparse
import asyncio
import contextlib
import itertools
import json
import multiprocessing
import os
import sys
import time
from dataclasses import dataclass, field, replace
from multiprocessing.queues import SimpleQueue
from pathlib import Path

from fairlead.apps.collection import spare_the_collector
from fairlead.apps.config.profiles import built_in
from fairlead.apps.fast_loop import run_in_fast_loop
from fairlead.apps.run.readings import Readings
from fairlead.engine.attempts import Outcome
from fairlead.engine.engine import Engine
from fairlead.engine.events import BindDone, NodeSeen, PodGone, PodSeen
from fairlead.model.nodes import GPU, Node
from fairlead.model.pods import Pod, PodRequest
from fairlead.plugins.low_utilisation import LowUtilisation
from fairlead.telemetry.sources import SourcePlan
from gpu_pods import eight_gpus

SCHEDULER = "gpu-scheduler"
ALLOCATABLE = (("cpu", 128_000), ("memory", 1 << 40), (GPU, 8), ("pods", 110))
EVERY_S = 4.0
#: What dcgm-exporter tells by default, and the profiling fields that most add.
DCGM = """
    DEV_SM_CLOCK DEV_MEM_CLOCK DEV_MEMORY_TEMP DEV_GPU_TEMP DEV_POWER_USAGE DEV_XID_ERRORS
    DEV_TOTAL_ENERGY_CONSUMPTION DEV_PCIE_REPLAY_COUNTER DEV_GPU_UTIL DEV_MEM_COPY_UTIL DEV_ENC_UTIL
    DEV_DEC_UTIL DEV_FB_FREE DEV_FB_USED DEV_FB_RESERVED DEV_UNCORRECTABLE_REMAPPED_ROWS
    DEV_CORRECTABLE_REMAPPED_ROWS DEV_ROW_REMAP_FAILURE DEV_NVLINK_BANDWIDTH_TOTAL
    DEV_VGPU_LICENSE_STATUS PROF_GR_ENGINE_ACTIVE PROF_PIPE_TENSOR_ACTIVE PROF_DRAM_ACTIVE
    PROF_PCIE_TX_BYTES PROF_PCIE_RX_BYTES
"""
AGENT = """
    utilization_ratio memory_busy_ratio memory_used_bytes memory_total_bytes power_watts healthy
    temperature_celsius pod_utilization_ratio pod_memory_used_bytes
"""
SERIES = {
    "dcgm": [f"DCGM_FI_{name}" for name in DCGM.split()],
    "agent": [f"fairlead_gpu_{name}" for name in AGENT.split()],
}


# -- the exporters ---------------------------------------------------------------------------------


def exposition(kind: str, node: str) -> str:
    """All series of one node, with `@` where a GPU's share stands."""
    gpus = eight_gpus(node).gpus
    lines = []
    for name in SERIES[kind]:
        lines.append(f"# HELP {name} What it is.\n# TYPE {name} gauge")
        lines += [
            f"{name}{{{labels(kind, name, node, c.index, c.uuid)}}} {value(name)}" for c in gpus
        ]
    return "\n".join([*lines, ""])


def labels(kind: str, name: str, node: str, index: int, uuid: str) -> str:
    if kind == "dcgm":
        return (
            f'gpu="{index}",UUID="{uuid}",pci_bus_id="00000000:{index:02X}:00.0",'
            f'device="nvidia{index}",modelName="NVIDIA H100 80GB HBM3",Hostname="{node}",'
            f'DCGM_FI_DRIVER_VERSION="580.159.03",container="main",namespace="team-a",'
            f'pod="train-{node}-{index}"'
        )
    owner = (
        f',namespace="team-a",pod="train-{node}-{index}"' if "_pod_" in name else ',model="H100"'
    )
    return f'node="{node}",uuid="{uuid}",gpu="{index}"{owner}'


def value(name: str) -> str:
    if "ratio" in name or name.endswith("_ACTIVE"):
        return "0.@"
    return "@"


def serve(kind: str, nodes: int, port: "SimpleQueue[int]") -> None:
    texts = {f"/node-{n:05d}": exposition(kind, f"node-{n:05d}") for n in range(nodes)}
    asked = dict.fromkeys(texts, 0)

    class Exporter(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            self.transport = transport

        def data_received(self, data: bytes) -> None:
            path = data.split(b" ", 2)[1].decode()
            asked[path] += 1
            # Half of the cluster is busy, and then the other half.
            busy = 95 if (asked[path] + int(path[-1])) % 2 else 11
            body = texts[path].replace("@", str(busy)).encode()
            head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n\r\n".encode()
            self.transport.write(head + body)  # type: ignore[attr-defined]

    async def forever() -> None:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(Exporter, "127.0.0.1", 0, backlog=1024)
        port.put(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    run_in_fast_loop(forever)


# -- deciding meanwhile ----------------------------------------------------------------------------


def an_engine(nodes: int) -> Engine:
    profile = replace(built_in(SCHEDULER), scores=((LowUtilisation(), 1.0),))
    engine = Engine({SCHEDULER: profile})
    for number in range(nodes):
        name = f"node-{number:05d}"
        node = Node(name, allocatable=ALLOCATABLE, inventory=eight_gpus(name), address="127.0.0.1")
        engine.handle(NodeSeen(node), now=time.monotonic())
    return engine


_numbers = itertools.count()


@dataclass
class Decider:
    """Decides one pod after the other, each of which goes at once, and looks at the clock."""

    engine: Engine
    longest_s: float = 0.0
    held_up_s: list[float] = field(default_factory=list)
    decided: int = 0

    async def run(self) -> None:
        while True:
            before = time.thread_time()
            await asyncio.sleep(0)
            started = time.thread_time()
            self.held_up_s.append(started - before)
            self._decide()
            self.longest_s = max(self.longest_s, time.thread_time() - started)
            await asyncio.sleep(0.001)  # leaves the core to others, as a busy scheduler would not

    def _decide(self) -> None:
        request = PodRequest(
            resources=(("cpu", 1000), ("memory", 4 << 30), (GPU, 1)), scored=(1000, 4 << 30)
        )
        self.decided += 1
        name = f"p{next(_numbers)}"
        pod = Pod("bench", name, name, scheduler=SCHEDULER, request=request)
        now = time.monotonic()
        self.engine.handle(PodSeen(pod), now=now)
        attempt = self.engine.decide(now=now)
        assert attempt is not None
        assert attempt.outcome is Outcome.SCHEDULED
        self.engine.handle(BindDone(pod.uid), now=now)
        self.engine.handle(PodGone(pod), now=now)


def children_cpu_s() -> float:
    """User and system seconds of our children that run, but for the exporters."""
    listed = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    ticks = 0
    for child in listed:
        if b"fairlead.apps.run.reader" in Path(f"/proc/{child}/cmdline").read_bytes():
            ticks += sum(
                map(int, Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[11:13])
            )
    return ticks / os.sysconf("SC_CLK_TCK")


async def measure(nodes: int, kind: str, port: int, takes: int) -> dict[str, float | str]:
    engine = an_engine(nodes)
    spare_the_collector()  # as `fairlead run` does
    longest_feed_s = 0.0

    def feed(event: object) -> None:
        nonlocal longest_feed_s
        started = time.thread_time()
        engine.handle(event, now=time.monotonic())  # type: ignore[arg-type]
        longest_feed_s = max(longest_feed_s, time.thread_time() - started)

    url = f"http://127.0.0.1:{port}/{{node}}"
    readings = Readings(
        [SourcePlan(kind, kind, url, every_s=EVERY_S, timeout_s=30.0)], engine, feed
    )
    alone = Decider(engine)
    task = asyncio.create_task(alone.run())
    await asyncio.sleep(1.0)
    await _ended(task)
    reading = asyncio.create_task(readings.run())
    await _external_binding(
        readings, kind, 2 * 8 * nodes
    )  # labels are understood, and what rules ask is known
    deciding = Decider(engine)
    task = asyncio.create_task(deciding.run())
    longest_feed_s = 0.0
    reader_s, ours_s = [], []
    for _ in range(takes):
        before, held = children_cpu_s(), len(deciding.held_up_s)
        await _external_binding(readings, kind, readings.gpus[kind] + 8 * nodes)
        reader_s.append(children_cpu_s() - before)
        ours_s.append(sum(deciding.held_up_s[held:]))
    await _ended(task)
    await _ended(reading)
    held_up = sorted(deciding.held_up_s)
    return {
        "nodes": nodes, "gpus": 8 * nodes, "kind": kind,
        "reader CPU s, least of takes": min(reader_s),
        "scheduler CPU s, least": min(ours_s),
        "CPU s a scrape, least": min(map(sum, zip(reader_s, ours_s, strict=True))),
        "CPU s a scrape, mean": (sum(reader_s) + sum(ours_s)) / takes,
        "held up ms, at most": 1000 * held_up[-1],
        "held up ms, 99.9 %": 1000 * held_up[int(0.999 * len(held_up))],
        "longest feed ms": 1000 * longest_feed_s,
        "decision ms, at most": 1000 * deciding.longest_s,
        "decision ms without telemetry": 1000 * alone.longest_s,
        "decisions meanwhile": deciding.decided,
    }  # fmt: skip


async def _ended(task: asyncio.Task[None]) -> None:
    """Cancelled, and not of its own."""
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


async def _external_binding(readings: Readings, kind: str, gpus: int) -> None:
    while readings.gpus[kind] < gpus:
        await asyncio.sleep(0.02)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--kind", choices=("dcgm", "agent"), action="append")
    parser.add_argument("--takes", type=int, default=4)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    found = []
    for kind in options.kind or ("dcgm", "agent"):
        port: SimpleQueue[int] = multiprocessing.get_context("spawn").SimpleQueue()
        exporters = multiprocessing.get_context("spawn").Process(
            target=serve, args=(kind, options.nodes, port), daemon=True
        )
        exporters.start()
        try:
            number = port.get()
            run_in_fast_loop(lambda: _one(found, options, kind, number))  # noqa: B023
        finally:
            exporters.terminate()
            exporters.join()
        for name, figure in found[-1].items():
            print(f"{name:32}{figure if isinstance(figure, str | int) else round(figure, 2)}")
    if options.out:
        options.out.write_text(json.dumps(found, indent=1))


async def _one(found: list, options: argparse.Namespace, kind: str, port: int) -> None:
    found.append(await measure(options.nodes, kind, port, options.takes))


if __name__ == "__main__":
    sys.exit(main())
