"""From whatever a score counts to 0 … 100 among the nodes left, in kube-scheduler's arithmetic."""

import numpy as np

from fairlead.cluster.arrays import NodeMask, NodeScores, PerNode


def most_is_best(counts: PerNode, left: NodeMask) -> NodeScores:
    """100 for the highest count among the nodes left, the others in proportion."""
    highest = int(counts[left].max())
    if highest <= 0:
        return np.zeros(len(counts))
    return _among(100 * counts // highest, left)


def fewest_is_best(counts: PerNode, left: NodeMask) -> NodeScores:
    """0 for the highest count among the nodes left; 100 for all when nothing was counted."""
    highest = int(counts[left].max())
    if highest <= 0:
        return _among(np.full(len(counts), 100, dtype=np.int64), left)
    return _among(100 - 100 * counts // highest, left)


def stretched(counts: PerNode, left: NodeMask) -> NodeScores:
    """0 for the lowest count and 100 for the highest; 0 for all when they are equal."""
    lowest, highest = int(counts[left].min()), int(counts[left].max())
    if highest == lowest:
        return np.zeros(len(counts))
    # In floating point and cut, not rounded, as kube-scheduler has it.
    shares = 100.0 * ((counts - lowest).astype(np.float64) / float(highest - lowest))
    return _among(shares.astype(np.int64), left)


def turned_round(counts: PerNode, left: NodeMask) -> NodeScores:
    """The lower the better: 100 for the lowest only if that is nothing."""
    lowest, highest = int(counts[left].min()), int(counts[left].max())
    if highest == 0:
        return _among(np.full(len(counts), 100, dtype=np.int64), left)
    return _among(100 * (highest + lowest - counts) // highest, left)


def _among(scores: PerNode, left: NodeMask) -> NodeScores:
    """Nodes that are out anyway get 0, so that all numbers stay in range."""
    return np.where(left, scores, 0).astype(np.float64)
