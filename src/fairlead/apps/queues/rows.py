"""What `fairlead queue` shows, as plain values: queues, and the units of one of them."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec

from fairlead.apps.queues.amounts import in_ones, written
from fairlead.engine.unreclaimable_use import Unreclaimable
from fairlead.model.queues import PastUse, QueueReport

_HOUR_S = 3600.0

Numbers = dict[str, float]


class _Row(msgspec.Struct, frozen=True, rename="camel"):
    pass


class BudgetRow(_Row, frozen=True):
    """GPU-hours of a day or a month."""

    period: str
    gpu_hours: float
    used_gpu_hours: float


class QueueRow(_Row, frozen=True):
    """One queue, those beneath it included. Amounts are GPUs, cores, bytes or plain counts."""

    key: str
    name: str
    #: The key of its parent; empty: at the top.
    parent: str
    depth: int
    weight: float
    priority: int
    order: str
    guaranteed: Numbers
    limit: Numbers
    used: Numbers
    #: Used above what is guaranteed.
    borrowed: Numbers
    fair_share: Numbers
    #: What its pending units request.
    asked: Numbers
    #: With half-life.
    past_gpu_hours: float
    budgets: list[BudgetRow]
    #: Whether its units may be evicted for those of other queues.
    reclaimable: bool
    pending_units: int
    pending_pods: int
    running_pods: int
    #: Why no unit of it starts at all.
    problem: str
    #: Its first pending unit, and why it waits; empty where the reader may not list pods.
    first: str = ""
    reason: str = ""

    def visible_in(self, namespaces: frozenset[str]) -> "QueueRow":
        """Without what is said about a unit in other namespaces."""
        if self.first.partition("/")[0] in namespaces:
            return self
        return msgspec.structs.replace(self, first="", reason="")


class UnitRow(_Row, frozen=True):
    """A pod, or a gang of pods."""

    #: Namespace and name; empty where the reader may not list pods.
    name: str
    kind: str
    #: The place in the queue; 0 for one that runs.
    position: int
    pods: int
    amounts: Numbers
    priority: int
    #: How long it has waited; None: not known.
    waited_s: float | None
    reason: str

    @property
    def namespace(self) -> str:
        return self.name.partition("/")[0]


class BorrowerRow(_Row, frozen=True):
    """A queue that uses what is guaranteed to another, of one resource."""

    queue: str
    resource: str
    borrowed: float
    fair_share: float
    #: Of what it uses above its fair share, what may be evicted.
    reclaimable: float
    #: Of what it uses, what may not be evicted, by reason.
    not_reclaimable: Numbers = msgspec.field(default_factory=dict)


class QueueListing(_Row, frozen=True):
    queues: list[QueueRow]
    notes: list[str] = []

    def namespaces(self) -> frozenset[str]:
        return _namespaces(self.queues)

    def visible_in(self, namespaces: frozenset[str]) -> "QueueListing":
        rows = [row.visible_in(namespaces) for row in self.queues]
        return msgspec.structs.replace(self, queues=rows)


class QueueDetail(_Row, frozen=True):
    """One queue, its ancestors from the top, its units, and the queues that borrow from it."""

    queue: QueueRow
    ancestors: list[QueueRow]
    pending: list[UnitRow]
    running: list[UnitRow]
    borrowers: list[BorrowerRow]
    #: Units that are not listed because there are too many.
    pending_left_out: int = 0
    running_left_out: int = 0
    notes: list[str] = []

    def namespaces(self) -> frozenset[str]:
        shown = _namespaces([*self.ancestors, self.queue])
        return shown.union(unit.namespace for unit in (*self.pending, *self.running))

    def visible_in(self, namespaces: frozenset[str]) -> "QueueDetail":
        """Without the names of units in other namespaces."""
        return msgspec.structs.replace(
            self,
            queue=self.queue.visible_in(namespaces),
            ancestors=[row.visible_in(namespaces) for row in self.ancestors],
            pending=[_visible(unit, namespaces) for unit in self.pending],
            running=[_visible(unit, namespaces) for unit in self.running],
        )


def _visible(unit: UnitRow, namespaces: frozenset[str]) -> UnitRow:
    """What is said about a unit may name its pods."""
    if unit.namespace in namespaces:
        return unit
    return msgspec.structs.replace(unit, name="", reason="")


def _namespaces(rows: Iterable[QueueRow]) -> frozenset[str]:
    return frozenset(row.first.partition("/")[0] for row in rows if row.first)


def rows_of(reports: Sequence[QueueReport]) -> list[QueueRow]:
    """Only of resources that some queue is guaranteed can a queue borrow."""
    names = {name for report in reports for name, _ in report.spec.guaranteed}
    return [_row_of(report, names) for report in reports]


def _row_of(report: QueueReport, lent: Collection[str]) -> QueueRow:
    spec = report.spec
    guaranteed, used = in_ones(spec.guaranteed), in_ones(report.used)
    return QueueRow(
        key=spec.key,
        name=spec.name,
        parent=spec.parent,
        depth=report.depth,
        weight=spec.weight,
        priority=spec.priority,
        order=spec.order.value,
        guaranteed=guaranteed,
        limit=in_ones(spec.limit),
        used=used,
        borrowed=_above({name: used[name] for name in used if name in lent}, guaranteed),
        fair_share=in_ones(report.fair_share),
        asked=in_ones(report.asked),
        past_gpu_hours=report.past.gpu_seconds / _HOUR_S if report.past else 0.0,
        budgets=_budgets(report),
        reclaimable=spec.reclaimable,
        pending_units=report.pending_units,
        pending_pods=report.pending_pods,
        running_pods=report.running_pods,
        problem=report.problem or spec.problem,
    )


def _above(used: Numbers, guaranteed: Numbers) -> Numbers:
    over = {name: number - guaranteed.get(name, 0.0) for name, number in used.items()}
    return {name: number for name, number in over.items() if number > 0}


def _budgets(report: QueueReport) -> list[BudgetRow]:
    past = report.past or PastUse(0.0)
    used = {"Day": past.day_hours, "Month": past.month_hours}
    return [
        BudgetRow(each.period.value, each.gpu_hours, used[each.period.value])
        for each in report.spec.budgets
    ]


def found_by(name: str, rows: Sequence[QueueRow]) -> list[QueueRow]:
    """The queues of that name, or of that key."""
    return [row for row in rows if name in (row.name, row.key)]


def ancestors_of(queue: QueueRow, rows: Iterable[QueueRow]) -> list[QueueRow]:
    """From the top down; a cycle ends where it began."""
    by_key = {row.key: row for row in rows}
    found: list[QueueRow] = []
    at = by_key.get(queue.parent)
    while at is not None and at.key != queue.key and at not in found:
        found.append(at)
        at = by_key.get(at.parent)
    return found[::-1]


def borrowers_of(queue: QueueRow, rows: Sequence[QueueRow]) -> list[BorrowerRow]:
    """The queues that use what is guaranteed to this one, or to an ancestor of it.

    At each level where the queue uses less than it is guaranteed, they are its siblings that use
    more than they are, and beneath those the queues that do.
    """
    children: dict[str, list[QueueRow]] = defaultdict(list)
    for row in rows:
        children[row.parent].append(row)
    found: dict[tuple[str, str], BorrowerRow] = {}
    for level in (*ancestors_of(queue, rows), queue):
        for resource, guaranteed in level.guaranteed.items():
            if level.used.get(resource, 0.0) < guaranteed:
                found |= {
                    (each.key, resource): _borrower(each, resource)
                    for sibling in children[level.parent]
                    if sibling.key != level.key
                    for each in _borrowing(sibling, resource, children)
                }
    return sorted(found.values(), key=lambda row: -row.borrowed)


def _borrowing(
    row: QueueRow, resource: str, children: Mapping[str, Sequence[QueueRow]]
) -> list[QueueRow]:
    """The lowest queues beneath this one that borrow, if it does.

    Those beneath a queue that is not reclaimable are not, either.
    """
    if not row.borrowed.get(resource):
        return []
    below = children.get(row.key, ())
    if not row.reclaimable:
        below = [msgspec.structs.replace(each, reclaimable=False) for each in below]
    found = [each for child in below for each in _borrowing(child, resource, children)]
    return found or [row]


def _borrower(row: QueueRow, resource: str) -> BorrowerRow:
    used, share = row.used.get(resource, 0.0), row.fair_share.get(resource, 0.0)
    over = max(0.0, min(used - share, row.borrowed[resource])) * row.reclaimable
    return BorrowerRow(row.key, resource, row.borrowed[resource], share, over)


def with_unreclaimable(
    found: BorrowerRow, rows: Iterable[QueueRow], kept: Unreclaimable
) -> BorrowerRow:
    """With what can not be reclaimed from it, and why."""
    said = kept.get(found.queue, {}).items()
    amounts = {reason: in_ones(each).get(found.resource, 0.0) for reason, each in said}
    amounts = {reason: amount for reason, amount in amounts.items() if amount}
    used = next(row.used.get(found.resource, 0.0) for row in rows if row.key == found.queue)
    evictable = max(0.0, used - sum(amounts.values()))
    return msgspec.structs.replace(
        found, not_reclaimable=amounts, reclaimable=min(found.reclaimable, evictable)
    )


def unreclaimable_text(each: BorrowerRow) -> str:
    """Such as "4 protected by disruption budgets"; empty if nothing is kept."""
    kept = (
        f"{written(each.resource, amount)} {reason}"
        for reason, amount in each.not_reclaimable.items()
    )
    return ", ".join(kept)
