"""Why a pod is where it is not, node by node."""

from dataclasses import dataclass

import numpy as np

from fairlead.cluster.cluster import Cluster
from fairlead.cluster.nodes import Nodes
from fairlead.model.pods import Pod, PodRequest
from fairlead.placement.place import Placement
from fairlead.placement.verdicts import Verdict
from fairlead.placement.views import REFUSED
from fairlead.plugins.api import Filter, TellsDetail, reasons_of


@dataclass(frozen=True, slots=True)
class NodeAnswer:
    """What one node has to say. `rule` is the first that refused; empty if none did."""

    node: str
    rule: str = ""
    reasons: tuple[str, ...] = ()
    detail: str = ""
    score: float | None = None


@dataclass(frozen=True, slots=True)
class Explanation:
    verdict: Verdict
    nodes: tuple[NodeAnswer, ...]


def explain(placement: Placement, cluster: Cluster, pod: Pod) -> Explanation:
    """The verdict on the pod as things are now, and every node's part in it, best first."""
    verdict = placement.place(pod)
    view = placement.view(pod)
    if view.veto:  # no node was looked at, so none has an answer
        return Explanation(verdict, ())
    answers = []
    for name, row in cluster.row_of.items():
        node = Nodes(cluster.columns, slice(row, row + 1))
        if view.total[row] > REFUSED:
            answers.append(NodeAnswer(name, score=float(view.total[row])))
        else:
            first = int(np.argmin(view.allowed[:, row]))
            answers.append(_refusal(name, placement.profile.filters[first], view.request, node))
    answers.sort(key=lambda answer: (-(answer.score or REFUSED), answer.rule, answer.node))
    return Explanation(verdict, tuple(answers))


def _refusal(name: str, rule: Filter, request: PodRequest, node: Nodes) -> NodeAnswer:
    texts = tuple(r.text for r in reasons_of(rule, request, node) if r.where[0])
    detail = rule.detail(request, node) if isinstance(rule, TellsDetail) else ""
    return NodeAnswer(name, rule.name, texts, detail)
