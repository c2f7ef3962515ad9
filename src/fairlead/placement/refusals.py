"""Why no node would do: each node under the first rule that refused it."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import field

import numpy as np

from fairlead.cluster.arrays import NodeMask
from fairlead.cluster.aspects import EVERYTHING, Aspect
from fairlead.cluster.cluster import Cluster
from fairlead.cluster.nodes import Nodes
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.pods import Pod, PodRequest
from fairlead.placement.node_trial import NO_RULE, NodeTrial
from fairlead.placement.nominated import NominatedAmounts, allowed_beside
from fairlead.placement.profile import Profile
from fairlead.placement.scope import Scope
from fairlead.placement.views import View
from fairlead.plugins.api import (
    NO_FITTING_GPU,
    Filter,
    PreFilterResult,
    nearest_of,
    reasons_of,
)


@dataclass(slots=True)
class RefusalCounts:
    """What the rules said, and where evicting pods could help."""

    resolvable: NodeMask
    counts: Counter[str] = field(default_factory=Counter)
    refusers: dict[str, None] = field(default_factory=dict)
    woken_by: Aspect = Aspect.PRESENCE
    #: How near any of the nodes came, where a rule reports it.
    nearest: str = ""

    def blame(self, rule: Filter) -> None:
        self.refusers[rule.name] = None
        self.woken_by |= rule.reads

    def count(
        self, allowed: NodeMask, rows: NodeMask, filters: tuple[Filter, ...], request: PodRequest,
        nodes: Nodes,
    ) -> None:  # fmt: skip
        """Adds the first refusal of each of the rows, by what each filter (first axis) allows."""
        left = rows.copy()
        for index, rule in enumerate(filters):
            first = left & ~allowed[index]
            left &= allowed[index]
            if not first.any():
                continue
            self.blame(rule)
            nodes.work.ask(len(nodes))
            self.nearest = self.nearest or nearest_of(rule, request, nodes.only(first))
            for reason in reasons_of(rule, request, nodes):
                self.counts[reason.text] += int(np.count_nonzero(reason.where & first))
                self.resolvable |= reason.resolvable & first


def count_refusals(
    pod: Pod, view: View, profile: Profile, cluster: Cluster, nominated: NominatedAmounts | None,
    scope: Scope,
) -> RefusalCounts:  # fmt: skip
    """The refusals of a pod for which no node of the scope is left."""
    nodes = cluster.nodes
    found = RefusalCounts(nodes.none())
    rows = scope.rows()
    own = scope.nominated_row(pod)
    for rule, outside in _outside(view.request, profile.pre_filter_results, nodes):
        if not scope.whole and not (outside & rows).any():
            continue
        names = {rule.name}
        if own is not None:  # it was asked before the search was narrowed
            outside[own] = False
            names |= _first_refuser(own, NodeTrial(pod, view, profile, cluster), cluster)
        text = f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(names))}]"
        found.counts[text] += int((outside & rows).sum())
        found.blame(rule)
        rows &= ~outside
    beside = nodes.none()
    if nominated:
        beside[nominated.rows] = rows[nominated.rows]
    found.count(view.allowed, rows & ~beside, profile.filters, view.request, nodes)
    if nominated:
        _count_beside(found, beside, nominated, pod, view, profile, cluster)
    left = rows & view.left
    if profile.picker and left.any():
        found.counts[f"node(s) were not selected by {profile.picker.name}"] = int(left.sum())
        found.woken_by = EVERYTHING  # a picker does not say what it reads
    return found


def _first_refuser(row: int, trial: NodeTrial, cluster: Cluster) -> set[str]:
    """kube-scheduler names the filter that refused the nominated node, and the pre-filter."""
    with cluster.draft(row) as draft:
        return trial.names(trial.refuser(row, draft))


def _count_beside(
    found: RefusalCounts, rows: NodeMask, nominated: NominatedAmounts, pod: Pod, view: View,
    profile: Profile, cluster: Cluster,
) -> None:  # fmt: skip
    """Rows with nominated pods: first with those there, then without."""
    nodes, filters, request = cluster.nodes, profile.filters, view.request
    trial = NodeTrial(pod, view, profile, cluster)
    if trial.needs_draft:
        for row in np.flatnonzero(rows):
            _count_row(found, int(row), trial, profile, cluster)
        return
    allowed = view.allowed.copy()
    allowed[:, nominated.rows] = allowed_beside(nominated, nominated.rows, view, profile, cluster)
    with cluster.taking_more(nominated.rows, nominated.amounts):
        found.count(allowed, rows, filters, request, nodes)
    found.count(view.allowed, rows & allowed.all(axis=0), filters, request, nodes)


def _count_row(
    found: RefusalCounts, row: int, trial: NodeTrial, profile: Profile, cluster: Cluster
) -> None:
    with cluster.draft(row) as draft:
        trial.expect(row, draft)
        index = trial.first(row)
        if index != NO_RULE:
            texts, resolvable = trial.reasons(index, row)
    if index == NO_RULE:
        index = trial.first(row)
        texts, resolvable = trial.reasons(index, row) if index != NO_RULE else ([], False)
    if index == NO_RULE:  # both times by other GPUs: see `nominated.blocked`
        for rule in profile.allocators:
            found.blame(rule)
        found.counts[NO_FITTING_GPU] += 1
        found.resolvable[row] = True
    else:
        found.blame(profile.filters[index])
        found.nearest = found.nearest or trial.nearest(index, row)
        found.counts.update(texts)
        found.resolvable[row] = resolvable


def _outside(
    request: PodRequest, rules: tuple[PreFilterResult, ...], nodes: Nodes
) -> Iterator[tuple[Filter, NodeMask]]:
    """Nodes that a pre-filter excludes."""
    for rule in rules:
        pre_filter_result = rule.pre_filter_result(request, nodes)
        if pre_filter_result is not None and not pre_filter_result.all():
            yield rule, ~pre_filter_result
