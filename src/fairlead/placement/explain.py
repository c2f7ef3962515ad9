"""Why a pod is where it is not, node by node."""

from dataclasses import dataclass

from fairlead.cluster.aspects import Aspect
from fairlead.cluster.cluster import Cluster
from fairlead.cluster.nodes import Nodes
from fairlead.model.pods import Pod
from fairlead.placement.hypothesis import NOBODY, Hypothesis
from fairlead.placement.place import Placement
from fairlead.placement.verdicts import Verdict
from fairlead.placement.views import REFUSED, View
from fairlead.plugins.api import CardAnswer


@dataclass(frozen=True, slots=True)
class NodeAnswer:
    """What one node has to say. `rule` is the first that refused; empty if none did."""

    node: str
    rule: str = ""
    reasons: tuple[str, ...] = ()
    detail: str = ""
    score: float | None = None
    #: Card by card, if they are known one by one and it was refused for them, or a score of the
    #: profile goes by what they are doing.
    cards: tuple[CardAnswer, ...] = ()


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
    totals = placement.totals(pod)
    asking = Hypothesis(pod, view, placement.profile, cluster)
    answers = [
        NodeAnswer(name, score=float(totals[row]), cards=_measured(row, placement, view, cluster))
        if totals[row] > REFUSED
        else _refusal(name, row, placement, cluster, asking)
        for name, row in cluster.row_of.items()
    ]
    answers.sort(key=lambda answer: (-(answer.score or REFUSED), answer.rule, answer.node))
    return Explanation(verdict, tuple(answers))


def _measured(
    row: int, placement: Placement, view: View, cluster: Cluster
) -> tuple[CardAnswer, ...]:  # fmt: skip
    """The cards of a node that would do, if what they are doing had a part in its score."""
    profile = placement.profile
    if profile.gpu_fit is None or not any(s.reads & Aspect.LOAD for s, _ in profile.scores):
        return ()
    return profile.gpu_fit.cards(view.request, Nodes(cluster.columns, slice(row, row + 1)))


def _refusal(
    name: str, row: int, placement: Placement, cluster: Cluster, asking: Hypothesis
) -> NodeAnswer:
    first = asking.first(row)
    if first == NOBODY:
        return _kept_free(name, row, placement, cluster, asking)
    rule = placement.profile.filters[first]
    return NodeAnswer(
        name,
        rule.name,
        tuple(asking.reasons(first, row)[0]),
        asking.detail(first, row),
        cards=asking.cards(first, row),
    )


def _kept_free(
    name: str, row: int, placement: Placement, cluster: Cluster, asking: Hypothesis
) -> NodeAnswer:
    """It would do, but room there is promised to others."""
    with cluster.draft(row) as draft:
        promised = asking.expect(row, draft)
        first = asking.first(row)
        texts = asking.reasons(first, row)[0]
        cards = asking.cards(first, row)
    others = ", ".join(sorted(held.pod.key for held in promised))
    rule = placement.profile.filters[first]
    return NodeAnswer(
        name, rule.name, tuple(texts), f"room there is kept for {others}", cards=cards
    )
