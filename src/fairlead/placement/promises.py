"""Leaving room for pods that were promised some.

As kube-scheduler has it, a node with nominated pods of the same or a higher priority must pass all
filters twice: with them there, and without. Rules that judge a node by what is taken there are
asked about all such nodes at once; rules about pods and ports node by node, and only if they have
something to say.
"""

from dataclasses import dataclass

import numpy as np

from fairlead.cluster.arrays import NodeMask, Rows
from fairlead.cluster.aspects import Aspect
from fairlead.cluster.cluster import Cluster
from fairlead.cluster.nodes import Nodes
from fairlead.cluster.priority_sums import AmountsByRow
from fairlead.model.pods import Pod
from fairlead.placement.cards import Occupied
from fairlead.placement.hypothesis import NOBODY, Hypothesis
from fairlead.placement.profile import Profile
from fairlead.placement.views import View


@dataclass(frozen=True, slots=True)
class Promised:
    """Rows with promises to others, and what is promised there: a column for each of them."""

    rows: Rows
    amounts: AmountsByRow


def promised_against(pod: Pod, cluster: Cluster) -> Promised | None:
    """What this pod must leave room for; mostly nothing."""
    found = cluster.nominations.amounts_against(pod)
    return Promised(*found) if found is not None and len(found[0]) else None


def allowed_beside(
    promised: Promised, rows: Rows, view: View, profile: Profile, cluster: Cluster
) -> NodeMask:
    """What each filter says of these rows with the promised pods there: (filters, rows).

    Only rules by row that read usage are asked; the others are as the view has them.
    """
    allowed: NodeMask = view.allowed[:, rows]
    nodes = Nodes(cluster.columns, rows)
    with cluster.taking_more(promised.rows, promised.amounts):
        for index, rule in enumerate(profile.filters):
            if rule.reads & Aspect.USAGE and index not in profile.cluster_filters:
                allowed[index] = rule.allows(view.request, nodes)
    return allowed


def blocked(
    promised: Promised, pod: Pod, view: View, profile: Profile, cluster: Cluster
) -> NodeMask | None:
    """Nodes that would do, were it not for what is promised to others; None if there are none."""
    rows = promised.rows[view.left[promised.rows]]
    if not len(rows):
        return None
    refused: NodeMask = ~np.all(
        allowed_beside(promised, rows, view, profile, cluster), axis=0
    )  # fmt: skip
    hypothesis = Hypothesis(pod, view, profile, cluster)
    if hypothesis.needs_draft:
        for position in np.flatnonzero(~refused):
            refused[position] = _refused_beside(int(rows[position]), hypothesis, cluster)
    if not refused.any():
        return None
    mask = np.zeros(len(view.total), dtype=np.bool_)
    mask[rows[refused]] = True
    return mask


def _refused_beside(row: int, hypothesis: Hypothesis, cluster: Cluster) -> bool:
    """Also where the filters pass twice by different GPUs, and none does both times."""
    now = Occupied.of(cluster.columns.devices, row)
    with cluster.draft(row) as draft:
        if hypothesis.refuser(row, draft) != NOBODY:
            return True
        hypothesis.expect(row, draft)
        return not hypothesis.has_cards(row, now)
