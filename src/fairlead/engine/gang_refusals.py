"""Gangs that get no nodes now: they wait with a reason, or others make room for them."""

from collections import deque
from functools import partial

from fairlead.cluster.aspects import Aspect
from fairlead.cluster.cluster import Cluster
from fairlead.cluster.trial import Trial
from fairlead.engine import gang_flights
from fairlead.engine.attempts import Attempt, Outcome
from fairlead.engine.gang_messages import (
    GOES_ON,
    awaiting_message,
    delay_message,
    no_room_message,
    refusal_message,
)
from fairlead.engine.gang_parts import GangParts
from fairlead.engine.gang_rooms import GangRooms
from fairlead.engine.gang_search import GangSearch
from fairlead.engine.gang_trials import Filling
from fairlead.engine.held_room import Hold
from fairlead.engine.instructions import AnnounceFailure, FreeClaim, Instruction
from fairlead.engine.kept_records import records_of
from fairlead.engine.node_requests import NodeRequests
from fairlead.engine.reasons import SCHEDULER_ERROR, UNSCHEDULABLE, WAITING_FOR_TOPOLOGY
from fairlead.engine.requeuer import Requeuer
from fairlead.placement.device_room import devices_of
from fairlead.placement.gang_part import has_many_parts, has_topology
from fairlead.placement.making_room import RoomOutcome
from fairlead.placement.verdicts import Refused
from fairlead.queue.entries import Entry
from fairlead.queue.queue import SchedulingQueue
from fairlead.queue.quota import QuotaRefusal
from fairlead.queue.units import Gang

#: What can make room for more pods.
ROOM = Aspect.PRESENCE | Aspect.ALLOCATABLE | Aspect.USAGE | Aspect.TAINTS


class GangRefusals:
    def __init__(
        self,
        cluster: Cluster,
        queue: SchedulingQueue,
        requeuer: Requeuer,
        parts: GangParts,
        search: GangSearch,
        rooms: GangRooms,
    ) -> None:
        self._cluster = cluster
        self._queue = queue
        self._requeuer = requeuer
        self._parts = parts
        self._search = search
        self._rooms = rooms
        self.node_requests = NodeRequests(queue, requeuer.request_of)
        #: Announcements to make in later turns.
        self._to_announce: deque[tuple[Gang, list[Instruction]]] = deque()

    @property
    def has_more(self) -> bool:
        return bool(self._to_announce)

    def go_on(self) -> Attempt:
        """The next slice of announcements."""
        gang, made = self._to_announce.popleft()
        return self._announced(gang, made, Outcome.UNFINISHED)

    def hold_back(self, entry: Entry, gang: Gang, beyond: QuotaRefusal, now: float) -> Attempt:
        message = f"gang {gang.spec.name}: {beyond.message}."
        held_back = Outcome.HELD_BACK
        attempt = self.park(entry, beyond.reason, message, beyond.woken_by, now, held_back)
        self._queue.held_back.put(entry, beyond.queue)
        self._requeuer.announced(entry, beyond, self._requeuer.class_of(gang))
        return attempt

    def refuse(self, entry: Entry, filling: Filling, now: float) -> Attempt:
        """No nodes for the gang. A claim that keeps a member from all nodes may be deallocated."""
        attempt = self._refuse(entry, filling, now)
        pod, why = filling.first or (None, None)
        if pod is None or not isinstance(why, Refused) or why.frees is None:
            return attempt
        return attempt._replace(instructions=[*attempt.instructions, FreeClaim(pod, why.frees)])

    def _refuse(self, entry: Entry, filling: Filling, now: float) -> Attempt:
        reason, outcome = UNSCHEDULABLE, Outcome.UNSCHEDULABLE
        if filling.first and isinstance(filling.first[1], QuotaRefusal):
            reason, outcome = filling.first[1].reason, Outcome.HELD_BACK
        message = refusal_message(filling)
        if has_topology(filling.gang.spec):
            next_s = filling.topology.next_s if filling.topology else None
            self._search.patience.refused(filling.gang.key, now, next_s)
            if next_s is not None:
                reason, outcome = WAITING_FOR_TOPOLOGY, Outcome.HELD_BACK
        released = self._make_way(entry, filling.gang, now)
        if not released and not isinstance(filling.first and filling.first[1], QuotaRefusal):
            return self.refuse_or_make_room(entry, filling, message, now, reason, outcome)
        attempt = self.park(entry, reason, message, filling.woken_by, now, outcome)
        if filling.held_back_by is not None:
            self._queue.held_back.put(entry, filling.held_back_by)
        return attempt._replace(instructions=[*attempt.instructions, *released])

    def refuse_or_make_room(
        self,
        entry: Entry,
        filling: Filling,
        message: str,
        now: float,
        reason: str = UNSCHEDULABLE,
        outcome: Outcome = Outcome.UNSCHEDULABLE,
    ) -> Attempt:
        """Other units are evicted for the gang if that helps."""
        gang, woken_by = filling.gang, filling.woken_by | ROOM
        found: RoomOutcome[Filling] = RoomOutcome(None, cut_short=True)
        if not filling.try_again:
            found = self.search_room(entry, now)
        if now < (evicts_s := evicts_from_s(entry, gang)):
            self._search.patience.wake_at(gang.key, evicts_s)
        if found.plan is None:
            more = no_room_message(found.why) if found.why else found.cut_short and GOES_ON
            said = f"{message} {more}" if more else message
            attempt = self.park(entry, reason, said, woken_by, now, outcome)
            if found.cut_short:
                self._queue.postpone(entry, "ScheduleAttemptFailure")
            return attempt
        if self._rooms.moves_first(entry, self._requeuer.class_of(gang), now):
            return self.park(entry, reason, message, woken_by, now, outcome)
        members = [(each.pod, each.placed) for each in found.plan.placed.placed]
        steps = (step for each in found.plan.placed.placed for step in each.steps)
        devices = devices_of(steps)
        made = self._rooms.begin(gang.key, members, found.plan.units, now, devices)
        hold = self._rooms.held.get(gang.key)
        assert hold is not None
        attempt = self.await_victims(entry, gang, hold, filling, now)
        if not hold.victims:
            self._queue.wake(entry, "ForceActivate", now=now)
        return attempt._replace(instructions=[*attempt.instructions, *made])

    def search_room(self, entry: Entry, now: float) -> RoomOutcome[Filling]:
        """Which units could be evicted for the gang; nothing changes."""
        gang = gang_of(entry)
        if now < evicts_from_s(entry, gang):
            return RoomOutcome(None, delay_message(gang.spec.eviction_delay_s))
        waited_s = self._search.patience.waited_s(gang.key, now)
        return self._rooms.search(gang, partial(self._filled, entry, now), waited_s, now)

    def _filled(self, entry: Entry, now: float, trial: Trial) -> Filling:
        """The gang in the trial, if it has what it needs then."""
        gang = gang_of(entry)
        if self._search.shortage(gang):
            return Filling.of(gang, ())
        return self._search.plain(trial, gang, now)

    def _make_way(self, entry: Entry, gang: Gang, now: float) -> list[Instruction]:
        """Gangs bound in part that come later are released, if the gang can be completed then."""
        later = self._parts.after(entry) if gang.is_partial else []
        if not later or has_many_parts(gang.spec, len(self._cluster)):
            return []  # both are released when the time for a gang that is bound in part is over
        released: list[Entry] = []
        with self._cluster.trial() as trial:
            for other in later:
                released.append(other)
                for uid in gang_of(other).placed:
                    trial.evict(uid)
                filling = self._search.plain(trial, gang, now)
                if filling.succeeded:
                    break
            else:
                return []
        for member in filling.placed:
            self._cluster.nominations.put(member.pod, member.placed.node)
        why = f"gang {gang.spec.name} is bound in part, too, and comes first"
        return [made for other in released for made in self._parts.release(other, why)]

    def await_victims(
        self, entry: Entry, gang: Gang, hold: Hold, filling: Filling, now: float
    ) -> Attempt:
        message = awaiting_message(gang, hold)
        woken_by = filling.woken_by | ROOM
        return self.park(entry, UNSCHEDULABLE, message, woken_by, now, hold=hold)

    def park(
        self,
        entry: Entry,
        reason: str,
        message: str,
        woken_by: Aspect,
        now: float,
        outcome: Outcome = Outcome.UNSCHEDULABLE,
        hold: Hold | None = None,
    ) -> Attempt:
        """`hold`: its pods are nominated from now on."""
        gang = gang_of(entry)
        nodes = hold.nodes if hold else {}
        kept = records_of(hold, self._cluster) if hold else {}
        if nodes:
            self.node_requests.has_room_soon(gang)
        else:
            reason, message = self.node_requests.refused(gang, reason, message)
        pods, gang.refusal = list(gang.pods), message
        self._queue.park(entry, self._requeuer.class_of(gang), woken_by=woken_by, now=now)
        made: list[Instruction] = [
            AnnounceFailure(
                pod,
                reason,
                message,
                nodes.get(pod.uid, "" if pod.nominated else None),
                kept.get(pod.uid),
                with_event=not number,
            )
            for number, pod in enumerate(pods)
        ]
        return self._announced(gang, made, outcome)

    def fault(self, entry: Entry, gang: Gang, message: str, now: float) -> Attempt:
        made: list[Instruction] = [
            AnnounceFailure(pod, SCHEDULER_ERROR, message, with_event=not number)
            for number, pod in enumerate(gang.pods)
        ]
        self._queue.retry(entry, now=now)
        return self._announced(gang, made, Outcome.ERROR)

    def _announced(self, gang: Gang, made: list[Instruction], outcome: Outcome) -> Attempt:
        if len(made) > gang_flights.SLICE:
            self._to_announce.append((gang, made[gang_flights.SLICE :]))
        return Attempt(gang, outcome, made[: gang_flights.SLICE])


def gang_of(entry: Entry) -> Gang:
    assert isinstance(entry.unit, Gang)
    return entry.unit


def evicts_from_s(entry: Entry, gang: Gang) -> float:
    """When it may evict others; an autoscaler may add nodes before."""
    return entry.first_queued_s + gang.spec.eviction_delay_s
