"""On which nodes claims can be allocated: all nodes are looked at, over several turns."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from fairlead.claims.errors import AllocationError, InvalidPools, LookUnfinished, SearchLimit
from fairlead.claims.turn_limit import STEPS_OF_EVALUATION
from fairlead.cluster.arrays import Rows
from fairlead.cluster.claim_answers import UNKNOWN, BegunLook, ClaimAnswers
from fairlead.cluster.nodes import Nodes
from fairlead.model.claims import Allocation, ResourceClaim
from fairlead.model.nodes import Node

if TYPE_CHECKING:
    from fairlead.claims.columns import Codes

#: What counts of devices say of a node, beside "ask": `fairlead.claims.glance` is not imported at
#: the start of the program.
NO, YES = 1, 2
#: Alternatives of a request, at most.
MOST_ALTERNATIVES = 8
#: What is found for a node.
FITS, CANNOT, INVALID, AWAY, FAILED, LEFTOVER, UNFIT, TIMED_OUT = range(8)
#: So many nodes are asked at once that one pass over all devices is worth it.
_MANY = 16
#: Steps on each node that count for nothing, and steps beyond them, on all nodes together: after
#: that the search is given up. Some tenths of a second.
_FEW_STEPS = 100
_MOST_STEPS = 40_000
#: The same in a trial, which is one turn and tries many pods.
_MOST_STEPS_IN_TRIAL = 10_000
#: After so many turns it is given up as well: kube-scheduler does after ten seconds.
_MOST_TURNS = 100


class NodeSearch:
    """Asks the nodes given for claims, and keeps what it finds."""

    def __init__(
        self, kept: ClaimAnswers, nodes: Nodes, claims: Sequence[ResourceClaim]
    ) -> None:  # fmt: skip
        self._kept, self._nodes, self._claims = kept, nodes, claims
        self._state = nodes.claims
        self._rows = nodes.row_numbers

    def run(self, *, in_part: bool = False) -> None:
        """Raises LookUnfinished: more turns are needed.

        In a part of a look, what is done stays known: other parts may need more turns.
        """
        in_trial = self._state.inventory.turn.in_trial
        changes, look = self._state.changes, None if in_trial else self._kept.begun
        if look is None:
            done = np.zeros(self._nodes.all_rows, dtype=np.bool_)
            look = BegunLook(done, done.copy(), changes.mark, _MOST_TURNS, self._most_steps)
        else:
            look.follow(changes)
        if in_trial:  # a look at what is there goes on later, and follows what has changed
            self._look(look)
            return
        try:
            self._look(look)
        except LookUnfinished:
            look.turns -= 1
            self._kept.begun = look
            raise
        # Of the next look at changed nodes:
        look.turns, look.steps = _MOST_TURNS, self._most_steps
        if in_part:
            self._kept.begun = look
        elif self._nodes.whole:
            self._kept.begun = None

    @property
    def _most_steps(self) -> int:
        return _MOST_STEPS_IN_TRIAL if self._state.blocks.in_trial else _MOST_STEPS

    def _look(self, look: BegunLook) -> None:
        self._state.settle_taints()
        if look.turns <= 0:
            look.steps = 0
        elif not look.counted:
            self._decide_by_counts(look)
            look.counted = True
        self._ask_all(look)
        if not (self._kept.codes == FITS).any():
            self.see_other_uses()

    def _decide_by_counts(self, look: BegunLook) -> None:
        left = np.flatnonzero(~(look.done | look.to_ask)[self._rows])
        if len(left) < _MANY:
            return
        objects = list(self._nodes.at(left).objects())
        try:
            codes = self._at_a_glance(objects)
        except SearchLimit:
            look.steps = 0
            return
        if codes is None:
            return
        self._note(self._rows[left[codes == NO]], CANNOT, look)
        alone = _is_one_device(self._claims)
        for place in np.flatnonzero(codes == YES).tolist():
            node, row = objects[place], self._rows[left[place : place + 1]]
            has_all, looked = self._has_all(node.name, alone) if node else (False, 0)
            if has_all:
                self._note(row, FITS, look)
            else:
                look.to_ask[row] = True
            self._state.inventory.turn.spend(devices=looked)

    def _has_all(self, node: str, alone: bool) -> tuple[bool, int]:
        """Whether all devices there can be used; and what it took, in devices."""
        blocks = self._state.blocks
        before = blocks.work
        # Of several devices, some could be of one GPU.
        found = not blocks.on(node) and (alone or not blocks.may_clash(node))
        return found, 4 + blocks.work - before

    def _note(self, rows: Rows, code: int, look: BegunLook) -> None:
        self._kept.codes[rows] = code
        self._kept.earliness[rows] = 0
        self._kept.in_use[rows] = UNKNOWN
        look.done[rows] = True

    def _ask_all(self, look: BegunLook) -> None:
        left = np.flatnonzero(~look.done[self._rows])
        objects = self._nodes.at(left).objects()
        for node, row in zip(objects, self._rows[left].tolist(), strict=True):
            if node is None:
                self._kept.codes[row] = FITS
            elif look.steps <= 0:
                self._kept.codes[row] = TIMED_OUT
            else:
                self._ask(node, row, look)

    def _ask(self, node: Node, row: int, look: BegunLook) -> None:
        state, allocator, inventory = self._state, self._state.allocator, self._state.inventory
        before, all_before, spent = allocator.work, state.work, inventory.turn.spent
        shared = inventory.evaluated_for_all
        self._kept.codes[row] = self._on(node, row)
        self._kept.in_use[row] = UNKNOWN
        look.done[row] = True
        work = allocator.work - before
        shared = STEPS_OF_EVALUATION * (inventory.evaluated_for_all - shared)
        look.steps -= max(0, work - shared - _FEW_STEPS)
        inventory.turn.spend(steps=max(0, state.work - all_before - inventory.turn.spent + spent))

    def see_other_uses(self) -> None:
        """Where claims cannot be allocated, whether GPUs are in use otherwise, for the reasons."""
        kept, blocks, turn = self._kept, self._state.blocks, self._state.inventory.turn
        kept.follow(self._state.changes)
        unknown = np.flatnonzero((kept.codes[self._rows] == CANNOT) & (kept.in_use[self._rows] < 0))
        objects = self._nodes.at(unknown).objects()
        for node, row in zip(objects, self._rows[unknown].tolist(), strict=True):
            before = blocks.work
            kept.in_use[row] = node is not None and blocks.has_others(node.name)
            turn.spend(devices=2 + blocks.work - before)

    def _on(self, node: Node, row: int) -> int:
        self._kept.earliness[row] = 0
        try:
            found = self._state.allocate(node, self._claims)
        except InvalidPools:
            return INVALID
        except SearchLimit:
            return TIMED_OUT
        except AllocationError:
            return FAILED
        if found is None:
            return CANNOT
        self._kept.earliness[row] = sum(map(early, self._claims, found))
        return FITS

    def _at_a_glance(self, nodes: Sequence[Node | None]) -> "Codes | None":
        """ASK, NO or YES; None: they have to be asked one by one. Raises SearchLimit."""
        try:
            names = [node.name if node else "" for node in nodes]
            return self._state.allocator.glance(names, self._claims)
        except SearchLimit:
            raise
        except AllocationError:
            return None


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
