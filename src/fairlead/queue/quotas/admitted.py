"""Gangs that were admitted before they have pods, where a queue is charged from then on (Volcano).

The charge ends when members have nodes, which count themselves; when the object is gone; or after a
time, so that a gang whose pods never come holds nothing for ever.
"""

from collections.abc import Iterator

from fairlead.model.gangs import GangSpec
from fairlead.model.pods import Amounts
from fairlead.queue.quotas.sums import TreeSums
from fairlead.queue.quotas.tree import QueueTree

#: How long an admitted gang is charged without having nodes.
LONGEST_S = 300.0


class AdmittedGangs:
    def __init__(self, tree: QueueTree) -> None:
        self.sums = TreeSums(tree)
        #: By gang: the queue, what is charged, and until when.
        self._charged: dict[str, tuple[str, Amounts, float]] = {}

    def __bool__(self) -> bool:
        return bool(self._charged)

    def __iter__(self) -> Iterator[str]:
        return iter(self._charged)

    def charge(self, spec: GangSpec, queue: str, amounts: Amounts, now: float) -> None:
        if spec.key not in self._charged:
            self._charged[spec.key] = queue, amounts, now + LONGEST_S
            self.sums.add(queue, amounts, +1)

    def end(self, gang: str) -> str | None:
        """The queue that is charged no longer; None if none was."""
        found = self._charged.pop(gang, None)
        if found is None:
            return None
        queue, amounts, _ = found
        self.sums.add(queue, amounts, -1)
        return queue

    def of(self, gang: str) -> tuple[str, Amounts]:
        """The queue that a gang is charged to, and what for."""
        queue, amounts, _ = self._charged.get(gang, ("", (), 0.0))
        return queue, amounts

    def due_s(self) -> float | None:
        return min((until for _, _, until in self._charged.values()), default=None)

    def overdue(self, now: float) -> list[str]:
        return [gang for gang, (_, _, until) in self._charged.items() if until <= now]
