"""Other units make room for one that was refused: whole, all at once, and never in vain."""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TypeVar

import numpy as np

from fairlead.cluster import claiming
from fairlead.cluster.arrays import NodeMask
from fairlead.cluster.claim_room import device_counts, freed_by
from fairlead.cluster.cluster import Cluster
from fairlead.cluster.device_work import counted_work
from fairlead.cluster.topology_levels import LevelCodes
from fairlead.cluster.trial import Trial
from fairlead.engine import reservations
from fairlead.engine.device_evictions import evict_for_devices
from fairlead.engine.gang_topology_trials import TopologyTrials
from fairlead.engine.gang_trials import Filling, ordered
from fairlead.engine.held_room import HeldRoom
from fairlead.engine.in_flight import InFlight
from fairlead.engine.instructions import ClearNomination, Evict, Instruction
from fairlead.engine.queue_victims import ByQueue, victim_groups
from fairlead.engine.requeuer import Requeuer
from fairlead.engine.room_searches import Search, SearchPace, UnfinishedSearches
from fairlead.model.claims import AllocatedDevice
from fairlead.model.errors import PluginFault
from fairlead.model.pods import Pod, PodRequest
from fairlead.placement.disruption_units import (
    ByLowerPriority,
    DisruptionUnit,
    DisruptionUnits,
    VictimRule,
    WithinBudgets,
    victims_by_node,
)
from fairlead.placement.gang_part import has_many_parts, has_topology
from fairlead.placement.making_room import RoomOutcome, RoomSearch, TrialTooLong
from fairlead.placement.place import Placement
from fairlead.placement.room_rows import FreeAmounts, PodKind, fitting_pods
from fairlead.placement.topology_solver import limits_of
from fairlead.placement.verdicts import Placed
from fairlead.queue.entries import Entry, Pool
from fairlead.queue.queue import SchedulingQueue
from fairlead.queue.quotas.reclaim import Reclaim
from fairlead.queue.units import EquivalenceClass, Gang, Unit

P = TypeVar("P")

#: Larger gangs evict no other pods: a search would take too long in one turn.
MOST_PODS = 1000

#: The same for gangs with more different requests.
MOST_REQUESTS = 64

#: The same for gangs with claims: devices are searched for each of their pods.
MOST_CLAIMING = 100

#: Where sums over all pods took so much work, a search for devices begins in the next attempt.
_MOST_SUMMED = 20_000

NEVER = "the preemptionPolicy of a pod is Never"
GROUP_NEVER = "the preemptionPolicy of its group is Never"
TOO_LARGE = f"gangs of more than {MOST_PODS} pods evict no others"
TOO_MANY_GROUPS = "gangs with so many groups that have topology rules evict no others"
TOO_MANY_REQUESTS = f"gangs with more than {MOST_REQUESTS} different requests evict no others"
TOO_MANY_CLAIMING = f"gangs of more than {MOST_CLAIMING} pods with resource claims evict no others"
NO_VICTIMS = "there is no pod that may be evicted for it"
ABOVE_SHARE = "its queue, or one above, would have more than its fair share with it"
PAUSED = "room was made for it before, in vain; it waits before that is tried again"

#: Places the gang in a trial; what comes of it.
FillGang = Callable[[Trial], Filling]

#: Whether moves are looked for before others are evicted for a unit of that class.
MovesFirst = Callable[[Entry, EquivalenceClass, float], bool]


class GangRooms:
    def __init__(
        self,
        cluster: Cluster,
        queue: SchedulingQueue,
        in_flight: InFlight,
        requeuer: Requeuer,
        placements: Mapping[str, Placement],
        topology: TopologyTrials,
        utc_s: Callable[[float], float],
    ) -> None:
        self._cluster = cluster
        self._queue = queue
        self._in_flight = in_flight
        self._requeuer = requeuer
        self._placements = placements
        self._topology = topology
        self._utc_s = utc_s
        self.held = HeldRoom(cluster, self.has_devices)
        #: What the queue of a unit may reclaim; None without one.
        self.reclaim_for: Callable[[Unit], Reclaim | None] = lambda _unit: None
        #: While this is equal, no queue may reclaim more or less.
        self.reclaim_state: Callable[[], Hashable] = lambda: None
        #: Whether pods are moved for a waiting unit before others are evicted, if that helps.
        self.moves_first: MovesFirst = lambda _entry, _class, _now: False
        self._pace, self._asked_pace = SearchPace(), SearchPace()
        self._unfinished = UnfinishedSearches()

    # -- looking -----------------------------------------------------------------------------

    def search(
        self, gang: Gang, fill: FillGang, waited_s: float, now: float
    ) -> RoomOutcome[Filling]:
        """Which units could go so that the gang has what it needs. Nothing changes."""
        before = self._cluster.work.spent
        reclaim = self._reclaim(gang)
        if not gang.needed or (reclaim is None and not self._has_lower(gang)):
            return RoomOutcome(None)
        if why := self._ineligible(gang, now) or self._without_victims(reclaim):
            return RoomOutcome(None, why)
        if self._cluster.work.spent - before > _MOST_SUMMED and self.evicts_for_devices(gang):
            return RoomOutcome(None, cut_short=True)

        def search() -> RoomSearch[Filling]:
            return self._search(
                gang,
                self._kinds(gang),
                lambda trial: _succeeded(fill(trial)),
                now,
                self._domains(gang, waited_s),
            )

        return self.paced(gang.key, search, now)

    def state(self) -> Hashable:
        """While this is equal, a search that was of no use is of none, except that time passes."""
        return self._cluster.improved.count, self.reclaim_state()

    def ineligible_pod(self, unit: Unit, now: float) -> str:
        """Why a plain pod evicts no others, whatever there is to evict."""
        if not unit.pod.preempts:
            return NEVER
        return PAUSED if self.held.is_paused(unit.key, now) else ""

    def search_for_pod(self, unit: Unit, now: float) -> RoomOutcome[Placed]:
        """The same for a plain pod."""
        pod, placement = unit.pod, self._placements[unit.pod.scheduler]
        if why := self.ineligible_pod(unit, now):
            return RoomOutcome(None, why)
        if why := self._without_victims(self._reclaim(unit)):
            return RoomOutcome(None, why)

        def place(_: Trial) -> Placed | None:
            with counted_work(self._cluster):
                return placement.find(pod)

        def search() -> RoomSearch[Placed]:
            kind = PodKind(placement.request(pod), 1, placement.reachable(pod))
            return self._search(unit, [kind], place, now)

        return self.paced(unit.key, search, now)

    def paced(self, key: str, begin: Callable[[], Search[P]], now: float) -> RoomOutcome[P]:
        """A search, or its next part; not if others took too long just before."""
        if not self._pace.allows(now):
            return RoomOutcome(None, cut_short=True)
        before = self._cluster.work.spent
        try:
            state = self.state()
            search = self._unfinished.take(key, state, now, begin)
            with self._cluster.trial() as trial:
                found = search.search(trial)
        except PluginFault as error:
            return RoomOutcome(None, str(error))
        else:
            if found.cut_short and search.may_go_on:
                self._unfinished.put(key, search, state, now)
            return found
        finally:
            self._pace.spend(self._cluster.work.spent - before)

    @contextmanager
    def asked(self, unit: Unit) -> Iterator[None]:
        """A search whose result is only told: later ones go on as if it had not been made."""
        kept = self._pace, self._unfinished
        self._pace, self._unfinished = self._asked_pace, UnfinishedSearches()
        try:
            with self.opened_to(unit):
                yield
        finally:
            self._pace, self._unfinished = kept

    def _search(
        self,
        unit: Unit,
        kinds: Sequence[PodKind],
        place: Callable[[Trial], P | None],
        now: float,
        domains: LevelCodes | None = None,
    ) -> RoomSearch[P]:
        units = self.units_for(unit, now)
        reserved = self._cluster.nominations.amounts_against(_preemptor(unit))
        return RoomSearch(
            self._cluster,
            units,
            kinds,
            place,
            domains=domains,
            reserved=reserved,
            frees_for=_preemptor(unit) if self.evicts_for_devices(unit) else None,
        )

    def evicts_for_devices(self, unit: Unit) -> bool:
        """Whether others may be evicted for devices that its claims ask for."""
        return evict_for_devices(unit.pods, self._placements, self._cluster)

    def units_for(self, unit: Unit, now: float) -> DisruptionUnits:
        """What may be evicted for the unit."""
        utc_s, rule = self._utc_s(now), self._rule(unit, _preemptor(unit), now)
        return DisruptionUnits(
            self._cluster, rule, utc_s, self._in_flight.gangs, self.held.goes_for
        )

    def _rule(self, unit: Unit, preemptor: Pod, now: float) -> VictimRule:
        reclaim = self._reclaim(unit)
        rule: VictimRule = ByLowerPriority(self._cluster, preemptor)
        if reclaim is not None:
            rule = ByQueue(self._cluster, reclaim, self._utc_s(now))
        return WithinBudgets(self._cluster, rule, self.held.goes_for)

    def _reclaim(self, unit: Unit) -> Reclaim | None:
        """With what was decided and has not happened yet."""
        reclaim, tenants = self.reclaim_for(unit), self._cluster.tenants
        if reclaim is None or tenants is None:
            return None
        for hold in self.held:
            entry = self._queue.gang(hold.key) or self._queue.get(hold.key)
            other = self.reclaim_for(entry.unit) if entry and hold.key != unit.key else None
            if other is not None:
                reclaim.promise(other.key, other.asked.items(), +1)
        for uid in self.held.goes_for:
            held = self._cluster.holdings.get(uid)
            if held is not None and held.tenant:
                reclaim.promise(held.tenant, tenants.charge(uid), -1)
        return reclaim

    def _without_victims(self, reclaim: Reclaim | None) -> str:
        """A queue that has its share reclaims nothing: most searches need not begin."""
        if reclaim is None or reclaim.has_victims(victim_groups(self._cluster)):
            return ""
        return NO_VICTIMS if reclaim.is_due(reclaim.key) else ABOVE_SHARE

    def _has_lower(self, unit: Unit) -> bool:
        """Whether there is any pod that may go."""
        preemptor = _preemptor(unit)
        limit = self._cluster.eviction_rule.priority_limit(preemptor)
        self._cluster.evictable(preemptor)
        return limit is None or bool(self._cluster.priorities_below(limit))

    def may_help(self, entry: Entry, now: float) -> bool:
        """Whether a search for a waiting gang is worth its cost, by amounts alone."""
        gang = entry.unit
        if self.held.get(gang.key) or self.held.is_paused(gang.key, now):
            return False
        if (reclaim := self._reclaim(gang)) is not None:
            return reclaim.is_due(reclaim.key)
        if not isinstance(gang, Gang) or not gang.needed:
            return False
        if self._ineligible(gang, now) or not self._has_lower(gang):
            return False
        kinds = self._counted(gang, lambda _: self._cluster.nodes.all())
        free = FreeAmounts(self._cluster, kinds, None)
        reach = free.with_evicted(self._cluster.evictable(_preemptor(gang)))
        return all(
            int(fitting_pods(reach, needs, kind.count).sum()) >= kind.count
            for kind, needs in zip(kinds, free.needs, strict=True)
        )

    def _ineligible(self, gang: Gang, now: float) -> str:
        if not gang.spec.preempts:
            return GROUP_NEVER
        if not all(pod.preempts for pod in gang.pods):
            return NEVER
        if len(gang.pods) > MOST_PODS:
            return TOO_LARGE
        if len(gang.pods) > MOST_CLAIMING and self.evicts_for_devices(gang):
            return TOO_MANY_CLAIMING
        if len({id(pod.request) for pod in gang.pods}) > MOST_REQUESTS:
            requests = {self._placements[pod.scheduler].settled_request(pod) for pod in gang.pods}
            if len(requests) > MOST_REQUESTS:
                return TOO_MANY_REQUESTS
        if has_many_parts(gang.spec, len(self._cluster)):
            return TOO_MANY_GROUPS
        return PAUSED if self.held.is_paused(gang.key, now) else ""

    def _kinds(self, gang: Gang) -> list[PodKind]:
        frees_claims = self.evicts_for_devices(gang)
        kinds = self._counted(gang, partial(self._reachable, frees_claims=frees_claims))
        if not frees_claims or _shares_claims(gang):
            return kinds
        nodes = self._cluster.nodes
        return [replace(kind, devices=device_counts(kind.request.claims, nodes)) for kind in kinds]

    def _reachable(self, pod: Pod, *, frees_claims: bool) -> NodeMask:
        placement = self._placements[pod.scheduler]
        found = placement.reachable(pod)
        return found | placement.lacks_devices(pod) if frees_claims else found

    def _counted(self, gang: Gang, rows: Callable[[Pod], NodeMask]) -> list[PodKind]:
        """What it needs at least, the largest first."""
        counts: Counter[PodRequest] = Counter()
        first: dict[PodRequest, Pod] = {}
        for pod in ordered(gang)[-gang.needed :]:
            request = self._placements[pod.scheduler].settled_request(pod)
            counts[request] += 1
            first.setdefault(request, pod)
        return [PodKind(each, count, rows(first[each])) for each, count in counts.items()]

    def _domains(self, gang: Gang, waited_s: float) -> LevelCodes | None:
        """The smallest domains of which all its pods must be in one."""
        if not has_topology(gang.spec):
            return None
        plans = self._topology.plans(gang, waited_s)
        limits = limits_of(plans.part.rules, plans.tree, waited_s)
        single = [level for level, most in limits.most.items() if most == 1]
        if not single:
            return None
        codes, inside = plans.tree.at(max(single))
        found = np.where(inside, codes, -1)
        bound = plans.bound(plans.part)
        return np.where(np.isin(found, found[bound]), found, -1) if len(bound) else found

    # -- making room -------------------------------------------------------------------------

    def begin(
        self,
        key: str,
        placed: Sequence[tuple[Pod, Placed]],
        units: Sequence[DisruptionUnit],
        now: float,
        devices: Iterable[AllocatedDevice] = (),
    ) -> list[Instruction]:
        """Evicts the units, and holds the nodes for the pods, and devices that they are to have.

        If they need devices, claims that the units alone use are to be deallocated, too, before
        there is room.
        """
        pod, node = placed[0][0], placed[0][1].node
        victims, unreserved = reservations.victims(self._cluster, victims_by_node(units))
        made: list[Instruction] = [*unreserved]
        nodes = {each.uid: (each, its.node) for each, its in placed}
        made += self._cleared(pod, {each for _, each in nodes.values()} | victims.keys(), now)
        leaving = [held.pod for unit in units for held in unit.held]
        pods = [each for each, _ in placed]
        frees_claims = evict_for_devices(pods, self._placements, self._cluster)
        claims = [*freed_by(leaving, self._cluster, pod)] if frees_claims else []
        self.held.begin(key, nodes, [pod.uid for pod in leaving], now, claims, devices)
        if victims:
            self._in_flight.making_room[pod.uid] = key
            made.append(Evict(pod, node, victims, within_budgets=True))
        return made

    def _cleared(self, pod: Pod, nodes: Iterable[str], now: float) -> list[Instruction]:
        """Nominations of pods that would have to leave the nodes again."""
        may_evict = self._cluster.eviction_rule.may_evict
        made: list[Instruction] = []
        for other in [
            each for node in sorted(nodes) for each in self._cluster.nominations.on(node)
        ]:
            if may_evict(pod, other):
                made.append(ClearNomination(other))
                self._requeuer.clear_nomination(other.uid, now)
        return made

    def ended(self, uid: str, problem: str, now: float) -> bool:
        """An eviction has ended; whether it was for a gang."""
        key = self._in_flight.making_room.pop(uid, None)
        if key is None:
            return False
        if problem:
            self.held.drop(key)
            self.held.pause(key, now)
            self._try_again(key)
        return True

    def has_devices(self, key: str, now: float) -> None:
        """All claims are deallocated that the unit waited for: no one else is to be tried first."""
        entry = self._queue.gang(key) or self._queue.get(key)
        if entry is not None and entry.pool is Pool.WAITING:
            self._queue.wake(entry, "ForceActivate", now=now)

    @contextmanager
    def opened_to(self, unit: Unit) -> Iterator[None]:
        """Meanwhile the unit may have devices that are kept for it, or for one that it may evict.

        Units that lose devices to it look for others.
        """
        with claiming.opened_to(self._cluster, unit.key, _preemptor(unit)) as lost:
            yield
        for key in lost:
            self.held.drop(key)
            self._try_again(key)

    def _try_again(self, key: str) -> None:
        entry = self._queue.gang(key) or self._queue.get(key)
        if entry is not None and entry.pool is Pool.WAITING:
            self._queue.postpone(entry, "ForceActivate")

    def is_awaited(self, entry: Entry) -> bool:
        """Whether victims are still to go for the gang, and its room is still held."""
        hold = self.held.get(entry.unit.key)
        return (
            hold is not None
            and bool(hold.victims)
            and self.held.is_whole(hold, (pod.uid for pod in entry.unit.pods))
        )

    def limits_changed(self) -> None:
        """No room is held for a unit that its queue does not admit any more."""
        for hold in list(self.held):
            entry = self._queue.gang(hold.key) or self._queue.get(hold.key)
            if entry is None:
                self.held.forget(hold.key)
            elif self._is_beyond_quota(entry.unit):
                self.held.drop(hold.key)

    def _is_beyond_quota(self, unit: Unit) -> bool:
        if isinstance(unit, Gang):
            return bool(unit.pods) and self._requeuer.gang_beyond_quota(unit) is not None
        return self._requeuer.beyond_quota(unit.pod) is not None

    def tend(self, now: float) -> None:
        for key in self.held.overdue(now):
            self._try_again(key)


def _shares_claims(gang: Gang) -> bool:
    """Whether pods of the gang use one claim: it is allocated once for all of them."""
    keys = [use.key for pod in gang.pods for use in pod.request.claims if use.key]
    return len({*keys}) < len(keys)


def _preemptor(unit: Unit) -> Pod:
    return replace(unit.pod, priority=unit.priority)


def _succeeded(filling: Filling) -> Filling | None:
    if filling.cut_short:
        raise TrialTooLong
    return filling if filling.succeeded else None
