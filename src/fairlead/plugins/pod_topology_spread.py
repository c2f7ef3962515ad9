"""Pods that belong together are kept evenly spread over zones, racks or nodes."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, Final, Literal

import numpy as np

from fairlead.cluster.arrays import Codes, NodeMask, NodeScores, PerNode
from fairlead.cluster.aspects import Aspect
from fairlead.cluster.nodes import Nodes
from fairlead.model.pods import PodRequest, Side
from fairlead.model.selectors import PodTerm, SpreadRule
from fairlead.plugins.api import Reason
from fairlead.plugins.soft_spread import rated
from fairlead.plugins.spreading import Rules, has_all_keys, matching, welcome

_HARD: Final = "DoNotSchedule"
_SOFT: Final = "ScheduleAnyway"


@dataclass(frozen=True, slots=True)
class DefaultConstraint:
    """For pods without constraints of their own, counting those that belong with them."""

    topology_key: str
    max_skew: int
    when_unsatisfiable: Literal["DoNotSchedule", "ScheduleAnyway"]

    def __post_init__(self) -> None:
        if not self.topology_key or self.max_skew < 1:
            raise ValueError("default_constraints: give a topology_key and a max_skew above 0")


_SYSTEM = (
    DefaultConstraint("kubernetes.io/hostname", 3, _SOFT),
    DefaultConstraint("topology.kubernetes.io/zone", 5, _SOFT),
)


@dataclass(frozen=True, slots=True)
class PodTopologySpread:
    """Refuses a domain that would be more than maxSkew ahead of the emptiest one.

    Of the others it likes those best that soft rules (ScheduleAnyway) find emptiest.
    """

    #: How pods that say nothing themselves are spread: "System" as kube-scheduler does by itself,
    #: "List" by `default_constraints`.
    defaulting: Literal["System", "List"] = "List"
    default_constraints: tuple[DefaultConstraint, ...] = ()
    name: ClassVar[str] = "PodTopologySpread"
    reads: ClassVar[Aspect] = Aspect.PODS | Aspect.LABELS | Aspect.TAINTS
    refusal: ClassVar[str] = "node(s) didn't match pod topology spread constraints"
    curable: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.defaulting == "System" and self.default_constraints:
            raise ValueError('default_constraints need defaulting: "List"')
        kept = {(c.topology_key, c.when_unsatisfiable) for c in self.default_constraints}
        if len(kept) < len(self.default_constraints):
            raise ValueError("default_constraints: one for each key and whenUnsatisfiable")

    @property
    def sides(self) -> Side:
        return Side.KIN if self._defaults else Side(0)

    @property
    def filter_sides(self) -> Side:
        return Side.KIN if _HARD in {c.when_unsatisfiable for c in self._defaults} else Side(0)

    @property
    def _defaults(self) -> tuple[DefaultConstraint, ...]:
        return _SYSTEM if self.defaulting == "System" else self.default_constraints

    def _rules(self, request: PodRequest, own: Rules, action: str) -> Rules:
        """The pod's own rules of a kind; the profile's if it has none of any kind."""
        if request.kin is None:
            return own
        chosen = (c for c in self._defaults if c.when_unsatisfiable == action)
        return tuple(SpreadRule(c.topology_key, c.max_skew, request.kin) for c in chosen)

    def _hard(self, request: PodRequest) -> Rules:
        return self._rules(request, request.spread, _HARD)

    def _soft(self, request: PodRequest) -> Rules:
        return self._rules(request, request.soft_spread, _SOFT)

    def applies(self, request: PodRequest, nodes: Nodes) -> bool:
        return bool(self._hard(request))

    def allows(self, request: PodRequest, nodes: Nodes) -> NodeMask:
        rules = self._hard(request)
        allowed = has_all_keys(rules, nodes)
        counted = allowed & nodes.present()
        for rule in rules:
            allowed &= ~_is_skewed(rule, request, nodes, counted)
        return allowed

    def cares(self, request: PodRequest, nodes: Nodes) -> bool:
        return bool(self._soft(request))

    def rank(self, request: PodRequest, nodes: Nodes, left: NodeMask) -> NodeScores:
        # kube-scheduler's own defaults also serve nodes that are in no zone.
        lenient = self.defaulting == "System" and request.kin is not None
        return rated(self._soft(request), request, nodes, left, lenient=lenient)

    def reasons(self, request: PodRequest, nodes: Nodes) -> Iterable[Reason]:
        """A node has one: that of the first rule it breaks, in the order in which they stand."""
        rules = self._hard(request)
        counted = has_all_keys(rules, nodes) & nodes.present()
        left, keyless, skewed = nodes.all(), nodes.none(), nodes.none()
        for rule in rules:
            lacking = left & ~nodes.has_label(rule.topology_key)
            breaking = left & ~lacking & _is_skewed(rule, request, nodes, counted)
            keyless |= lacking
            skewed |= breaking
            left &= ~(lacking | breaking)
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
