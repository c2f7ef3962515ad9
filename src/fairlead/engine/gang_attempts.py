"""Gangs are placed whole or not at all, in one trial.

A gang too large for one turn is placed, bound and announced in slices: its members hold their nodes
meanwhile, and no other unit is tried before it is decided.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from functools import partial

from fairlead.cluster.aspects import NOTHING, Aspect
from fairlead.cluster.cluster import Cluster
from fairlead.cluster.trial import Trial
from fairlead.engine import gang_flights, gang_views
from fairlead.engine.attempts import Attempt, Outcome
from fairlead.engine.backfill.attempts import LimitedAttempts
from fairlead.engine.backfill.limits import Limit
from fairlead.engine.binds import Binds
from fairlead.engine.gang_binding import GangBinding
from fairlead.engine.gang_extenders import GangExtenders
from fairlead.engine.gang_flights import GangFlight
from fairlead.engine.gang_messages import too_large_message, too_many_requests_message
from fairlead.engine.gang_outlook import GangOutlook, outlook
from fairlead.engine.gang_parts import GangParts
from fairlead.engine.gang_refusals import ROOM, GangRefusals, gang_of
from fairlead.engine.gang_rooms import GangRooms
from fairlead.engine.gang_search import GangSearch
from fairlead.engine.gang_solver import GangSolver
from fairlead.engine.gang_topology_trials import FirstPlan
from fairlead.engine.gang_trials import Filling, MemberPlacement, ordered
from fairlead.engine.gang_views import GangViews
from fairlead.engine.held_room import Hold
from fairlead.engine.in_flight import InFlight
from fairlead.engine.instructions import Decided
from fairlead.engine.reasons import INVALID_POD, UNSCHEDULABLE
from fairlead.engine.requeuer import Requeuer
from fairlead.model.errors import PluginFault
from fairlead.placement.gang_part import has_topology
from fairlead.placement.gang_room import GangRoom
from fairlead.placement.place import Placement
from fairlead.queue.entries import Entry
from fairlead.queue.queue import SchedulingQueue
from fairlead.queue.quota import QuotaRefusal
from fairlead.queue.units import Gang


class GangAttempts:
    """Tries gangs. Their members are followed by `binding`."""

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
        self._search = GangSearch(
            cluster, queue, placements, requeuer.beyond_quota, requeuer.on_other_models
        )
        self.patience = self._search.patience
        self.solver = GangSolver(cluster, queue, placements, self._search)
        self.rooms = GangRooms(
            cluster, queue, in_flight, requeuer, placements, self._search.topology, utc_s
        )
        self.refusals = GangRefusals(cluster, queue, requeuer, parts, self._search, self.rooms)
        self.binding = GangBinding(cluster, queue, in_flight, binds)
        #: HTTP extenders that are asked about pods of gangs; None if there are none.
        self.extenders: GangExtenders | None = None
        #: How gangs are placed that must leave room for planned starts, and what the gang must
        #: leave free that is being tried.
        self.limited: LimitedAttempts | None = None
        self._limit: Limit | None = None
        self._views = GangViews(cluster, placements)
        #: A large gang that is being planned, or placed.
        self._planning: tuple[Entry, FirstPlan] | None = None
        self._filling: tuple[GangFlight, Filling, FirstPlan | None] | None = None

    @property
    def has_more(self) -> bool:
        """Whether a gang has to be gone on with before another unit is tried."""
        own = self._filling or self._planning or self._views.entry
        return own is not None or self.binding.has_more or self.refusals.has_more

    @property
    def under_way(self) -> Gang | None:
        """The gang that is being planned or placed."""
        if self._filling:
            return self._filling[0].gang
        return gang_of(self._planning[0]) if self._planning else None

    def go_on(self, now: float) -> Attempt:
        """The next slice."""
        if self.extenders is not None:
            self.extenders.resume()
        if self.refusals.has_more:
            return self.refusals.go_on()
        if self._filling:
            return self._fill_on(*self._filling, now)
        if self._planning:
            return self._plan_on(*self._planning, now)
        if self._views.entry:
            return self._look_on(self._views.entry)
        return self.binding.go_on(now)

    def attempt(self, entry: Entry, now: float, limit: Limit | None = None) -> Attempt:
        """`limit`: what the gang must leave free for planned starts."""
        try:
            return self._attempt(entry, now, limit)
        finally:
            self._requeuer.asked = None

    def _attempt(self, entry: Entry, now: float, limit: Limit | None) -> Attempt:
        gang = gang_of(entry)
        self._limit = limit
        if self.extenders is not None:
            self.extenders.begin(entry, gang)
        if self.rooms.held and (hold := self.rooms.held.get(gang.key)):
            if asked := self._ask_extenders(entry, gang, hold.nodes, now):
                return asked
            with self._limited():
                tried = self._attempt_held(entry, gang, hold, now)
            if tried is not None:
                return tried
        early = self._requeuer.too_early(entry, now)
        self._forget_nominations(gang)
        if beyond := early or self._requeuer.gang_beyond_quota(gang):
            return self.refusals.hold_back(entry, gang, beyond, now)
        if lack := self._search.shortage(gang):
            return self.refusals.refuse_or_make_room(entry, Filling.of(gang, ()), lack, now)
        requests, counts = self._views.requests(gang)
        self._requeuer.asked = gang, counts
        if len(requests) > gang_views.MOST_REQUESTS:
            message = too_many_requests_message(gang, len(requests), gang_views.MOST_REQUESTS)
            return self.refusals.park(entry, INVALID_POD, message, NOTHING, now)
        if asked := self._ask_extenders(entry, gang, {}, now):
            return asked
        if not self._views.are_needed(gang, len(requests)):
            return self._attempt_now(entry, gang, len(requests), None, now)
        self._views.begin(entry, gang, requests)
        looked = self._look_on(entry)
        return self.attempt_ready(entry, now, limit) if self._views.are_made else looked

    def _ask_extenders(
        self, entry: Entry, gang: Gang, held: Mapping[str, str], now: float
    ) -> Attempt | None:
        """What HTTP extenders are asked before the gang is tried, or that they failed."""
        extenders = self.extenders
        if extenders is None or not extenders.concern_it:
            return None
        if extenders.problem:
            message = f"gang {gang.spec.name}: {extenders.problem}."
            return self.refusals.park(entry, INVALID_POD, message, NOTHING, now)
        try:
            if not (held or extenders.are_asked or self._may_fit(entry, gang)):
                return None
            made = extenders.ask(entry, held)
        except PluginFault as error:
            return self.refusals.fault(entry, gang, str(error), now)
        if made is not None:
            return Attempt(gang, Outcome.UNFINISHED, made)
        if extenders.error:
            return self.refusals.fault(entry, gang, extenders.error, now)
        return None

    def _may_fit(self, entry: Entry, gang: Gang) -> bool:
        """Extenders are not asked about a gang that has no room anyway."""
        with self._cluster.trial() as trial:
            return self._search.plain(trial, gang, entry.queued_s).succeeded

    def _look_on(self, entry: Entry) -> Attempt:
        """Makes some views of the gang."""
        self._views.go_on()
        return Attempt(entry.unit, Outcome.UNFINISHED, ())

    @property
    def ready_entry(self) -> Entry | None:
        """A gang that waits for nothing but to be tried: its views are made."""
        return self._views.entry if self._views.are_made else None

    def attempt_ready(self, entry: Entry, now: float, limit: Limit | None = None) -> Attempt:
        self._limit = limit
        if self.extenders is not None:
            self.extenders.resume()
        requests, room, gang = self._views.count, self._views.end(), gang_of(entry)
        if not gang.is_ready:  # pods have left meanwhile
            self._queue.finish(entry, now=now)
            return Attempt(gang, Outcome.UNFINISHED, ())
        return self._attempt_now(entry, gang, requests, room, now)

    def _attempt_now(
        self, entry: Entry, gang: Gang, requests: int, room: GangRoom | None, now: float
    ) -> Attempt:
        if self._views.is_large(gang, requests):
            return self._attempt_large(entry, gang, room, now)
        if self._limit is None and self._views.is_costly(gang):
            return self._attempt_in_slices(entry, gang, room, now)
        asks = self.solver.is_on and self._limit is None
        self._search.tries_later = not (self.extenders and self.extenders.concern_it)
        try:
            asked = self.solver.prepare(gang, now) if asks else None
            with self._cluster.trial() as trial:
                filling = self._allowed(trial, gang, room, now)
                wait = self._wait(entry, gang, filling, now) if filling.succeeded else None
                if asked is not None:
                    asked = self.solver.worthwhile(asked, filling) if wait is None else None
                if filling.succeeded and wait is None and asked is None:
                    trial.commit()
        except PluginFault as error:  # a user's plugin broke: this gang waits, the others go on
            return self.refusals.fault(entry, gang, str(error), now)
        if filling.unfinished:
            self._queue.put_back(entry)
            return Attempt(gang, Outcome.UNFINISHED, ())
        if asked is not None:
            self.solver.hold(entry, asked, filling, now)
            return Attempt(gang, Outcome.UNFINISHED, ())
        if wait is not None:
            return self.refusals.hold_back(entry, gang, wait, now)
        if self._limit is None and filling.cut_short:
            self._filling = GangFlight(entry), Filling.of(gang, ordered(gang)), None
            return Attempt(gang, Outcome.UNFINISHED, ())
        if self._limit is not None and filling.delays:
            return self.refusals.hold_back(entry, gang, self._limit.refusal, now)
        if not filling.succeeded:
            return self._refuse(entry, filling, now)
        flight = GangFlight(entry)
        self._take_off(flight, filling.placed)
        attempt = self._decided(flight, now)
        return attempt._replace(spans=filling.spans) if filling.spans else attempt

    def _refuse(self, entry: Entry, filling: Filling, now: float) -> Attempt:
        """After extenders were asked about all nodes that fit."""
        extenders = self.extenders
        if extenders and extenders.are_asked and (made := extenders.ask_more(entry)):
            return Attempt(filling.gang, Outcome.UNFINISHED, made)
        with self._limited():
            return self.refusals.refuse(entry, filling, now)

    def _wait(self, entry: Entry, gang: Gang, filling: Filling, now: float) -> QuotaRefusal | None:
        """Why it waits although it could have these nodes, if it prefers others."""
        waits = self._requeuer.goal_waits
        if not waits.may_wait(gang.pod):
            return None
        placed = ((member.pod, member.placed.node) for member in filling.placed)
        return waits.refusal(entry, placed, now)

    def _allowed(self, trial: Trial, gang: Gang, room: GangRoom | None, now: float) -> Filling:
        """The best one that delays no planned start."""
        if self._limit is None or self.limited is None:
            return self.solver.best(trial, gang, now, room)
        best = partial(self._search.plain, gang=gang, now=now)
        return self.limited.fill(trial, gang, best, self._limit, now)

    def _limited(self) -> AbstractContextManager[None]:
        """Nothing is placed where it could delay a planned start."""
        return self._cluster.limited_to(self._limit.strict if self._limit else None)

    def _attempt_held(self, entry: Entry, gang: Gang, hold: Hold, now: float) -> Attempt | None:
        """With the room that is held for it; None if that is of no use any more."""
        try:
            with self._cluster.trial() as trial:
                filling = self._fill_held(trial, gang, hold, now)
                if filling.succeeded:
                    trial.commit()
        except PluginFault as error:
            return self.refusals.fault(entry, gang, str(error), now)
        if filling.succeeded:
            flight = GangFlight(entry)
            self._take_off(flight, filling.placed)
            return self._decided(flight, now)
        if self.rooms.is_awaited(entry):
            return self.refusals.await_victims(entry, gang, hold, filling, now)
        self.rooms.held.drop(gang.key)
        return None

    def _fill_held(self, trial: Trial, gang: Gang, hold: Hold, now: float) -> Filling:
        """On the nodes that are held, or anywhere."""
        for uid in hold.nodes:
            trial.suspend_nomination(uid)
        start = trial.checkpoint()
        within = {uid: self._cluster.nodes.named([node]) for uid, node in hold.nodes.items()}
        filling = Filling.of(gang, [pod for pod in ordered(gang) if pod.uid in within], within)
        self._search.trials.fill(trial, filling, len(within))
        if filling.satisfied:
            filling.succeeded = True
            return filling
        trial.rollback(start)
        return self._search.plain(trial, gang, now)

    def _attempt_large(
        self, entry: Entry, gang: Gang, room: GangRoom | None, now: float
    ) -> Attempt:
        class_ = self._requeuer.class_of(gang)
        with self._limited():
            most = self._requeuer.most_copies(class_)
        if most < gang.needed:
            if self._limit and self._requeuer.most_copies(class_) >= gang.needed:
                return self.refusals.hold_back(entry, gang, self._limit.refusal, now)
            message = too_large_message(gang, most)
            return self.refusals.park(entry, UNSCHEDULABLE, message, ROOM, now)
        return self._attempt_in_slices(entry, gang, room, now)

    def _attempt_in_slices(
        self, entry: Entry, gang: Gang, room: GangRoom | None, now: float
    ) -> Attempt:
        if not has_topology(gang.spec):
            return self._fill_on(GangFlight(entry), Filling.of(gang, ordered(gang)), None, now)
        try:
            with self._limited():
                waited_s = self.patience.waited_s(gang.key, now)
                planning = self._search.topology.planning(gang, waited_s, room)
        except PluginFault as error:
            return self.refusals.fault(entry, gang, str(error), now)
        return self._plan_on(entry, planning, now)

    def _plan_on(self, entry: Entry, planning: FirstPlan, now: float) -> Attempt:
        gang = gang_of(entry)
        self._planning = None
        if not planning.is_of_now:
            self._queue.finish(entry, now=now)
            return Attempt(gang, Outcome.UNFINISHED, ())
        try:
            with self._limited():
                filling = planning.go_on(gang_flights.SLICE_WORK)
        except PluginFault as error:
            return self.refusals.fault(entry, gang, str(error), now)
        if filling is None:
            self._planning = entry, planning
            return Attempt(gang, Outcome.UNFINISHED, ())
        if filling.topology:
            return self._refuse(entry, filling, now)
        self._filling = GangFlight(entry), filling, planning  # in the next turn
        return Attempt(gang, Outcome.UNFINISHED, ())

    def _fill_on(
        self, flight: GangFlight, filling: Filling, planning: FirstPlan | None, now: float
    ) -> Attempt:
        """`planning`: where the plan that is filled in comes from."""
        before = len(filling.placed)
        if planning is not None and not before and not planning.is_of_now:
            self._filling = None
            self._queue.finish(flight.entry, now=now)
            return Attempt(flight.gang, Outcome.UNFINISHED, ())
        self._filling = flight, filling, planning
        improved = self._cluster.improved
        with improved.unchanged():  # no waiting pod is looked at before the whole gang is decided
            try:
                with self._limited(), self._cluster.trial() as trial:
                    done = self._search.trials.fill(
                        trial, filling, gang_flights.SLICE, gang_flights.SLICE_WORK
                    )
                    trial.commit()
            except PluginFault as error:
                self.crashed(flight.entry)
                return self.refusals.fault(flight.entry, flight.gang, str(error), now)
        self._take_off(flight, filling.placed[before:])
        if not done:
            return Attempt(flight.gang, Outcome.UNFINISHED, ())
        self._filling = None
        wait = self._wait(flight.entry, flight.gang, filling, now) if filling.satisfied else None
        if filling.satisfied and wait is None:
            improved.add(Aspect.PODS)
            return self._decided(flight, now)
        # No other unit was tried since: that is no improvement, and must not wake the gang itself.
        with improved.unchanged():
            self.binding.give_back(flight)
        del self.binding.flights[flight.gang.key]
        if wait is not None:
            return self.refusals.hold_back(flight.entry, flight.gang, wait, now)
        if planning is not None and planning.learn(filling):
            self._planning = flight.entry, planning
            return Attempt(flight.gang, Outcome.UNFINISHED, ())
        return self._refuse(flight.entry, filling, now)

    def _take_off(self, flight: GangFlight, members: Iterable[MemberPlacement]) -> None:
        self.binding.flights[flight.gang.key] = flight
        self.patience.placed(flight.gang.key)
        self.solver.forget(flight.gang.key)
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
        members = flight.placed.values()
        noted = [
            Decided(each.pod, each.placed.node, each.record) for each in members if each.record
        ]
        return Attempt(flight.gang, Outcome.SCHEDULED, [*self.binding.begin(flight, now), *noted])

    def keep_records(self, keeps: Callable[[], bool]) -> None:
        """Notes why members go where they go, as long as it is so."""
        self._search.trials.keeps_records = keeps

    def _forget_nominations(self, gang: Gang) -> None:
        """The room that it was nominated for is only one of several that will do."""
        if self._cluster.nominations:
            for pod in gang.pods:
                self._cluster.nominations.drop(pod.uid)

    def outlook(self, entry: Entry) -> GangOutlook:
        """What would become of a gang now; nothing changes."""
        return outlook(gang_of(entry), self._cluster, partial(self._tried, entry))

    def _tried(self, entry: Entry, gang: Gang) -> Filling:
        with self._cluster.trial() as trial:
            return self._search.asked(trial, gang, entry.queued_s)

    def crashed(self, entry: Entry) -> bool:
        """An attempt failed half-way; whether the gang is to be tried again now."""
        self._filling = self._planning = None
        self._views.end()
        return self.binding.crashed(entry)
