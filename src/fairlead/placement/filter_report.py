"""Why each node refuses a pod, for another scheduler that chooses among those left."""

from collections import defaultdict

import numpy as np

from fairlead.cluster.arrays import NodeMask
from fairlead.cluster.cluster import Cluster
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.pods import Pod
from fairlead.placement.node_trial import NO_RULE, NodeTrial
from fairlead.placement.place import Placement
from fairlead.placement.views import REFUSED, View
from fairlead.plugins.api import reasons_of


@dataclass(frozen=True, slots=True)
class FilterReport:
    """Rows that fit, and for the others the reasons of the first rule that refused."""

    left: NodeMask
    texts: dict[int, str]
    #: Refused rows where evicting pods could help.
    resolvable: NodeMask


def filter_report(placement: Placement, cluster: Cluster, pod: Pod, rows: NodeMask) -> FilterReport:
    """The answers of these rows, with room left for nominated pods."""
    view = placement.view(pod)
    left = (placement.totals(pod) > REFUSED) & rows
    found = FilterReport(left, {}, np.zeros_like(rows))
    _add_rules(found, view, placement, cluster, rows & ~left)
    nominated = rows & ~left & view.left
    trial = NodeTrial(pod, view, placement.profile, cluster)
    for row in np.flatnonzero(nominated):
        _add_nominated(found, int(row), trial, cluster)
    return found


def _add_rules(
    found: FilterReport, view: View, placement: Placement, cluster: Cluster, refused: NodeMask
) -> None:
    texts = defaultdict[int, list[str]](list)
    for index, rule in enumerate(placement.profile.filters):
        first = refused & ~view.allowed[index]
        if not first.any():
            continue
        refused = refused & ~first
        for reason in reasons_of(rule, view.request, cluster.nodes):
            for row in np.flatnonzero(reason.where & first):
                texts[int(row)].append(reason.text)
            found.resolvable[reason.resolvable & first] = True
    found.texts.update((row, ", ".join(said)) for row, said in texts.items())


def _add_nominated(found: FilterReport, row: int, trial: NodeTrial, cluster: Cluster) -> None:
    """It fits, but not together with the pods nominated for it."""
    with cluster.draft(row) as draft:
        trial.expect(row, draft)
        index = trial.first(row)
        if index != NO_RULE:
            texts, found.resolvable[row] = trial.reasons(index, row)
            found.texts[row] = ", ".join(texts)
