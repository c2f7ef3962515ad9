"""Why a pod is where it is not, node by node."""

import heapq
from collections.abc import Iterable

import numpy as np

from fairlead.cluster.arrays import NodeScores
from fairlead.cluster.aspects import Aspect
from fairlead.cluster.cluster import Cluster
from fairlead.cluster.nodes import Nodes
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.pods import Pod
from fairlead.placement.faults import fault_of
from fairlead.placement.node_trial import NodeTrial
from fairlead.placement.place import Placement
from fairlead.placement.profile import Profile
from fairlead.placement.verdicts import Verdict
from fairlead.placement.views import REFUSED, View
from fairlead.plugins.api import GpuDetail, Reason, reasons_of


@dataclass(frozen=True, slots=True)
class NodeAnswer:
    """What one node has to say. `rule` is the first that refused; empty if none did."""

    node: str
    rule: str = ""
    reasons: tuple[str, ...] = ()
    detail: str = ""
    score: float | None = None
    #: GPU by GPU, if they are known one by one and it was refused for them, or a score of the
    #: profile goes by what they are doing.
    gpus: tuple[GpuDetail, ...] = ()
    #: Pods by key that room there is kept for.
    kept_for: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Explanation:
    verdict: Verdict
    nodes: tuple[NodeAnswer, ...]
    #: How many nodes there are besides.
    left_out: int = 0


def explain(
    placement: Placement, cluster: Cluster, pod: Pod, most: int | None = None
) -> Explanation:
    """The verdict on the pod as things are now, and every node's part in it, best first.

    With `most`, at most so many nodes answer, and each rule is asked once about all of them.
    Raises PluginFault, which names the plugin, its file and its line, if one fails.
    """
    verdict = placement.place(pod)
    try:
        return _explained(verdict, placement, cluster, pod, most)
    except Exception as error:
        raise fault_of(error, placement.profile) from error


def _explained(
    verdict: Verdict, placement: Placement, cluster: Cluster, pod: Pod, most: int | None
) -> Explanation:
    view = placement.view(pod)
    if view.pre_filter_message:  # no node was looked at, so none has an answer
        return Explanation(verdict, ())
    totals = placement.totals(pod)
    refusals = _Refusals(pod, view, placement.profile, cluster, bounded=most is not None)
    answers = [
        NodeAnswer(name, score=float(totals[row]), gpus=_measured(row, placement, view, cluster))
        if totals[row] > REFUSED
        else refusals.of(name, row)
        for name, row in _first(cluster, totals, most)
    ]
    answers.sort(key=lambda answer: (-(answer.score or REFUSED), answer.rule, answer.node))
    return Explanation(verdict, tuple(answers), len(cluster.row_of) - len(answers))


def _first(
    cluster: Cluster, totals: NodeScores, most: int | None
) -> Iterable[tuple[str, int]]:  # fmt: skip
    """Nodes by name and row; of too many, those that fit best, then any."""
    rows = cluster.row_of.items()
    if most is None or len(rows) <= most:
        return rows
    return heapq.nlargest(most, rows, key=lambda item: float(totals[item[1]]))


def _measured(
    row: int, placement: Placement, view: View, cluster: Cluster
) -> tuple[GpuDetail, ...]:  # fmt: skip
    """The GPUs of a node that would do, if what they are doing had a part in its score."""
    profile = placement.profile
    if profile.gpu_details is None or not any(s.reads & Aspect.LOAD for s, _ in profile.scores):
        return ()
    return profile.gpu_details.gpus(view.request, Nodes(cluster.columns, slice(row, row + 1)))


class _Refusals:
    """What stands against a pod; each rule is asked once for its reasons, about all nodes."""

    def __init__(
        self, pod: Pod, view: View, profile: Profile, cluster: Cluster, *, bounded: bool
    ) -> None:
        self._pod = pod
        self._view = view
        self._profile = profile
        self._cluster = cluster
        self._bounded = bounded
        self._trial = NodeTrial(pod, view, profile, cluster)
        self._reasons_of_rule: dict[int, list[Reason]] = {}

    def of(self, name: str, row: int) -> NodeAnswer:
        refusing = np.flatnonzero(~self._view.allowed[:, row])
        if not len(refusing):
            return self._reserved(name) if self._bounded else self._kept_free(name, row)
        first = int(refusing[0])
        return NodeAnswer(
            name,
            self._profile.filters[first].name,
            self._reasons(first, row),
            self._trial.detail(first, row),
            gpus=self._trial.gpus(first, row),
        )

    def _reasons(self, index: int, row: int) -> tuple[str, ...]:
        if index not in self._reasons_of_rule:
            rule, nodes = self._profile.filters[index], self._cluster.nodes
            self._reasons_of_rule[index] = list(reasons_of(rule, self._view.request, nodes))
        return tuple(reason.text for reason in self._reasons_of_rule[index] if reason.where[row])

    def _kept_free(self, name: str, row: int) -> NodeAnswer:
        """It fits, but not together with the pods nominated for it."""
        trial = self._trial
        with self._cluster.draft(row) as draft:
            nominated = trial.expect(row, draft)
            first = trial.first(row)
            texts = trial.reasons(first, row)[0]
            gpus = trial.gpus(first, row)
        others = tuple(sorted(held.pod.key for held in nominated))
        rule = self._profile.filters[first]
        return NodeAnswer(name, rule.name, tuple(texts), gpus=gpus, kept_for=others)

    def _reserved(self, name: str) -> NodeAnswer:
        """The same, without trial what the rules would say."""
        nominated = self._cluster.nominations.against(self._pod, name)
        others = tuple(sorted(pod.key for pod in nominated))
        return NodeAnswer(
            name, "NominatedPods", ("resources are reserved for other pods",), kept_for=others
        )
