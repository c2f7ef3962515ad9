"""What queues have and wait for, looked up when a Prometheus server asks.

Queues beyond the first thousand are added up under one name, and few resources are served: users
make both.
"""

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence

from fairlead.apps.queues.rows import Numbers, QueueRow, rows_of
from fairlead.engine.engine import Engine
from fairlead.model.queues import GPUS, QueueReport
from fairlead.telemetry.metrics import Metrics, Reading

#: Queues that are served by name, and resources of each.
MOST_QUEUES = 1000
MOST_RESOURCES = 8
OTHERS = "(others)"
#: All that one scrape asks for is found once.
_SAME_SCRAPE_S = 1.0

Report = Callable[[], Sequence[QueueReport]]


def expose_queues_of(engine: Engine, metrics: Metrics) -> None:
    """Adds those of an engine, which has others after it was built again."""

    def report() -> Sequence[QueueReport]:
        return engine.queues.report()

    expose_queues(metrics, report)


def expose_queues(
    metrics: Metrics, report: Report, clock: Callable[[], float] = time.monotonic
) -> None:
    """Adds them to what is served; nothing is served before there is a queue."""
    queues, gauge = _Queues(report, clock), metrics.watch_gauge
    amounts = {
        "used": "Amount that the pods of the queue hold.",
        "guaranteed": "Amount that the queue is guaranteed.",
        "limit": "Most that the queue may use; absent without limit.",
        "fair_share": "Amount that is due to the queue now.",
        "borrowed": "Amount used above what is guaranteed.",
        "asked": "Amount that pending units request.",
    }
    for name, text in amounts.items():
        gauge(f"fairlead_queue_{name}", text, ("queue", "resource"), queues.amounts(name))
    gauge("fairlead_queue_pending_units", "Pending pods and gangs.", ("queue",),
          queues.counts(lambda row: row.pending_units))  # fmt: skip
    gauge("fairlead_queue_pending_pods", "Pending pods.", ("queue",),
          queues.counts(lambda row: row.pending_pods))  # fmt: skip
    gauge("fairlead_queue_running_pods", "Pods that hold a node.", ("queue",),
          queues.counts(lambda row: row.running_pods))  # fmt: skip
    gauge("fairlead_queue_past_gpu_seconds", "GPU seconds used, halved with each half-life.",
          ("queue",), queues.counts(lambda row: 3600.0 * row.past_gpu_hours))  # fmt: skip
    gauge("fairlead_queue_budget_used_ratio", "Fraction of a budget that is used.",
          ("queue", "period"), queues.budgets)  # fmt: skip


class _Queues:
    def __init__(self, report: Report, clock: Callable[[], float]) -> None:
        self._report = report
        self._clock = clock
        self._found: tuple[float, list[QueueRow], list[QueueRow]] | None = None

    def amounts(self, name: str) -> Callable[[], Reading]:
        def read() -> Reading:
            rows, others = self._rows()
            resources = _resources((*rows, *others))
            found: dict[tuple[str, ...], float] = {
                (row.key, resource): number
                for row in rows
                for resource, number in _of(row, name, resources).items()
            }
            for row in others:
                for resource, number in _of(row, name, resources).items():
                    place = OTHERS, resource
                    found[place] = found.get(place, 0.0) + number
            return found

        return read

    def counts(self, count: Callable[[QueueRow], float]) -> Callable[[], Reading]:
        def read() -> Reading:
            rows, others = self._rows()
            found: dict[tuple[str, ...], float] = {(row.key,): count(row) for row in rows}
            return found | ({(OTHERS,): sum(map(count, others))} if others else {})

        return read

    def budgets(self) -> Reading:
        rows, _ = self._rows()
        return {
            (row.key, each.period): each.used_gpu_hours / each.gpu_hours
            for row in rows
            for each in row.budgets
            if each.gpu_hours > 0
        }

    def _rows(self) -> tuple[list[QueueRow], list[QueueRow]]:
        """The first thousand, and of the others those that have none beneath them."""
        if self._found is None or self._clock() - self._found[0] > _SAME_SCRAPE_S:
            rows = rows_of(self._report())
            parents = {row.parent for row in rows}
            others = [row for row in rows[MOST_QUEUES:] if row.key not in parents]
            self._found = self._clock(), rows[:MOST_QUEUES], others
        return self._found[1:]


def _of(row: QueueRow, name: str, resources: Collection[str]) -> Numbers:
    """Of GPUs, and of what the queue lists; what it does not use of that is 0, not unknown."""
    found: Numbers = getattr(row, name)
    listed = {GPUS, *row.guaranteed, *row.limit}.intersection(resources)
    if name == "used":
        return {resource: found.get(resource, 0.0) for resource in listed}
    return {resource: found[resource] for resource in listed if resource in found}


def _resources(rows: Iterable[QueueRow]) -> set[str]:
    """GPUs, and of those that queues list the most frequent."""
    listed = Counter(name for row in rows for name in {*row.guaranteed, *row.limit} - {GPUS})
    others = sorted(listed, key=lambda name: (-listed[name], name))
    return {GPUS, *others[: MOST_RESOURCES - 1]}
