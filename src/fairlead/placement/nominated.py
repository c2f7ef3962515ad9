"""Leaving room for nominated pods.

As kube-scheduler has it, a node with nominated pods of the same or a higher priority must pass all
filters twice: with them there, and without. Rules that judge a node by what is taken there are
asked about all such nodes at once; rules about pods and ports node by node, and only if they have
something to say.
"""

import numpy as np

from fairlead.cluster.arrays import NodeMask, Rows
from fairlead.cluster.aspects import Aspect
from fairlead.cluster.cluster import Cluster
from fairlead.cluster.nodes import Nodes
from fairlead.cluster.priority_sums import AmountsByRow
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.pods import Pod
from fairlead.placement.gpus import Occupied
from fairlead.placement.node_trial import NO_RULE, NodeTrial
from fairlead.placement.profile import Profile
from fairlead.placement.views import View


@dataclass(frozen=True, slots=True)
class NominatedAmounts:
    """Rows with nominated pods, and what those request: a column for each row."""

    rows: Rows
    amounts: AmountsByRow


def nominated_against(pod: Pod, cluster: Cluster) -> NominatedAmounts | None:
    """What this pod must leave room for; mostly nothing."""
    found = cluster.nominations.amounts_against(pod)
    return NominatedAmounts(*found) if found is not None and len(found[0]) else None


def allowed_beside(
    nominated: NominatedAmounts, rows: Rows, view: View, profile: Profile, cluster: Cluster
) -> NodeMask:
    """What each filter answers for these rows with the nominated pods there: (filters, rows).

    Only rules by row that read usage are asked; the others are as the view has them.
    """
    allowed: NodeMask = view.allowed[:, rows]
    nodes = Nodes(cluster.columns, rows)
    with cluster.taking_more(nominated.rows, nominated.amounts):
        for index, rule in enumerate(profile.filters):
            if rule.reads & Aspect.USAGE and index not in profile.cluster_filters:
                allowed[index] = rule.allows(view.request, nodes)
    return allowed


def blocked(
    nominated: NominatedAmounts, pod: Pod, view: View, profile: Profile, cluster: Cluster
) -> NodeMask | None:
    """Nodes that fit only without the pods nominated for them; None if there are none."""
    rows = nominated.rows[view.left[nominated.rows]]
    if not len(rows):
        return None
    refused: NodeMask = ~np.all(
        allowed_beside(nominated, rows, view, profile, cluster), axis=0
    )  # fmt: skip
    trial = NodeTrial(pod, view, profile, cluster)
    if trial.needs_draft:
        for position in np.flatnonzero(~refused):
            refused[position] = refused_beside(int(rows[position]), trial, cluster)
    if not refused.any():
        return None
    mask = np.zeros(len(view.total), dtype=np.bool_)
    mask[rows[refused]] = True
    return mask


def refused_beside(row: int, trial: NodeTrial, cluster: Cluster) -> bool:
    """Whether the row does not fit with its nominated pods there, and without.

    Also where the filters pass twice by different GPUs, and none does both times.
    """
    now = Occupied.of(cluster.columns.devices, row)
    with cluster.draft(row) as draft:
        if trial.refuser(row, draft) != NO_RULE:
            return True
        return bool(trial.expect(row, draft)) and not trial.has_gpus(row, now)
