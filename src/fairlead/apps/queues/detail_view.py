"""The picture of `fairlead queue NAME`: one queue with its ancestors, units and borrowers."""

from collections.abc import Iterator, Sequence

from rich.text import Text

from fairlead.apps.queues.amounts import written
from fairlead.apps.queues.rows import (
    BorrowerRow,
    Numbers,
    QueueDetail,
    QueueRow,
    UnitRow,
    unreclaimable_text,
)
from fairlead.apps.queues.view import queue_table
from fairlead.apps.top.table import Column, lines
from fairlead.telemetry.rightsizing import span

_HIDDEN = "(not visible to you)"


def render_queue(detail: QueueDetail, resource: str, width: int | None) -> list[Text]:
    """Lines of at most that width; None: as wide as it takes."""
    found = [
        *(Text(note, "yellow") for note in detail.notes),
        *queue_table([*detail.ancestors, detail.queue], resource, width),
        Text(),
        Text(_rules(detail.queue)),
        *_pending(detail, resource, width),
        *_running(detail, resource, width),
        *_borrowers(detail, resource, width),
    ]
    for line in found:
        if width is not None:
            line.truncate(width, overflow="ellipsis")
    return found


def _rules(queue: QueueRow) -> str:
    said = f"order {queue.order}, weight {queue.weight:g}, priority {queue.priority}"
    return f"{said}; {queue.key.partition('/')[0]} queue"


def _pending(detail: QueueDetail, resource: str, width: int | None) -> Iterator[Text]:
    yield Text()
    if not detail.pending:
        yield Text("nothing is pending in this queue itself")
        return
    yield Text(f"pending units: {len(detail.pending) + detail.pending_left_out}", "bold")
    yield from lines(
        [
            Column("#", [str(unit.position) for unit in detail.pending], right=True),
            *_unit_columns(detail.pending, resource),
            Column("WAITED", [_time(unit.waited_s) for unit in detail.pending], right=True),
            Column("REASON", [unit.reason for unit in detail.pending]),
        ],
        width,
    )
    yield from _left_out(detail.pending_left_out)


def _running(detail: QueueDetail, resource: str, width: int | None) -> Iterator[Text]:
    yield Text()
    if not detail.running:
        yield Text("nothing of this queue itself runs")
        return
    yield Text(f"running units: {len(detail.running) + detail.running_left_out}", "bold")
    yield from lines(_unit_columns(detail.running, resource), width)
    yield from _left_out(detail.running_left_out)


def _unit_columns(units: Sequence[UnitRow], resource: str) -> list[Column]:
    return [
        Column("UNIT", [unit.name or _HIDDEN for unit in units]),
        Column("KIND", [unit.kind for unit in units], leaves=3),
        Column("PODS", [str(unit.pods) for unit in units], right=True),
        Column("REQUEST", [_amount(unit.amounts, resource) for unit in units], right=True),
        Column("PRIORITY", [str(unit.priority) for unit in units], right=True, leaves=2),
    ]


def _borrowers(detail: QueueDetail, resource: str, width: int | None) -> Iterator[Text]:
    found = [each for each in detail.borrowers if each.resource == resource]
    if not found:
        return
    unused = detail.queue.guaranteed.get(resource, 0.0) - detail.queue.used.get(resource, 0.0)
    yield Text()
    yield Text(
        f"{written(resource, max(0.0, unused))} {resource} guaranteed to this queue not in use; "
        "queues that borrow:", "bold",
    )  # fmt: skip
    yield from lines(_borrower_columns(found), width)


def _borrower_columns(found: Sequence[BorrowerRow]) -> list[Column]:
    return [
        Column("QUEUE", [each.queue.partition("/")[2] for each in found]),
        Column("BORROWED", [written(each.resource, each.borrowed) for each in found], right=True),
        Column("FAIR SHARE", [written(each.resource, each.fair_share) for each in found],
               right=True),
        Column("RECLAIMABLE", [written(each.resource, each.reclaimable) for each in found],
               right=True),
        Column("NOT RECLAIMABLE", [unreclaimable_text(each) or "-" for each in found]),
    ]  # fmt: skip


def _amount(amounts: Numbers, resource: str) -> str:
    return written(resource, amounts.get(resource))


def _time(seconds: float | None) -> str:
    return "-" if seconds is None else span(seconds)


def _left_out(count: int) -> Iterator[Text]:
    if count:
        yield Text(f"and {count} more", "dim")
