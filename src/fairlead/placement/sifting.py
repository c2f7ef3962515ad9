"""What each node has against a pod, for another scheduler that chooses among those left."""

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from fairlead.cluster.arrays import NodeMask
from fairlead.cluster.cluster import Cluster
from fairlead.model.pods import Pod
from fairlead.placement.hypothesis import NOBODY, Hypothesis
from fairlead.placement.place import Placement
from fairlead.placement.views import REFUSED, View
from fairlead.plugins.api import reasons_of


@dataclass(frozen=True, slots=True)
class Sifted:
    """Rows that will do, and what the first rule that refused one of the others says of it."""

    left: NodeMask
    texts: dict[int, str]
    #: Refused rows where evicting somebody could help.
    resolvable: NodeMask


def sift(placement: Placement, cluster: Cluster, pod: Pod, rows: NodeMask) -> Sifted:
    """The answers of these rows, with room left for what is promised to others."""
    view = placement.view(pod)
    left = (placement.totals(pod) > REFUSED) & rows
    found = Sifted(left, {}, np.zeros_like(rows))
    _blame_rules(found, view, placement, cluster, rows & ~left)
    promised = rows & ~left & view.left
    asking = Hypothesis(pod, view, placement.profile, cluster)
    for row in np.flatnonzero(promised):
        _blame_promises(found, int(row), asking, cluster)
    return found


def _blame_rules(
    found: Sifted, view: View, placement: Placement, cluster: Cluster, refused: NodeMask
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


def _blame_promises(found: Sifted, row: int, asking: Hypothesis, cluster: Cluster) -> None:
    """It would do, but room there is promised to others."""
    with cluster.draft(row) as draft:
        asking.expect(row, draft)
        index = asking.first(row)
        if index != NOBODY:
            texts, found.resolvable[row] = asking.reasons(index, row)
            found.texts[row] = ", ".join(texts)
