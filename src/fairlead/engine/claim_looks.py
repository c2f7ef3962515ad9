"""Units with resource claims: nodes are looked at for them before they are tried, turn by turn.

The first look at many devices takes long. What is found in a turn is kept, so the next one goes on.
A unit whose look takes many turns lets others be tried in every second one.
"""

from collections.abc import Iterable, Mapping

from fairlead.claims.errors import LookUnfinished
from fairlead.cluster.cluster import Cluster
from fairlead.model.pods import Pod
from fairlead.placement.place import Placement
from fairlead.queue.entries import Entry
from fairlead.queue.queue import SchedulingQueue

#: Turns that a look takes before others are tried in between: about half a second.
_PATIENCE = 8
#: Units that are passed over for another one in a turn, and whose turns are counted.
_MOST_PASSED = 16
_MOST_COUNTED = 1024


class ClaimLooks:
    """Looks, one slice for each turn."""

    def __init__(
        self, cluster: Cluster, placements: Mapping[str, Placement], queue: SchedulingQueue
    ) -> None:
        self._cluster, self._placements, self._queue = cluster, placements, queue
        #: Turns that looks took which are not finished, by unit.
        self._turns: dict[str, int] = {}
        self._is_turn_of_others = False

    def ready(self, entry: Entry, now: float) -> Entry | None:
        """The unit to be tried in this turn: the one given, or another; None: they are looked for.

        Both were popped; one that is not tried is put back.
        """
        if self._is_slow(entry):
            self._is_turn_of_others = not self._is_turn_of_others
            if self._is_turn_of_others:
                entry = self._other_than(entry, now)
        key = entry.unit.key
        if self.are_done(entry.unit.pods):
            self._turns.pop(key, None)
            return entry
        if len(self._turns) >= _MOST_COUNTED:
            self._turns.clear()
        self._turns[key] = self._turns.get(key, 0) + 1
        self._queue.put_back(entry)
        return None

    def _is_slow(self, entry: Entry) -> bool:
        return bool(self._turns) and self._turns.get(entry.unit.key, 0) >= _PATIENCE

    def _other_than(self, slow: Entry, now: float) -> Entry:
        """The next unit that is not slow; if there is none, the first of all."""
        passed = [slow]
        found = self._queue.pop(now=now)
        while found is not None and self._is_slow(found) and len(passed) < _MOST_PASSED:
            passed.append(found)
            found = self._queue.pop(now=now)
        first, *others = passed if found is None else [found, *passed]
        for entry in others:
            self._queue.put_back(entry)
        return first

    def are_done(self, pods: Iterable[Pod]) -> bool:
        """Looks at more nodes for the claims of the pods; whether nothing is left to look at."""
        claims = self._cluster.claims
        asking = [pod for pod in pods if pod.request.claims and not pod.problem]
        if not asking:
            return True
        try:
            with claims.inventory.turn.limited():
                for pod in asking:
                    self._placements[pod.scheduler].view(pod)
        except LookUnfinished:
            return False
        except Exception:  # let the attempt itself fail, where it is reported
            return True
        return True
