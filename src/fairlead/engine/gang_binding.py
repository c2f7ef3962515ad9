"""Members of a gang that have nodes, until the outcome of every bind is known.

First the steps before their binds are carried out, then all are bound. What happens when a bind is
denied is docs/adr/0026.
"""

from collections import Counter, deque

from fairlead.cluster.cluster import Cluster
from fairlead.cluster.holdings import Holding
from fairlead.engine import gang_flights
from fairlead.engine.attempts import Attempt, Outcome
from fairlead.engine.binds import Binds
from fairlead.engine.gang_flights import GangFlight
from fairlead.engine.gang_trials import MemberPlacement, group_of
from fairlead.engine.in_flight import InFlight
from fairlead.engine.instructions import (
    AnnounceFailure,
    AnnounceScheduled,
    Instruction,
    Prepare,
    ReleaseClaims,
)
from fairlead.engine.reasons import SCHEDULER_ERROR
from fairlead.queue.entries import Entry
from fairlead.queue.queue import SchedulingQueue


class GangBinding:
    def __init__(
        self, cluster: Cluster, queue: SchedulingQueue, in_flight: InFlight, binds: Binds
    ) -> None:
        self._cluster = cluster
        self._queue = queue
        self._in_flight = in_flight
        self._binds = binds
        self.flights = in_flight.gangs
        #: Gangs with members to bind in later turns.
        self._to_bind = deque(flight for flight in self.flights.values() if _resumes(flight))

    @property
    def has_more(self) -> bool:
        return bool(self._to_bind)

    def go_on(self, now: float) -> Attempt:
        """The next slice."""
        flight = self._to_bind.popleft()
        return Attempt(flight.gang, Outcome.UNFINISHED, self._bind(flight, now))

    def begin(self, flight: GangFlight, now: float) -> list[Instruction]:
        """All members have nodes: those with steps before their bind are prepared first."""
        made: list[Instruction] = [
            Prepare(member.pod, member.placed.node, member.steps)
            for member in flight.placed.values()
            if member.steps
        ]
        flight.asked = True
        return made or self._bind(flight, now)

    def prepared(self, uid: str, entry: Entry, now: float) -> list[Instruction]:
        """The steps of a member are done; when it was the last one, all are bound."""
        flight = self.flights[entry.unit.key]
        flight.preparing.discard(uid)
        self._in_flight.await_others(uid)
        return self._go_ahead(flight, now)

    def _go_ahead(self, flight: GangFlight, now: float) -> list[Instruction]:
        if flight.preparing or not flight.asked:
            return []
        if flight.is_over:
            return self._conclude(flight, now)
        return [] if flight.began else self._bind(flight, now)

    def _bind(self, flight: GangFlight, now: float) -> list[Instruction]:
        if not flight.began and (problem := flight.problem or _incomplete(flight)):
            released = _released(*flight.placed.values())
            self.give_back(flight, problem)
            return [*released, *self._conclude(flight, now)]
        flight.began = True
        made: list[Instruction] = []
        for uid in list(flight.placed)[: gang_flights.SLICE]:
            made += self._bind_member(flight, flight.placed.pop(uid))
        if flight.placed:
            self._to_bind.append(flight)
        return made + (self._conclude(flight, now) if flight.is_over else [])

    def _bind_member(self, flight: GangFlight, member: MemberPlacement) -> list[Instruction]:
        pod, placed = flight.gang.member(member.pod.uid) or member.pod, member.placed
        held = self._cluster.holdings.get(pod.uid)
        # Of a reserved GPU, the name is known only since the steps are done.
        grant = held.grant if held and placed.grant else placed.grant
        bind = self._binds.of(pod, placed.node, grant)
        if isinstance(bind, str):
            self._in_flight.end(pod.uid)
            self._cluster.remove(pod.uid)
            flight.denied[pod.uid] = placed.node, bind
            return _released(member)
        self._in_flight.bind(pod.uid)
        flight.binding.add(pod.uid)
        return [bind]

    def bound(self, uid: str, entry: Entry, held: Holding | None, now: float) -> list[Instruction]:
        """The bind of a member was written; one that holds nothing is gone since."""
        flight = self.flights[entry.unit.key]
        pod = flight.gang.member(uid)
        flight.binding.discard(uid)
        made: list[Instruction] = []
        if pod is not None and held is not None:
            made = [AnnounceScheduled(pod, held.node, entry.attempts, entry.first_queued_s)]
        if held is None or held.pod.deleting:
            self._queue.remove(uid)
        else:
            self._queue.place(uid)
        return made + self._go_ahead(flight, now)

    def failed(
        self, uid: str, entry: Entry, node: str, message: str, now: float
    ) -> list[Instruction]:
        """A step or the bind of a member failed; without a message it is not to be bound at all."""
        flight = self.flights[entry.unit.key]
        member = flight.placed.pop(uid, None)
        flight.preparing.discard(uid)
        flight.binding.discard(uid)
        if message:
            flight.denied[uid] = node, message
            if member is not None and not flight.began:
                flight.problem = flight.problem or message
        else:
            self._queue.remove(uid)
        return self._go_ahead(flight, now)

    def lost(self, uid: str, entry: Entry, now: float) -> list[Instruction]:
        """A member is gone; if it is being prepared or bound, the outcome comes."""
        flight = self.flights[entry.unit.key]
        if uid not in flight.placed or (uid in flight.preparing and flight.asked):
            return []
        self._end(uid)
        del flight.placed[uid]
        flight.preparing.discard(uid)
        return self._go_ahead(flight, now)

    def give_back(self, flight: GangFlight, problem: str = "") -> None:
        """No member is bound: what they hold is free."""
        for uid in flight.placed:
            self._end(uid)
            self._cluster.remove(uid)
            if problem:
                flight.denied[uid] = "", problem
        flight.placed.clear()
        flight.preparing.clear()

    def _end(self, uid: str) -> None:
        """Nothing more is done for the member; steps that were not begun count no more."""
        for step in self._in_flight.steps_of(uid):
            step.settle(self._cluster)
        self._in_flight.end(uid)

    def _conclude(self, flight: GangFlight, now: float) -> list[Instruction]:
        """Every outcome is known: what was denied is tried again around what is bound."""
        gang = flight.gang
        self.flights.pop(gang.key, None)
        keeps_room = gang.is_partial
        made: list[Instruction] = []
        for uid, (node, message) in flight.denied.items():
            pod = gang.member(uid)
            if pod is None:
                continue
            if keeps_room and node:
                self._cluster.nominations.put(pod, node)
            nominated = node if keeps_room else ""
            made.append(
                AnnounceFailure(pod, SCHEDULER_ERROR, message, nominated, with_event=not made)
            )
        if made:
            self._queue.retry(flight.entry, now=now)
        else:
            self._queue.finish(flight.entry, now=now)
        return made

    def crashed(self, entry: Entry) -> bool:
        """An attempt failed half-way: what is not being bound is given back.

        False if outcomes of binds are still to come: then the gang is tried again after them.
        """
        flight = self.flights.get(entry.unit.key)
        if flight is None:
            return True
        self.give_back(flight)
        if not flight.binding:
            del self.flights[entry.unit.key]
        return not flight.binding


def _released(*members: MemberPlacement) -> list[Instruction]:
    """What was written for members that are prepared, and are not bound after all."""
    return [ReleaseClaims(member.pod) for member in members if member.pod.request.claims]


def _resumes(flight: GangFlight) -> bool:
    """Whether the engine, which has begun again, has to go on with the gang by itself."""
    if flight.placed and not flight.asked:
        flight.preparing.clear()
        flight.asked = True
        flight.problem = "not all pods of the gang had nodes when the scheduler began again"
    return bool(flight.placed) and not flight.preparing


def _incomplete(flight: GangFlight) -> str:
    """Why the members that are ready are not enough any more."""
    gang = flight.gang
    ready = Counter(group_of(member.pod) for member in flight.placed.values())
    if gang.problem:
        return gang.problem
    return "pods of the gang have left before it was bound" if gang.needed_with(ready) else ""
