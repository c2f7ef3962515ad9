"""Which nodes are meant: node selector terms and label selectors, asked about all nodes at once."""

from fairlead.cluster.arrays import NodeMask
from fairlead.cluster.nodes import Nodes
from fairlead.model.pods import NodeTerm
from fairlead.model.selectors import LabelSelector, Requirement


def any_term(terms: tuple[NodeTerm, ...], nodes: Nodes) -> NodeMask:
    """True where at least one term matches; an empty term, and no terms at all, match nothing."""
    matched = nodes.none()
    for term in terms:
        if term.labels or term.fields:
            matched |= _whole_term(term, nodes)
    return matched


def selected(selector: LabelSelector, nodes: Nodes) -> NodeMask:
    """True where every line of the selector holds for the node's labels."""
    matched = nodes.all()
    for line in selector.lines:
        matched &= _label_matches(line, nodes)
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
