"""The units that are planned together."""

from collections.abc import Callable, Iterator, Sequence
from math import inf

from fairlead.engine.backfill.candidates import Candidates
from fairlead.engine.backfill.futures import Plan
from fairlead.model.backfill import BackfillMode
from fairlead.model.lazy_dataclass import dataclass
from fairlead.queue.entries import Entry
from fairlead.queue.queue import SchedulingQueue
from fairlead.queue.units import Unit


@dataclass(slots=True)
class PlanScope:
    """The units that are planned together: of a queue with a mode of its own, or all others."""

    mode: BackfillMode
    candidates: Candidates
    #: The last one that was made, if there is at most one.
    last: Plan | None = None
    #: First units of classes that are still to be looked at, the first of those that were, and when
    #: the next ones are: after so long for each.
    unseen: Sequence[Entry] = ()
    head: Entry | None = None
    look_s: float = -inf
    pause_s: float = 0.0


class Scopes:
    def __init__(
        self, queue: SchedulingQueue, mode_of: Callable[[Unit], tuple[str, BackfillMode]]
    ) -> None:
        """`mode_of`: the queue that sets the mode for a unit, if any, and the mode."""
        self._queue = queue
        self.mode_of = mode_of
        self._by_key: dict[str, PlanScope] = {}

    def __iter__(self) -> Iterator[PlanScope]:
        return iter(self._by_key.values())

    def of(self, unit: Unit) -> PlanScope:
        key, mode = self.mode_of(unit)
        found = self._by_key.get(key)
        if found is None:
            found = self._by_key[key] = PlanScope(mode, Candidates(self._queue))
        return found

    def mode_and_candidates(self, unit: Unit) -> tuple[BackfillMode, Candidates]:
        scope = self.of(unit)
        return scope.mode, scope.candidates

    def waits(self, entry: Entry) -> bool:
        """Whether it is pending, is not being bound, and could start if there were room."""
        return self.of(entry.unit).candidates.waits(entry)

    def start_over(self) -> None:
        self._by_key.clear()
