"""Metrics of the report of goals: what queues came to in this month, looked up when asked."""

import time
from collections.abc import Callable

from fairlead.apps.goals.report_book import ReportBook, ReportRow, RowKind, folded, month_of
from fairlead.telemetry.metrics import Metrics, Reading

#: Queues with series of their own; the others are one.
_MOST_QUEUES = 32


def expose_report(book: ReportBook, metrics: Metrics) -> None:
    found = _Month(book)
    for name, about, of in (
        ("money", "What the pods of a queue cost in this month.", lambda row: row.money),
        ("energy_kwh", "Energy of the pods of a queue in this month.", lambda row: row.kwh),
        ("co2_grams", "What this energy emitted.", lambda row: row.grams),
    ):
        metrics.watch_gauge(f"fairlead_report_{name}", about, ("queue",), found.by_queue(of))
    metrics.watch_gauge(
        "fairlead_report_deadlines",
        "Units of a queue whose deadline passed in this month, and that had ended by then.",
        ("queue", "result"),
        found.deadlines,
    )


class _Month:
    def __init__(self, book: ReportBook) -> None:
        self._book = book

    def _rows(self) -> dict[str, ReportRow]:
        """By queue, of this month."""
        rows = self._book.of_month(month_of(time.time()), RowKind.QUEUE)
        return folded(rows, _MOST_QUEUES)

    def by_queue(self, of: Callable[[ReportRow], float]) -> Callable[[], Reading]:
        return lambda: {(name,): of(row) for name, row in self._rows().items()}

    def deadlines(self) -> Reading:
        found: dict[tuple[str, ...], float] = {}
        for name, row in self._rows().items():
            if row.deadlines_met or row.deadlines_missed:
                found[name, "met"] = row.deadlines_met
                found[name, "missed"] = row.deadlines_missed
        return found
