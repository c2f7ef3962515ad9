"""How well the GPUs of a machine are joined, set by set.

Collective operations run in rings, and a ring is as fast as its slowest link. So a set of GPUs is
worth the slowest link of its best ring (two GPUs: their one link). For machines of up to 16 GPUs
that is looked up in a table of all sets, made once for each way of wiring; sets are numbers whose
bits are the GPUs. Where all GPUs are joined equally no table is needed.
"""

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from fairlead.cluster.arrays import NodeMask
from fairlead.model.gpus import NVLINK_GBPS, Links
from fairlead.model.sizes import remembered

#: Something about each set of GPUs, by its bits.
PerSet = npt.NDArray[np.int64]

#: A table has two to the power of this many entries.
MOST_GPUS = 16


class LinkTopology:
    """About every set of GPUs of one machine."""

    def __init__(self, links: Links) -> None:
        self.gpus = len(links)
        gbps = np.array(links, dtype=np.int64)
        gbps = np.minimum(gbps, gbps.T)
        self.sets: PerSet = np.arange(1 << self.gpus, dtype=np.int64)
        self.size: PerSet = np.bitwise_count(self.sets).astype(np.int64)
        #: GB/s of all links within each set together.
        self.total: PerSet = _totals(gbps, self.sets)
        #: GB/s of the slowest link of its best ring; 0 for less than two GPUs.
        self.bottleneck: PerSet = self._bottlenecks(gbps)
        self._best: dict[int, PerSet] = {}

    def best(self, count: int) -> PerSet:
        """For each set, the slowest link of the best ring of some `count` of its GPUs."""
        if count not in self._best:
            found: PerSet = np.where(self.size == count, self.bottleneck, 0)
            for gpu in range(self.gpus):
                halves = found.reshape(-1, 2, 1 << gpu)
                np.maximum(halves[:, 1], halves[:, 0], out=halves[:, 1])
            self._best[count] = found
        return self._best[count]

    def joined(self, count: int) -> NodeMask:
        """For each set, whether some `count` of its GPUs make a ring of NVLinks."""
        found: NodeMask = self.best(count) >= NVLINK_GBPS
        return found

    def always_joined(self, count: int) -> bool:
        """Whether any `count` of its GPUs make a ring of NVLinks."""
        return bool((self.bottleneck[self.size == count] >= NVLINK_GBPS).all())

    def _bottlenecks(self, gbps: npt.NDArray[np.int64]) -> PerSet:
        found = np.zeros_like(self.sets)
        apart = ~np.eye(self.gpus, dtype=np.bool_)
        for floor in np.unique(gbps[apart]):
            weights = 1 << np.arange(self.gpus)
            neighbours: PerSet = ((gbps >= floor) & apart) @ weights
            found[self._has_ring(neighbours)] = floor
        return found

    def _has_ring(self, neighbours: PerSet) -> NodeMask:
        """Sets with a ring in the graph: paths from the lowest GPU that end next to it."""
        lowest = self.sets & -self.sets
        ends = np.where(self.size == 1, self.sets, 0)  # where paths through all of a set may end
        for size in range(2, self.gpus + 1):
            larger = self.sets[self.size == size]
            for gpu in range(self.gpus):
                bit = 1 << gpu
                here = larger[(larger & bit != 0) & (lowest[larger] != bit)]
                ends[here] |= np.where(ends[here ^ bit] & neighbours[gpu], bit, 0)
        first = np.bitwise_count(np.maximum(lowest, 1) - 1).astype(np.int64)
        closed: NodeMask = (ends & neighbours[first] != 0) & (self.size > 1)
        return closed


# Two megabytes for sixteen GPUs.
@lru_cache(maxsize=16)
def link_topology_of(links: Links) -> LinkTopology:
    return LinkTopology(links)


@remembered(8 << 20)
def even(links: Links) -> bool:
    """Whether all GPUs are joined equally, so that no set is better than another."""
    pairs = {gbps for a, row in enumerate(links) for b, gbps in enumerate(row) if a != b}
    return len(pairs) <= 1


def joined(links: Links, usable: npt.NDArray[np.bool_], count: int) -> NodeMask:
    """Rows (of such machines) where NVLink joins `count` of the usable GPUs in a ring."""
    enough: NodeMask = usable.sum(axis=1) >= count
    if count > len(links):
        return np.zeros_like(enough)
    if count < 2 or even(links):
        return enough if count < 2 or links[0][1] >= NVLINK_GBPS else np.zeros_like(enough)
    if len(links) > MOST_GPUS:
        return np.zeros_like(enough)
    bits = usable[:, : len(links)] @ (1 << np.arange(len(links)))
    found: NodeMask = link_topology_of(links).joined(count)[bits]
    return found


def quality(
    links: Links, usable: npt.NDArray[np.bool_], count: int
) -> npt.NDArray[np.float64]:  # fmt: skip
    """The best ring of `count` usable GPUs, as a share of the best that such a machine has."""
    if count < 2 or even(links) or len(links) > MOST_GPUS:
        return np.ones(len(usable))
    bits = usable[:, : len(links)] @ (1 << np.arange(len(links)))
    best = link_topology_of(links).best(count)
    found: npt.NDArray[np.float64] = best[bits] / max(int(best[-1]), 1)
    return found


def always_joined(links: Links, count: int) -> bool:
    """The same whichever `count` GPUs a device plugin chooses."""
    if count > len(links):
        return False
    if count < 2 or even(links):
        return count < 2 or links[0][1] >= NVLINK_GBPS
    return len(links) <= MOST_GPUS and link_topology_of(links).always_joined(count)


def _totals(gbps: npt.NDArray[np.int64], sets: PerSet) -> PerSet:
    """GPU by GPU: what it adds to each set of the GPUs before it."""
    total = np.zeros_like(sets)
    for gpu in range(1, len(gbps)):
        added = np.zeros(1, dtype=np.int64)
        for other in range(gpu):
            added = np.concatenate([added, added + gbps[gpu, other]])
        total[1 << gpu : 2 << gpu] = total[: 1 << gpu] + added
    return total
