"""How much may still be moved in the hour that has just passed."""

from collections import deque
from dataclasses import replace

from fairlead.model.consolidation import ConsolidationTerms, MoveLimits
from fairlead.model.lazy_dataclass import dataclass

_HOUR_S = 3600.0


@dataclass(frozen=True, slots=True)
class _Spent:
    at_s: float
    moves: int
    gpu_s: float


class MoveAllowance:
    """Counts what was begun in the last hour. A restart forgets it."""

    def __init__(self, terms: ConsolidationTerms) -> None:
        self._terms = terms
        self._spent: deque[_Spent] = deque()
        #: Since the program began.
        self.moves = 0
        self.gpu_seconds = 0.0

    def spend(self, moves: int, gpu_s: float, now: float) -> None:
        self._spent.append(_Spent(now, moves, gpu_s))
        self.moves += moves
        self.gpu_seconds += gpu_s

    def limits(self, now: float) -> MoveLimits:
        """What a plan may cost now."""
        while self._spent and self._spent[0].at_s <= now - _HOUR_S:
            self._spent.popleft()
        terms = self._terms
        moves = terms.moves_per_hour - sum(each.moves for each in self._spent)
        gpu_s = terms.gpu_seconds_per_hour - sum(each.gpu_s for each in self._spent)
        return replace(
            terms.limits,
            most_moves=min(terms.limits.most_moves, moves),
            most_gpu_seconds=min(terms.limits.most_gpu_seconds, gpu_s),
        )
