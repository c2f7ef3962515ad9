"""What a search has chosen so far, and whether one more device can be chosen beside it."""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import field

from fairlead.claims.capacity import Amounts, fits
from fairlead.claims.constraints import Constraint
from fairlead.claims.counters import SearchCounters
from fairlead.claims.errors import AllocationError
from fairlead.claims.pools import DeviceCandidate, NodePools
from fairlead.claims.requests import WantedDevices
from fairlead.claims.usage import DeviceUsage
from fairlead.model.behaviour import Behaviour
from fairlead.model.claims import DeviceId
from fairlead.model.devices import Exact
from fairlead.model.lazy_dataclass import dataclass

_NO_CLAIMS: AbstractSet[int] = frozenset()
_NO_AMOUNTS: Mapping[str, Exact] = {}


@dataclass(slots=True, eq=False)
class Choice:
    """A device chosen for a request, and what to undo with it."""

    wanted: WantedDevices
    candidate: DeviceCandidate
    amounts: Amounts
    took_counters: bool = False
    constraints: list[Constraint] = field(default_factory=list)


@dataclass(slots=True)
class _Shares:
    """Shares of one device that this search has chosen."""

    count: int = 0
    amounts: dict[str, Exact] = field(default_factory=dict)


class TrialState:
    """Choices of a search by claim; each can be undone, last first."""

    def __init__(
        self,
        of_node: NodePools,
        usage: DeviceUsage,
        blocked: AbstractSet[DeviceId],
        rules: Behaviour,
        constraints: list[list[Constraint]],
    ) -> None:
        self.of_node, self.usage, self.blocked, self.rules = of_node, usage, blocked, rules
        self.constraints = constraints
        self.choices: list[list[Choice]] = [[] for _ in constraints]
        self._chosen: dict[DeviceId, set[int]] = {}
        self._shares: dict[DeviceId, _Shares] = {}
        self.counters = SearchCounters(usage)

    def is_taken(self, claim: int, wanted: WantedDevices, key: DeviceId) -> bool:
        """The device is in use; with admin access: chosen for the same claim."""
        chosen = self._chosen.get(key, _NO_CLAIMS)
        if wanted.need.admin_access:
            return claim in chosen
        return bool(chosen) or self.is_used(key)

    def is_used(self, key: DeviceId) -> bool:
        """The device is in use, whatever this search chooses."""
        return key in self.usage.whole or key in self.blocked

    def has_capacity(self, candidate: DeviceCandidate, amounts: Amounts) -> bool:
        """Beside shares that claims have, and that this search has chosen."""
        key = candidate.key
        used = self.usage.consumed(key)
        shares = self._shares.get(key)
        chosen = shares.amounts if shares is not None else _NO_AMOUNTS
        return fits(candidate.device.form, amounts, used, chosen)

    def choose(
        self, claim: int, wanted: WantedDevices, candidate: DeviceCandidate, *, must: bool = False
    ) -> bool:
        """Choose a device that selectors select. `must`: raises AllocationError at constraints."""
        form, key = candidate.device.form, candidate.key
        if self.is_taken(claim, wanted, key):
            return False
        amounts = wanted.amounts(form, self.rules)
        choice = Choice(wanted, candidate, amounts or ())
        if form.consumes and not (form.shareable and self._is_shared(key)):
            if not self.counters.of(candidate).take(form):
                return False
            choice.took_counters = True
        if (
            not wanted.tolerates(form)
            or not self._satisfies(claim, choice, must=must)
            or amounts is None
            or not self.has_capacity(candidate, amounts)
        ):
            self._take_back(choice)
            return False
        self._mark(claim, choice)
        return True

    def undo(self, claim: int) -> None:
        """Undo the last choice of the claim."""
        choice = self.choices[claim].pop()
        key = choice.candidate.key
        if choice.candidate.device.form.shareable:
            shares = self._shares[key]
            shares.count -= 1
            for name, amount in choice.amounts:
                shares.amounts[name] -= amount
            if not shares.count:
                del self._shares[key]
        else:
            self._chosen[key].discard(claim)
        self._take_back(choice)

    def _is_shared(self, key: DeviceId) -> bool:
        if key in self._shares or self.usage.is_consumed(key):
            return True
        return self.rules.strict_capacity and self.usage.is_shared(key)

    def _satisfies(self, claim: int, choice: Choice, *, must: bool) -> bool:
        wanted, candidate = choice.wanted, choice.candidate
        for constraint in self.constraints[claim]:
            if not constraint.concerns(wanted.request, wanted.alternative):
                continue
            value = candidate.pool.value(candidate, constraint.attribute)
            if not constraint.add(wanted.request, value):
                if must:
                    raise self._unsatisfied(choice)
                return False
            choice.constraints.append(constraint)
        return True

    @staticmethod
    def _unsatisfied(choice: Choice) -> AllocationError:
        wanted = choice.wanted
        where = f"claim {wanted.claim}, request {wanted.own_name}"
        reason = "because a claim constraint would not be satisfied"
        return AllocationError(f"{where}: cannot add device {choice.candidate.key} {reason}")

    def _mark(self, claim: int, choice: Choice) -> None:
        key = choice.candidate.key
        self.choices[claim].append(choice)
        if not choice.candidate.device.form.shareable:
            self._chosen.setdefault(key, set()).add(claim)
            return
        shares = self._shares.setdefault(key, _Shares())
        shares.count += 1
        for name, amount in choice.amounts:
            shares.amounts[name] = shares.amounts.get(name, 0) + amount

    def _take_back(self, choice: Choice) -> None:
        for constraint in reversed(choice.constraints):
            constraint.remove(choice.wanted.request)
        if choice.took_counters:
            self.counters.of(choice.candidate).give_back(choice.candidate.device.form)
