"""HTTP extenders, as one more rule after all filters."""

import numpy as np

from fairlead.cluster.arrays import NodeMask, NodeScores
from fairlead.cluster.aspects import EVERYTHING
from fairlead.cluster.cluster import Cluster
from fairlead.cluster.extended_rows import ExtendedRows
from fairlead.model.pods import Pod
from fairlead.placement.refusals import RefusalCounts
from fairlead.placement.views import REFUSED

#: The name of this rule in a refusal, as kube-scheduler has it.
NAME = "Extender"


def extended_totals(totals: NodeScores, extended: ExtendedRows) -> NodeScores:
    scores = 0.0 if extended.scores is None else extended.scores
    return np.where(extended.rows, totals + scores, REFUSED)


def count_extended(found: RefusalCounts, left: NodeMask, pod: Pod, cluster: Cluster) -> None:
    """Adds what extenders say of the rows that all filters leave.

    Evicting pods would not change that these rows fit, so they are only looked into where there
    is no pod to evict; kube-scheduler says the same of them.
    """
    extended = cluster.extended
    if extended is None:
        return
    refused = left & ~extended.rows
    if not refused.any():
        return
    found.refusers[NAME], found.woken_by = None, EVERYTHING
    rows = np.flatnonzero(refused).tolist()
    texts = (extended.reasons.get(row, "") for row in rows)
    found.counts.update(text for text in texts if text)
    amounts = cluster.evictable(pod)
    for row in rows:
        if row in extended.reasons and row not in extended.unresolvable:
            found.resolvable[row] = not amounts[:, row].any()
