"""A trial of the future over several turns: members that were placed are not placed again.

Events come between turns, so a trial ends with its turn. The next part of it takes the same steps:
members get the places that the part before found, without a search. Only where something has
changed since then, a member is placed again.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import field
from itertools import islice
from typing import TypeVar

from fairlead.cluster.aspects import Aspect
from fairlead.cluster.changes import ANYWHERE, NEVER, Mark
from fairlead.cluster.cluster import Cluster
from fairlead.cluster.trial import Trial
from fairlead.engine.backfill.futures import Plan
from fairlead.engine.gang_trials import KnowsPlaces
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.pods import Pod
from fairlead.placement.verdicts import Placed, Refused

#: Members that are placed in one turn, by what it costs to place them (see `Work.spent`).
_PART_WORK = 40_000
#: After so much work in a turn, the next trial is for the next one; and parts of all trials.
_TURN_WORK = 60_000
_MOST_PARTS = 24
#: To assume a member, and to take it back.
_WORK_OF_MEMBER = 40
#: Of no node, and of no pod without claims and volumes.
_OF_OTHERS = int(Aspect.PRICES | Aspect.FIGURES | Aspect.VOLUMES | Aspect.CLAIMS)

T = TypeVar("T")


class TrialUnfinished(Exception):
    """The rest of it is for the next turn."""


class PlacedBefore:
    """Verdicts about the members of a gang in the order in which they were asked for."""

    def __init__(self, cluster: Cluster, pods: Iterable[Pod]) -> None:
        self._cluster = cluster
        self._looks_around = any(_looks_around(pod) for pod in pods)
        self._found: list[tuple[str, Placed | Refused]] = []
        self._at = 0
        self._mark: Mark = NEVER
        #: Rows where something may have changed; None: everywhere.
        self._changed: set[int] | None = set()
        #: What was spent on members that were placed, in this part.
        self.spent = 0

    def begin(self) -> None:
        """The next part begins."""
        self._at, self.spent = 0, 0
        self._changed = self._rows_changed() if self._found else set()

    def end(self) -> None:
        """The part is over, and the cluster is as it was."""
        self._mark = self._cluster.changes.mark

    def clear(self) -> None:
        """Another trial begins."""
        self._found.clear()

    def place(self, pod: Pod, look: Callable[[], Placed | Refused]) -> Placed | Refused:
        """What was found before; if that may not hold, or there is nothing, what is found now.

        Raises TrialUnfinished: enough was looked for in this turn.
        """
        at, self._at = self._at, self._at + 1
        if at < len(self._found):
            uid, known = self._found[at]
            if uid == pod.uid and self._holds(known):
                return known
        if self.spent > _PART_WORK:
            del self._found[at:]
            raise TrialUnfinished
        before = self._cluster.work.spent
        found = look()
        self.spent += self._cluster.work.spent - before + _WORK_OF_MEMBER
        self._note(at, pod, found)
        return found

    def _holds(self, known: Placed | Refused) -> bool:
        if isinstance(known, Refused):
            return True
        row = self._cluster.row_of.get(known.node)
        return row is not None and self._changed is not None and row not in self._changed

    def _note(self, at: int, pod: Pod, found: Placed | Refused) -> None:
        """Members that come after this one may have had its place."""
        if at < len(self._found) and self._found[at][0] == pod.uid:
            self._found[at] = pod.uid, found
            if isinstance(found, Placed) and self._changed is not None:
                self._changed.add(self._cluster.row_of[found.node])
        else:
            self._found[at:] = [(pod.uid, found)]

    def _rows_changed(self) -> set[int] | None:
        changed = self._cluster.changes.since(self._mark)
        if changed is None or (changed and self._looks_around):
            return None
        if changed.pop(ANYWHERE, 0) & ~_OF_OTHERS:
            return None
        return set(changed)


@dataclass(slots=True)
class SearchParts:
    """What a search for a start has found so far, over several turns."""

    cluster: Cluster
    before: PlacedBefore
    #: By time; None: the unit does not fit then.
    found: dict[float, Plan | None] = field(default_factory=dict)
    #: Sets of rows that were not enough at the time that is looked at.
    _tried: int = 0
    _spent: int = 0
    _parts: int = 0
    #: Whether the trial under way has had a part.
    _goes_on: bool = False
    #: What the turn may cost; None: all is done in this one.
    _until: int | None = None

    def begin_turn(self, *, in_parts: bool) -> None:
        self._until = self.cluster.work.spent + _TURN_WORK if in_parts else None

    def is_spent(self, most: int) -> bool:
        """Whether no more trials are made; one that has begun goes on."""
        return (self._spent > most and not self._goes_on) or self._parts > _MOST_PARTS

    def left(self, tried: Iterable[T]) -> Iterator[T]:
        """Those of the things to try at one time that were not tried in earlier turns."""
        for each in islice(tried, self._tried, None):
            yield each
            self._tried += 1

    def note(self, at_s: float, plan: Plan | None) -> None:
        """What was found at this time."""
        self.found[at_s], self._tried = plan, 0

    @contextmanager
    def trial(self) -> Iterator[tuple[Trial, KnowsPlaces | None]]:
        """The next part of a trial, or the next trial, and where pods were placed before.

        Raises TrialUnfinished, also within it: the rest is for the next turn.
        """
        if self._until is not None and self.cluster.work.spent > self._until:
            raise TrialUnfinished
        start, before = self.cluster.work.spent, None if self._until is None else self.before
        self.before.begin()
        try:
            with self.cluster.trial() as trial:
                yield trial, before
        except TrialUnfinished:
            self._end(start)
            self._goes_on = True
            raise
        self._end(start)
        self.before.clear()
        self._goes_on = False

    def _end(self, start: int) -> None:
        """What a part does again does not count."""
        self.before.end()
        self._parts += 1
        self._spent += self.before.spent if self._goes_on else self.cluster.work.spent - start


def _looks_around(pod: Pod) -> bool:
    """Whether what is on other nodes matters to it."""
    asked = pod.request
    return bool(asked.required_affinity or asked.anti_affinity or asked.spread or asked.volumes)
