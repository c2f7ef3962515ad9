"""Devices for the claims of a pod on a node: the ones that kube-scheduler would choose."""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING

from fairlead.claims.constraints import Constraint, constraint_of
from fairlead.claims.errors import AllocationError, InvalidPools
from fairlead.claims.inventory import EVALUATIONS, DeviceInventory
from fairlead.claims.pools import NodePools
from fairlead.claims.requests import Preparation, PreparedClaims, WantedDevices
from fairlead.claims.results import claim_allocation
from fairlead.claims.search import DeviceSearch
from fairlead.claims.trial_state import Choice, TrialState
from fairlead.claims.turn_limit import STEPS_OF_EVALUATION
from fairlead.claims.usage import DeviceUsage
from fairlead.model.claims import Allocation, DeviceId, ResourceClaim
from fairlead.model.devices import DeviceClass
from fairlead.model.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from fairlead.claims.columns import Codes
    from fairlead.claims.device_counts import DeviceCounts
    from fairlead.claims.glance import NodeGlance

#: Steps of one search: kube-scheduler stops after ten seconds, this after some tenths of a second.
STEP_LIMIT = 20_000
#: Expressions that are evaluated for one node: some tenths of a second.
_NODE_EVALUATIONS = 8000
#: The preparation of a request takes as long as so many steps.
_STEPS_OF_PREPARATION = 6


@dataclass(frozen=True, slots=True)
class _Found:
    """The devices of the last search, and what they depend on.

    A node is asked again for the next claims as soon as it has changed, and once more when a pod is
    placed there: where pods are packed, that is the same question. So it is for all nodes that see
    the same pools.
    """

    claims: Sequence[ResourceClaim]
    of_node: NodePools
    stamps: tuple[int, ...]
    blocked: AbstractSet[DeviceId]
    prepared: PreparedClaims
    #: By claim: the requests, or their alternatives, that devices were chosen for, and the devices;
    #: None: there are not enough devices.
    chosen: tuple[tuple[list[WantedDevices], list[Choice]], ...] | None

    def answers(
        self,
        claims: Sequence[ResourceClaim],
        of_node: NodePools,
        usage: DeviceUsage,
        blocked: AbstractSet[DeviceId],
        classes: Mapping[str, DeviceClass],
    ) -> bool:
        """Whether a search would choose the same."""
        return (
            self.of_node is of_node
            and self.stamps == _stamps(of_node, usage)
            and self.blocked == blocked
            and len(claims) == len(self.claims)
            and all(map(_is_alike, claims, self.claims))
            and self.prepared.has_classes(classes)
        )


def _is_alike(one: ResourceClaim, other: ResourceClaim) -> bool:
    return one.requests == other.requests and one.constraints == other.constraints


def _stamps(of_node: NodePools, usage: DeviceUsage) -> tuple[int, ...]:
    return tuple(usage.stamp(pool.key) for pool in of_node.pools)


class Allocator:
    """Pure: it reads slices, classes and usage. Best kept: it remembers the last claims."""

    def __init__(
        self,
        inventory: DeviceInventory,
        classes: Mapping[str, DeviceClass],
        usage: DeviceUsage,
        step_limit: int = STEP_LIMIT,
    ) -> None:
        self._inventory, self._classes, self._usage = inventory, classes, usage
        self._step_limit = step_limit
        self._kept: PreparedClaims | None = None
        self._found: _Found | None = None
        self._glance: NodeGlance | None = None
        #: All steps of all searches: the work that was done.
        self.steps = 0
        #: Steps of preparations: for requests and alternatives, once for each node.
        self._preparing = 0

    @property
    def work(self) -> int:
        """All that was done until now, in steps."""
        return self.steps + self._preparing + STEPS_OF_EVALUATION * self._inventory.answers.work

    def allocate(
        self,
        node: str,
        labels: Mapping[str, str],
        claims: Sequence[ResourceClaim],
        blocked: AbstractSet[DeviceId] = frozenset(),
    ) -> tuple[Allocation, ...] | None:
        """One allocation for each claim; None: there are not enough devices.

        `blocked` devices are in use by something that is not a claim. Raises AllocationError, which
        concerns all nodes, and InvalidPools, which concerns this one.
        """
        of_node = self._inventory.on(node, labels)
        found = self._found
        if found is None or not found.answers(
            claims, of_node, self._usage, blocked, self._classes
        ):  # fmt: skip
            found = self._found = self._searched(node, of_node, claims, blocked)
        if found.chosen is None:
            if any(pool.invalid for pool in of_node.pools):
                raise InvalidPools
            return None
        merges = self._inventory.behaviour.merges_device_configs
        return tuple(
            claim_allocation(claim, taken, choices, node, merges=merges)
            for claim, (taken, choices) in zip(claims, found.chosen, strict=True)
        )

    def _searched(
        self,
        node: str,
        of_node: NodePools,
        claims: Sequence[ResourceClaim],
        blocked: AbstractSet[DeviceId],
    ) -> _Found:
        """A search that the turn ends goes on in the next one: what it needs is kept until then."""
        try:
            found = self._search(node, of_node, claims, blocked)
        except AllocationError:
            of_node.forget()
            raise
        of_node.forget()
        return found

    def _search(
        self,
        node: str,
        of_node: NodePools,
        claims: Sequence[ResourceClaim],
        blocked: AbstractSet[DeviceId],
    ) -> _Found:
        rules, answers = self._inventory.behaviour, self._inventory.answers
        turn = self._inventory.turn
        preparation = Preparation(self._classes, of_node, answers, self._usage, rules, node, turn)
        with answers.limited(_NODE_EVALUATIONS, f"node {node}: "):
            requests, constraints = self._prepared(claims, preparation)
            state = TrialState(of_node, self._usage, blocked, rules, constraints)
            search = DeviceSearch(preparation, state, requests, self._step_limit)
            try:
                found = search.run()
            finally:
                self.steps += search.steps
        prepared = PreparedClaims(list(claims), requests)
        stamps = _stamps(of_node, self._usage)
        if not found:
            return _Found(claims, of_node, stamps, blocked, prepared, None)
        taken = (
            [each[search.taken[number, place]] for place, each in enumerate(of_claim)]
            for number, of_claim in enumerate(requests)
        )
        chosen = tuple(zip(taken, state.choices, strict=True))
        return _Found(claims, of_node, stamps, blocked, prepared, chosen)

    def glance(
        self, nodes: Sequence[str], claims: Sequence[ResourceClaim], evaluations: int = EVALUATIONS
    ) -> "Codes":
        """For each node ASK, NO or YES: what `allocate` would say, as far as counts decide it.

        Raises AllocationError, which concerns all nodes; SearchLimit: it takes too long, with so
        many evaluations; LookUnfinished: the turn is over.
        """
        with self._inventory.answers.limited(evaluations, "all nodes: "):
            return self._at_a_glance().codes(nodes, *self._prepared_for_all(claims))

    def counts(
        self, nodes: Sequence[str], claims: Sequence[ResourceClaim], evaluations: int = EVALUATIONS
    ) -> "list[DeviceCounts] | None":
        """Devices of each kind that the claims ask for; None: they cannot be counted.

        Raises as `glance` does.
        """
        with self._inventory.answers.limited(evaluations, "all nodes: "):
            return self._at_a_glance().counts(nodes, self._prepared_for_all(claims)[0])

    def _at_a_glance(self) -> "NodeGlance":
        from fairlead.claims.glance import NodeGlance

        if self._glance is None:
            self._glance = NodeGlance(self._inventory, self._usage)
        return self._glance

    def _prepared_for_all(
        self, claims: Sequence[ResourceClaim]
    ) -> tuple[list[list[list[WantedDevices]]], list[list[Constraint]]]:
        """For all nodes at once."""
        rules, answers = self._inventory.behaviour, self._inventory.answers
        nothing = NodePools({}, [])
        turn = self._inventory.turn
        preparation = Preparation(self._classes, nothing, answers, self._usage, rules, "", turn)
        return self._prepared(claims, preparation)

    def _prepared(
        self, claims: Sequence[ResourceClaim], preparation: Preparation
    ) -> tuple[list[list[list[WantedDevices]]], list[list[Constraint]]]:
        """Nodes are asked for the same claims one after another: what is the same is kept."""
        kept = self._kept
        asked = sum(len(each.first_available) or 1 for claim in claims for each in claim.requests)
        self._preparing += asked
        if kept is not None and kept.is_for(claims, self._classes):
            return kept.requests, [self._constraints(claim) for claim in claims]
        self._preparing += _STEPS_OF_PREPARATION * asked
        requests, constraints = [], []
        for claim in claims:
            requests.append(preparation.claim(claim))
            constraints.append(self._constraints(claim))
        self._kept = PreparedClaims(list(claims), requests)
        return requests, constraints

    def _constraints(self, claim: ResourceClaim) -> list[Constraint]:
        forgetful = not self._inventory.behaviour.distinct_within_request
        found: list[Constraint] = []
        for number, spec in enumerate(claim.constraints):
            constraint = constraint_of(spec, forgetful=forgetful)
            if constraint is None:
                text = "empty constraint (unsupported constraint type?)"
                raise AllocationError(f"claim {claim.key}, constraint #{number}: {text}")
            found.append(constraint)
        return found
