"""Pods that belong together are kept evenly spread over zones, racks or nodes."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fairlead.cluster.arrays import Codes, NodeMask, NodeScores, PerNode
from fairlead.cluster.aspects import Aspect
from fairlead.cluster.nodes import Nodes
from fairlead.model.pods import PodRequest
from fairlead.model.selectors import PodTerm, SpreadRule
from fairlead.plugins.api import Reason
from fairlead.plugins.soft_spread import rated
from fairlead.plugins.spreading import has_all_keys, matching, welcome


@dataclass(frozen=True, slots=True)
class PodTopologySpread:
    """Refuses a domain that would be more than maxSkew ahead of the emptiest one.

    Of the others it likes those best that soft rules (ScheduleAnyway) find emptiest.
    """

    name: ClassVar[str] = "PodTopologySpread"
    reads: ClassVar[Aspect] = Aspect.PODS | Aspect.LABELS | Aspect.TAINTS
    refusal: ClassVar[str] = "node(s) didn't match pod topology spread constraints"
    curable: ClassVar[bool] = True

    def applies(self, request: PodRequest, nodes: Nodes) -> bool:
        return bool(request.spread)

    def allows(self, request: PodRequest, nodes: Nodes) -> NodeMask:
        allowed = has_all_keys(request.spread, nodes)
        counted = allowed & nodes.present()
        for rule in request.spread:
            allowed &= ~_is_skewed(rule, request, nodes, counted)
        return allowed

    def cares(self, request: PodRequest, nodes: Nodes) -> bool:
        return bool(request.soft_spread)

    def rank(self, request: PodRequest, nodes: Nodes, left: NodeMask) -> NodeScores:
        return rated(request.soft_spread, request, nodes, left)

    def reasons(self, request: PodRequest, nodes: Nodes) -> Iterable[Reason]:
        keyless = ~has_all_keys(request.spread, nodes)
        skewed = ~self.allows(request, nodes) & ~keyless
        yield Reason(f"{self.refusal} (missing required label)", keyless, nodes.none())
        yield Reason(self.refusal, skewed, skewed)


def _is_skewed(rule: SpreadRule, request: PodRequest, nodes: Nodes, counted: NodeMask) -> NodeMask:
    domains = nodes.domains(rule.topology_key)
    counted = counted & welcome(rule, request, nodes)
    there = np.flatnonzero(counted)
    if not len(there):
        return nodes.none()
    sums, seen = _by_domain(domains, matching(rule, request, nodes), there)
    fewest = 0 if np.count_nonzero(seen) < rule.min_domains else int(sums[seen].min())
    itself = nodes.means_itself(request, (_term(rule, request),))
    skewed: NodeMask = sums[domains] + int(itself) - fewest > rule.max_skew
    return skewed


def _by_domain(domains: Codes, counts: PerNode, rows: PerNode) -> tuple[PerNode, NodeMask]:
    """Pods in each domain over these rows, and which domains there are among them."""
    size = int(domains.max()) + 2  # one more, so that code -1 finds a zero at the end
    sums = np.bincount(domains[rows], weights=counts[rows], minlength=size).astype(np.int64)
    seen = np.zeros(size, dtype=np.bool_)
    seen[domains[rows]] = True
    return sums, seen


def _term(rule: SpreadRule, request: PodRequest) -> PodTerm:
    return PodTerm(rule.topology_key, rule.selector, (request.namespace,))
