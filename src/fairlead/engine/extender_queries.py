"""The queries of kube-scheduler's extender protocol, answered by the rules of one profile.

kube-scheduler chooses among the nodes and does all the rest; what it cannot know is which GPUs are
taken. So pods without GPUs pass unchanged.
"""

from collections.abc import Mapping, Sequence
from dataclasses import field

import numpy as np

from fairlead.cluster.arrays import NodeMask
from fairlead.cluster.aspects import Aspect
from fairlead.cluster.cluster import Cluster
from fairlead.model.gpus import Grant
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.pods import Pod, PodRequest
from fairlead.placement.filter_report import filter_report
from fairlead.placement.node_trial import NodeTrial
from fairlead.placement.nominated import nominated_against
from fairlead.placement.place import Placement
from fairlead.placement.preempt import Preemption
from fairlead.placement.verdicts import Eviction
from fairlead.placement.views import REFUSED

#: The best node's score. Only the best nodes get it, so that kube-scheduler chooses one of them.
BEST = 10

UNKNOWN = "node(s) were not known to Fairlead yet"
KEPT = "node(s) had their free GPUs reserved for nominated pods"

# What may have changed since the nodes were filtered; kube-scheduler checks the rest.
_AT_BIND = Aspect.USAGE | Aspect.DEVICES | Aspect.TRUST


@dataclass(slots=True)
class ExtenderFilterResult:
    """The nodes that fit, in the order given, and why the others do not."""

    passed: list[str] = field(default_factory=list)
    #: Nodes where preemption could help, and where not.
    refused: dict[str, str] = field(default_factory=dict)
    unresolvable: dict[str, str] = field(default_factory=dict)


class ExtenderQueries:
    """One profile for all pods, whatever scheduler they name. It reads, and changes nothing."""

    def __init__(self, placement: Placement, cluster: Cluster) -> None:
        self._placement = placement
        self._cluster = cluster
        #: The last pod for which not all nodes were evaluated, and those that were.
        self._cut: tuple[str, frozenset[str]] = ("", frozenset())

    @staticmethod
    def concerns(pod: Pod) -> bool:
        """Whether it requests GPUs, or has an invalid request that kube-scheduler ignores."""
        not_understood = bool(pod.problem) and pod.request == PodRequest()
        return pod.request.gpu_request is not None or not_understood

    def filter_nodes(self, pod: Pod, nodes: Sequence[str]) -> ExtenderFilterResult:
        """Which of the nodes fit."""
        if not self.concerns(pod):
            return ExtenderFilterResult(list(nodes))
        message = pod.problem or self._placement.view(pod).pre_filter_message
        if message:
            return ExtenderFilterResult(unresolvable=dict.fromkeys(nodes, message))
        held = self._cluster.holdings.get(pod.uid)
        if held is not None:
            return _only(held.node, nodes)
        return self._filter_each(pod, nodes)

    def _filter_each(self, pod: Pod, nodes: Sequence[str]) -> ExtenderFilterResult:
        row_of, result = self._cluster.row_of, ExtenderFilterResult()
        found = filter_report(self._placement, self._cluster, pod, self._rows(nodes))
        for node in nodes:
            row = row_of.get(node)
            if row is None:
                result.unresolvable[node] = UNKNOWN
            elif found.left[row]:
                result.passed.append(node)
            else:
                said = result.refused if found.resolvable[row] else result.unresolvable
                said[node] = found.texts.get(row) or KEPT
        return result

    def _rows(self, nodes: Sequence[str]) -> NodeMask:
        rows = self._cluster.nodes.none()
        row_of = self._cluster.row_of
        rows[[row_of[node] for node in nodes if node in row_of]] = True
        return rows

    def prioritize(self, pod: Pod, nodes: Sequence[str]) -> list[int]:
        """0 to `BEST` for each node; all equal if there is no difference."""
        if not self.concerns(pod) or pod.problem:
            return [0] * len(nodes)
        totals = self._placement.totals(pod)
        row_of = self._cluster.row_of
        rated = np.array([totals[row_of[n]] if n in row_of else REFUSED for n in nodes])
        fits = rated > REFUSED
        if not fits.any():
            return [0] * len(nodes)
        worst, best = rated[fits].min(), rated[fits].max()
        # Rounded down, so that only the best nodes get the highest score.
        share = np.where(fits, rated - worst, 0.0) / ((best - worst) or 1.0)
        scores: list[int] = np.floor(BEST * share).astype(int).tolist()
        return scores

    def preempt(self, pod: Pod, offered: Mapping[str, Sequence[str]]) -> dict[str, Eviction]:
        """The victims on each node, given those (uids) that kube-scheduler selected there.

        No more of those than must go; if they do not hold the right GPUs, those who do. A node
        where no eviction would help is left out. So are nodes that would take too long to
        evaluate; the next request about the pod begins with those.
        """
        if pod.problem:
            return {}
        view = self._placement.view(pod)
        nominated = nominated_against(pod, self._cluster)
        search = Preemption(pod, view, self._placement.profile, self._cluster, nominated)
        known = [node for node in offered if node in self._cluster.row_of]
        known.sort(key=lambda node: (node in self._tried(pod), len(offered[node])))
        row_of = self._cluster.row_of
        found = search.on_several((row_of[node], offered[node]) for node in known)
        evaluated = known[: len(found)]
        done = self._tried(pod) | frozenset(evaluated)
        self._cut = (pod.uid, done) if len(done) < len(known) else ("", frozenset())
        return {node: each for node, each in zip(evaluated, found, strict=True) if each}

    def _tried(self, pod: Pod) -> frozenset[str]:
        uid, nodes = self._cut
        return nodes if uid == pod.uid else frozenset()

    def grant(self, pod: Pod, node: str) -> Grant | str | None:
        """The GPUs that the pod gets there, if it asks for any; a sentence if it cannot go."""
        if not self.concerns(pod):
            return None
        row = self._cluster.row_of.get(node)
        if pod.problem or row is None:
            return pod.problem or UNKNOWN
        view = self._placement.view(pod)
        for index, rule in enumerate(self._placement.profile.filters):
            if rule.reads & _AT_BIND and not view.allowed[index, row]:
                trial = NodeTrial(pod, view, self._placement.profile, self._cluster)
                return ", ".join(trial.reasons(index, row)[0])
        asked = self._placement.asked_gpus(view)
        grant = self._placement.grant(view, row, pod) if asked else None
        return KEPT if asked and grant is None else grant


def _only(chosen: str, nodes: Sequence[str]) -> ExtenderFilterResult:
    """Its bind is under way, or done and not yet seen by kube-scheduler."""
    others = [node for node in nodes if node != chosen]
    return ExtenderFilterResult(
        [node for node in nodes if node == chosen],
        unresolvable=dict.fromkeys(
            others, f"node(s) were not {chosen}, where the pod is being bound"
        ),
    )
