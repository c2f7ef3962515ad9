"""Units of other queues, or of lower priority, make room for a plain pod of a queue."""

from fairlead.engine.gang_rooms import GangRooms
from fairlead.engine.held_room import Hold
from fairlead.engine.instructions import AnnounceFailure, Instruction
from fairlead.engine.reasons import UNSCHEDULABLE
from fairlead.engine.requeuer import Requeuer
from fairlead.engine.room_searches import UselessSearches
from fairlead.placement.making_room import RoomOutcome
from fairlead.placement.verdicts import Placed, Refused
from fairlead.queue.entries import Entry
from fairlead.queue.queue import SchedulingQueue
from fairlead.queue.units import EquivalenceClass


class PodRooms:
    def __init__(self, queue: SchedulingQueue, requeuer: Requeuer, rooms: GangRooms) -> None:
        self._queue = queue
        self._requeuer = requeuer
        self._rooms = rooms
        self._useless: UselessSearches[Placed] = UselessSearches()

    def refuse(self, entry: Entry, refused: Refused, now: float) -> list[Instruction]:
        """The pod waits: for victims to go, or until something changes."""
        pod, held = entry.unit.pod, self._rooms.held
        class_ = self._requeuer.class_of(entry.unit)
        self._queue.park(entry, class_, woken_by=refused.woken_by, now=now)
        hold = held.get(pod.uid)
        if hold is not None and self._rooms.is_awaited(entry):
            return [self._awaiting(entry, hold)]
        held.drop(pod.uid)
        found = self._search(entry, class_, now)
        if found.plan is None:
            if found.cut_short:
                self._queue.postpone(entry, "ScheduleAttemptFailure")
            more = f" Evicting other pods does not help: {found.why}." if found.why else ""
            nominated = "" if pod.nominated else None
            return [AnnounceFailure(pod, UNSCHEDULABLE, refused.summary + more, nominated)]
        if self._rooms.moves_first(entry, class_, now):
            return []
        made = self._rooms.begin(pod.uid, [(pod, found.plan.placed)], found.plan.units, now)
        hold = held.get(pod.uid)
        assert hold is not None
        if not hold.victims:
            self._queue.wake(entry, "ForceActivate", now=now)
        return [self._awaiting(entry, hold), *made]

    def _search(self, entry: Entry, class_: EquivalenceClass, now: float) -> RoomOutcome[Placed]:
        if why := self._rooms.ineligible_pod(entry.unit, now):
            return RoomOutcome(None, why)
        found = self._useless.get(class_, self._rooms.state(), now)
        if found is None:
            found = self._rooms.search_for_pod(entry.unit, now)
            self._useless.put(class_, found, now)
        return found

    def _awaiting(self, entry: Entry, hold: Hold) -> Instruction:
        pod = entry.unit.pod
        message = f"{hold.evicted} pod(s) are evicted for it; it has room when they are gone."
        return AnnounceFailure(pod, UNSCHEDULABLE, message, hold.nodes[pod.uid])
