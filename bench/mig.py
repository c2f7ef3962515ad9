"""MIG slices on 100 GPUs: how much of what is asked for finds a place, rule by rule.

    python bench/mig.py [--arrivals 30000] [--seeds 1 2 3]

A loss system: slices come as a Poisson stream, stay for an exponential time, and are turned away
if no GPU has a place. The load is 1: as many compute slices are asked for as there are. What is
accepted is counted in compute slices. Two mixes of 1g, 2g, 3g, 4g and 7g: equal, and mostly small.
Fairlead's row goes through the ledger and `placement.gpus.choose`, as a pod does. Every rule sees
the same stream.
"""

import argparse
import heapq
import json
import random
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from statistics import mean

from fairlead.cluster.cluster import Cluster
from fairlead.model.gpus import Gpu, GpuRequest, Inventory, MigProfile
from fairlead.model.machines import geometry_of
from fairlead.model.nodes import Node
from fairlead.model.pods import Pod
from fairlead.placement.gpus import GpuPolicy, choose

GPUS = 100
COMPUTE = 7
GEOMETRY = geometry_of("NVIDIA A100-SXM4-80GB", 81920)
#: The published streams ask for no 1g.20gb.
PROFILES = {profile.name: profile for profile in GEOMETRY if profile.name != "1g.20gb"}
MIXES = {"uniform": (20, 20, 20, 20, 20), "small": (50, 25, 15, 5, 5)}
#: quality.md: accepted of the uniform and of the small mix.
PUBLISHED = {
    "random": (0.796, 0.795),
    "first-fit low": (0.852, 0.885),
    "HAMi order": (0.855, 0.887),
    "best-fit low": (0.883, 0.893),
    "best-fit + HAMi": (0.885, 0.890),
    "FGD-style": (0.897, 0.841),
}

#: A GPU and the first slice on it.
Place = tuple[int, int]
#: The profile, the slices in use on each GPU, and a source of chance.
Rule = Callable[[MigProfile, Sequence[int], random.Random], Place | None]


# -- the rules -------------------------------------------------------------------------------------


def places(profile: MigProfile, used: int) -> list[int]:
    masks = zip(profile.starts, profile.masks(), strict=True)
    return [start for start, mask in masks if not used & mask]


def at_random(profile: MigProfile, used: Sequence[int], chance: random.Random) -> Place | None:
    gpus = [gpu for gpu, bits in enumerate(used) if places(profile, bits)]
    if not gpus:
        return None
    gpu = chance.choice(gpus)
    return gpu, chance.choice(places(profile, used[gpu]))


def hami_order(profile: MigProfile, start: int) -> int:
    """HAMi cuts 1g and 3g from the high end, all others from the low one."""
    return -start if profile.compute in {1, 3} else start


def by(key: Callable[[MigProfile, int, int], object]) -> Rule:
    """The place with the smallest key of profile, slices in use and start; then the first GPU."""

    @cache
    def best(profile: MigProfile, used: int) -> tuple[object, int] | None:
        found = ((key(profile, used, start), start) for start in places(profile, used))
        return min(found, default=None)

    def rule(profile: MigProfile, used: Sequence[int], _: random.Random) -> Place | None:
        gpus: dict[int, int] = {}
        for gpu, bits in enumerate(used):
            gpus.setdefault(bits, gpu)
        found = [(*place, gpu) for bits, gpu in gpus.items() if (place := best(profile, bits))]
        if not found:
            return None
        _, start, gpu = min(found, key=lambda each: (each[0], each[2]))
        return gpu, start

    return rule


def unusable(used: int) -> float:
    """Free memory slices that a profile cannot use, the mean of all profiles."""
    free = 8 - used.bit_count()
    return mean(free - len(places(each, used)) * each.slices for each in PROFILES.values())


def fragmentation(profile: MigProfile, used: int, start: int) -> float:
    return round(unusable(used | ((1 << profile.slices) - 1) << start) - unusable(used), 6)


def first_fit(
    profile: MigProfile, used: Sequence[int], order: Callable[[int], int]
) -> Place | None:
    fits = ((gpu, places(profile, bits)) for gpu, bits in enumerate(used))
    return next(((gpu, min(starts, key=order)) for gpu, starts in fits if starts), None)


RULES: dict[str, Rule] = {
    "random": at_random,
    "first-fit low": lambda p, used, _: first_fit(p, used, lambda start: start),
    "HAMi order": lambda p, used, _: first_fit(p, used, lambda start: hami_order(p, start)),
    "best-fit low": by(lambda _, used, start: (-used.bit_count(), start)),
    "best-fit + HAMi": by(lambda p, used, start: (-used.bit_count(), hami_order(p, start))),
    "FGD-style": by(lambda p, used, start: (fragmentation(p, used, start), -start)),
}


# -- the stream ------------------------------------------------------------------------------------


def arrivals(
    mix: str, count: int, load: float, seed: int
) -> Iterator[tuple[float, MigProfile, float]]:  # fmt: skip
    """When, which profile, and until when."""
    chance = random.Random(seed)
    weights = MIXES[mix]
    per_arrival = sum(w * p.compute for w, p in zip(weights, PROFILES.values(), strict=True))
    rate = load * GPUS * COMPUTE * sum(weights) / per_arrival
    now = 0.0
    for _ in range(count):
        now += chance.expovariate(rate)
        (profile,) = chance.choices(list(PROFILES.values()), weights)
        yield now, profile, now + chance.expovariate(1.0)


class Baseline:
    """A rule on its own book."""

    def __init__(self, rule: Rule, seed: int) -> None:
        self._rule, self._chance, self._used = rule, random.Random(seed), [0] * GPUS
        self._held: dict[int, tuple[int, int]] = {}

    def take(self, number: int, profile: MigProfile) -> bool:
        place = self._rule(profile, self._used, self._chance)
        if place is None:
            return False
        gpu, start = place
        mask = ((1 << profile.slices) - 1) << start
        assert not self._used[gpu] & mask, "two slices at one place"
        self._used[gpu] |= mask
        self._held[number] = gpu, mask
        return True

    def give_back(self, number: int) -> None:
        gpu, mask = self._held.pop(number)
        self._used[gpu] &= ~mask


class Ours:
    """The ledger of a node with all the GPUs."""

    def __init__(self) -> None:
        gpus = (Gpu(f"GPU-{n}", n, "A100", 81920, mig=GEOMETRY) for n in range(GPUS))
        self._cluster = Cluster()
        self._cluster.put_node(Node("n", allocatable=(), inventory=Inventory(tuple(gpus))))

    def take(self, number: int, profile: MigProfile) -> bool:
        ask = GpuRequest(1, whole=False, milli=0, profile=profile.name)
        if not self._cluster.nodes.gpus.enough(ask)[0]:
            return False
        grant = choose(ask, self._cluster.columns.devices, 0, GpuPolicy.PACK)
        assert grant is not None, "enough GPUs, and none to choose"
        pod = Pod("bench", f"p{number}", str(number), node="n", grant=grant)
        self._cluster.confirm(pod)
        return True

    def give_back(self, number: int) -> None:
        self._cluster.remove(str(number))


def accepted(book: Baseline | Ours, mix: str, count: int, load: float, seed: int) -> float:
    """The share of compute slices that found a place, after a tenth to warm up."""
    ends: list[tuple[float, int]] = []
    offered = taken = 0
    for number, (now, profile, until) in enumerate(arrivals(mix, count, load, seed)):
        while ends and ends[0][0] <= now:
            book.give_back(heapq.heappop(ends)[1])
        found = book.take(number, profile)
        if found:
            heapq.heappush(ends, (until, number))
        if number >= count // 10:
            offered += profile.compute
            taken += profile.compute * found
    return taken / offered


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--arrivals", type=int, default=30_000)
    parser.add_argument("--load", type=float, default=1.0)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    report = {}
    print(f"{'':18}{'uniform':>8}{'(published)':>13}{'small':>8}{'(published)':>13}")
    for name in (*RULES, "Fairlead"):
        report[name] = [
            mean(
                accepted(
                    Baseline(RULES[name], seed) if name in RULES else Ours(),
                    mix,
                    options.arrivals,
                    options.load,
                    seed,
                )
                for seed in options.seeds
            )
            for mix in MIXES
        ]
        row = zip(report[name], PUBLISHED.get(name, ("", "")), strict=True)
        cells = "".join(f"{share:>8.3f}{f'({told})' if told else '':>13}" for share, told in row)
        print(f"{name:18}{cells}", flush=True)
    if options.out:
        options.out.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
