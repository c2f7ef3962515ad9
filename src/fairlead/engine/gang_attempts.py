"""Gangs are placed whole or not at all, and bound when every member is ready.

One trial places the members; then the steps before their binds are carried out, then all are bound.
A gang too large for one turn is placed, bound and announced in slices: its members hold their nodes
meanwhile, and no other unit is tried before it is decided. What happens when a bind is denied is
docs/adr/0026.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from functools import partial

from fairlead.cluster.aspects import Aspect
from fairlead.cluster.cluster import Cluster
from fairlead.cluster.holdings import Holding
from fairlead.cluster.trial import Trial
from fairlead.engine.attempts import Attempt, Outcome
from fairlead.engine.binds import Binds
from fairlead.engine.gang_admission import shortage
from fairlead.engine.gang_flights import GangFlight
from fairlead.engine.gang_messages import (
    awaiting_message,
    no_room_message,
    refusal_message,
    too_large_message,
)
from fairlead.engine.gang_outlook import GangOutlook, outlook
from fairlead.engine.gang_parts import GangParts
from fairlead.engine.gang_rooms import GangRooms
from fairlead.engine.gang_topology_trials import TopologyPatience, TopologyTrials
from fairlead.engine.gang_trials import Filling, GangTrials, MemberPlacement, group_of, ordered
from fairlead.engine.held_room import Hold
from fairlead.engine.in_flight import InFlight
from fairlead.engine.instructions import (
    AnnounceFailure,
    AnnounceScheduled,
    Instruction,
    Prepare,
)
from fairlead.engine.reasons import SCHEDULER_ERROR, UNSCHEDULABLE, WAITING_FOR_TOPOLOGY
from fairlead.engine.requeuer import Requeuer
from fairlead.model.errors import PluginFault
from fairlead.placement.gang_topology import has_topology
from fairlead.placement.making_room import RoomOutcome
from fairlead.placement.place import Placement
from fairlead.queue.entries import Entry
from fairlead.queue.queue import SchedulingQueue
from fairlead.queue.quota import QuotaRefusal
from fairlead.queue.units import Gang

#: Members that are placed, bound or announced in one turn: at most 80 ms.
SLICE = 1000

#: What can make room for more pods.
_ROOM = Aspect.PRESENCE | Aspect.ALLOCATABLE | Aspect.USAGE | Aspect.TAINTS


class GangAttempts:
    """Tries gangs, and follows their members until they are bound."""

    def __init__(
        self,
        cluster: Cluster,
        queue: SchedulingQueue,
        in_flight: InFlight,
        placements: Mapping[str, Placement],
        requeuer: Requeuer,
        binds: Binds,
        parts: GangParts,
        utc_s: Callable[[float], float],
    ) -> None:
        self._cluster = cluster
        self._queue = queue
        self._in_flight = in_flight
        self._requeuer = requeuer
        self._binds = binds
        self._parts = parts
        self._trials = GangTrials(cluster, placements, requeuer.beyond_quota)
        self._topology = TopologyTrials(cluster, placements, self._trials)
        self.patience = TopologyPatience(queue)
        self.rooms = GangRooms(
            cluster, queue, in_flight, requeuer, placements, self._topology, utc_s
        )
        self.flights = in_flight.gangs
        #: A large gang that is being placed.
        self._filling: tuple[GangFlight, Filling] | None = None
        #: Gangs with members to bind, and announcements to make, in later turns.
        self._to_bind = deque(flight for flight in self.flights.values() if _resumes(flight))
        self._to_announce: deque[tuple[Gang, list[Instruction]]] = deque()

    # -- trying ------------------------------------------------------------------------------

    @property
    def has_more(self) -> bool:
        """Whether a gang has to be gone on with before another unit is tried."""
        return bool(self._filling or self._to_bind or self._to_announce)

    def go_on(self, now: float) -> Attempt:
        """The next slice."""
        if self._to_announce:
            gang, made = self._to_announce.popleft()
            return self._announced(gang, made, Outcome.UNFINISHED)
        if self._filling:
            return self._fill_on(*self._filling, now)
        flight = self._to_bind.popleft()
        return Attempt(flight.gang, Outcome.UNFINISHED, self._bind(flight, now))

    def attempt(self, entry: Entry, now: float) -> Attempt:
        gang = entry.unit
        assert isinstance(gang, Gang)
        if self.rooms.held and (hold := self.rooms.held.get(gang.key)):
            tried = self._attempt_held(entry, gang, hold, now)
            if tried is not None:
                return tried
        self._forget_nominations(gang)
        if beyond := self._requeuer.gang_beyond_quota(gang):
            return self._hold_back(entry, gang, beyond, now)
        if lack := self._shortage(gang):
            return self._refuse_or_make_room(entry, Filling.of(gang, ()), lack, now)
        if len(gang.pods) > SLICE:
            return self._attempt_large(entry, gang, now)
        try:
            with self._cluster.trial() as trial:
                filling = self._best(trial, entry, gang, now)
                if filling.succeeded:
                    trial.commit()
        except PluginFault as error:  # a user's plugin broke: this gang waits, the others go on
            return self._fault(entry, gang, str(error), now)
        if not filling.succeeded:
            return self._refuse(entry, filling, now)
        flight = GangFlight(entry)
        self._take_off(flight, filling.placed)
        attempt = self._decided(flight, now)
        return attempt._replace(spans=filling.spans) if filling.spans else attempt

    def _attempt_held(self, entry: Entry, gang: Gang, hold: Hold, now: float) -> Attempt | None:
        """With the room that is held for it; None if that is of no use any more."""
        try:
            with self._cluster.trial() as trial:
                filling = self._fill_held(trial, entry, gang, hold, now)
                if filling.succeeded:
                    trial.commit()
        except PluginFault as error:
            return self._fault(entry, gang, str(error), now)
        if filling.succeeded:
            flight = GangFlight(entry)
            self._take_off(flight, filling.placed)
            return self._decided(flight, now)
        if self.rooms.is_awaited(entry):
            return self._await_victims(entry, gang, hold, filling, now)
        self.rooms.held.drop(gang.key)
        return None

    def _fill_held(
        self, trial: Trial, entry: Entry, gang: Gang, hold: Hold, now: float
    ) -> Filling:  # fmt: skip
        """On the nodes that are held, or anywhere."""
        for uid in hold.nodes:
            trial.suspend_nomination(uid)
        start = trial.checkpoint()
        within = {uid: self._cluster.nodes.named([node]) for uid, node in hold.nodes.items()}
        filling = Filling.of(gang, [pod for pod in ordered(gang) if pod.uid in within], within)
        self._trials.fill(trial, filling, len(within))
        if filling.satisfied:
            filling.succeeded = True
            return filling
        trial.rollback(start)
        return self._best(trial, entry, gang, now)

    def _await_victims(
        self, entry: Entry, gang: Gang, hold: Hold, filling: Filling, now: float
    ) -> Attempt:
        message = awaiting_message(gang, hold.evicted)
        woken_by = filling.woken_by | _ROOM
        return self._park(entry, UNSCHEDULABLE, message, woken_by, now, nodes=hold.nodes)

    def _shortage(self, gang: Gang) -> str:
        lack = "" if gang.placed else shortage(self._cluster, gang.spec, {})
        return f"gang {gang.spec.name}: {lack}." if lack else ""

    def _best(self, trial: Trial, entry: Entry, gang: Gang, now: float) -> Filling:
        if has_topology(gang.spec):
            return self._topology.best(trial, gang, self.patience.waited_s(gang.key, now))
        return self._trials.best(trial, gang)

    def _fault(self, entry: Entry, gang: Gang, message: str, now: float) -> Attempt:
        made: list[Instruction] = [
            AnnounceFailure(pod, SCHEDULER_ERROR, message, with_event=not number)
            for number, pod in enumerate(gang.pods)
        ]
        self._queue.retry(entry, now=now)
        return self._announced(gang, made, Outcome.ERROR)

    def _attempt_large(self, entry: Entry, gang: Gang, now: float) -> Attempt:
        most = self._requeuer.most_copies(self._requeuer.class_of(gang))
        if most < gang.needed:
            message = too_large_message(gang, most)
            return self._park(entry, UNSCHEDULABLE, message, _ROOM, now)
        filling = Filling.of(gang, ordered(gang))
        if has_topology(gang.spec):
            try:
                filling = self._topology.first(gang, self.patience.waited_s(gang.key, now))
            except PluginFault as error:
                return self._fault(entry, gang, str(error), now)
            if filling.topology:
                return self._refuse(entry, filling, now)
        return self._fill_on(GangFlight(entry), filling, now)

    def _fill_on(self, flight: GangFlight, filling: Filling, now: float) -> Attempt:
        before = len(filling.placed)
        self._filling = flight, filling
        improved = self._cluster.improved
        kept = improved.drain()
        try:
            with self._cluster.trial() as trial:
                done = self._trials.fill(trial, filling, SLICE)
                trial.commit()
        except PluginFault as error:
            self.crashed(flight.entry)
            return self._fault(flight.entry, flight.gang, str(error), now)
        finally:  # no waiting pod is looked at before the whole gang is decided
            improved.drain()
            improved.add(Aspect(kept))
        self._take_off(flight, filling.placed[before:])
        if not done:
            return Attempt(flight.gang, Outcome.UNFINISHED, ())
        self._filling = None
        if filling.satisfied:
            improved.add(Aspect.PODS)
            return self._decided(flight, now)
        # No other unit was tried since: that is no improvement, and must not wake the gang itself.
        for uid in flight.placed:
            self._cluster.detach(uid)
        self._give_back(flight)
        del self.flights[flight.gang.key]
        return self._refuse(flight.entry, filling, now)

    def _take_off(self, flight: GangFlight, members: Iterable[MemberPlacement]) -> None:
        self.flights[flight.gang.key] = flight
        self.patience.placed(flight.gang.key)
        if self.rooms.held:
            self.rooms.held.used(flight.gang.key)
        flight.gang.refusal = ""
        for member in members:
            uid = member.pod.uid
            if self._cluster.nominations:
                self._cluster.nominations.settle(uid, member.placed.node)
            self._in_flight.begin_member(uid, flight.entry, member.steps)
            flight.placed[uid] = member
            if member.steps:
                flight.preparing.add(uid)

    def _decided(self, flight: GangFlight, now: float) -> Attempt:
        if self._queue.awaited or self._queue.held_back:
            self._requeuer.look_at_next(self._requeuer.class_of(flight.gang), now)
        made: list[Instruction] = [
            Prepare(member.pod, member.placed.node, member.steps)
            for member in flight.placed.values()
            if member.steps
        ]
        flight.asked = True
        if not made:
            made = self._bind(flight, now)
        return Attempt(flight.gang, Outcome.SCHEDULED, made)

    def outlook(self, entry: Entry) -> GangOutlook:
        """What would become of a gang now; nothing changes."""
        gang = entry.unit
        assert isinstance(gang, Gang)
        return outlook(gang, self._cluster, partial(self._tried, entry))

    def _tried(self, entry: Entry, gang: Gang) -> Filling:
        with self._cluster.trial() as trial:
            return self._best(trial, entry, gang, entry.queued_s)

    # -- refusing ----------------------------------------------------------------------------

    def _hold_back(self, entry: Entry, gang: Gang, beyond: QuotaRefusal, now: float) -> Attempt:
        message = f"gang {gang.spec.name}: {beyond.message}."
        held_back = Outcome.HELD_BACK
        attempt = self._park(entry, beyond.reason, message, beyond.woken_by, now, held_back)
        self._queue.held_back.put(entry, beyond.queue)
        self._requeuer.announced(entry, beyond, self._requeuer.class_of(gang))
        return attempt

    def _refuse(self, entry: Entry, filling: Filling, now: float) -> Attempt:
        reason, outcome = UNSCHEDULABLE, Outcome.UNSCHEDULABLE
        if filling.first and isinstance(filling.first[1], QuotaRefusal):
            reason, outcome = filling.first[1].reason, Outcome.HELD_BACK
        message = refusal_message(filling)
        if has_topology(filling.gang.spec):
            next_s = filling.topology.next_s if filling.topology else None
            self.patience.refused(filling.gang.key, now, next_s)
            if next_s is not None:
                reason, outcome = WAITING_FOR_TOPOLOGY, Outcome.HELD_BACK
        released = self._make_way(entry, filling.gang, now)
        if not released and not isinstance(filling.first and filling.first[1], QuotaRefusal):
            return self._refuse_or_make_room(entry, filling, message, now, reason, outcome)
        attempt = self._park(entry, reason, message, filling.woken_by, now, outcome)
        if filling.held_back_by is not None:
            self._queue.held_back.put(entry, filling.held_back_by)
        return attempt._replace(instructions=[*attempt.instructions, *released])

    def _refuse_or_make_room(
        self,
        entry: Entry,
        filling: Filling,
        message: str,
        now: float,
        reason: str = UNSCHEDULABLE,
        outcome: Outcome = Outcome.UNSCHEDULABLE,
    ) -> Attempt:
        """Other units are evicted for the gang if that helps."""
        gang, woken_by = filling.gang, filling.woken_by | _ROOM
        found = self.search_room(entry, now)
        if found.plan is None:
            said = f"{message} {no_room_message(found.why)}" if found.why else message
            attempt = self._park(entry, reason, said, woken_by, now, outcome)
            if found.cut_short:
                self._queue.postpone(entry, "ScheduleAttemptFailure")
            return attempt
        members = [(each.pod, each.placed) for each in found.plan.placed.placed]
        made = self.rooms.begin(gang.key, members, found.plan.units, now)
        hold = self.rooms.held.get(gang.key)
        assert hold is not None
        attempt = self._await_victims(entry, gang, hold, filling, now)
        if not hold.victims:
            self._queue.wake(entry, "ForceActivate", now=now)
        return attempt._replace(instructions=[*attempt.instructions, *made])

    def search_room(self, entry: Entry, now: float) -> RoomOutcome[Filling]:
        """Which units could be evicted for the gang; nothing changes."""
        gang = _gang(entry)
        waited_s = self.patience.waited_s(gang.key, now)
        return self.rooms.search(gang, partial(self._filled, entry, now), waited_s, now)

    def _filled(self, entry: Entry, now: float, trial: Trial) -> Filling:
        """The gang in the trial, if it has what it needs then."""
        gang = _gang(entry)
        if self._shortage(gang):
            return Filling.of(gang, ())
        return self._best(trial, entry, gang, now)

    def _make_way(self, entry: Entry, gang: Gang, now: float) -> list[Instruction]:
        """Gangs bound in part that come later are released, if the gang can be completed then."""
        later = self._parts.after(entry) if gang.is_partial else []
        if not later:
            return []
        released: list[Entry] = []
        with self._cluster.trial() as trial:
            for other in later:
                released.append(other)
                for uid in _gang(other).placed:
                    trial.evict(uid)
                filling = self._best(trial, entry, gang, now)
                if filling.succeeded:
                    break
            else:
                return []
        for member in filling.placed:
            self._cluster.nominations.put(member.pod, member.placed.node)
        why = f"gang {gang.spec.name} is bound in part, too, and comes first"
        return [made for other in released for made in self._parts.release(other, why)]

    def _park(
        self,
        entry: Entry,
        reason: str,
        message: str,
        woken_by: Aspect,
        now: float,
        outcome: Outcome = Outcome.UNSCHEDULABLE,
        nodes: Mapping[str, str] = {},
    ) -> Attempt:
        """`nodes`: those that pods are nominated for from now on, by uid."""
        gang = entry.unit
        assert isinstance(gang, Gang)
        pods, gang.refusal = list(gang.pods), message
        self._queue.park(entry, self._requeuer.class_of(gang), woken_by=woken_by, now=now)
        made: list[Instruction] = [
            AnnounceFailure(
                pod,
                reason,
                message,
                nodes.get(pod.uid, "" if pod.nominated else None),
                with_event=not number,
            )
            for number, pod in enumerate(pods)
        ]
        return self._announced(gang, made, outcome)

    def _announced(self, gang: Gang, made: list[Instruction], outcome: Outcome) -> Attempt:
        if len(made) > SLICE:
            self._to_announce.append((gang, made[SLICE:]))
        return Attempt(gang, outcome, made[:SLICE])

    def _forget_nominations(self, gang: Gang) -> None:
        """The room that it was nominated for is only one of several that will do."""
        if self._cluster.nominations:
            for pod in gang.pods:
                self._cluster.nominations.drop(pod.uid)

    # -- binding -----------------------------------------------------------------------------

    def prepared(self, uid: str, entry: Entry, now: float) -> list[Instruction]:
        """The steps of a member are done; when it was the last one, all are bound."""
        flight = self.flights[entry.unit.key]
        flight.preparing.discard(uid)
        self._in_flight.await_others(uid)
        return self._go_ahead(flight, now)

    def _go_ahead(self, flight: GangFlight, now: float) -> list[Instruction]:
        if self._filling and self._filling[0] is flight:
            return []
        if flight.preparing:
            return []
        if flight.is_over:
            return self._conclude(flight, now)
        return [] if flight.began else self._bind(flight, now)

    def _bind(self, flight: GangFlight, now: float) -> list[Instruction]:
        if not flight.began and (problem := flight.problem or _incomplete(flight)):
            self._give_back(flight, problem)
            return self._conclude(flight, now)
        flight.began = True
        made: list[Instruction] = []
        for uid in list(flight.placed)[:SLICE]:
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
            return []
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
        filling = self._filling is not None and self._filling[0] is flight
        if uid not in flight.placed or (uid in flight.preparing and not filling):
            return []
        self._end(uid)
        del flight.placed[uid]
        flight.preparing.discard(uid)
        return self._go_ahead(flight, now)

    def _give_back(self, flight: GangFlight, problem: str = "") -> None:
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
        self._filling = None
        flight = self.flights.get(entry.unit.key)
        if flight is None:
            return True
        self._give_back(flight)
        if not flight.binding:
            del self.flights[entry.unit.key]
        return not flight.binding


def _resumes(flight: GangFlight) -> bool:
    """Whether the engine, which has begun again, has to go on with the gang by itself."""
    if flight.placed and not flight.asked:
        flight.preparing.clear()
        flight.problem = "not all pods of the gang had nodes when the scheduler began again"
    return bool(flight.placed) and not flight.preparing


def _gang(entry: Entry) -> Gang:
    assert isinstance(entry.unit, Gang)
    return entry.unit


def _incomplete(flight: GangFlight) -> str:
    """Why the members that are ready are not enough any more."""
    gang = flight.gang
    ready = Counter(group_of(member.pod) for member in flight.placed.values())
    if gang.problem:
        return gang.problem
    return "pods of the gang have left before it was bound" if gang.needed_with(ready) else ""
