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
from fairlead.claims.pools import DeviceCandidate
from fairlead.claims.requests import Preparation, WantedDevices
from fairlead.claims.trial_state import TrialState

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
        self._every = preparation.of_node.candidates
        preparation.of_node.forget()
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
        self._members: list[set[int]] | None = None
        self._twins: dict[int, Twin | None] = {}

    def candidates(self, wanted: WantedDevices) -> list[DeviceCandidate]:
        return self._lists[id(wanted)] if self.is_checked else self._every

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
            count > 1 and count > self._state.counters.most(lists[key])
            for key, count in totals.items()
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
            counts = of_node.counts(kind, constraint.attribute)
            enough = {value for value, known in counts.items() if known >= count} - {None}
            values = enough if values is None else values & enough
        return values is not None and not values

    def twin(self, candidate: DeviceCandidate) -> Twin | None:
        """Equal for devices that are equal to all requests; None: nothing is equal to it."""
        if not self.prunes or candidate.device.form.shareable:
            return None
        known = self._twins.get(id(candidate))
        if known is None:
            if self._members is None:
                self._members = [
                    {id(each) for each in self._tried(wanted)} for wanted in self._wanted
                ]
            known = self._twins[id(candidate)] = (
                tuple(id(candidate) in members for members in self._members),
                candidate.device.form.consumes,
                candidate.pool.key if candidate.device.form.consumes else None,
                tuple(
                    self._preparation.of_node.value(candidate, name) for name in self._attributes
                ),
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
            usable = self._usable(wanted)
            if usable is None:
                return False
            kind = wanted.kind, wanted.need.admin_access
            if kind not in same:
                free = usable if wanted.need.admin_access else self._free(usable)
                same[kind] = self._with_counters(free)
            self._lists[id(wanted)] = same[kind]
        return True

    def _free(self, usable: list[DeviceCandidate]) -> list[DeviceCandidate]:
        whole, blocked = self._state.usage.whole, self._state.blocked
        if not blocked:
            return [each for each in usable if each.key not in whole]
        return [each for each in usable if each.key not in whole and each.key not in blocked]

    def _with_counters(self, free: list[DeviceCandidate]) -> list[DeviceCandidate]:
        """Without devices that claims leave too little for; shares may need nothing more."""
        counters, usage = self._state.counters, self._state.usage
        # Where nothing is held, nearly all fit: the search finds out about the few it comes to.
        if not any(usage.stamp(pool.key) for pool in self._preparation.of_node.pools):
            return free
        return [
            each
            for each in free
            if not each.device.form.consumes
            or each.device.form.shareable
            or counters.of(each).could_take(each.device.form)
        ]

    def _usable(self, wanted: WantedDevices) -> list[DeviceCandidate] | None:
        """Whether in use or not; None: some device is an error."""
        known, kind = self._preparation.of_node.usable, wanted.kind
        if kind not in known:
            try:
                known[kind] = [each for each in self._every if self._is_usable(wanted, each)]
            except AllocationError:
                known[kind] = None
        return known[kind]

    def _is_usable(self, wanted: WantedDevices, candidate: DeviceCandidate) -> bool:
        """Taints come last: amounts of a tainted device may be an error."""
        form = candidate.device.form
        return (
            self._preparation.selectable(wanted, candidate)
            and wanted.amounts(form, self._preparation.rules) is not None
            and wanted.tolerates(form)
        )

    def _amounts(self, wanted: WantedDevices, candidate: DeviceCandidate) -> Amounts | None:
        try:
            return wanted.amounts(candidate.device.form, self._preparation.rules)
        except AllocationError as error:
            where = f"claim {wanted.claim}, request {wanted.own_name}"
            text = f"checking capacity for device {candidate.key}"
            raise AllocationError(f"{where}: {text}: {error}") from None
