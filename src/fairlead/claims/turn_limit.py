"""How much is looked at for claims in one turn: the rest is looked at in the next ones."""

from collections.abc import Iterator
from contextlib import contextmanager

from fairlead.claims.errors import LookUnfinished

#: Steps of searches, as the allocator counts them: about 60 ms.
_STEPS = 6000
#: So many devices are looked at in the time of a step; an evaluation takes as long as some steps.
DEVICES_OF_STEP = 4
STEPS_OF_EVALUATION = 4


class TurnLimit:
    """No limit, unless the caller can go on in a later turn."""

    def __init__(self) -> None:
        self._left: int | None = None
        #: Whether what is looked at is not there: no later turn goes on with the look.
        self.in_trial = False

    @contextmanager
    def limited(self, *, in_trial: bool = False) -> Iterator[None]:
        """LookUnfinished is raised as soon as the steps of a turn are spent."""
        self._left, self.in_trial = _STEPS, in_trial
        try:
            yield
        finally:
            self._left, self.in_trial = None, False

    @property
    def is_limited(self) -> bool:
        return self._left is not None

    @property
    def spent(self) -> int:
        """Steps of this turn."""
        return 0 if self._left is None else _STEPS - self._left

    def spend(self, *, steps: int = 0, devices: int = 0, evaluations: int = 0) -> None:
        """After so much was done, and is kept."""
        if self._left is None:
            return
        self._left -= steps + STEPS_OF_EVALUATION * evaluations + -(-devices // DEVICES_OF_STEP)
        if self._left < 0:
            raise LookUnfinished
