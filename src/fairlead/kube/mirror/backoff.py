"""How long to wait before trying again."""

import random


class Backoff:
    """Waits that double up to a limit, each a random half to whole, so that crowds disperse."""

    def __init__(
        self, rng: random.Random, *, first_s: float = 0.8, longest_s: float = 30.0
    ) -> None:
        self._rng = rng
        self._first_s = first_s
        self._longest_s = longest_s
        self._step_s = first_s

    def next_s(self) -> float:
        step_s = self._step_s
        self._step_s = min(step_s * 2, self._longest_s)
        return step_s * self._rng.uniform(0.5, 1.0)

    def reset(self) -> None:
        """All is well: the next wait is a short one again."""
        self._step_s = self._first_s
