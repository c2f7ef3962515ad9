"""HyperNodes of Volcano: sets of nodes, each of a tier, that may contain those of lower tiers."""

from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.name_patterns import NamePattern
from fairlead.model.nodes import Node
from fairlead.model.selectors import LabelSelector


@dataclass(frozen=True, slots=True)
class HyperNode:
    name: str
    #: 1 is the nearest.
    tier: int
    #: By which rules may name the tier.
    tier_name: str = ""
    nodes: frozenset[str] = frozenset()
    patterns: tuple[NamePattern, ...] = ()
    selectors: tuple[LabelSelector, ...] = ()
    #: Names of the HyperNodes that it contains.
    hyper_nodes: tuple[str, ...] = ()

    @property
    def selects(self) -> bool:
        """Whether nodes have to be looked at to know which ones it contains."""
        return bool(self.patterns or self.selectors)

    @property
    def comparisons(self) -> int:
        """How many patterns and selectors each node is compared with."""
        return len(self.patterns) + len(self.selectors)

    def matches(self, node: Node) -> bool:
        """By a pattern of its name or by its labels."""
        return any(each.matches(node.name) for each in self.patterns) or any(
            each.matches(node.labels) for each in self.selectors
        )
