"""GPUs on a DGX-1V: how fast the rings are that pods get, rule by rule.

    python bench/links.py [--jobs 10000] [--seeds 1 2 3]

One machine with 8 GPUs (the hybrid cube mesh: two NVLinks 50 GB/s, one 25, PCIe 10). Jobs for 1
to 5 GPUs come as a Poisson stream at load 0.8, wait in line, and stay for an exponential time;
half of them are sensitive to bandwidth. For the sensitive ones with two GPUs or more it counts the
bandwidth of all links in the set and of the slowest link of the best ring, both as a share of the
best on an empty machine, and rings over PCIe that NVLink could have made there. Fairlead's row goes
through the ledger and `placement.gpus.choose`, as a pod does. Every rule sees the same jobs.
"""

import argparse
import heapq
import json
import random
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from itertools import combinations
from pathlib import Path
from statistics import mean
from typing import NamedTuple

from fairlead.cluster.cluster import Cluster
from fairlead.cluster.link_topology import link_topology_of
from fairlead.model.gpus import Gpu, GpuRequest, Inventory
from fairlead.model.machines import PCIE_GBPS, links_of, numa_of
from fairlead.model.nodes import Node
from fairlead.model.pods import Pod
from fairlead.placement.gpus import GpuPolicy, choose

MODEL, MACHINE, GPUS = "Tesla V100-SXM2-32GB", "p3dn.24xlarge", 8
LINKS = links_of(MODEL, GPUS, MACHINE)
RINGS = link_topology_of(LINKS)
SIZES = (1, 2, 3, 4, 5)
#: quality.md: all links, the ring, and avoidable rings over PCIe.
PUBLISHED = {
    "random": (0.664, 0.532, 0.685),
    "lowest id": (0.815, 0.689, 0.423),
    "go-gpuallocator": (0.970, 0.812, 0.303),
    "greedy max-ring": (0.944, 0.893, 0.168),
    "MAPA-preserve": (0.955, 0.912, 0.139),
}

Gpus = tuple[int, ...]
#: Free GPUs, how many, whether bandwidth matters, and a source of chance.
Rule = Callable[[Gpus, int, bool, random.Random], Gpus]


class Job(NamedTuple):
    at: float
    gpus: int
    sensitive: bool
    stays: float


def bits(gpus: Iterable[int]) -> int:
    return sum(1 << gpu for gpu in gpus)


def ring(gpus: Iterable[int]) -> int:
    return int(RINGS.bottleneck[bits(gpus)])


def all_links(gpus: Iterable[int]) -> int:
    return int(RINGS.total[bits(gpus)])


def best(values: Sequence[int], size: int) -> int:
    return max(int(v) for v, n in zip(values, RINGS.size, strict=True) if n == size)


# -- the rules -------------------------------------------------------------------------------------


@cache
def partition(free: Gpus, size: int) -> tuple[int, tuple[Gpus, ...]]:
    """Groups of this size with the most links in all; GPUs may be left over."""
    if len(free) < size:
        return 0, ()
    found = (
        (all_links(group), group, partition(tuple(c for c in free if c not in group), size))
        for group in combinations(free, size)
    )
    total, groups = max(
        ((links + rest[0], (group, *rest[1])) for links, group, rest in found),
        key=lambda each: each[0],
    )
    return total, groups


def best_effort(free: Gpus, size: int, _sensitive: bool, _: random.Random) -> Gpus:
    """NVIDIA's: the best group of the best way to share out all free GPUs."""
    return max(partition(free, size)[1], key=all_links)


def max_ring(free: Gpus, size: int, _sensitive: bool, _: random.Random) -> Gpus:
    return max(combinations(free, size), key=lambda gpus: (ring(gpus), all_links(gpus)))


def preserve(free: Gpus, size: int, sensitive: bool, _: random.Random) -> Gpus:
    """MAPA: who minds gets the best, who does not leaves the most."""

    def left(gpus: Gpus) -> int:
        return all_links(set(free) - set(gpus))

    if sensitive:
        return max(combinations(free, size), key=lambda c: (ring(c), all_links(c), left(c)))
    return max(combinations(free, size), key=left)


RULES: dict[str, Rule] = {
    "random": lambda free, size, _sensitive, chance: tuple(chance.sample(free, size)),
    "lowest id": lambda free, size, _sensitive, _: free[:size],
    "go-gpuallocator": best_effort,
    "greedy max-ring": max_ring,
    "MAPA-preserve": preserve,
}


# -- the stream ------------------------------------------------------------------------------------


def jobs(count: int, load: float, seed: int) -> list[Job]:
    chance = random.Random(seed)
    rate, now, made = load * GPUS / mean(SIZES), 0.0, []
    for _ in range(count):
        now += chance.expovariate(rate)
        job = Job(now, chance.choice(SIZES), chance.random() < 0.5, chance.expovariate(1.0))
        made.append(job)
    return made


class Baseline:
    """A rule on its own book."""

    def __init__(self, rule: Rule, seed: int) -> None:
        self._rule, self._chance = rule, random.Random(seed)
        self._free = set(range(GPUS))

    def take(self, _: int, job: Job) -> Gpus | None:
        if job.gpus > len(self._free):
            return None
        gpus = self._rule(tuple(sorted(self._free)), job.gpus, job.sensitive, self._chance)
        self._free -= set(gpus)
        return gpus

    def give_back(self, _: int, gpus: Gpus) -> None:
        self._free |= set(gpus)


class Ours:
    """The ledger of one such machine."""

    def __init__(self) -> None:
        numa = numa_of(GPUS, MACHINE)
        gpus = (Gpu(f"GPU-{n}", n, MODEL, 32768, numa=numa[n]) for n in range(GPUS))
        self._cluster = Cluster()
        self._cluster.put_node(Node("n", allocatable=(), inventory=Inventory(tuple(gpus), LINKS)))
        self.took_s: list[float] = []

    def take(self, number: int, job: Job) -> Gpus | None:
        ask = GpuRequest(job.gpus, together=job.gpus if job.sensitive else 1)
        if not self._cluster.nodes.gpus.enough(ask)[0]:
            return None
        start = time.thread_time()
        grant = choose(ask, self._cluster.columns.devices, 0, GpuPolicy.PACK)
        self.took_s.append(time.thread_time() - start)
        assert grant is not None, "enough GPUs, and none to choose"
        self._cluster.confirm(Pod("bench", f"p{number}", str(number), node="n", grant=grant))
        return tuple(int(use.uuid.removeprefix("GPU-")) for use in grant.uses)

    def give_back(self, number: int, _: Gpus) -> None:
        self._cluster.remove(str(number))


def placed(book: Baseline | Ours, stream: Sequence[Job]) -> list[tuple[Job, Gpus]]:
    """Who got which GPUs; jobs start in the order in which they came."""
    line: deque[tuple[int, Job]] = deque()
    running: list[tuple[float, int, Gpus]] = []
    done: list[tuple[Job, Gpus]] = []
    coming = deque(enumerate(stream))
    while coming or running:
        if coming and (not running or coming[0][1].at <= running[0][0]):
            now = coming[0][1].at
            line.append(coming.popleft())
        else:
            now, number, gpus = heapq.heappop(running)
            book.give_back(number, gpus)
        while line and (got := book.take(*line[0])) is not None:
            number, job = line.popleft()
            heapq.heappush(running, (now + job.stays, number, got))
            done.append((job, got))
    return done


def quality(done: Iterable[tuple[Job, Gpus]]) -> tuple[float, float, float]:
    sensitive = [(job.gpus, gpus) for job, gpus in done if job.sensitive and job.gpus > 1]
    most = {size: best(RINGS.total, size) for size in SIZES[1:]}
    fastest = {size: best(RINGS.bottleneck, size) for size in SIZES[1:]}
    return (
        mean(all_links(gpus) / most[size] for size, gpus in sensitive),
        mean(ring(gpus) / fastest[size] for size, gpus in sensitive),
        mean(ring(gpus) <= max(PCIE_GBPS.values()) for _, gpus in sensitive),
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--load", type=float, default=0.8)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    streams = {seed: jobs(options.jobs, options.load, seed) for seed in options.seeds}
    report: dict[str, object] = {}
    print(f"{'':18}{'all links':>16}{'ring':>16}{'over PCIe':>16}   (published)")
    for name in (*RULES, "Fairlead"):
        books = {seed: Baseline(RULES[name], seed) if name in RULES else Ours() for seed in streams}
        shares = [quality(placed(books[seed], stream)) for seed, stream in streams.items()]
        report[name] = row = [mean(column) for column in zip(*shares, strict=True)]
        told = [f"({share:.3f})" for share in PUBLISHED.get(name, ())] or [""] * 3
        cells = "".join(f"{mine:>8.3f}{other:>8}" for mine, other in zip(row, told, strict=True))
        print(f"{name:18}{cells}", flush=True)
    took_us = sorted(
        s * 1e6 for book in books.values() if isinstance(book, Ours) for s in book.took_s
    )
    median_us, slowest_us = took_us[len(took_us) // 2], took_us[int(len(took_us) * 0.999)]
    print(
        f"a choice takes {median_us:.0f} µs, one in a thousand {slowest_us:.0f} µs or more of CPU"
    )
    report["median_us"], report["slowest_thousandth_us"] = median_us, slowest_us
    if options.out:
        options.out.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
