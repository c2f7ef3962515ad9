"""Cards on a DGX-1V: how fast the rings are that pods get, rule by rule.

    python bench/links.py [--jobs 10000] [--seeds 1 2 3]

One machine with 8 cards (the hybrid cube mesh: two NVLinks 50 GB/s, one 25, PCIe 10). Jobs for 1
to 5 cards come as a Poisson stream at load 0.8, wait in line, and stay for an exponential time;
half of them are sensitive to bandwidth. For the sensitive ones with two cards or more it counts the
bandwidth of all links in the set and of the slowest link of the best ring, both as a share of the
best on an empty machine, and rings over PCIe that NVLink could have made there. Fairlead's row goes
through the ledger and `placement.cards.choose`, as a pod does. Every rule sees the same jobs.
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
from fairlead.model.gpus import Card, GpuRequest, Inventory
from fairlead.model.machines import PCIE_GBPS, links_of, numa_of
from fairlead.model.nodes import Node
from fairlead.model.pods import Pod
from fairlead.placement.cards import CardPolicy, choose

MODEL, MACHINE, CARDS = "Tesla V100-SXM2-32GB", "p3dn.24xlarge", 8
LINKS = links_of(MODEL, CARDS, MACHINE)
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

Cards = tuple[int, ...]
#: Free cards, how many, whether bandwidth matters, and a source of chance.
Rule = Callable[[Cards, int, bool, random.Random], Cards]


class Job(NamedTuple):
    at: float
    cards: int
    sensitive: bool
    stays: float


def bits(cards: Iterable[int]) -> int:
    return sum(1 << card for card in cards)


def ring(cards: Iterable[int]) -> int:
    return int(RINGS.bottleneck[bits(cards)])


def all_links(cards: Iterable[int]) -> int:
    return int(RINGS.total[bits(cards)])


def best(values: Sequence[int], size: int) -> int:
    return max(int(v) for v, n in zip(values, RINGS.size, strict=True) if n == size)


# -- the rules -------------------------------------------------------------------------------------


@cache
def partition(free: Cards, size: int) -> tuple[int, tuple[Cards, ...]]:
    """Groups of this size with the most links in all; cards may be left over."""
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


def best_effort(free: Cards, size: int, _sensitive: bool, _: random.Random) -> Cards:
    """NVIDIA's: the best group of the best way to share out all free cards."""
    return max(partition(free, size)[1], key=all_links)


def max_ring(free: Cards, size: int, _sensitive: bool, _: random.Random) -> Cards:
    return max(combinations(free, size), key=lambda cards: (ring(cards), all_links(cards)))


def preserve(free: Cards, size: int, sensitive: bool, _: random.Random) -> Cards:
    """MAPA: who minds gets the best, who does not leaves the most."""

    def left(cards: Cards) -> int:
        return all_links(set(free) - set(cards))

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
    rate, now, made = load * CARDS / mean(SIZES), 0.0, []
    for _ in range(count):
        now += chance.expovariate(rate)
        job = Job(now, chance.choice(SIZES), chance.random() < 0.5, chance.expovariate(1.0))
        made.append(job)
    return made


class Baseline:
    """A rule on its own book."""

    def __init__(self, rule: Rule, seed: int) -> None:
        self._rule, self._chance = rule, random.Random(seed)
        self._free = set(range(CARDS))

    def take(self, _: int, job: Job) -> Cards | None:
        if job.cards > len(self._free):
            return None
        cards = self._rule(tuple(sorted(self._free)), job.cards, job.sensitive, self._chance)
        self._free -= set(cards)
        return cards

    def give_back(self, _: int, cards: Cards) -> None:
        self._free |= set(cards)


class Ours:
    """The ledger of one such machine."""

    def __init__(self) -> None:
        numa = numa_of(CARDS, MACHINE)
        cards = (Card(f"GPU-{n}", n, MODEL, 32768, numa=numa[n]) for n in range(CARDS))
        self._cluster = Cluster()
        self._cluster.put_node(Node("n", allocatable=(), inventory=Inventory(tuple(cards), LINKS)))
        self.took_s: list[float] = []

    def take(self, number: int, job: Job) -> Cards | None:
        ask = GpuRequest(job.cards, together=job.cards if job.sensitive else 1)
        if not self._cluster.nodes.cards.enough(ask)[0]:
            return None
        start = time.thread_time()
        grant = choose(ask, self._cluster.columns.devices, 0, CardPolicy.PACK)
        self.took_s.append(time.thread_time() - start)
        assert grant is not None, "enough cards, and none to choose"
        self._cluster.confirm(Pod("bench", f"p{number}", str(number), node="n", grant=grant))
        return tuple(int(use.uuid.removeprefix("GPU-")) for use in grant.uses)

    def give_back(self, number: int, _: Cards) -> None:
        self._cluster.remove(str(number))


def placed(book: Baseline | Ours, stream: Sequence[Job]) -> list[tuple[Job, Cards]]:
    """Who got which cards; jobs start in the order in which they came."""
    line: deque[tuple[int, Job]] = deque()
    running: list[tuple[float, int, Cards]] = []
    done: list[tuple[Job, Cards]] = []
    coming = deque(enumerate(stream))
    while coming or running:
        if coming and (not running or coming[0][1].at <= running[0][0]):
            now = coming[0][1].at
            line.append(coming.popleft())
        else:
            now, number, cards = heapq.heappop(running)
            book.give_back(number, cards)
        while line and (got := book.take(*line[0])) is not None:
            number, job = line.popleft()
            heapq.heappush(running, (now + job.stays, number, got))
            done.append((job, got))
    return done


def quality(done: Iterable[tuple[Job, Cards]]) -> tuple[float, float, float]:
    sensitive = [(job.cards, cards) for job, cards in done if job.sensitive and job.cards > 1]
    most = {size: best(RINGS.total, size) for size in SIZES[1:]}
    fastest = {size: best(RINGS.bottleneck, size) for size in SIZES[1:]}
    return (
        mean(all_links(cards) / most[size] for size, cards in sensitive),
        mean(ring(cards) / fastest[size] for size, cards in sensitive),
        mean(ring(cards) <= max(PCIE_GBPS.values()) for _, cards in sensitive),
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
