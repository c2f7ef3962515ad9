"""Which member goes to which of the chosen nodes: neighbours by rank are near each other."""

import numpy as np
import numpy.typing as npt

from fairlead.cluster.arrays import PerNode, Rows
from fairlead.cluster.topology_levels import DomainTree


def along_the_tree(taken: PerNode, tree: DomainTree, last: tuple[int, int] | None = None) -> Rows:
    """A row for each member in the order of ranks: node by node, domain by domain.

    `last` is the level and size of sets: the set that is not full has the highest ranks.
    """
    rows = np.flatnonzero(taken)
    keys: list[npt.NDArray[np.int64]] = [rows]
    ends = _ends(taken, tree, last)
    for level in reversed(range(tree.depth)):
        keys.append(tree.domains[level, rows])
        if ends is not None:
            keys.append((tree.domains[level, rows] == tree.domains[level, ends]).astype(np.int64))
    order = np.lexsort(keys)
    return np.repeat(rows[order], taken[rows[order]])


def _ends(taken: PerNode, tree: DomainTree, last: tuple[int, int] | None) -> int | None:
    """A row of the domain with the set that is not full."""
    if last is None or last[0] >= tree.depth:
        return None
    level, size = last
    domains = tree.domains[level]
    sums = np.zeros(int(domains.max(initial=0)) + 1, dtype=np.int64)
    np.add.at(sums, domains, taken)
    odd = np.flatnonzero((taken > 0) & (sums[domains] % size > 0))
    return int(odd[0]) if len(odd) else None


def ring_crossings(rows: Rows, tree: DomainTree) -> tuple[int, ...]:
    """Links of a ring through the members, in order, that cross a domain: by level, then nodes."""
    after = np.roll(rows, -1)
    levels = [int((level[rows] != level[after]).sum()) for level in tree.domains]
    return (*levels, int((rows != after).sum()))
