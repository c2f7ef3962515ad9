"""How full the storage that a pod would use on each node becomes, in whole percent.

Where volumes are bound to what is there, their sizes count; where all are provisioned, the capacity
that the driver publishes for the node. Static bindings hide provisions on the same node.
"""

from collections.abc import Iterator

import numpy as np

from fairlead.cluster.arrays import NodeScores, PerNode
from fairlead.cluster.free_volumes import NONE
from fairlead.cluster.nodes import Nodes
from fairlead.cluster.volume_outlook import VolumeOutlook

#: What one claim takes and what it takes it from, on each node; no capacity where it is not asked.
Share = tuple[str, PerNode, PerNode]


def worth(found: VolumeOutlook, nodes: Nodes, line: PerNode) -> NodeScores:
    """The mean over storage classes of what `line` has for so many percent; 0 where none counts."""
    bound = nodes.none()
    for _, choice in found.chosen:
        bound |= choice != NONE
    static = _mean(_bound_shares(found), nodes, line)
    made = _mean(_made_shares(found), nodes, line)
    scores: NodeScores = np.where(bound, static, made)
    return scores


def _mean(shares: Iterator[Share], nodes: Nodes, line: PerNode) -> NodeScores:
    asked: dict[str, PerNode] = {}
    there: dict[str, PerNode] = {}
    for name, wanted, capacity in shares:
        asked[name] = asked.get(name, np.zeros(len(nodes), dtype=np.int64)) + wanted
        there[name] = _joined(there.get(name), capacity)
    total, counted = np.zeros(len(nodes)), np.zeros(len(nodes))
    for name, wanted in asked.items():
        full = np.minimum(wanted * 100 // np.maximum(there[name], 1), 100)
        total += np.where(wanted > 0, line[full], 0)
        counted += wanted > 0
    mean: NodeScores = np.floor(total / np.maximum(counted, 1) + 0.5)
    return mean


def _joined(known: PerNode | None, more: PerNode) -> PerNode:
    return more if known is None else known + more


def _bound_shares(found: VolumeOutlook) -> Iterator[Share]:
    for claim, choice in found.chosen:
        taken = choice != NONE
        sizes = np.array([*found.free.sizes_bytes, 0], dtype=np.int64)
        wanted = np.where(taken, claim.size_bytes or 0, 0)
        yield claim.storage_class, wanted, sizes[choice]


def _made_shares(found: VolumeOutlook) -> Iterator[Share]:
    counted: set[str] = set()
    for claim in (*found.sent, *(claim for claim, _ in found.chosen)):
        capacity = found.room.first(claim)
        wanted = np.where(capacity >= 0, claim.size_bytes or 0, 0)
        # A class has its capacity once, however many volumes of it the pod requests.
        first = claim.storage_class not in counted
        counted.add(claim.storage_class)
        yield claim.storage_class, wanted, np.maximum(capacity, 0) if first else capacity * 0
