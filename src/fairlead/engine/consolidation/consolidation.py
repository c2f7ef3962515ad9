"""Carries plans out, one after another: holds the places, has the pods evicted, and waits.

What is evicted is created again by its controller. The successor gets the place that is held for
it, and the waiting unit its own. Everything held is released when all have nodes, when an eviction
is refused, or when a limit of time passes.
"""

from fairlead.cluster.cluster import Cluster
from fairlead.engine.consolidation.allowance import MoveAllowance
from fairlead.engine.consolidation.held_places import HeldPlaces
from fairlead.engine.consolidation.planning import Planning
from fairlead.engine.consolidation.plans import ConsolidationPlan
from fairlead.engine.in_flight import InFlight
from fairlead.engine.instructions import AnnounceNotice, Evict, Instruction
from fairlead.model.consolidation import ConsolidationTerms
from fairlead.model.errors import PluginFault
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.pods import Pod
from fairlead.queue.entries import Entry, Pool
from fairlead.queue.queue import SchedulingQueue
from fairlead.queue.units import EquivalenceClass

#: The reason of the events about it.
CONSOLIDATED = "Consolidated"
#: How often a unit is looked for that moves could help.
_LOOK_EVERY_S = 10.0
#: Until moves are looked for again: after a search without a plan, and after a plan that failed.
_NO_PLAN_S = 300.0
_FAILED_S = 1800.0
#: Classes of units that are remembered.
_MOST_PAUSES = 10_000


@dataclass(slots=True, eq=False)
class _UnderWay:
    plan: ConsolidationPlan
    held: HeldPlaces
    #: Under which the end of the eviction is reported.
    uid: str
    class_: EquivalenceClass | None
    until_s: float
    evicting: bool = True


class Consolidation:
    """At most one plan is under way."""

    def __init__(
        self,
        cluster: Cluster,
        queue: SchedulingQueue,
        in_flight: InFlight,
        planning: Planning,
        terms: ConsolidationTerms,
        allowance: MoveAllowance,
    ) -> None:
        self._cluster = cluster
        self._queue = queue
        self._in_flight = in_flight
        self._planning = planning
        self._terms = terms
        self._allowance = allowance
        self._under_way: _UnderWay | None = None
        #: A unit for which others would be evicted, if no moves help.
        self._preferred: Entry | None = None
        self._look_s = 0.0
        #: Units of these classes are not helped before this time; by hash, since some are large.
        self._pauses: dict[int, float] = {}

    @property
    def is_under_way(self) -> bool:
        return self._under_way is not None

    def prefer(self, entry: Entry, class_: EquivalenceClass, now: float) -> bool:
        """Others are to be evicted for a unit of that class: whether moves are looked for first.

        That is done in the next turn. If no moves help, the unit is tried again.
        """
        if not self._terms.enabled or self._under_way is not None or self._preferred is not None:
            return False
        if len(self._pauses) >= _MOST_PAUSES or self._is_paused(class_, now):
            return False
        if not self._planning.asks_for_gpus(entry.unit) or self._preempts(entry):
            return False
        self._preferred = entry
        return True

    # -- what happens meanwhile --------------------------------------------------------------

    def adopt(self, pod: Pod) -> None:
        """A pending pod was seen for the first time."""
        if self._under_way is not None:
            self._under_way.held.adopt(pod)

    def renew(self, now: float) -> None:
        """A unit was tried: what it gave up is held again, and the plan may be over."""
        current = self._under_way
        if current is None:
            return
        current.held.renew()
        if current.held.is_over and not current.evicting:
            self._end(current, 0.0, now)

    def ended(self, uid: str, problem: str, now: float) -> bool:
        """An eviction has ended; whether it was that of a plan."""
        current = self._under_way
        if current is None or not current.evicting or current.uid != uid:
            return False
        current.evicting = False
        self._in_flight.evicting.discard(uid)
        if problem:
            self._end(current, _FAILED_S, now)
        else:
            self.renew(now)
        return True

    # -- what time brings about --------------------------------------------------------------

    def due_s(self) -> float | None:
        if self._under_way is not None:
            return self._under_way.until_s
        if self._preferred is not None:
            return 0.0
        waits = self._terms.enabled and self._queue.has_waiting()
        return self._look_s if waits else None

    def tend(self, now: float, wall_s: float) -> list[Instruction]:
        """Ends a plan whose time is over, or looks for another."""
        if not self._terms.enabled:
            return []
        self.renew(now)
        current = self._under_way
        if current is not None:
            if now >= current.until_s:
                self._end(current, _FAILED_S if current.held.waits else 0.0, now)
            return []
        if (preferred := self._preferred) is not None:
            self._preferred = None
            return self._move_or_evict(preferred, now, wall_s)
        if now < self._look_s or not self._queue.has_waiting():
            return []
        self._look_s = now + _LOOK_EVERY_S
        entry = self._next(now)
        return self._help(entry, now, wall_s) if entry else []

    def _move_or_evict(self, entry: Entry, now: float, wall_s: float) -> list[Instruction]:
        if entry.pool is not Pool.WAITING:
            return []
        made = self._help(entry, now, wall_s)
        if not made:
            self._queue.wake(entry, "ForceActivate", now=now)
        return made

    def _next(self, now: float) -> Entry | None:
        """The unit that is helped first: by priority, then by age."""
        waiting = (entry for entry in self._queue.all_waiting() if self._may_help(entry, now))
        return min(waiting, key=_order, default=None)

    def _may_help(self, entry: Entry, now: float) -> bool:
        if now - entry.first_queued_s < self._terms.after_s or entry.needs_no_room:
            return False
        class_ = entry.equivalence_class
        if class_ is not None and self._is_paused(class_, now):
            return False
        return self._planning.asks_for_gpus(entry.unit) and not self._preempts(entry)

    def _is_paused(self, class_: EquivalenceClass, now: float) -> bool:
        return self._pauses.get(hash(class_), now) > now

    def _preempts(self, entry: Entry) -> bool:
        """Whether others are evicted for it already."""
        node_of, evicting = self._cluster.nominations.node_of, self._in_flight.evicting
        return any(node_of(pod.uid) or pod.uid in evicting for pod in entry.unit.pods)

    def _help(self, entry: Entry, now: float, wall_s: float) -> list[Instruction]:
        try:
            found = self._planning.plan(entry, self._allowance.limits(now), wall_s)
        except PluginFault:  # the attempt reports it
            found = None
        if isinstance(found, ConsolidationPlan):
            return self._begin(entry, found, now)
        self._pause(entry.equivalence_class, now + _NO_PLAN_S, now)
        return []

    def _begin(self, entry: Entry, plan: ConsolidationPlan, now: float) -> list[Instruction]:
        pod = plan.starts[0].pod
        held = HeldPlaces(plan, self._cluster, self._queue)
        self._under_way = _UnderWay(
            plan, held, pod.uid, entry.equivalence_class, now + self._terms.held_s
        )
        self._in_flight.evicting.add(pod.uid)
        self._allowance.spend(len(plan.moves), plan.lost_gpu_s, now)
        victims: dict[str, tuple[Pod, ...]] = {}
        for move in plan.moves:
            victims[move.node] = (*victims.get(move.node, ()), move.pod)
        because = f"moved so that {_named(entry)} can start; a place elsewhere is held for it"
        return [
            AnnounceNotice(pod, CONSOLIDATED, f"Pods are moved for it: {plan.message}"),
            Evict(pod, plan.starts[0].node, victims, because, moves=True),
        ]

    def _end(self, current: _UnderWay, pause_s: float, now: float) -> None:
        current.held.release()
        self._under_way = None
        if pause_s:
            self._pause(current.class_, now + pause_s, now)

    def _pause(self, class_: EquivalenceClass | None, until_s: float, now: float) -> None:
        if class_ is None:
            return
        if len(self._pauses) >= _MOST_PAUSES:
            self._pauses = {one: due_s for one, due_s in self._pauses.items() if due_s > now}
        if len(self._pauses) < _MOST_PAUSES:
            self._pauses[hash(class_)] = until_s


def _order(entry: Entry) -> tuple[int, float, str]:
    return -entry.unit.priority, entry.first_queued_s, entry.unit.key


def _named(entry: Entry) -> str:
    gang = entry.unit.pod.gang
    return f"gang {gang.gang.partition('/')[2]}" if gang else f"pod {entry.unit.pod.key}"
