"""Counted resources, looked up when a Prometheus server asks."""

from collections.abc import Callable

from fairlead.cluster.counted_book import CountedBook
from fairlead.engine.engine import Engine
from fairlead.telemetry.metrics import Metrics, Reading


def expose_counted_of(engine: Engine, metrics: Metrics) -> None:
    """Adds those of an engine; nothing is served before there is a counted resource."""

    def of(amount: Callable[[CountedBook], int | None]) -> Callable[[], Reading]:
        def read() -> Reading:
            books = engine.cluster.counted
            found = {name: amount(book) for name, book in books.books.items()} if books else {}
            return {(name,): float(each) for name, each in found.items() if each is not None}

        return read

    gauge, labels = metrics.watch_gauge, ("resource",)
    gauge("fairlead_counted_resource_total", "How many there are; absent if only layers limit it.",
          labels, of(lambda book: book.spec.total))  # fmt: skip
    gauge("fairlead_counted_resource_used", "How many pods hold.", labels,
          of(lambda book: book.used))  # fmt: skip
    gauge("fairlead_counted_resource_outside", "How many count as used outside the cluster.",
          labels, of(lambda book: book.outside))  # fmt: skip
    gauge("fairlead_counted_resource_outside_unknown",
          "Whether use outside the cluster should be known, and is not.", labels,
          of(lambda book: int(book.is_stale)))  # fmt: skip
