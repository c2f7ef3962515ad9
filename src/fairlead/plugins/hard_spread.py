"""How far a domain would be ahead of the emptiest one, for all nodes or for one of them."""

from collections.abc import Callable, Collection

import numpy as np

from fairlead.cluster.arrays import Codes, NodeMask, PerNode
from fairlead.cluster.nodes import Nodes
from fairlead.model.pods import Pod, PodRequest
from fairlead.model.selectors import PodTerm, SpreadRule
from fairlead.plugins.spreading import Rules, has_all_keys, matching, welcome

_NONE_ELSE = 2**62  # no other domain to compare with


def is_skewed(
    rule: SpreadRule, request: PodRequest, nodes: Nodes, counted: NodeMask, below: int | None = None
) -> NodeMask:
    """True where the rule is broken, or (below) would be if such pods had left the node."""
    found = _Domains(rule, request, nodes, counted)
    if not found.any:
        return nodes.none()
    sums = found.sums[found.domains]
    if below is None:
        skewed: NodeMask = sums + found.itself - found.fewest > rule.max_skew
        return skewed
    gone = np.where(found.there, matching(rule, request, nodes, below), 0)
    fewest = np.minimum(found.fewest_elsewhere(found.domains), sums - gone)
    fewest = fewest if found.enough else np.zeros_like(fewest)
    return sums - gone + found.itself - fewest > rule.max_skew


class SpreadTrial:
    """What hard rules would say of one node if other pods were there."""

    def __init__(self, rules: Rules, request: PodRequest, nodes: Nodes) -> None:
        self._keyed = has_all_keys(rules, nodes)
        counted = self._keyed & nodes.present()
        found = [_Domains(rule, request, nodes, counted) for rule in rules]
        self._rules = [each for each in found if each.any]

    def at(self, row: int, pods: Collection[Pod]) -> Callable[[], bool]:
        """Asks about the row as it is then."""
        if not self._keyed[row]:
            return lambda: False
        asked = [rule.at(row) for rule in self._rules]
        return lambda: all(allows() for allows in asked)


class _Domains:
    """The pods of each domain that one rule counts."""

    def __init__(
        self, rule: SpreadRule, request: PodRequest, nodes: Nodes, counted: NodeMask
    ) -> None:
        self._max_skew = rule.max_skew
        self.domains = nodes.domains(rule.topology_key)
        #: Where pods count.
        self.there = counted & welcome(rule, request, nodes)
        self.any = bool(self.there.any())
        self.counts = matching(rule, request, nodes)
        #: The counts follow the pods; what is summed up does not.
        self._before = self.counts.copy()
        if not self.any:
            return
        rows = np.flatnonzero(self.there)
        self.sums, self._seen = _by_domain(self.domains, self.counts, rows)
        self.enough = np.count_nonzero(self._seen) >= rule.min_domains
        smallest = np.sort(self.sums[self._seen])
        self._least = int(smallest[0])
        self._second = int(smallest[1]) if len(smallest) > 1 else _NONE_ELSE
        self.fewest = self._least if self.enough else 0
        term = PodTerm(rule.topology_key, rule.selector, (request.namespace,))
        self.itself = int(nodes.means_itself(request, (term,)))

    def fewest_elsewhere(self, domains: Codes) -> PerNode:
        """For each domain the fewest pods of any other."""
        alone = self._seen & (self.sums == self._least)
        found: PerNode = np.where(alone, self._second, self._least)[domains]
        return found

    def at(self, row: int) -> Callable[[], bool]:
        domain, here = int(self.domains[row]), bool(self.there[row])
        others = int(self.sums[domain]) - (int(self._before[row]) if here else 0)
        elsewhere = int(self.fewest_elsewhere(self.domains[row : row + 1])[0])
        seen, counts = bool(self._seen[domain]), self.counts

        def allows() -> bool:
            now = others + (counts.item(row) if here else 0)
            fewest = min(elsewhere, now) if seen else elsewhere
            return now + self.itself - (fewest if self.enough else 0) <= self._max_skew

        return allows


def _by_domain(domains: Codes, counts: PerNode, rows: PerNode) -> tuple[PerNode, NodeMask]:
    """Pods in each domain over these rows, and which domains there are among them."""
    size = int(domains.max()) + 2  # one more, so that code -1 finds a zero at the end
    sums = np.bincount(domains[rows], weights=counts[rows], minlength=size).astype(np.int64)
    seen = np.zeros(size, dtype=np.bool_)
    seen[domains[rows]] = True
    return sums, seen
