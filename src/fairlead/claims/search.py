"""The search for devices: depth first, and the first whole solution is the answer.

It is kube-scheduler's search, step by step: over claims, requests and devices in their order. What
is left out cannot change the answer: devices that no state of the search could choose, and, after
a device that led to no solution, others that are equal to it in all that matters.

Functions of the search are generators that yield the search below them, so that its depth is not
limited by the interpreter's.
"""

from collections.abc import Generator, Sequence
from enum import Enum, auto

from fairlead.claims.errors import SearchLimit
from fairlead.claims.field import CandidateField, Twin
from fairlead.claims.requests import Preparation, WantedDevices
from fairlead.claims.trial_state import TrialState
from fairlead.model.claims import MOST_DEVICES


class SearchOutcome(Enum):
    FOUND = auto()
    FAILED = auto()
    #: Too many devices for one claim; other alternatives may need fewer.
    EXCEEDED = auto()


_Search = Generator["_Search", SearchOutcome, SearchOutcome]


class DeviceSearch:
    """One search, for the claims of a pod on a node."""

    def __init__(
        self,
        preparation: Preparation,
        state: TrialState,
        requests: Sequence[list[list[WantedDevices]]],
        limit: int,
    ) -> None:
        self._preparation, self._state, self._requests = preparation, state, requests
        self._limit = limit
        self.steps = 0
        #: Which alternative was taken, by claim and request.
        self.taken: dict[tuple[int, int], int] = {}
        self._field = CandidateField(preparation, state, requests)

    def run(self) -> bool:
        """Whether all claims got devices: the state has them. Raises AllocationError."""
        if self._field.is_hopeless():
            return False
        if (only := self._only_request()) is not None:
            return self._first_devices(only)
        outcome = SearchOutcome.FOUND
        stack = [self._request(0, 0)] if self._requests else []
        is_new = True
        while stack:
            try:
                stack.append(next(stack[-1]) if is_new else stack[-1].send(outcome))
                is_new = True
            except StopIteration as stop:
                stack.pop()
                outcome, is_new = stop.value, False
        return outcome is SearchOutcome.FOUND

    def _only_request(self) -> WantedDevices | None:
        """The one request, where choosing a device never keeps another one from being chosen."""
        alone = len(self._requests) == 1 and len(self._requests[0]) == 1
        if not alone or len(self._requests[0][0]) != 1 or not self._field.prunes:
            return None
        wanted, of_node = self._requests[0][0][0], self._preparation.of_node
        is_bound = bool(self._state.constraints[0]) or any(pool.counters for pool in of_node.pools)
        if is_bound or of_node.has_shares or wanted.every is not None:
            return None
        return wanted if 0 < wanted.count <= MOST_DEVICES else None

    def _first_devices(self, wanted: WantedDevices) -> bool:
        """The first that can be chosen are what the search would come to."""
        left, self.taken[0, 0] = wanted.count, 0
        for candidate in self._field.candidates(wanted):
            self._count_step()
            if self._field.admits(0, wanted, candidate):
                left -= self._state.choose(0, wanted, candidate)
                if not left:
                    return True
        return False

    def _request(self, claim: int, request: int) -> _Search:
        if request >= len(self._requests[claim]):
            if claim + 1 >= len(self._requests):
                return SearchOutcome.FOUND
            outcome = yield self._request(claim + 1, 0)
            return SearchOutcome.FAILED if outcome is SearchOutcome.EXCEEDED else outcome
        exceeded = True
        for number, wanted in enumerate(self._requests[claim][request]):
            outcome = yield self._devices(claim, request, wanted, 0, 0)
            if outcome is SearchOutcome.FOUND:
                self.taken[claim, request] = number
                return outcome
            exceeded &= outcome is SearchOutcome.EXCEEDED
        return SearchOutcome.EXCEEDED if exceeded else SearchOutcome.FAILED

    def _devices(
        self, claim: int, request: int, wanted: WantedDevices, index: int, start: int
    ) -> _Search:
        """The device with this index, and all that follows."""
        self._count_step()
        if wanted.every is not None and not wanted.every:
            return SearchOutcome.FAILED
        if index >= wanted.count:
            return (yield self._request(claim, request + 1))
        if len(self._state.choices[claim]) + wanted.count - index > MOST_DEVICES:
            return SearchOutcome.EXCEEDED
        if wanted.every is not None:
            return (yield self._exactly(claim, request, wanted, index))
        return (yield self._any(claim, request, wanted, index, start))

    def _exactly(self, claim: int, request: int, wanted: WantedDevices, index: int) -> _Search:
        assert wanted.every is not None
        if not self._state.choose(claim, wanted, wanted.every[index], must=True):
            return SearchOutcome.FAILED
        outcome = yield self._devices(claim, request, wanted, index + 1, 0)
        if outcome is not SearchOutcome.FOUND:
            self._state.undo(claim)
        return outcome

    def _any(
        self, claim: int, request: int, wanted: WantedDevices, index: int, start: int
    ) -> _Search:
        state, field = self._state, self._field
        candidates = field.candidates(wanted)
        last = len(candidates) - (wanted.count - index)
        failed: set[Twin] = set()
        for place in range(start, last + 1 if field.prunes else len(candidates)):
            candidate = candidates[place]
            self._count_step()
            if not field.admits(claim, wanted, candidate):
                continue
            if failed and field.twin(candidate) in failed:
                continue
            if not state.choose(claim, wanted, candidate):
                continue
            outcome = yield self._devices(claim, request, wanted, index + 1, place + 1)
            if outcome is SearchOutcome.FOUND:
                return outcome
            state.undo(claim)
            if outcome is SearchOutcome.EXCEEDED:
                return outcome
            if (twin := field.twin(candidate)) is not None:
                failed.add(twin)
        return SearchOutcome.FAILED

    def _count_step(self) -> None:
        self.steps += 1
        if self.steps > self._limit:
            node = self._preparation.node
            raise SearchLimit(f"node {node}: timed out trying to allocate devices")
