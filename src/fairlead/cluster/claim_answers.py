"""What was found out about sets of claims, by row; kept so that it is told without a search."""

from collections import OrderedDict
from dataclasses import field

import numpy as np
import numpy.typing as npt

from fairlead.cluster.arrays import NodeMask, Rows
from fairlead.cluster.aspects import Aspect
from fairlead.cluster.changes import ANYWHERE, NEVER, ChangeLog, Mark
from fairlead.model.claim_uses import ClaimUse
from fairlead.model.lazy_dataclass import dataclass

#: A row that was not looked at yet.
UNKNOWN = -1
#: Sets of claims whose answers are kept.
_MOST_KEPT = 64
#: What answers depend on.
READS = Aspect.CLAIMS | Aspect.DEVICES | Aspect.LABELS | Aspect.ALLOCATABLE
_CHANGES = int(READS | Aspect.PRESENCE)
#: Looking at all nodes again, since something changed for all, counts for so many steps.
_STEPS_OF_RESTART = 5000

AnswerCodes = npt.NDArray[np.int8]


@dataclass(slots=True)
class BegunLook:
    """How far a look at the nodes got when its turn ended."""

    #: Rows that were looked at, as they were at a position of the log of changes.
    done: NodeMask
    #: Rows that counts of devices do not decide.
    to_ask: NodeMask
    mark: Mark
    #: Turns and steps that are left before it is given up.
    turns: int
    steps: int
    #: Nodes that counts of devices decide are done.
    counted: bool = False

    def follow(self, changes: ChangeLog) -> None:
        """Rows that have changed are to be looked at again."""
        changed = changes.since(self.mark)
        self.mark = changes.mark
        if changed is None or changed.get(ANYWHERE, 0) & _CHANGES:
            self.done[:] = self.to_ask[:] = self.counted = False
            self.steps -= _STEPS_OF_RESTART
            return
        rows = [row for row, aspects in changed.items() if row != ANYWHERE and aspects & _CHANGES]
        self.done[rows] = self.to_ask[rows] = False


@dataclass(slots=True)
class ClaimAnswers:
    """Of one set of claims."""

    codes: AnswerCodes
    #: How early the alternatives are that the claims get, where claims have alternatives.
    earliness: npt.NDArray[np.int32]
    #: Where GPUs are in use otherwise, if claims cannot be allocated; as of a position of the log.
    in_use: AnswerCodes
    in_use_mark: Mark = NEVER
    #: A look that its turn ended.
    begun: BegunLook | None = None
    #: Nodes that offer the same are looked at together, while the look at all nodes is under way.
    parts: "dict[tuple[ClaimUse, ...], ClaimAnswers]" = field(default_factory=dict)

    def follow(self, changes: ChangeLog) -> None:
        """What GPUs of changed rows are used for is not known any more."""
        changed = changes.since(self.in_use_mark)
        self.in_use_mark = changes.mark
        rows = slice(None) if changed is None else [row for row in changed if row != ANYWHERE]
        self.in_use[rows] = UNKNOWN

    def part(self, uses: tuple[ClaimUse, ...]) -> "ClaimAnswers":
        """The answers of some of the nodes; to be written to."""
        found = self.parts.get(uses)
        if found is None:
            found = self.parts[uses] = _unknown(len(self.codes))
        return found

    def take(self, part: "ClaimAnswers", rows: Rows) -> None:
        """What was found for these rows on their own."""
        self.codes[rows], self.earliness[rows] = part.codes[rows], part.earliness[rows]
        self.in_use[rows] = UNKNOWN


def _unknown(rows: int) -> ClaimAnswers:
    codes = np.full(rows, UNKNOWN, dtype=np.int8)
    return ClaimAnswers(codes, np.zeros(rows, dtype=np.int32), codes.copy())


class KeptAnswers:
    """Those of several sets, the least recently used forgotten first."""

    def __init__(self) -> None:
        self._answers: OrderedDict[tuple[ClaimUse, ...], ClaimAnswers] = OrderedDict()

    def of(self, uses: tuple[ClaimUse, ...], rows: int) -> ClaimAnswers:
        """To be written to."""
        found = self._answers.get(uses)
        if found is None or len(found.codes) != rows:
            found = self._answers[uses] = _unknown(rows)
            if len(self._answers) > _MOST_KEPT:
                del self._answers[self._least_needed()]
        self._answers.move_to_end(uses)
        return found

    def _least_needed(self) -> tuple[ClaimUse, ...]:
        """Not of a look that is under way: it would begin again. Unless there are many such.

        Of some the pods are gone, and they never end.
        """
        begun = [uses for uses, found in self._answers.items() if found.begun or found.parts]
        if len(begun) > _MOST_KEPT // 2:
            return begun[0]
        return next(uses for uses in self._answers if uses not in begun)
