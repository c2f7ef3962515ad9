"""What one queue asks for, is guaranteed and gets, by resource."""

from math import inf

from fairlead.model.queues import QueueSpec, Sharing
from fairlead.queue.quotas.fair_share import QueueDemand

_NO_WEIGHT = 1e-12


class ShareNode:
    """One queue; the one without a parent is the cluster."""

    __slots__ = (
        "_not_lent", "_weights", "below", "children", "dirty", "guaranteed", "has_weights", "key",
        "limit", "most", "own", "parent", "past", "promised", "promised_below", "rule", "shares",
        "spec", "uncontended", "weight_below",
    )  # fmt: skip

    def __init__(self, spec: QueueSpec, parent: "ShareNode | None") -> None:
        self.key = spec.key
        self.spec = spec
        self.parent = parent
        self.children: dict[str, ShareNode] = {}
        self.past = 0.0
        #: By resource: what its own units use and ask for; the same of all beneath, at most the
        #: limit; of that, what is guaranteed; and its share.
        self.own: dict[str, int] = {}
        self.most: dict[str, float] = {}
        self.promised: dict[str, float] = {}
        self.shares: dict[str, float] = {}
        #: Sums over the children of `most` and of `promised`.
        self.below: dict[str, float] = {}
        self.promised_below: dict[str, float] = {}
        #: Resources that are to be divided again among the children, and those of which each child
        #: had all that it asked for.
        self.dirty: set[str] = set()
        self.uncontended: set[str] = set()
        self.weight_below = 0.0
        #: How its share is divided among its children.
        self.rule = Sharing.CONTINUOUS
        self.put(spec)

    def put(self, spec: QueueSpec) -> None:
        if self.parent is not None:
            known = self.key in self.parent.children
            self.parent.weight_below += spec.weight - (self.spec.weight if known else 0.0)
            self.parent.children[self.key] = self
        self.spec = spec
        self.guaranteed, self.limit = dict(spec.guaranteed), dict(spec.limit)
        self._weights, self._not_lent = dict(spec.weights), dict(spec.not_lent)
        #: Whether its weight depends on the resource.
        self.has_weights = bool(self._weights)

    @property
    def depth(self) -> int:
        return self.parent.depth + 1 if self.parent else 0

    def move(self, parent: "ShareNode | None") -> None:
        """What it asks for counts there from now on; None: it is gone."""
        self._count_above(-1)
        if self.parent is not None:
            del self.parent.children[self.key]
        self.parent = parent
        if parent is not None:
            parent.children[self.key] = self
        self._count_above(+1)

    def _count_above(self, sign: int) -> None:
        if (above := self.parent) is None:
            return
        above.weight_below += sign * self.spec.weight
        for sums, amounts in (
            (above.below, self.most),
            (above.promised_below, self.promised),
        ):
            for resource, amount in amounts.items():
                sums[resource] = sums.get(resource, 0) + sign * amount

    def weight(self, resource: str) -> float:
        return self._weights.get(resource, self.spec.weight) if self._weights else self.spec.weight

    def corrected_weight(self, resource: str) -> float:
        """As in the division among its siblings."""
        weight = self.weight(resource)
        if not self.past or not weight or self.parent is None:
            return weight
        return weight * weight / (weight + self.past * max(weight, self.parent.weight_below))

    def divisor(self, resource: str) -> float:
        """The same, and next to nothing for a weight of 0."""
        if not self.past and not self._weights:
            return self.spec.weight or _NO_WEIGHT
        return self.corrected_weight(resource) or _NO_WEIGHT

    def asked(self, resource: str) -> float:
        """By its own units and its children."""
        return self.own.get(resource, 0) + self.below.get(resource, 0)

    def compute(self, resource: str) -> bool:
        """From its own units and its children; whether anything changed."""
        most = min(self.asked(resource), self.limit.get(resource, inf))
        guaranteed: float | None = self.guaranteed.get(resource)
        if guaranteed is None:  # what is guaranteed to its children
            guaranteed = self.promised_below.get(resource, 0)
        if self._not_lent:  # the others do without what it does not use
            most = max(most, self._not_lent.get(resource, 0))
        promised = min(most, guaranteed)
        more = most - self.most.get(resource, 0)
        more_promised = promised - self.promised.get(resource, 0)
        if not more and not more_promised:
            return False
        self.most[resource], self.promised[resource] = most, promised
        if self.parent is not None:
            above = self.parent
            above.below[resource] = above.below.get(resource, 0) + more
            above.promised_below[resource] = above.promised_below.get(resource, 0) + more_promised
        return True

    def demand(self, resource: str) -> QueueDemand:
        spec = self.spec
        return QueueDemand(
            self.most.get(resource, 0),
            self.promised.get(resource, 0),
            self.weight(resource),
            self.past,
            spec.priority,
            spec.created_s,
            spec.uid,
        )
