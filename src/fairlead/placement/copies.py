"""How many equal pods could be placed at most: a bound that needs no trial."""

import numpy as np

from fairlead.cluster.arrays import Codes, NodeMask, PerNode
from fairlead.cluster.cluster import Cluster
from fairlead.model.pods import Amounts
from fairlead.model.quantities import PODS
from fairlead.placement.views import View


def copies_by_amounts(amounts: Amounts, cluster: Cluster, most: int) -> int:
    """How many pods that take these amounts all nodes have room for, up to `most`; no rules."""
    nodes = cluster.nodes
    cluster.work.ask(len(nodes))
    rows = nodes.present() if cluster.open_rows is None else nodes.present() & cluster.open_rows
    return int(_limited(np.where(rows, most, 0), amounts, cluster).sum())


def copies(view: View, amounts: Amounts, cluster: Cluster, most: int) -> PerNode:
    """For each row, how many pods of the view's request these amounts allow, up to `most`.

    Rules that pods of one gang break among themselves are left out, so there may be fewer.
    """
    if view.pre_filter_message:
        return np.zeros(len(view.left), dtype=np.int64)
    return _limited(np.where(view.left, most, 0), amounts, cluster)


def _limited(found: PerNode, amounts: Amounts, cluster: Cluster) -> PerNode:
    for name, amount in ((PODS, 1), *amounts):
        if amount > 0:
            found = np.minimum(found, np.maximum(cluster.nodes.free(name), 0) // amount)
    return found


def in_large_domains(room: PerNode, domains: Codes, pods: int) -> NodeMask:
    """Rows of domains whose nodes together have room for so many pods."""
    known = domains >= 0
    if not known.any():
        return known
    by_domain = np.bincount(domains[known], weights=room[known])
    found: NodeMask = known.copy()
    found[known] = by_domain[domains[known]] >= pods
    return found
