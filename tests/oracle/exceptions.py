"""Differences from kube-scheduler that are decided on purpose, each with its reason.

An exception says how kube-scheduler reads a pod otherwise. It accounts for a difference only if
Fairlead, given the pod as kube-scheduler reads it, agrees with kube-scheduler. One that never
occurs in the fixed seeds fails a test: it would be a hole in the net.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from fairlead.model.quantities import exact
from oracle import claims_asked
from oracle.answers import Answer
from oracle.case import Case, Object, copied, nominated, selects
from oracle.judge import Judge, best_nodes, message
from oracle.some_rules import PREFERRED, REQUIRED

#: kube-scheduler gives up after ten seconds, and Fairlead after a number of steps.
_GIVEN_UP = "timed out trying to allocate devices"
#: The minor version that refuses amounts of capacity below zero and beyond 64 bits.
_CHECKS_AMOUNTS = 37


@dataclass(frozen=True)
class OnPurpose:
    name: str
    reason: str
    adr: str
    #: The features of a case that it can occur with.
    feature: str
    #: The pod as kube-scheduler reads it; unchanged where it reads it as we do.
    as_read: Callable[[Object], Object]
    #: Minor versions of Kubernetes that do so.
    minors: range


def excuse(pod: Object, theirs: Answer, judge: Judge, minor: int) -> str:
    """The name of the exception that accounts for kube-scheduler's answer, if one does."""
    for exception in EXCEPTIONS:
        read = exception.as_read(copied(pod))
        if minor in exception.minors and read != pod and _agrees(read, theirs, judge):
            return exception.name
    return ""


def excuse_claims(case: Case, probe: Object, theirs: Answer, ours: Answer, minor: int) -> str:
    """The same of a pod that uses resource claims."""
    if any(_GIVEN_UP in each.message for each in (theirs, ours)):
        return "long search"
    odd = minor < _CHECKS_AMOUNTS and any(map(_is_odd, claims_asked.amounts(case, probe)))
    return "amounts that make no sense" * odd


def _is_odd(text: str) -> bool:
    """Below zero, or beyond 64 bits when it is rounded up to steps."""
    return not 0 <= exact(text) < 1 << 62


def _agrees(pod: Object, theirs: Answer, judge: Judge) -> bool:
    judged = judge.explain(pod)
    if not theirs.node:
        return message(judged) == theirs.message
    return theirs.node in best_nodes(judged, nominated(pod))


def _open_namespace_selectors(pod: Object) -> Object:
    for term in _pod_terms(pod):
        selector = term.get("namespaceSelector")
        if selector and selects(selector, {}):
            term["namespaceSelector"] = {}
    return pod


def _pod_terms(pod: Object) -> Iterator[Object]:
    affinity = pod["spec"].get("affinity", {})
    for kind in ("podAffinity", "podAntiAffinity"):
        found = affinity.get(kind, {})
        yield from found.get(REQUIRED, ())
        yield from (weighted["podAffinityTerm"] for weighted in found.get(PREFERRED, ()))


EXCEPTIONS = (
    OnPurpose(
        "namespaceSelector against no labels",
        "kube-scheduler 1.34 to 1.36 also tests the namespaceSelector of the incoming pod's terms "
        "against an empty set of labels, so that NotIn and DoesNotExist mean every namespace. "
        "Fairlead does what the documentation says, as 1.37 does again.",
        "0007-documented-rules.md",
        "affinity",
        _open_namespace_selectors,
        range(34, 37),
    ),
)
