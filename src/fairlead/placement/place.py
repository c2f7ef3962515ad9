"""Choosing a node for a pod, or saying why there is none."""

from collections import Counter
from collections.abc import Iterator
from functools import reduce
from operator import or_

import numpy as np

from fairlead.cluster.arrays import NodeMask
from fairlead.cluster.aspects import EVERYTHING, Aspect
from fairlead.cluster.cluster import Cluster
from fairlead.cluster.nodes import Nodes
from fairlead.model.pods import Pod, PodRequest
from fairlead.placement.profile import Profile
from fairlead.placement.verdicts import Placed, Refused, Verdict
from fairlead.placement.views import REFUSED, View, Views, first_refusals
from fairlead.plugins.api import Filter, Narrows, Picker, Vetoes, reasons_of


class Placement:
    """Answers for pods of one profile. It looks, and changes nothing."""

    def __init__(self, profile: Profile, cluster: Cluster) -> None:
        self.profile = profile
        self._cluster = cluster
        self._views = Views(profile, cluster)

    def view(self, pod: Pod) -> View:
        """The answers shared by all pods that ask for the same."""
        return self._views.of(self.request(pod))

    def request(self, pod: Pod) -> PodRequest:
        """What the rules see of the pod; pods with equal requests get equal answers."""
        return pod.request_with(self.profile.marks, self._cluster.columns.pods.keys_asked)

    def place(self, pod: Pod) -> Verdict:
        """Where the pod goes; among equally good nodes the first, so that a replay agrees."""
        view = self.view(pod)
        row = -1 if view.veto else self._best(view)
        if row < 0:
            return self._refused(view, pod.priority)
        return Placed(self._cluster.node_at(row).name, float(view.total[row]))

    def _refused(self, view: View, priority: int) -> Refused:
        refused = view.refusals.get(priority)
        if refused is None:
            refused = refuse(view, self.profile, self._cluster, priority)
            view.refusals[priority] = refused
        return refused

    def _best(self, view: View) -> int:
        if self.profile.picker:
            return _picked(self.profile.picker, view, self._cluster)
        if not len(view.total):
            return -1
        row = int(view.total.argmax())
        return row if view.total[row] > REFUSED else -1


def refuse(view: View, profile: Profile, cluster: Cluster, priority: int) -> Refused:
    """The refusal of a view in which no node is feasible."""
    nodes = cluster.nodes
    if view.veto:
        return _vetoed(view, profile, len(cluster))
    present = nodes.present().copy()
    counts: Counter[str] = Counter()
    refusers = []
    woken_by = Aspect.PRESENCE
    curable = nodes.none()
    for rule, outside in _outside(view.request, profile.filters, nodes):
        counts[f"node(s) didn't satisfy plugin(s) [{rule.name}]"] += int((outside & present).sum())
        refusers.append(rule.name)
        woken_by |= rule.reads
        present &= ~outside
    for rule, first in zip(
        profile.filters, first_refusals(view, profile.filters, present), strict=True
    ):
        if not first.any():
            continue
        refusers.append(rule.name)
        woken_by |= rule.reads
        for reason in reasons_of(rule, view.request, nodes):
            counts[reason.text] += int(np.count_nonzero(reason.where & first))
            curable |= reason.curable & first
    left = present & view.allowed.all(axis=0)
    if profile.picker and left.any():
        counts[f"node(s) were passed over by {profile.picker.name}"] = int(left.sum())
        woken_by = EVERYTHING  # a picker does not say what it reads
    return Refused(
        nodes=len(cluster),
        reasons=tuple(sorted((text, count) for text, count in counts.items() if count)),
        refusers=tuple(refusers),
        woken_by=woken_by,
        curable_nodes=int(np.count_nonzero(curable)),
        victims=_has_victims(curable, nodes, priority),
    )


def _vetoed(view: View, profile: Profile, nodes: int) -> Refused:
    rules = [rule for rule in profile.filters if isinstance(rule, Vetoes)]
    woken_by = reduce(or_, (rule.reads for rule in rules), Aspect.PRESENCE)
    return Refused(nodes, (), tuple(rule.name for rule in rules), woken_by, veto=view.veto)


def _outside(
    request: PodRequest, filters: tuple[Filter, ...], nodes: Nodes
) -> Iterator[tuple[Filter, NodeMask]]:
    """Nodes that were out of the question before anybody looked at them."""
    for rule in filters:
        if isinstance(rule, Narrows):
            narrowed = rule.narrowed(request, nodes)
            if narrowed is not None and not narrowed.all():
                yield rule, ~narrowed


def _has_victims(curable: NodeMask, nodes: Nodes, priority: int) -> bool:
    return bool((curable & (nodes.lowest_priority() < priority)).any())


def _picked(picker: Picker, view: View, cluster: Cluster) -> int:
    rows = np.flatnonzero(view.total > REFUSED)
    if not len(rows):
        return -1
    position = picker.pick(view.request, Nodes(cluster.columns, rows), view.total[rows])
    return int(rows[position]) if 0 <= position < len(rows) else -1
