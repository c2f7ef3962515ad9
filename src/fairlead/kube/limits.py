"""How much a pod may say about where it goes.

Every rule is looked at for all nodes, and every value that it names is compared with what other
pods have, so one pod could hold up all the others: the API server lets a megabyte or two pass.
"""

from collections.abc import Iterator
from dataclasses import replace

from fairlead.cluster.columns import MOST_RESOURCES
from fairlead.model.pods import PodRequest
from fairlead.model.selectors import LabelSelector, PodTerm, Requirement

# Affinity terms, spread constraints, and the lines of all their selectors.
MOST_RULES = 128
_MOST_VALUES = 10_000
# Kinds of resources; each is compared on every node.
_MOST_RESOURCES = MOST_RESOURCES // 2


def beyond_limits(request: PodRequest) -> str:
    """Why the request is more than we look at; empty if it is not."""
    if len(request.resources) > _MOST_RESOURCES:
        return (
            f"the pod requests {len(request.resources)} kinds of resources; "
            f"the limit is {_MOST_RESOURCES}"
        )
    terms = (
        request.required_affinity,
        request.anti_affinity,
        request.preferred_affinity,
        request.spread,
        request.soft_spread,
    )
    rules = sum(map(len, (*terms, request.preferred, request.node_selector)))
    if not rules and request.node_terms is None:
        return ""
    lines = [*_node_lines(request), *_pod_lines(request)]
    if (rules := rules + len(lines)) > MOST_RULES:
        return f"the pod has {rules} placement rules; the limit is {MOST_RULES}"
    values = sum(len(line.values) for line in lines)
    values += sum(len(term.namespaces) for term in _terms(request))
    if values > _MOST_VALUES:
        return (
            f"the placement rules of the pod name {values} values and namespaces; "
            f"the limit is {_MOST_VALUES}"
        )
    return ""


def within_limits(request: PodRequest) -> PodRequest:
    """The request of a pod that is somewhere already, without its say in who may join it there.

    Unless that is within reason: it would be asked for every other pod.
    """
    if not (
        request.required_affinity or request.anti_affinity or request.preferred_affinity
    ) or not beyond_limits(request):
        return request
    return replace(request, required_affinity=(), anti_affinity=(), preferred_affinity=())


def _terms(request: PodRequest) -> Iterator[PodTerm]:
    yield from request.required_affinity
    yield from request.anti_affinity
    yield from (term for term, _ in request.preferred_affinity)


def _node_lines(request: PodRequest) -> Iterator[Requirement]:
    for term in (*(request.node_terms or ()), *(each.term for each in request.preferred)):
        yield from term.labels
        yield from term.fields


def _pod_lines(request: PodRequest) -> Iterator[Requirement]:
    for term in _terms(request):
        yield from _lines(term.selector)
        yield from _lines(term.namespace_selector)
    for rule in (*request.spread, *request.soft_spread):
        yield from _lines(rule.selector)


def _lines(selector: LabelSelector | None) -> Iterator[Requirement]:
    yield from selector.lines if selector else ()
