"""Which GPUs of a machine work well together.

GPUs that work as one get the best ring first. Then, and for all others, as few good links as
possible are broken between the GPUs that go and those that stay, so that the next pod finds a
good ring, too. Then one NUMA node is better than two, and low numbers better than high ones.
"""

from collections.abc import Sequence

import numpy as np

from fairlead.cluster.link_topology import MOST_GPUS, LinkTopology, even, link_topology_of
from fairlead.model.gpus import Inventory, Links
from fairlead.model.sizes import remembered

Slots = tuple[int, ...]


def best_set(
    slots: Sequence[int], count: int, inventory: Inventory, together: int = 1
) -> Slots:  # fmt: skip
    """`count` of the slots. Groups of `together` GPUs, which work as one, follow each other."""
    free, numa = tuple(slots), inventory.numa
    if together <= 1:
        return _group(inventory.links, numa, free, count, False)
    chosen: Slots = ()
    for before in range(0, count, together):
        group = _group(inventory.links, numa, free, min(count - before, together), True)
        free = tuple(slot for slot in free if slot not in group)
        chosen = (*chosen, *group)
    return chosen


# At most 256 sets of free GPUs on a machine of eight, and few ways of wiring.
@remembered(16 << 20)
def _group(links: Links, numa: tuple[int, ...], free: Slots, count: int, as_one: bool) -> Slots:
    if count >= len(free):
        return free
    if not links or even(links):
        return _by_numa(numa, free, count)
    if len(links) > MOST_GPUS:
        return _grown(links, free, count)
    return _looked_up(link_topology_of(links), numa, free, count, as_one)


def _by_numa(numa: tuple[int, ...], free: Slots, count: int) -> Slots:
    """On as few NUMA nodes as possible, and of those that will do on the fullest."""
    nodes: dict[int, list[int]] = {}
    for slot in free:
        nodes.setdefault(numa[slot], []).append(slot)
    large = [gpus for gpus in nodes.values() if len(gpus) >= count]
    if large:
        return tuple(min(large, key=lambda gpus: (len(gpus), gpus))[:count])
    most = min(nodes.values(), key=lambda gpus: (-len(gpus), gpus))
    left = tuple(slot for slot in free if slot not in most)
    return tuple(sorted((*most, *_by_numa(numa, left, count - len(most)))))


def _looked_up(
    topology: LinkTopology, numa: tuple[int, ...], free: Slots, count: int, as_one: bool
) -> Slots:  # fmt: skip
    """The best of all sets, by one quality after another."""
    all_free = sum(1 << slot for slot in free)
    sets = topology.sets[(topology.sets & ~all_free == 0) & (topology.size == count)]
    if as_one:
        sets = sets[_most(topology.bottleneck[sets])]
    stays = topology.total[all_free ^ sets]
    unbroken = topology.total[sets] + stays
    best = _most(unbroken)
    if not as_one:
        best = best[_most(stays[best])]
    return min(
        (_slots_of(int(each)) for each in sets[best]),
        key=lambda slots: (len({numa[slot] for slot in slots}), slots),
    )


def _most(values: np.ndarray) -> np.ndarray:
    return np.flatnonzero(values == values.max())


def _slots_of(bits: int) -> Slots:
    return tuple(slot for slot in range(bits.bit_length()) if bits >> slot & 1)


def _grown(links: Links, free: Slots, count: int) -> Slots:
    """For large machines: sets that grow from each GPU along its best links, the best of them."""
    gbps = np.array(links, dtype=np.int64)[np.ix_(free, free)]
    np.fill_diagonal(gbps, 0)
    grown = (_grow(gbps, seed, count) for seed in range(len(free)))
    best = max(grown, key=lambda gpus: (_second_links(gbps, gpus), [-gpu for gpu in gpus]))
    return tuple(free[gpu] for gpu in best)


def _grow(gbps: np.ndarray, seed: int, count: int) -> list[int]:
    gpus = [seed]
    pull = gbps[seed].copy()
    for _ in range(count - 1):
        pull[gpus] = -1
        gpus.append(int(pull.argmax()))
        pull += gbps[gpus[-1]]
    return sorted(gpus)


def _second_links(gbps: np.ndarray, gpus: list[int]) -> tuple[int, int]:
    """In a ring each GPU has two neighbours: no ring is faster than the worst second link."""
    within = np.sort(gbps[np.ix_(gpus, gpus)], axis=1)
    return int(within[:, -min(2, len(gpus) - 1)].min()), int(within.sum())
