"""nodeSelector and node affinity, required and preferred."""

from collections.abc import Iterable
from dataclasses import field
from typing import ClassVar

import numpy as np

from fairlead.cluster import node_terms
from fairlead.cluster.arrays import NodeMask, NodeScores
from fairlead.cluster.aspects import Aspect
from fairlead.cluster.nodes import Nodes
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.pods import NodeTerm, PodRequest, PreferredTerm
from fairlead.plugins.api import Reason
from fairlead.plugins.normalising import most_is_best

_ENFORCED = "node(s) didn't match scheduler-enforced node affinity"


@dataclass(frozen=True, slots=True)
class AddedAffinity:
    """Node affinity that the profile adds to every pod's own."""

    required: tuple[NodeTerm, ...] | None = None
    preferred: tuple[PreferredTerm, ...] = ()

    def __post_init__(self) -> None:
        for term in (*(self.required or ()), *(preferred.term for preferred in self.preferred)):
            if wrong := node_terms.fault(term):
                raise ValueError(f"added_affinity: {wrong}")


@dataclass(frozen=True, slots=True)
class NodeAffinity:
    added_affinity: AddedAffinity = field(default_factory=AddedAffinity)
    name: ClassVar[str] = "NodeAffinity"
    reads: ClassVar[Aspect] = Aspect.LABELS
    refusal: ClassVar[str] = "node(s) didn't match Pod's node affinity/selector"
    resolvable: ClassVar[bool] = False

    def allows(self, request: PodRequest, nodes: Nodes) -> NodeMask:
        return self._enforced(nodes) & _wanted(request, nodes)

    def reasons(self, request: PodRequest, nodes: Nodes) -> Iterable[Reason]:
        enforced = self._enforced(nodes)
        yield Reason(_ENFORCED, ~enforced, nodes.none())
        yield Reason(self.refusal, enforced & ~_wanted(request, nodes), nodes.none())

    def pre_filter(self, request: PodRequest, nodes: Nodes) -> str:
        return "pod affinity terms conflict" if _named(request) == frozenset() else ""

    def pre_filter_result(self, request: PodRequest, nodes: Nodes) -> NodeMask | None:
        names = _named(request)
        return nodes.named(names) if names else None

    def applies_as_score(self, request: PodRequest, nodes: Nodes) -> bool:
        return bool(request.preferred or self.added_affinity.preferred)

    def rank(self, request: PodRequest, nodes: Nodes, left: NodeMask) -> NodeScores:
        """By the weights of the preferred terms that match."""
        counts = np.zeros(len(nodes), dtype=np.int64)
        for preferred in (*self.added_affinity.preferred, *request.preferred):
            if preferred.weight:
                counts += preferred.weight * node_terms.term_matches(preferred.term, nodes)
        return most_is_best(counts, left)

    def _enforced(self, nodes: Nodes) -> NodeMask:
        required = self.added_affinity.required
        return nodes.all() if required is None else node_terms.any_term(required, nodes)


def _wanted(request: PodRequest, nodes: Nodes) -> NodeMask:
    matched = nodes.all()
    for key, value in request.node_selector:
        matched &= nodes.label_in(key, (value,))
    if request.node_terms is not None:
        matched &= node_terms.any_term(request.node_terms, nodes)
    return matched


def _named(request: PodRequest) -> frozenset[str] | None:
    """The only nodes in question when every term names some; None when all are."""
    if not request.node_terms:
        return None
    found: frozenset[str] = frozenset()
    for term in request.node_terms:
        lists = [f.values for f in term.fields if (f.key, f.operator) == (node_terms.NAME, "In")]
        if not lists:
            return None
        found |= frozenset(lists[0]).intersection(*lists[1:])
    return found
