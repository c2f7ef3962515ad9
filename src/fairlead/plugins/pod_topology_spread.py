"""Pods that belong together are kept evenly spread over zones, racks or nodes."""

from collections.abc import Iterable
from typing import ClassVar, Final, Literal

from fairlead.cluster.arrays import NodeMask, NodeScores
from fairlead.cluster.aspects import Aspect
from fairlead.cluster.nodes import Nodes
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.pods import PodField, PodRequest
from fairlead.model.selectors import SpreadRule
from fairlead.plugins.api import Reason
from fairlead.plugins.hard_spread import SpreadTrial, is_skewed
from fairlead.plugins.soft_spread import rated
from fairlead.plugins.spreading import Rules, has_all_keys

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
    resolvable: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.defaulting == "System" and self.default_constraints:
            raise ValueError('default_constraints need defaulting: "List"')
        kept = {(c.topology_key, c.when_unsatisfiable) for c in self.default_constraints}
        if len(kept) < len(self.default_constraints):
            raise ValueError("default_constraints: one for each key and whenUnsatisfiable")

    @property
    def pod_fields(self) -> PodField:
        return PodField.DEFAULT_SELECTOR if self._defaults else PodField(0)

    @property
    def filter_pod_fields(self) -> PodField:
        return (
            PodField.DEFAULT_SELECTOR
            if _HARD in {c.when_unsatisfiable for c in self._defaults}
            else PodField(0)
        )

    @property
    def _defaults(self) -> tuple[DefaultConstraint, ...]:
        return _SYSTEM if self.defaulting == "System" else self.default_constraints

    def _rules(self, request: PodRequest, own: Rules, action: str) -> Rules:
        """The pod's own rules of a kind; the profile's if it has none of any kind."""
        if request.default_selector is None:
            return own
        chosen = (c for c in self._defaults if c.when_unsatisfiable == action)
        return tuple(
            SpreadRule(c.topology_key, c.max_skew, request.default_selector) for c in chosen
        )

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
            allowed &= ~is_skewed(rule, request, nodes, counted)
        return allowed

    def applies_as_score(self, request: PodRequest, nodes: Nodes) -> bool:
        return bool(self._soft(request))

    def rank(self, request: PodRequest, nodes: Nodes, left: NodeMask) -> NodeScores:
        # kube-scheduler's own defaults also serve nodes that are in no zone.
        lenient = self.defaulting == "System" and request.default_selector is not None
        return rated(self._soft(request), request, nodes, left, lenient=lenient)

    def reasons(self, request: PodRequest, nodes: Nodes) -> Iterable[Reason]:
        return self._reasons(request, nodes, None)

    def reasons_without(
        self, request: PodRequest, nodes: Nodes, below: int
    ) -> Iterable[Reason]:  # fmt: skip
        """The same if the pods below a priority had left the node, and only that."""
        return self._reasons(request, nodes, below)

    def _reasons(self, request: PodRequest, nodes: Nodes, below: int | None) -> Iterable[Reason]:
        """A node has one: that of the first rule it breaks, in the order in which they stand."""
        rules = self._hard(request)
        counted = has_all_keys(rules, nodes) & nodes.present()
        left, keyless, skewed = nodes.all(), nodes.none(), nodes.none()
        for rule in rules:
            lacking = left & ~nodes.has_label(rule.topology_key)
            breaking = left & ~lacking & is_skewed(rule, request, nodes, counted, below)
            keyless |= lacking
            skewed |= breaking
            left &= ~(lacking | breaking)
        yield Reason(f"{self.refusal} (missing required label)", keyless, nodes.none())
        yield Reason(self.refusal, skewed, skewed)

    def trial(self, request: PodRequest, nodes: Nodes) -> SpreadTrial:
        return SpreadTrial(self._hard(request), request, nodes)
