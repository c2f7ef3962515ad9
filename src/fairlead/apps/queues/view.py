"""The picture of `fairlead queue`: the tree of queues, a line a queue."""

from collections.abc import Sequence

from rich.text import Text

from fairlead.apps.queues.amounts import written
from fairlead.apps.queues.rows import QueueListing, QueueRow
from fairlead.apps.top.table import Column, lines

_COLOUR = {False: "", True: "red"}
_NONE = (
    "there are no queues: every pod may use the whole cluster; to make one, see "
    "`kubectl explain queues.fairlead.dev` and docs/queues.md"
)


def render_queues(listing: QueueListing, resource: str, width: int | None) -> list[Text]:
    """Lines of at most that width; None: as wide as it takes."""
    notes = [_cut(Text(note, "yellow"), width) for note in listing.notes]
    if not listing.queues:
        return [*notes, Text(_NONE)]
    return [*notes, _cut(_head(listing.queues, resource), width), Text(),
            *lines(_columns(listing.queues, resource), width)]  # fmt: skip


def queue_table(queues: Sequence[QueueRow], resource: str, width: int | None = None) -> list[Text]:
    """The table alone."""
    return lines(_columns(queues, resource), width)


def _head(queues: Sequence[QueueRow], resource: str) -> Text:
    top = [row for row in queues if not row.depth]
    used, pending = (sum(row.used.get(resource, 0.0) for row in top),
                     sum(row.pending_units for row in top))  # fmt: skip
    guaranteed = sum(row.guaranteed.get(resource, 0.0) for row in top)
    said = f"{resource}   used {written(resource, used)}"
    said += f"   guaranteed {written(resource, guaranteed)}   pending units {pending}"
    return Text(said, "bold")


def _columns(queues: Sequence[QueueRow], resource: str) -> list[Column]:
    def of(amounts: str) -> list[str]:
        return [written(resource, getattr(row, amounts).get(resource)) for row in queues]

    several = len({row.key.partition("/")[0] for row in queues}) > 1
    return [
        Column("QUEUE", [_name(row, several) for row in queues]),
        Column("GUARANTEED", of("guaranteed"), right=True),
        Column("LIMIT", of("limit"), right=True),
        Column("USED", [_used(row, resource) for row in queues], right=True),
        Column("BORROWED", of("borrowed"), right=True),
        Column("FAIR SHARE", of("fair_share"), right=True),
        Column("WEIGHT", [f"{row.weight:g}" for row in queues], right=True, leaves=6),
        Column("PAST USE", [_past(row) for row in queues], right=True, leaves=5),
        *_budget_column(queues),
        Column("PENDING", [_pending(row) for row in queues], right=True),
        Column("RUNNING", [str(row.running_pods) for row in queues], right=True, leaves=4),
        Column("REASON", [_reason(row) for row in queues]),
    ]


def _name(row: QueueRow, several: bool) -> Text:
    """With the API that describes it where there are several."""
    return Text("  " * row.depth + (row.key if several else row.name), _COLOUR[bool(row.problem)])


def _used(row: QueueRow, resource: str) -> Text:
    """Coloured by what it means: green within the guarantee, yellow borrowed, red above limit."""
    used = row.used.get(resource, 0.0)
    limit = row.limit.get(resource)
    over = limit is not None and used > limit
    colour = "red" if over else "gold1" if row.borrowed.get(resource) else "green3" if used else ""
    return Text(written(resource, used), colour)


def _past(row: QueueRow) -> str:
    """GPU-hours, older use counting less."""
    hours = round(row.past_gpu_hours)
    return f"{hours} h" if hours else "-"


def _budget_column(queues: Sequence[QueueRow]) -> list[Column]:
    """GPU-hours used of each budget; left out where there are none."""
    if not any(row.budgets for row in queues):
        return []
    return [Column("BUDGET", [_budgets(row) for row in queues], right=True, leaves=3)]


def _budgets(row: QueueRow) -> Text:
    said = ", ".join(f"{each.used_gpu_hours:.1f}/{each.gpu_hours:g} h a {each.period.lower()}"
                     for each in row.budgets)  # fmt: skip
    spent = any(each.used_gpu_hours >= each.gpu_hours for each in row.budgets)
    return Text(said or "-", "red" if spent else "")


def _pending(row: QueueRow) -> str:
    if not row.pending_units:
        return "-"
    pods = f" ({row.pending_pods} pods)" if row.pending_pods != row.pending_units else ""
    return f"{row.pending_units}{pods}"


def _reason(row: QueueRow) -> Text:
    return Text(row.problem, "red") if row.problem else Text(row.reason, "dim")


def _cut(line: Text, width: int | None) -> Text:
    if width is not None:
        line.truncate(width, overflow="ellipsis")
    return line
