"""Which devices a search tries for a request, as far as that is known before the search."""

from collections import Counter
from collections.abc import Sequence

from fairlead.claims.capacity import Amounts
from fairlead.claims.constraints import (
    ForgetfulDistinctConstraint,
    MatchConstraint,
    TypedValue,
)
from fairlead.claims.errors import AllocationError
from fairlead.claims.pools import DeviceCandidate, DevicePool
from fairlead.claims.requests import Preparation, WantedDevices
from fairlead.claims.trial_state import TrialState

_OfPool = tuple[DevicePool, list[DeviceCandidate]]
#: All that matters of a device in a search: of two that are equal, the second fails like the first.
Twin = tuple[object, ...]


class CandidateField:
    """Candidates of each request.

    Where a selector fails on some device, all devices of the node are candidates and are checked
    one by one, because the error counts only if the search comes that far.
    """

    def __init__(
        self,
        preparation: Preparation,
        state: TrialState,
        requests: Sequence[list[list[WantedDevices]]],
    ) -> None:
        self._preparation, self._state, self._requests = preparation, state, requests
        self._wanted = [each for claim in requests for request in claim for each in request]
        #: By kind of request: devices that can serve it, in use or not, by pool.
        self._usable: dict[object, list[_OfPool]] = {}
        #: Of these, the ones that are free; the list of all pools, and its parts by identity.
        self._parts: dict[int, list[_OfPool]] = {}
        self._lists: dict[int, list[DeviceCandidate]] = {}
        #: Nothing about a candidate is left to check but what depends on the choices before.
        self.is_checked = self._filter()
        constraints = [each for of_claim in state.constraints for each in of_claim]
        self._attributes = [constraint.attribute for constraint in constraints]
        has_all = any(wanted.every is not None for wanted in self._wanted)
        #: Errors of constraints are possible.
        self._may_fail = has_all and bool(constraints)
        self.prunes = (
            self.is_checked
            and not self._may_fail
            and not any(isinstance(each, ForgetfulDistinctConstraint) for each in constraints)
            and not any(wanted.need.admin_access for wanted in self._wanted)
        )
        self._every: list[DeviceCandidate] | None = None
        self._members: list[set[int]] | None = None
        self._twins: dict[int, Twin | None] = {}

    def candidates(self, wanted: WantedDevices) -> list[DeviceCandidate]:
        if self.is_checked:
            return self._lists[id(wanted)]
        if self._every is None:
            self._every = self._preparation.of_node.candidates
        return self._every

    def admits(self, claim: int, wanted: WantedDevices, candidate: DeviceCandidate) -> bool:
        """Whether the device is worth choosing. Raises AllocationError."""
        if not self.is_checked and (
            self._state.is_taken(claim, wanted, candidate.key)
            or not self._preparation.selectable(wanted, candidate)
        ):
            return False
        amounts = self._amounts(wanted, candidate)
        return amounts is not None and self._state.has_capacity(candidate, amounts)

    def is_hopeless(self) -> bool:
        """Some request has not enough candidates, whatever is chosen for others."""
        if not self.is_checked or self._may_fail:
            return False
        if any(
            all(self._is_too_much(wanted) for wanted in request)
            for claim in self._requests
            for request in claim
        ):
            return True
        if self._is_beyond_counters():
            return True
        return any(
            isinstance(constraint, MatchConstraint) and self._has_no_value(number, constraint)
            for number, constraints in enumerate(self._state.constraints)
            for constraint in constraints
        )

    def _is_beyond_counters(self) -> bool:
        """Equal requests need more devices than shared counters allow."""
        if self._preparation.of_node.has_shares:
            return False
        totals: Counter[int] = Counter()
        lists: dict[int, list[DeviceCandidate]] = {}
        for wanted in (request[0] for claim in self._requests for request in claim):
            if wanted.every is None and not wanted.alternative and not wanted.need.admin_access:
                found = self._lists[id(wanted)]
                lists[id(found)] = found
                totals[id(found)] += wanted.count
        return any(
            count > 1 and count > min(len(lists[key]), self._most(lists[key]))
            for key, count in totals.items()
        )

    def _most(self, free: list[DeviceCandidate]) -> int:
        """An upper bound for how many of the devices can be chosen together."""
        counters, usage = self._state.counters, self._state.usage
        return sum(
            len(each)
            if not pool.counters
            else pool.index.most(each, counters.of_pool(pool), usage)
            if pool.index is not None
            else counters.of_pool(pool).most(each)
            for pool, each in self._parts[id(free)]
        )

    def _has_no_value(self, claim: int, constraint: MatchConstraint) -> bool:
        """No value of the attribute is that of enough devices, in use or not."""
        of_node = self._preparation.of_node
        needed: dict[object, int] = {}
        for wanted in (each[0] for each in self._requests[claim] if len(each) == 1):
            if wanted.every is None and constraint.concerns(wanted.request, wanted.alternative):
                before = needed.get(wanted.kind, 0)
                # A device that can be shared, or seen by admins, serves several requests.
                several = of_node.has_shares or wanted.need.admin_access
                needed[wanted.kind] = (
                    max(before, wanted.count) if several else before + wanted.count
                )
        values: set[TypedValue | None] | None = None
        for kind, count in needed.items():
            counts = self._counts(kind, constraint.attribute)
            enough = {value for value, known in counts.items() if known >= count} - {None}
            values = enough if values is None else values & enough
        return values is not None and not values

    def _counts(self, kind: object, attribute: str) -> Counter[TypedValue | None]:
        """How many devices that can serve this have which value of the attribute."""
        if not self._usable[kind]:
            return Counter()
        first, *others = (
            pool.index.counts(usable, attribute)
            if pool.index is not None
            else Counter(pool.value(each, attribute) for each in usable)
            for pool, usable in self._usable[kind]
        )
        if not others:
            return first
        self._preparation.turn.spend(devices=len(first) + sum(map(len, others)))
        return sum(others, first)

    def twin(self, candidate: DeviceCandidate) -> Twin | None:
        """Equal for devices that are equal to all requests; None: nothing is equal to it."""
        if not self.prunes or candidate.device.form.shareable:
            return None
        known = self._twins.get(id(candidate))
        if known is None:
            if self._members is None:
                tried = {id(each): each for each in map(self._tried, self._wanted)}
                self._members = [set(map(id, each)) for each in tried.values()]
            known = self._twins[id(candidate)] = (
                tuple(id(candidate) in members for members in self._members),
                candidate.device.form.consumes,
                candidate.pool.key if candidate.device.form.consumes else None,
                tuple(candidate.pool.value(candidate, name) for name in self._attributes),
            )
        return known

    def _tried(self, wanted: WantedDevices) -> list[DeviceCandidate]:
        return self._lists[id(wanted)] if wanted.every is None else wanted.every

    def _is_too_much(self, wanted: WantedDevices) -> bool:
        if wanted.every is not None:
            return not wanted.every
        return len(self._lists[id(wanted)]) < wanted.count

    def _filter(self) -> bool:
        """Candidates of all requests; False: some device is an error for some request."""
        same: dict[object, list[DeviceCandidate]] = {}
        for wanted in self._wanted:
            if wanted.every is not None:
                continue
            usable = self._usable.get(wanted.kind) or self._found(wanted)
            if usable is None:
                return False
            key = (wanted.need.admin_access, *[id(each) for _, each in usable])
            if key not in same:
                same[key] = self._joined(usable, is_admin=wanted.need.admin_access)
            self._lists[id(wanted)] = same[key]
        return True

    def _found(self, wanted: WantedDevices) -> list[_OfPool] | None:
        """By pool; None: some device is an error."""
        found: list[_OfPool] = []
        for pool in self._preparation.of_node.pools:
            usable = self._preparation.usable(wanted, pool)
            if usable is None:
                return None
            found.append((pool, usable))
        self._usable[wanted.kind] = found
        return found

    def _joined(self, usable: list[_OfPool], *, is_admin: bool) -> list[DeviceCandidate]:
        """What is free of all pools."""
        free = usable if is_admin else [(pool, self._free(pool, each)) for pool, each in usable]
        found = free[0][1] if len(free) == 1 else [each for _, some in free for each in some]
        self._parts[id(found)] = free
        return found

    def _free(self, pool: DevicePool, usable: list[DeviceCandidate]) -> list[DeviceCandidate]:
        usage, blocked = self._state.usage, self._state.blocked
        if pool.index is not None:
            usable = pool.index.free(usable, usage)
            return [each for each in usable if each.key not in blocked] if blocked else usable
        whole = usage.whole
        if blocked:
            usable = [each for each in usable if each.key not in blocked]
        # Where nothing is held, nearly all fit: the search finds out about the few it comes to.
        if not usage.stamp(pool.key):
            return usable
        free = [each for each in usable if each.key not in whole]
        return self._state.counters.of_pool(pool).without_too_large(free) if pool.counters else free

    def _amounts(self, wanted: WantedDevices, candidate: DeviceCandidate) -> Amounts | None:
        try:
            return wanted.amounts(candidate.device.form, self._preparation.rules)
        except AllocationError as error:
            where = f"claim {wanted.claim}, request {wanted.own_name}"
            text = f"checking capacity for device {candidate.key}"
            raise AllocationError(f"{where}: {text}: {error}") from None
