"""Gangs that were admitted before they have pods, where a queue is charged from then on (Volcano).

The charge ends when members have nodes, which count themselves; when the object is gone; or after a
time, so that a gang whose pods never come holds nothing for ever. A gang without any pod is passed
sooner by units that have theirs: pods that exist come before pods that may come.
"""

from collections.abc import Callable, Iterator

from fairlead.model.gangs import GangSpec
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.pods import Amounts
from fairlead.queue.quotas.sums import TreeSums
from fairlead.queue.quotas.tree import QueueTree

#: How long an admitted gang is charged without having nodes.
LONGEST_S = 300.0
#: For so long without any pod, also for units that have pods.
FIRM_S = 10.0


@dataclass(slots=True)
class _Charge:
    queue: str
    amounts: Amounts
    #: When it is looked at next: whether it has pods, then whether it has had its time.
    due_s: float
    ends_s: float
    is_firm: bool = True


class AdmittedGangs:
    def __init__(self, tree: QueueTree) -> None:
        #: For gangs without pods, and for units that have pods.
        self.sums = TreeSums(tree)
        self.firm = TreeSums(tree)
        self._charged: dict[str, _Charge] = {}

    def __bool__(self) -> bool:
        return bool(self._charged)

    def __iter__(self) -> Iterator[str]:
        return iter(self._charged)

    def charge(self, spec: GangSpec, queue: str, amounts: Amounts, now: float) -> None:
        if spec.key not in self._charged:
            self._charged[spec.key] = _Charge(queue, amounts, now + FIRM_S, now + LONGEST_S)
            self.sums.add(queue, amounts, +1)
            self.firm.add(queue, amounts, +1)

    def end(self, gang: str) -> str | None:
        """The queue that is charged no longer; None if none was."""
        found = self._charged.get(gang)
        if found is None:
            return None
        self._soften(found)
        del self._charged[gang]
        self.sums.add(found.queue, found.amounts, -1)
        return found.queue

    def _soften(self, charge: _Charge) -> None:
        if charge.is_firm:
            charge.is_firm = False
            self.firm.add(charge.queue, charge.amounts, -1)

    def of(self, gang: str, *, has_pods: bool) -> tuple[str, Amounts]:
        """The queue that a gang is charged to, and what for."""
        found = self._charged.get(gang)
        if found is None or (has_pods and not found.is_firm):
            return "", ()
        return found.queue, found.amounts

    def due_s(self) -> float | None:
        return min((charge.due_s for charge in self._charged.values()), default=None)

    def advance(self, now: float, has_pods: Callable[[str], bool]) -> Iterator[str]:
        """Queues that are charged less for gangs that had their time."""
        for gang, charge in list(self._charged.items()):
            if charge.ends_s <= now:
                self.end(gang)
                yield charge.queue
            elif charge.due_s <= now:
                charge.due_s = charge.ends_s
                if not has_pods(gang):
                    self._soften(charge)
                    yield charge.queue
