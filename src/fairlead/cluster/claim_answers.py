"""What was found out about sets of claims, by row; kept so that it is told without a search."""

from collections import OrderedDict

import numpy as np
import numpy.typing as npt

from fairlead.model.claim_uses import ClaimUse

#: A row that was not looked at yet.
UNKNOWN = -1
#: Sets of claims whose answers are kept.
_MOST_KEPT = 64

AnswerCodes = npt.NDArray[np.int8]


class KeptAnswers:
    """Those of several sets, the least recently used forgotten first."""

    def __init__(self) -> None:
        self._answers: OrderedDict[tuple[ClaimUse, ...], AnswerCodes] = OrderedDict()

    def of(self, uses: tuple[ClaimUse, ...], rows: int) -> AnswerCodes:
        """To be written to."""
        found = self._answers.get(uses)
        if found is None or len(found) != rows:
            found = np.full(rows, UNKNOWN, dtype=np.int8)
            self._answers[uses] = found
            if len(self._answers) > _MOST_KEPT:
                self._answers.popitem(last=False)
        self._answers.move_to_end(uses)
        return found
