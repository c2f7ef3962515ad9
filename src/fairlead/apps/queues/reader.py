"""Reads queues and their units off an engine: one that schedules, or one that was fed a listing."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

import msgspec

from fairlead.apps.queues.amounts import in_ones
from fairlead.apps.queues.rows import (
    BorrowerRow,
    QueueDetail,
    QueueListing,
    QueueRow,
    UnitRow,
    ancestors_of,
    borrowers_of,
    found_by,
    rows_of,
    with_unreclaimable,
)
from fairlead.cluster.charges import Charges
from fairlead.engine.engine import Engine
from fairlead.engine.held_gpus import HeldKind
from fairlead.model.errors import FairleadError
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.pods import Amounts, Pod
from fairlead.queue.entries import Entry, Pool
from fairlead.queue.units import Gang, Unit

#: Units of one queue that are listed one by one.
MOST_UNITS = 500
#: Queues of which the first unit is asked about, in one listing.
_MOST_ASKED = 200

_STATES = {
    Pool.ACTIVE: "to be tried",
    Pool.BACKOFF: "to be tried again soon",
    Pool.WAITING: "no node fits; see `fairlead explain`",
    Pool.GATED: "has scheduling gates, or pods of it are missing",
    Pool.NONE: "being tried or bound",
}


_KEPT_FOR = {
    HeldKind.PLANNED_START: "planned starts",
    HeldKind.ROOM: "units that others were evicted for",
    HeldKind.RESERVATION: "reservations",
}


class NoSuchQueue(FairleadError):
    """There is none of that name, or more than one; the text says what to write."""


@dataclass(frozen=True, slots=True)
class QueueReader:
    """`listing` and `detail` as plain values."""

    engine: Engine

    def listing(self) -> QueueListing:
        rows = rows_of(self.engine.queues.report())
        busy = {row.key for row in [row for row in rows if row.pending_units][:_MOST_ASKED]}
        shown = [self._with_first(row) if row.key in busy else row for row in rows]
        return QueueListing(shown, self._kept_free())

    def _kept_free(self) -> list[str]:
        """What planned starts, held room and reservations cost, if anything."""
        held = [*self.engine.held_gpus]
        sums = {kind: sum(each.gpus for each in held if each.kind is kind) for kind in _KEPT_FOR}
        parts = ", ".join(f"{gpus:g} for {_KEPT_FOR[kind]}" for kind, gpus in sums.items() if gpus)
        hours = sum(self.engine.held_gpus.totals.values()) / 3600.0
        return [f"free GPUs that are kept: {parts} ({hours:.1f} GPU-hours so far)"] if parts else []

    def _with_first(self, row: QueueRow) -> QueueRow:
        entries = self.engine.queues.pending(row.key)
        if not entries:
            return row
        first = _name(entries[0].unit.pod)
        return msgspec.structs.replace(row, reason=self._reason(entries[0]), first=first)

    def detail(self, name: str, now_s: float | None = None) -> QueueDetail:
        """Raises NoSuchQueue. `now_s` is the time by the clock of the engine, where it has one."""
        rows = rows_of(self.engine.queues.report())
        found = found_by(name, rows)
        if len(found) != 1:
            raise NoSuchQueue(_which([row.key for row in found or rows]))
        queue = self._with_first(found[0])
        entries = self.engine.queues.pending(queue.key)
        running = self._running(queue.key)
        return QueueDetail(
            queue,
            ancestors_of(queue, rows),
            [
                self._pending(entry, position, now_s)
                for position, entry in enumerate(entries[:MOST_UNITS], start=1)
            ],
            running[:MOST_UNITS],
            self.borrowers(queue, rows, now_s),
            max(0, len(entries) - MOST_UNITS),
            max(0, len(running) - MOST_UNITS),
        )

    def borrowers(
        self,
        queue: QueueRow,
        rows: Sequence[QueueRow],
        now_s: float | None,
        unit: Unit | None = None,
    ) -> list[BorrowerRow]:
        """With what can not be reclaimed from each, for any unit of the queue or for that one."""
        found = borrowers_of(queue, rows)
        utc_s = self.engine.utc_s(now_s or 0.0)
        kept = self.engine.queues.unreclaimable({each.queue for each in found}, utc_s, unit)
        return [with_unreclaimable(each, rows, kept) for each in found]

    def place_of(self, pod: Pod, key: str) -> tuple[int, int, dict[str, float]]:
        """The position of its unit in the queue, 0 if it has none, of how many units, and what the
        unit requests.
        """
        entry = self.engine.queue.get(pod.uid)
        pods = entry.unit.pods if entry else (pod,)
        waiting = self.engine.queues.pending(key)
        place = waiting.index(entry) + 1 if entry is not None and entry in waiting else 0
        return place, len(waiting), in_ones(self._sum(pods))

    def _sum(self, pods: Iterable[Pod]) -> Amounts:
        total: Counter[str] = Counter()
        charges = Charges(self.engine.cluster)
        for pod in pods:
            total.update(dict(charges.of_request(pod.request)))
        return tuple(sorted(total.items()))

    def _reason(self, entry: Entry) -> str:
        beyond = self.engine.queues.why(entry.unit.pod)
        return beyond.message if beyond else _state(entry)

    def _pending(self, entry: Entry, position: int, now_s: float | None) -> UnitRow:
        unit = entry.unit
        waited_s = None if now_s is None else max(0.0, now_s - entry.first_queued_s)
        reason = self._reason(entry)
        return self._row(unit.pod, unit.pods, position, unit.priority, waited_s, reason)

    def _running(self, key: str) -> list[UnitRow]:
        """Pods that hold a node, those of a gang as one."""
        units: dict[str, list[Pod]] = defaultdict(list)
        for held in self.engine.cluster.holdings.values():
            if held.tenant == key:
                units[held.pod.gang.gang if held.pod.gang else held.pod.uid].append(held.pod)
        rows = (self._row(pods[0], pods, 0, pods[0].priority, None, "") for pods in units.values())
        return sorted(rows, key=lambda unit: unit.name)

    def _row(
        self,
        pod: Pod,
        pods: Iterable[Pod],
        position: int,
        priority: int,
        waited_s: float | None,
        reason: str,
    ) -> UnitRow:
        members = list(pods)
        return UnitRow(
            name=_name(pod),
            kind="gang" if pod.gang else "pod",
            position=position,
            pods=len(members),
            amounts=in_ones(self._sum(members)),
            priority=priority,
            waited_s=waited_s,
            reason=reason,
        )


def _name(pod: Pod) -> str:
    return f"{pod.namespace}/{pod.gang.gang.rpartition('/')[2]}" if pod.gang else pod.key


def _state(entry: Entry) -> str:
    refusal = entry.unit.refusal if isinstance(entry.unit, Gang) else ""
    return refusal if refusal and entry.pool is Pool.WAITING else _STATES[entry.pool]


def _which(keys: list[str]) -> str:
    if not keys:
        return "there are no queues"
    some = ", ".join(keys[:20]) + (" …" if len(keys) > 20 else "")
    return f"there is no queue of that name, or more than one; choose one of: {some}"
