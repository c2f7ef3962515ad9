"""On which nodes claims can be allocated: all nodes are looked at, over several turns."""

from collections.abc import Sequence

import numpy as np

from fairlead.claims.errors import AllocationError, InvalidPools, LookUnfinished, SearchLimit
from fairlead.cluster.claim_answers import BegunLook, ClaimAnswers
from fairlead.cluster.nodes import Nodes
from fairlead.model.claims import Allocation, ResourceClaim
from fairlead.model.nodes import Node

#: Alternatives of a request, at most.
MOST_ALTERNATIVES = 8
#: What is found for a node.
FITS, CANNOT, INVALID, AWAY, FAILED = range(5)
#: So many nodes are asked at once that one pass over all devices is worth it.
_MANY = 16
#: Steps on each node that count for nothing, and steps beyond them, on all nodes together: after
#: that the search is given up. Some tenths of a second.
_FEW_STEPS = 100
_MOST_STEPS = 40_000
#: After so many turns it is given up as well: kube-scheduler does after ten seconds.
_MOST_TURNS = 100
#: What asking a node costs besides, in steps.
_EACH = 5


class NodeSearch:
    """Asks the nodes given for claims, and keeps what it finds."""

    def __init__(
        self, kept: ClaimAnswers, nodes: Nodes, claims: Sequence[ResourceClaim]
    ) -> None:  # fmt: skip
        self._kept, self._nodes, self._claims = kept, nodes, claims
        self._state = nodes.claims
        self._rows = nodes.row_numbers

    def run(self) -> None:
        """Raises LookUnfinished: more turns are needed."""
        changes, look = self._state.changes, self._kept.begun
        if look is None:
            done = np.zeros(self._nodes.all_rows, dtype=np.bool_)
            look = BegunLook(done, changes.mark, _MOST_TURNS, _MOST_STEPS)
        else:
            look.follow(changes)
        try:
            self._look(look)
        except LookUnfinished:
            look.turns -= 1
            self._kept.begun = look
            raise
        if self._nodes.whole:
            self._kept.begun = None

    def _look(self, look: BegunLook) -> None:
        if look.turns <= 0:
            look.steps = 0
        elif not look.counted:
            self._decide_by_counts(look)
            look.counted = True
        left = np.flatnonzero(~look.done[self._rows])
        objects = self._nodes.at(left).objects()
        for node, row in zip(objects, self._rows[left].tolist(), strict=True):
            if node is None:
                self._kept.codes[row] = FITS
            elif look.steps <= 0:
                self._kept.codes[row] = FAILED
            else:
                self._ask(node, row, look)

    def _decide_by_counts(self, look: BegunLook) -> None:
        left = np.flatnonzero(~look.done[self._rows])
        try:
            decided = self._at_a_glance(list(self._nodes.at(left).objects()))
        except SearchLimit:
            decided, look.steps = {}, 0
        rows = self._rows[left[list(decided)]]
        self._kept.codes[rows] = list(decided.values())
        self._kept.earliness[rows] = 0
        look.done[rows] = True

    def _ask(self, node: Node, row: int, look: BegunLook) -> None:
        allocator, inventory = self._state.allocator, self._state.inventory
        before, gathered = allocator.work, inventory.gathered
        self._kept.codes[row] = self._on(node, row)
        look.done[row] = True
        work = allocator.work - before
        look.steps -= max(0, work - _FEW_STEPS)
        inventory.turn.spend(steps=_EACH + work, devices=3 * (inventory.gathered - gathered))

    def _on(self, node: Node, row: int) -> int:
        self._kept.earliness[row] = 0
        try:
            found = self._state.allocate(node, self._claims)
        except InvalidPools:
            return INVALID
        except AllocationError:
            return FAILED
        if found is None:
            return CANNOT
        self._kept.earliness[row] = sum(map(early, self._claims, found))
        return FITS

    def _at_a_glance(self, nodes: Sequence[Node | None]) -> dict[int, int]:
        """What counts of devices decide, where many nodes are asked. Raises SearchLimit."""
        if len(nodes) < _MANY:
            return {}
        from fairlead.claims.glance import NO, YES  # not at the start of the program

        state = self._state
        try:
            names = [node.name if node else "" for node in nodes]
            codes = state.allocator.glance(names, self._claims)
        except SearchLimit:
            raise
        except AllocationError:
            return {}
        alone = _is_one_device(self._claims)
        decided = dict.fromkeys(np.flatnonzero(codes == NO).tolist(), CANNOT)
        for place in np.flatnonzero(codes == YES).tolist():
            node = nodes[place]
            if node is None or state.blocks.on(node.name):
                continue
            # Of several devices, some could be of one GPU: such nodes have to be asked.
            if alone or not state.blocks.may_clash(node.name):
                decided[place] = FITS
        return decided


def _is_one_device(claims: Sequence[ResourceClaim]) -> bool:
    needs = (request.exactly for claim in claims for request in claim.requests)
    return sum(need.count for need in needs if need is not None) == 1


def early(claim: ResourceClaim, allocation: Allocation) -> int:
    """Eight for each request that gets its first alternative, one less for each later one."""
    names = {device.request for device in allocation.devices}
    return sum(
        MOST_ALTERNATIVES - place
        for request in claim.requests
        for place, need in enumerate(request.first_available)
        if f"{request.name}/{need.name}" in names
    )
