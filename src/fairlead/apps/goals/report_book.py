"""What queues and jobs came to, month by month (UTC); bounded, and kept across restarts.

Rows beyond the bounds are added up as `(others)`, those with the fewest GPU-seconds first.
"""

from collections.abc import Iterator
from dataclasses import astuple, fields
from datetime import UTC, datetime
from enum import StrEnum
from math import isfinite

import msgspec

from fairlead.model.lazy_dataclass import dataclass

OTHERS = "(others)"
#: In bytes.
_LONGEST_NAME = 96
#: Rows of a month that are counted, and that are kept across restarts.
MOST_ROWS = 4096
#: Months that are kept.
MOST_MONTHS = 13
#: No sum comes to more.
_LARGEST = 1e15


class RowKind(StrEnum):
    QUEUE = "queue"
    JOB = "job"


#: By kind: rows of a month, and months, that are kept across restarts.
_KEPT = {RowKind.QUEUE: (32, MOST_MONTHS), RowKind.JOB: (96, 3)}
LARGEST_DUMP = 240 * sum((rows + 1) * months for rows, months in _KEPT.values()) + 64


@dataclass(slots=True)
class ReportRow:
    """Sums of one month."""

    #: Units that started, and how long they waited together.
    units: float = 0.0
    wait_s: float = 0.0
    #: Of those with a service class: how many started in time, and how many late.
    in_time: float = 0.0
    late: float = 0.0
    deadlines_met: float = 0.0
    deadlines_missed: float = 0.0
    gpu_s: float = 0.0
    wasted_gpu_s: float = 0.0
    money: float = 0.0
    kwh: float = 0.0
    grams: float = 0.0

    def add(self, other: "ReportRow") -> None:
        for each in FIELDS:
            setattr(self, each, getattr(self, each) + getattr(other, each))


FIELDS = tuple(each.name for each in fields(ReportRow))
_Place = tuple[str, RowKind]


class _Dump(msgspec.Struct, array_like=True):
    at_s: float
    #: Month, kind, name, and the sums.
    rows: list[tuple[str, RowKind, str, tuple[float, ...]]]


class ReportBook:
    def __init__(self) -> None:
        self._rows: dict[_Place, dict[str, ReportRow]] = {}
        #: Until when running pods were counted, in seconds since 1970; None: not yet.
        self.at_s: float | None = None
        #: Grows with each change.
        self.version = 0

    def __bool__(self) -> bool:
        return bool(self._rows)

    def add(self, now_s: float, queue: str, job: str, amounts: ReportRow) -> None:
        """For a queue and for a job of it, in the month of that time."""
        month = month_of(now_s)
        for kind, name in ((RowKind.QUEUE, queue), (RowKind.JOB, job)):
            self._row(month, kind, _short(name)).add(amounts)
        self.version += 1

    def rows(self) -> Iterator[tuple[str, RowKind, str, ReportRow]]:
        """The last month first, then those with the most GPU-seconds."""
        for (month, kind), rows in sorted(self._rows.items(), reverse=True):
            for name, row in sorted(rows.items(), key=lambda item: (-item[1].gpu_s, item[0])):
                yield month, kind, name, row

    def of_month(self, month: str, kind: RowKind) -> dict[str, ReportRow]:
        """By name; it is not to be changed."""
        return self._rows.get((month, kind), {})

    def _row(self, month: str, kind: RowKind, name: str) -> ReportRow:
        rows = self._rows.get((month, kind))
        if rows is None:
            rows = self._rows[month, kind] = {}
            self._drop_old(kind)
        if name not in rows and len(rows) >= MOST_ROWS:
            rows = self._rows[month, kind] = folded(rows, MOST_ROWS // 2)
        return rows.setdefault(name, ReportRow())

    def _drop_old(self, kind: RowKind) -> None:
        months = sorted(month for month, each in self._rows if each is kind)
        for month in months[: -_KEPT[kind][1]]:
            del self._rows[month, kind]

    # -- to keep it --------------------------------------------------------------------------

    def dump(self) -> bytes:
        """At most `LARGEST_DUMP` bytes."""
        rows = [
            (month, kind, name, tuple(round(each, 3) for each in astuple(row)))
            for (month, kind), found in self._rows.items()
            for name, row in folded(found, _KEPT[kind][0]).items()
        ]
        return msgspec.msgpack.encode(_Dump(self.at_s or 0.0, rows))

    def take(self, other: "ReportBook") -> None:
        """What was kept, beside what was counted here."""
        for month, kind, name, row in other.rows():
            self._row(month, kind, name).add(row)
        self.at_s = self.at_s or other.at_s
        self.version += 1


def load(data: bytes) -> ReportBook:
    """Raises ValueError if the bytes are not those of a dump."""
    if len(data) > LARGEST_DUMP:
        raise ValueError(f"{len(data)} bytes are more than a report has")
    try:
        found = msgspec.msgpack.decode(data, type=_Dump)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ValueError("it is damaged, or of another version") from error
    if not isfinite(found.at_s):
        raise ValueError("its time is not sound")
    book = ReportBook()
    book.at_s = found.at_s or None
    for month, kind, name, numbers in found.rows:
        sound = all(isfinite(each) and 0.0 <= each <= _LARGEST for each in numbers)
        if len(numbers) != len(FIELDS) or not sound or not _is_month(month):
            raise ValueError("a row is not sound")
        book._row(month, kind, _short(name)).add(ReportRow(*numbers))
    return book


def folded(rows: dict[str, ReportRow], most: int) -> dict[str, ReportRow]:
    """The rows with the most GPU-seconds, and the sum of the others."""
    names = sorted(rows, key=lambda name: (name == OTHERS, -rows[name].gpu_s, name))
    if len(names) <= most:
        return rows
    kept = {name: rows[name] for name in names[:most]}
    others = ReportRow()
    for name in names[most:]:
        others.add(rows[name])
    return kept | {OTHERS: others}


def _short(name: str) -> str:
    return name.encode()[:_LONGEST_NAME].decode(errors="ignore")


def month_of(at_s: float) -> str:
    return datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m")


def _is_month(text: str) -> bool:
    year, _, month = text.partition("-")
    return len(text) == 7 and year.isdigit() and month.isdigit()
