"""Who is next: the pools a pending unit moves through, a plain pod or a gang.

             ┌──────── gates lifted, gathered ──────── GATED
             ▼
    put ─▶ ACTIVE ─ pop ─▶ (tried) ─ refused ─▶ WAITING
             ▲                │                    │ something it waits for changed,
             │          error │                    │ or five minutes passed
             │                ▼                    ▼
             └──── due ──── BACKOFF ◀──────────────┘   (to ACTIVE when its backoff is over)

The order is a `QueueOrder`: by priority, then by time of entry, unless another is given. An idle
queue gives out a refused pod before its backoff is over, since no other pod is due; a pod whose
bind failed always waits it out.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import count
from typing import Any, Protocol

from fairlead.cluster.aspects import NOTHING, Aspect
from fairlead.model.gangs import GangSpec
from fairlead.model.pods import Pod
from fairlead.queue.entries import Entry, Pool
from fairlead.queue.heap import EntryHeap
from fairlead.queue.held_back import HeldBack
from fairlead.queue.order import OrderKey, PrioritySort, QueueOrder
from fairlead.queue.retry_times import AS_KUBE_SCHEDULER, RetryTimes
from fairlead.queue.units import EquivalenceClass, Gang, PodUnit, Unit
from fairlead.queue.waiting_class import WaitingClass

_FAILED = "ScheduleAttemptFailure"

#: How many units whose backoff is over become active in one turn.
_MOVED = 1000

#: Where a unit is after it was refused, and until it has a node.
_REFUSED = (Pool.WAITING, Pool.BACKOFF, Pool.ACTIVE)


class PendingObserver(Protocol):
    """Sees every pending pod, those that are being bound included."""

    def came(self, pod: Pod, unit: str) -> None:
        """For the first time, or changed; `unit` is the key of its unit."""
        ...

    def left(self, uid: str) -> None: ...


class ActivePool(Protocol):
    """The units that may be tried now, in order."""

    def push(self, key: OrderKey, entry: Entry) -> None: ...

    def head(self) -> tuple[Any, Entry] | None: ...


class TeamPool(ActivePool, Protocol):
    """The same by the queues of teams."""

    def moved(self, entry: Entry) -> None:
        """It entered a pool, or left it."""
        ...

    def permits(self, entry: Entry) -> bool:
        """Whether a unit in backoff may be tried before its time."""
        ...

    def has_next(self) -> bool:
        """Of some units that are active, whether one may be tried now."""
        ...

    def waiting_key(self, entry: Entry) -> OrderKey | None:
        """By which it waits among its equals; None: by arrival."""
        ...


class SchedulingQueue:
    """Every pending unit is in exactly one pool, or handed out by `pop` and not yet returned."""

    def __init__(
        self, order: QueueOrder | None = None, retries: RetryTimes = AS_KUBE_SCHEDULER
    ) -> None:
        tickets = count()
        self.retries = retries
        #: Units of a class wait by arrival, which is what the default order says.
        self._class_tickets = None if order is None else tickets
        self._order: QueueOrder = order or PrioritySort()
        #: By uid of each pending pod.
        self._entries: dict[str, Entry] = {}
        #: Gangs by key, and by uid of each member that has a node or has finished.
        self._gangs: dict[str, Entry] = {}
        self._placed: dict[str, Entry] = {}
        self._tickets = tickets
        self._active: ActivePool = EntryHeap(tickets)
        #: The same, if units are ordered by the queues of teams; None while there is no such queue.
        self._teams: TeamPool | None = None
        self._backoff = EntryHeap(tickets)
        self._error_backoff = EntryHeap(tickets)
        self._waiting: dict[EquivalenceClass, WaitingClass] = {}
        #: Those of them that the queue of a team holds back.
        self.held_back = HeldBack()
        #: Sees pending pods come and go; None while there is no queue of a team.
        self.observer: PendingObserver | None = None
        #: All aspects that a pod waits for, and perhaps more.
        self.awaited = NOTHING
        self._counts = dict.fromkeys(Pool, 0)
        #: Pods that entered each pool, by what sent them there, in kube-scheduler's words.
        self.entered: Counter[tuple[Pool, str]] = Counter()

    def __contains__(self, uid: str) -> bool:
        return uid in self._entries

    def get(self, uid: str) -> Entry | None:
        return self._entries.get(uid)

    def entries(self) -> Collection[Entry]:
        """Of all pending pods: that of a gang comes once for each of them."""
        return self._entries.values()

    def uids(self) -> dict[str, None]:
        """Of all pending pods, in order."""
        return dict.fromkeys(self._entries)

    def observe(self, observer: PendingObserver | None) -> None:
        """Shows it all pending pods, and those that come and go from now on."""
        self.observer = observer
        if observer is not None:
            for entry in {id(entry): entry for entry in self._entries.values()}.values():
                self._show(entry)

    def _show(self, entry: Entry) -> None:
        if self.observer is not None:
            for pod in _pending(entry.unit):
                self.observer.came(pod, entry.unit.key)

    def order_by_team(self, make: "Callable[[Iterator[int]], TeamPool] | None") -> None:
        """From now on; None: as the order of this queue says."""
        self._teams = make(self._tickets) if make else None
        self._active = self._teams or EntryHeap(self._tickets)
        for entry in {id(entry): entry for entry in self._entries.values()}.values():
            if entry.pool is Pool.ACTIVE:
                self._active.push(self._order.active(entry), entry)
            elif self._teams is not None:
                self._teams.moved(entry)

    def counts(self) -> dict[Pool, int]:
        """Pods by pool."""
        counts = dict(self._counts)
        for entry in self._gangs.values():
            if entry.pool is not Pool.NONE:
                counts[entry.pool] += _gang(entry).size - 1
        return counts

    def has_active(self) -> bool:
        """Whether a unit could be tried right now."""
        if self._teams is not None and self._counts[Pool.ACTIVE]:
            return self._teams.has_next()
        return self._counts[Pool.ACTIVE] > 0

    def has_waiting(self) -> bool:
        return self._counts[Pool.WAITING] > 0

    def next_due_s(self) -> float | None:
        """When `pop` could have more to give without anything else happening."""
        heads = (heap.head() for heap in (self._backoff, self._error_backoff))
        windows = [head[0] + 1.0 for head in heads if head is not None]
        return min(windows, default=None)

    # -- pods come, change and go ------------------------------------------------------------

    def put(self, pod: Pod, *, now: float, not_before_s: float = 0.0) -> None:
        """A pending pod was seen, for the first time or changed.

        A new one is not tried before `not_before_s`, however idle the queue is.
        """
        entry = self._entries.get(pod.uid)
        if entry is not None and entry.unit.key != pod.uid:  # of a gang until now
            self.remove(pod.uid)
            entry = None
        if entry is None:
            entry = self._entries[pod.uid] = Entry(PodUnit(pod), now, now, due_s=not_before_s)
            if not_before_s > now and not pod.gates:
                self._back_off(entry, self._error_backoff, "UnschedulablePodAdd")
            else:
                self._resume(entry, "UnschedulablePodAdd", now)
        else:
            self._replace(entry, pod, now)
        if self.observer is not None:
            self.observer.came(pod, pod.uid)

    def adopt(self, entry: Entry) -> None:
        """A unit that is being bound, from an earlier queue: known, in no pool."""
        entry.equivalence_class, entry.pool, entry.ticket = None, Pool.NONE, -1
        unit = entry.unit
        for pod in _pending(unit):
            self._entries[pod.uid] = entry
        if isinstance(unit, Gang):
            self._gangs[unit.key] = entry
            self._placed |= dict.fromkeys(unit.placed, entry)

    def remove(self, uid: str) -> Entry | None:
        """Forgets the pod, also one that is being tried or bound."""
        entry = self._entries.pop(uid, None)
        if self.observer is not None:
            self.observer.left(uid)
        if entry is None:
            self._forget_placed(uid)
        elif not entry.unit.take(uid):
            self._member_left(entry)
        elif not isinstance(entry.unit, Gang):
            self._leave(entry)
        elif entry.pool is not Pool.NONE:  # one that is being tried or bound is returned later
            self._leave(entry)
            self._gather_on(entry, "UnschedulablePodUpdate")
        return entry

    def _replace(self, entry: Entry, pod: Pod, now: float) -> None:
        old = entry.unit.put(pod)
        if entry.pool is Pool.WAITING and (old is None or _request_changed(old, pod)):
            self._leave(entry)
            self._resume(entry, "UnschedulablePodUpdate", now)
        else:
            self._look_at_gates(entry, now)

    def _look_at_gates(self, entry: Entry, now: float) -> None:
        """It may have become ready, or not be ready any more."""
        if entry.pool is Pool.NONE or (entry.pool is Pool.GATED) != entry.unit.is_ready:
            return
        if entry.pool is Pool.GATED:
            entry.queued_s = entry.first_queued_s = now
        self._leave(entry)
        self._resume(entry, "UnschedulablePodUpdate", now)

    # -- gangs -------------------------------------------------------------------------------

    def gather(self, pod: Pod, spec: GangSpec, *, now: float, not_before_s: float = 0.0) -> None:
        """A pending member of a gang was seen, for the first time or changed."""
        known = self._entries.get(pod.uid)
        if known is None or known.unit.key != spec.key:
            self.remove(pod.uid)
        entry = self._gangs.get(spec.key)
        if entry is None:
            entry = self._begin(spec, now)
        self._entries[pod.uid] = entry
        gang = _gang(entry)
        gang.not_before_s = max(gang.not_before_s, not_before_s)
        if self.observer is not None:
            self.observer.came(pod, spec.key)
        self._replace(entry, pod, now)
        self.respecify(spec, now=now)

    def respecify(self, spec: GangSpec, *, now: float) -> None:
        """The object of the gang was changed. One that is being tried keeps its place."""
        entry = self._gangs.get(spec.key)
        if entry is None or (gang := _gang(entry)).spec == spec:
            return
        gang.spec = spec
        if entry.pool not in (Pool.NONE, Pool.GATED):
            self._leave(entry)
            self._resume(entry, "UnschedulablePodUpdate", now)
        self._look_at_gates(entry, now)

    def gang(self, key: str) -> Entry | None:
        """The entry of a gang that has members."""
        return self._gangs.get(key)

    def gangs(self) -> Collection[Entry]:
        return self._gangs.values()

    def place(self, uid: str) -> None:
        """A member of a gang that was tried has a node now: it counts, and is not to be placed."""
        entry = self._entries.get(uid)
        if entry is not None and isinstance(entry.unit, Gang):
            pod = entry.unit.member(uid)
            self._count(entry, uid, pod.gang.group if pod and pod.gang else "")
        self.remove(uid)

    def count(self, pod: Pod, spec: GangSpec, *, now: float) -> None:
        """A member of a gang was seen with a node, or has finished."""
        assert pod.gang is not None
        known = self._entries.get(pod.uid) or self._placed.get(pod.uid)
        if known is not None and known.unit.key != spec.key:
            self.remove(pod.uid)
        entry = self._gangs.get(spec.key)
        if entry is None:
            if pod.finished and pod.gang.spec is not None:
                return  # nothing is left to be placed beside it
            entry = self._begin(spec, now)
        gang = _gang(entry)
        gang.has_object = pod.gang.spec is None
        if pod.uid not in gang.placed or pod.finished:
            self._count(entry, pod.uid, pod.gang.group)
            (gang.finished.add if pod.finished else gang.finished.discard)(pod.uid)
        if pod.uid in self._entries:
            self.remove(pod.uid)
        self._look_at_gates(entry, now)

    def finish(self, entry: Entry, *, now: float) -> None:
        """Those that were tried have nodes, or are gone; those that came meanwhile are next."""
        if entry.pool is Pool.NONE:
            self._resume(entry, "UnschedulablePodUpdate", now)

    def hold(self, entry: Entry) -> None:
        """Takes a gang out of its pool, until it is returned as one that was tried."""
        self._leave(entry)

    def _begin(self, spec: GangSpec, now: float) -> Entry:
        entry = self._gangs[spec.key] = Entry(Gang(spec), now, now)
        self._enter(entry, Pool.GATED, "UnschedulablePodAdd")
        return entry

    def _count(self, entry: Entry, uid: str, group: str) -> None:
        _gang(entry).count(uid, group)
        self._placed[uid] = entry

    def _forget_placed(self, uid: str) -> None:
        entry = self._placed.pop(uid, None)
        if entry is not None:
            _gang(entry).discount(uid)
            self._member_left(entry)
            self._drop_if_over(entry)

    def _gather_on(self, entry: Entry, cause: str) -> None:
        """It is not to be tried: it lacks pods, or has none that is pending."""
        self._enter(entry, Pool.GATED, cause)
        if isinstance(entry.unit, Gang):
            self._drop_if_over(entry)

    def _drop_if_over(self, entry: Entry) -> None:
        gang = _gang(entry)
        if not gang.is_over or entry.pool is Pool.NONE:
            return
        self._leave(entry)
        del self._gangs[gang.key]
        for uid in gang.placed:
            del self._placed[uid]

    def _member_left(self, entry: Entry) -> None:
        """It may lack a pod now, or need less than what it was refused for."""
        gang = _gang(entry)
        if (agreed := gang.agreed) is not None:  # perhaps not what the one that left said
            gang.spec = agreed
        if entry.pool is Pool.GATED:
            self._look_at_gates(entry, entry.queued_s)
        if entry.pool in (Pool.NONE, Pool.GATED):
            return
        if not entry.unit.is_ready:
            self._leave(entry)
            self._enter(entry, Pool.GATED, "UnschedulablePodUpdate")
        elif entry.pool is Pool.WAITING:
            self._leave(entry)
            self._back_off(entry, self._backoff, "UnschedulablePodUpdate")

    # -- trying ------------------------------------------------------------------------------

    def pop(self, *, now: float) -> Entry | None:
        """The next pod to try; it stays known, in no pool, until it is returned or removed."""
        self._move_due(self._backoff, now)
        self._move_due(self._error_backoff, now)
        head = self._active.head() or self._idle_head()
        if head is None:
            return None
        entry = head[1]
        self._leave(entry)
        entry.attempts += 1
        return entry

    def put_back(self, entry: Entry) -> None:
        """It was not tried: it is due as before."""
        entry.attempts -= 1
        self._enter(entry, Pool.ACTIVE, "")
        self._active.push(self._order.active(entry), entry)

    def _idle_head(self) -> tuple[Any, Entry] | None:
        head = self._backoff.head()
        if head is None or self._teams is None or self._teams.permits(head[1]):
            return head
        return None

    def park(
        self,
        entry: Entry,
        class_: EquivalenceClass,
        *,
        woken_by: Aspect,
        now: float,
        held_back_by: str | None = None,
    ) -> None:
        """No node fits: wait until something in `woken_by` changes.

        Or the queue of a team holds it back (`held_back_by`), until that changes.
        """
        entry.refusals += 1
        entry.errors = 0
        entry.woken_by = woken_by
        self.awaited = self.awaited | woken_by if self._waiting else woken_by
        self._back_off_until(entry, entry.refusals, now)
        if not entry.unit.is_ready:  # a pod went while it was tried
            self._gather_on(entry, _FAILED)
            return
        self._enter(entry, Pool.WAITING, _FAILED)
        self._join_class(entry, class_)
        self.held_back.put(entry, held_back_by)

    def _join_class(self, entry: Entry, class_: EquivalenceClass) -> None:
        entry.equivalence_class = class_
        together = self._waiting.get(class_)
        key = None if self._teams is None else self._teams.waiting_key(entry)
        if together is None:
            tickets = self._class_tickets if key is None else self._tickets
            together = self._waiting[class_] = WaitingClass(tickets)
        if key is None:
            key = () if self._class_tickets is None else self._order.active(entry)
        together.add(entry, key)

    def retry(self, entry: Entry, *, now: float) -> None:
        """It failed without a verdict: try again after its backoff."""
        self._show(entry)  # its pods may have been edited meanwhile
        entry.errors += 1
        self._back_off_until(entry, entry.errors, now)
        if entry.unit.is_ready:
            self._back_off(entry, self._error_backoff, _FAILED)
        else:  # a pod went while it was tried
            self._gather_on(entry, _FAILED)

    def reorder(self, uids: Iterable[str]) -> None:
        """The order has other keys for these pods than when they entered their pools."""
        for uid in uids:
            entry = self._entries.get(uid)
            if entry is None:
                continue
            if entry.pool is Pool.ACTIVE:
                self._active.push(self._order.active(entry), entry)
            elif (class_ := entry.equivalence_class) is not None and self._teams is not None:
                self.reclassify((entry,), lambda _, same=class_: same)  # type: ignore[misc]

    # -- waiting -----------------------------------------------------------------------------

    def waiting(self, changed: Aspect) -> list[Entry]:
        """The first pod of each class that waits for any of these changes."""
        first = (together.first for together in self._waiting.values())
        return [entry for entry in first if entry.woken_by & changed]

    def await_also(self, entry: Entry, changes: Aspect) -> None:
        """The first of a class waits on, for these as well."""
        entry.woken_by |= changes
        self.awaited |= changes

    def all_waiting(self) -> list[Entry]:
        return [entry for together in self._waiting.values() for entry in together]

    def all_refused(self) -> Iterable[Entry]:
        """Pending units that no node fitted when they were last tried, those due again, too."""
        found = (entry for entry in self._entries.values() if entry.woken_by)
        return dict.fromkeys(entry for entry in found if entry.pool in _REFUSED)

    def reclassify(
        self, entries: Iterable[Entry], class_of: Callable[[Unit], EquivalenceClass]
    ) -> None:
        """Puts the pods into the classes they belong to now."""
        for entry in entries:
            if entry.pool is Pool.WAITING:
                by = entry.held_back_by
                self._leave_class(entry)
                self._join_class(entry, class_of(entry.unit))
                self.held_back.put(entry, by)

    def first_of_class(self, class_: EquivalenceClass) -> Entry | None:
        """The first pod that waits in the class."""
        together = self._waiting.get(class_)
        return together.first if together else None

    def first_of_classes(self) -> list[Entry]:
        """The first unit of each class that waits."""
        return [together.first for together in self._waiting.values()]

    def all_of_class(self, class_: EquivalenceClass) -> Iterable[Entry]:
        """All that wait in the class."""
        return self._waiting.get(class_) or ()

    def wake(self, entry: Entry, cause: str, *, now: float) -> None:
        """A waiting pod may try again. If it succeeds, the next of its class is checked."""
        self._leave(entry)
        self._resume(entry, cause, now)

    def postpone(self, entry: Entry, cause: str) -> None:
        """A waiting pod may try again, but not before its backoff is over, however idle we are."""
        self._leave(entry)
        self._back_off(entry, self._error_backoff, cause)

    def hold_until(self, entry: Entry, until_s: float) -> None:
        """One that was tried is tried again then, or when it is released."""
        entry.attempts -= 1
        entry.due_s = until_s
        if entry.unit.is_ready:
            self._back_off(entry, self._error_backoff, "")
        else:  # a pod went while it was tried
            self._gather_on(entry, _FAILED)

    def release(self, entry: Entry, *, now: float) -> None:
        """One that is held may be tried now."""
        self._leave(entry)
        entry.due_s = min(entry.due_s, now)
        self._resume(entry, "", now)

    # -- pools -------------------------------------------------------------------------------

    def _resume(self, entry: Entry, cause: str, now: float) -> None:
        if not entry.unit.is_ready:
            self._gather_on(entry, cause)
        elif isinstance(entry.unit, Gang) and entry.unit.not_before_s > now:
            entry.due_s = max(entry.due_s, entry.unit.not_before_s)
            self._back_off(entry, self._error_backoff, cause)
        elif entry.due_s > now:
            self._back_off(entry, self._backoff, cause)
        else:
            self._activate(entry, cause)

    def _activate(self, entry: Entry, cause: str) -> None:
        self._enter(entry, Pool.ACTIVE, cause)
        self._active.push(self._order.active(entry), entry)

    def _back_off_until(self, entry: Entry, failures: int, now: float) -> None:
        entry.queued_s = now
        entry.due_s = now + self.retries.backoff_s(failures)

    def _back_off(self, entry: Entry, heap: EntryHeap, cause: str) -> None:
        self._enter(entry, Pool.BACKOFF, cause)
        # Whole seconds, so that within each of them the order decides.
        heap.push((entry.due_s // 1.0, *self._order.backoff(entry)), entry)

    def _move_due(self, heap: EntryHeap, now: float) -> None:
        """Some of those whose backoff is over, in order; the others are due as before."""
        if not heap.places:
            return
        for _ in range(_MOVED):
            if (head := heap.head()) is None or head[0] >= now // 1.0:
                return
            self._leave(head[1])
            self._activate(head[1], "BackoffComplete")

    def _enter(self, entry: Entry, pool: Pool, cause: str) -> None:
        entry.pool = pool
        self._counts[pool] += 1
        if cause:
            self.entered[pool, cause] += 1
        if self._teams is not None:
            self._teams.moved(entry)

    def _leave(self, entry: Entry) -> None:
        self._leave_class(entry)
        if entry.pool is not Pool.NONE:
            self._counts[entry.pool] -= 1
        entry.pool = Pool.NONE
        entry.ticket = -1
        if self._teams is not None:
            self._teams.moved(entry)

    def _leave_class(self, entry: Entry) -> None:
        if entry.equivalence_class is None:
            return
        if entry.held_back_by is not None:
            self.held_back.put(entry, None)
        together = self._waiting[entry.equivalence_class]
        together.remove(entry)
        if not together:
            del self._waiting[entry.equivalence_class]
        entry.equivalence_class = None


def _gang(entry: Entry) -> Gang:
    assert isinstance(entry.unit, Gang), f"{entry.unit.key} is no gang"
    return entry.unit


def _pending(unit: Unit) -> Collection[Pod]:
    """Those with gates, too."""
    return unit.pending if isinstance(unit, Gang) else unit.pods


def _request_changed(old: Pod, new: Pod) -> bool:
    """Did the pod itself change in a way that could matter? Its status never does."""
    return (old.request, old.problem) != (new.request, new.problem) or (
        (old.labels, old.annotations) != (new.labels, new.annotations)
    )
