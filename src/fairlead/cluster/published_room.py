"""How much drivers say that they can provision, for every node at once.

A driver of local storage publishes one capacity for each node, so all of a class are read together.
"""

from collections.abc import Sequence

import numpy as np

from fairlead.cluster.arrays import NodeMask, PerNode
from fairlead.cluster.nodes import Nodes
from fairlead.cluster.reach import Pairs, Reach, Terms
from fairlead.model.pods import NodeTerm
from fairlead.model.selectors import LabelSelector
from fairlead.model.storage import StorageCapacity, VolumeClaim

NO_CAPACITY = -1


class PublishedRoom:
    """By storage class, worked out when a claim asks first."""

    def __init__(self, nodes: Nodes, reach: Reach) -> None:
        self._nodes = nodes
        self._reach = reach
        self._read: dict[str, tuple[Sequence[StorageCapacity], Pairs]] = {}
        self._largest: dict[str, PerNode] = {}

    def is_tracked(self, claim: VolumeClaim) -> bool:
        """Does the driver of the claim's class publish how much it can provision?"""
        storage = self._nodes.storage
        made_by = storage.classes.get(claim.storage_class)
        driver = storage.drivers.get(made_by.provisioner) if made_by else None
        return driver is not None and driver.tracks_capacity

    def suffices(self, claim: VolumeClaim) -> NodeMask:
        """Where a volume of the claim's size can be provisioned."""
        if claim.size_bytes is None or not self.is_tracked(claim):
            return self._nodes.all()
        largest = self._largest.get(claim.storage_class)
        if largest is None:
            largest = self._largest[claim.storage_class] = self._largest_of(claim.storage_class)
        room: NodeMask = largest >= max(claim.size_bytes, 0)
        return room

    def first(self, claim: VolumeClaim) -> PerNode:
        """The first capacity that has room for the claim, `NO_CAPACITY` where there is none."""
        found: PerNode = np.full(len(self._nodes), NO_CAPACITY, dtype=np.int64)
        if not self.is_tracked(claim):
            return found
        published, (rows, numbers) = self._of(claim.storage_class)
        sizes = _array([each.capacity_bytes for each in published])
        holds = [each.holds(claim.size_bytes or 0) for each in published]
        counts = np.array(holds, dtype=np.bool_) & (sizes != NO_CAPACITY)
        useful = np.flatnonzero(counts[numbers])
        at, first = np.unique(rows[useful], return_index=True)
        found[at] = sizes[numbers[useful[first]]]
        return found

    def _largest_of(self, storage_class: str) -> PerNode:
        published, (rows, numbers) = self._of(storage_class)
        largest: PerNode = np.full(len(self._nodes), NO_CAPACITY, dtype=np.int64)
        np.maximum.at(largest, rows, _array([each.most_bytes for each in published])[numbers])
        return largest

    def _of(self, storage_class: str) -> tuple[Sequence[StorageCapacity], Pairs]:
        read = self._read.get(storage_class)
        if read is None:
            every = self._nodes.storage.capacities(storage_class)
            published = [each for each in every if each.topology is not None]
            pairs = self._reach.pairs(_terms(each.topology) for each in published)
            read = self._read[storage_class] = published, pairs
        return read


def _terms(topology: LabelSelector | None) -> Terms | None:
    """A selector without lines means every node; a term without lines means none."""
    return (NodeTerm(topology.lines),) if topology and topology.lines else None


def _array(sizes_bytes: Sequence[int | None]) -> PerNode:
    known = [NO_CAPACITY if size is None else size for size in sizes_bytes]
    return np.array(known, dtype=np.int64)
