"""nodeSelector and required node affinity."""

from dataclasses import dataclass
from typing import ClassVar

from fairlead.cluster.arrays import NodeMask
from fairlead.cluster.aspects import Aspect
from fairlead.cluster.nodes import Nodes
from fairlead.model.pods import NodeTerm, PodRequest
from fairlead.model.selectors import Requirement


@dataclass(frozen=True, slots=True)
class NodeAffinity:
    name: ClassVar[str] = "NodeAffinity"
    reads: ClassVar[Aspect] = Aspect.LABELS
    refusal: ClassVar[str] = "node(s) didn't match Pod's node affinity/selector"
    curable: ClassVar[bool] = False

    def allows(self, request: PodRequest, nodes: Nodes) -> NodeMask:
        matched = nodes.all()
        for key, value in request.node_selector:
            matched &= nodes.label_in(key, (value,))
        if request.node_terms is not None:
            matched &= _any_term(request.node_terms, nodes)
        return matched


def _any_term(terms: tuple[NodeTerm, ...], nodes: Nodes) -> NodeMask:
    matched = nodes.none()
    for term in terms:
        if term.labels or term.fields:
            matched |= _whole_term(term, nodes)
    return matched


def _whole_term(term: NodeTerm, nodes: Nodes) -> NodeMask:
    matched = nodes.all()
    for requirement in term.labels:
        matched &= _label_matches(requirement, nodes)
    for requirement in term.fields:
        matched &= _field_matches(requirement, nodes)
    return matched


def _label_matches(requirement: Requirement, nodes: Nodes) -> NodeMask:
    key = requirement.key
    match requirement.operator:
        case "In":
            return nodes.label_in(key, requirement.values)
        case "NotIn":
            return ~nodes.label_in(key, requirement.values)
        case "Exists":
            return nodes.has_label(key)
        case "DoesNotExist":
            return ~nodes.has_label(key)
        case "Gt" | "Lt" as operator:
            bound = _single_integer(requirement.values)
            return nodes.none() if bound is None else nodes.label_compares(key, operator, bound)
        case _:
            return nodes.none()  # an operator nobody knows matches nothing, as in Kubernetes


def _field_matches(requirement: Requirement, nodes: Nodes) -> NodeMask:
    if requirement.key != "metadata.name" or len(requirement.values) != 1:
        return nodes.none()
    match requirement.operator:
        case "In":
            return nodes.named(requirement.values)
        case "NotIn":
            return ~nodes.named(requirement.values)
        case _:
            return nodes.none()


def _single_integer(values: tuple[str, ...]) -> int | None:
    try:
        (text,) = values
        return int(text)
    except ValueError:
        return None
