"""Gangs that are bound in part and were never whole: completed within a limit, or released.

They hold nodes and do no work. They have a fixed order, and none waits for one that comes after it.
"""

from fairlead.cluster.cluster import Cluster
from fairlead.engine.in_flight import InFlight
from fairlead.engine.instructions import Evict, Instruction
from fairlead.model.pods import Pod
from fairlead.queue.entries import Entry, Pool
from fairlead.queue.queue import SchedulingQueue
from fairlead.queue.units import Gang

#: After an eviction that failed.
_AGAIN_S = 10.0


class GangParts:
    def __init__(self, cluster: Cluster, queue: SchedulingQueue, in_flight: InFlight) -> None:
        self._cluster = cluster
        self._queue = queue
        self._in_flight = in_flight
        #: When each must be whole, by key.
        self._until_s: dict[str, float] = {}

    def __contains__(self, key: str) -> bool:
        return key in self._until_s

    def look_at(self, key: str, now: float) -> None:
        """Something about the gang has changed."""
        entry = self._queue.gang(key)
        gang = entry.unit if entry else None
        limit_s = _limit_s(gang) if isinstance(gang, Gang) else None
        if limit_s is None:
            self._until_s.pop(key, None)
        else:
            self._until_s.setdefault(key, now + limit_s)

    def due_s(self) -> float | None:
        return min(self._until_s.values(), default=None)

    def after(self, entry: Entry) -> list[Entry]:
        """Those that come after this one, the last first; none that is being tried or bound."""
        entries = (self._queue.gang(key) for key in self._until_s)
        idle = (one for one in entries if one and one.pool is not Pool.NONE)
        others = [one for one in idle if _gang(one).is_partial]
        later = [one for one in others if _order(one) > _order(entry)]
        return sorted(later, key=_order, reverse=True)

    def overdue(self, now: float) -> list[Instruction]:
        """Releases those whose time is over."""
        made: list[Instruction] = []
        for key, until_s in list(self._until_s.items()):
            entry = self._queue.gang(key)
            if until_s <= now and entry is not None and entry.pool is not Pool.NONE:
                limit_s = _limit_s(_gang(entry)) or 0.0
                made += self.release(entry, f"it could not be completed within {limit_s:.0f} s")
        return made

    def release(self, entry: Entry, why: str) -> list[Instruction]:
        """Evicts all members with a node: they hold it in vain."""
        gang, victims = _gang(entry), self._victims(_gang(entry))
        if not victims:
            return []
        first = next(iter(victims))
        pod = gang.pod if gang.size else victims[first][0]
        self._queue.hold(entry)
        self._in_flight.releasing[pod.uid] = gang.key
        self._until_s.pop(gang.key, None)
        for each in gang.pending:
            self._cluster.nominations.drop(each.uid)
        count, needed = len(gang.placed), gang.spec.minimum
        because = f"gang {gang.spec.name} is released with {count} of {needed} pods bound: {why}"
        return [Evict(pod, first, victims, because)]

    def released(self, uid: str, problem: str, now: float) -> bool:
        """An eviction has ended; whether it was the release of a gang."""
        key = self._in_flight.releasing.pop(uid, None)
        if key is None:
            return False
        entry = self._queue.gang(key)
        if entry is not None and entry.pool is Pool.NONE:
            self._queue.retry(entry, now=now)
        if problem:
            self._until_s[key] = now + _AGAIN_S
        else:
            self.look_at(key, now)
        return True

    def _victims(self, gang: Gang) -> dict[str, tuple[Pod, ...]]:
        victims: dict[str, tuple[Pod, ...]] = {}
        for uid in gang.placed:
            held = self._cluster.holdings.get(uid)
            if held is not None and not held.pod.deleting:
                victims[held.node] = (*victims.get(held.node, ()), held.pod)
        return victims


def _gang(entry: Entry) -> Gang:
    assert isinstance(entry.unit, Gang)
    return entry.unit


def _limit_s(gang: Gang) -> float | None:
    """How long the gang may stay below its minimum; None: for ever."""
    if gang.is_partial:
        return gang.spec.longest_part_s
    return gang.spec.stale_after_s if gang.is_stale else None


def _order(entry: Entry) -> tuple[int, float, str]:
    return -entry.unit.priority, entry.first_queued_s, entry.unit.key
