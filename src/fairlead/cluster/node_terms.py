"""Which nodes are meant: node selector terms and label selectors, asked about all nodes at once."""

from fairlead.cluster.arrays import NodeMask
from fairlead.cluster.nodes import Nodes
from fairlead.model.pods import NodeTerm
from fairlead.model.selectors import LabelSelector, Requirement, whole_number

NAME = "metadata.name"


def any_term(terms: tuple[NodeTerm, ...], nodes: Nodes) -> NodeMask:
    """True where at least one term matches; an empty term, and no terms at all, match nothing."""
    matched = nodes.none()
    nodes.prepare_labels({line.key for term in terms for line in term.labels})
    for term in dict.fromkeys(terms):
        matched |= term_matches(term, nodes)
    return matched


def term_matches(term: NodeTerm, nodes: Nodes) -> NodeMask:
    """Where all of it holds. A term that is empty or makes no sense means no node."""
    if not (term.labels or term.fields):
        return nodes.none()
    matched = nodes.all()
    for requirement in term.labels:
        matched &= _label_matches(requirement, nodes)
    for requirement in term.fields:
        matched &= _field_matches(requirement, nodes)
    return matched


def selected(selector: LabelSelector, nodes: Nodes) -> NodeMask:
    """True where every line of the selector holds for the node's labels."""
    matched = nodes.all()
    for line in selector.lines:
        matched &= _label_matches(line, nodes)
    return matched


def fault(term: NodeTerm) -> str:
    """Why the term can never mean a node; nothing if it can."""
    for line in term.labels:
        if line.operator in ("In", "NotIn"):
            wrong = "" if line.values else "needs values"
        elif line.operator in ("Exists", "DoesNotExist"):
            wrong = "takes no values" if line.values else ""
        elif line.operator in ("Gt", "Lt"):
            wrong = "" if _bound(line) is not None else "needs one whole number"
        else:
            wrong = "is no operator; use In, NotIn, Exists, DoesNotExist, Gt or Lt"
        if wrong:
            return f"{line.key}: {line.operator} {wrong}"
    for line in term.fields:
        if line.key != NAME or line.operator not in ("In", "NotIn") or len(line.values) != 1:
            return f"{line.key}: a field must be {NAME}, In or NotIn, with one value"
    return "" if term.labels or term.fields else "a term needs labels or fields"


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
            bound = _bound(requirement)
            return nodes.none() if bound is None else nodes.label_compares(key, operator, bound)
        case _:
            return nodes.none()  # an unknown operator matches nothing, as in Kubernetes


def _field_matches(requirement: Requirement, nodes: Nodes) -> NodeMask:
    if requirement.key != NAME or len(requirement.values) != 1:
        return nodes.none()
    match requirement.operator:
        case "In":
            return nodes.named(requirement.values)
        case "NotIn":
            return ~nodes.named(requirement.values)
        case _:
            return nodes.none()


def _bound(requirement: Requirement) -> int | None:
    return whole_number(requirement.values[0]) if len(requirement.values) == 1 else None
