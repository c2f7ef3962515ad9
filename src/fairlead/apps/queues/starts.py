"""`fairlead queue --start`: when each waiting unit is expected to start, as `squeue --start`."""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, TextIO

import msgspec

from fairlead.apps.config.run_plan import RunOptions, RunPlan, plan
from fairlead.apps.live.live_engine import read_cluster
from fairlead.apps.top.table import Column, plain_lines
from fairlead.apps.what_if.outlook import ClusterOutlook, Horizon, UnitOutlook, look_ahead
from fairlead.apps.what_if.what_if_view import shown_name
from fairlead.engine import start_dumps
from fairlead.engine.events import Event, StartRecordLoaded
from fairlead.engine.start_record import StartRecord
from fairlead.kube.access.kubeconfig import load_access
from fairlead.kube.http.client import Client
from fairlead.sim.virtual.live_state import RunLength

_MOST_NODES = 3
_MOST_ROWS = 500


class StartRow(msgspec.Struct, rename="camel"):
    """Times are UTC; None: not within the time that is looked ahead."""

    unit: str
    queue: str
    gpus: float
    start: str | None
    #: If run times are as short, and as long, as they are in 8 of 10 cases.
    earliest: str | None
    latest: str | None
    nodes: list[str]
    #: The part of forecasts made as long ahead that held; None: too few were judged.
    held: float | None = None


async def queue_starts(options: RunOptions, name: str = "") -> list[StartRow]:
    """Of all waiting units, or of those of one queue, the first to start first."""
    planned = plan(options)
    client = Client(load_access(options.kubeconfig, options.context))
    try:
        reading = await read_cluster(client, planned)
    finally:
        await client.close()
    return starts_among(reading.events, planned, name)


def starts_among(events: Sequence[Event], planned: RunPlan, name: str = "") -> list[StartRow]:
    """The same for a cluster that these events show."""
    wall_s = time.time()
    looks = {
        length: look_ahead(events, planned, replace(Horizon(), lengths=length), wall_s)
        for length in RunLength
    }
    units = [
        unit for unit in looks[RunLength.EXPECTED].waiting if name in ("", unit.queue) and unit.gpus
    ]
    units.sort(key=lambda unit: float("inf") if unit.start_s is None else unit.start_s)
    record = _record_among(events)
    return [_row(unit, looks, wall_s, record) for unit in units]


def _record_among(events: Sequence[Event]) -> StartRecord:
    kept = (event.data for event in events if isinstance(event, StartRecordLoaded))
    data = next(kept, None)
    return StartRecord() if data is None else start_dumps.load(data)


def _row(
    unit: UnitOutlook,
    looks: Mapping[RunLength, ClusterOutlook],
    wall_s: float,
    record: StartRecord,
) -> StartRow:
    starts = [look.units[unit.name].start_s for look in looks.values() if unit.name in look.units]
    known = [start_s for start_s in starts if start_s is not None]
    return StartRow(
        shown_name(unit.name),
        unit.queue,
        unit.gpus,
        _utc(unit.start_s, wall_s),
        _utc(min(known, default=None), wall_s),
        _utc(max(known) if len(known) == len(looks) else None, wall_s),
        list(dict.fromkeys(unit.nodes)),
        None if unit.start_s is None else record.held_part(unit.start_s),
    )


def _utc(start_s: float | None, wall_s: float) -> str | None:
    if start_s is None:
        return None
    return datetime.fromtimestamp(wall_s + start_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def show_starts(rows: Sequence[StartRow], output: str, stream: TextIO) -> None:
    if output == "json":
        stream.write(json.dumps(msgspec.to_builtins(rows), indent=2) + "\n")
        return
    if not rows:
        stream.write("no unit with GPUs waits\n")
        return
    stream.writelines(f"{line}\n" for line in plain_lines(_columns(rows)))
    if len(rows) > _MOST_ROWS:
        stream.write(f"and {len(rows) - _MOST_ROWS} more\n")


def _columns(rows: Sequence[StartRow]) -> list[Column]:
    rows = rows[:_MOST_ROWS]
    return [
        Column("UNIT", [row.unit for row in rows]),
        Column("QUEUE", [row.queue or "-" for row in rows]),
        Column("GPUS", [f"{row.gpus:g}" for row in rows], right=True),
        Column("START_TIME", [_local(row.start) for row in rows]),
        Column("EARLIEST", [_local(row.earliest) for row in rows]),
        Column("LATEST", [_local(row.latest) for row in rows]),
        Column("HELD", ["-" if row.held is None else f"{100 * row.held:.0f} %" for row in rows]),
        Column("SCHEDNODES", [_nodes(row.nodes) for row in rows]),
    ]


def _local(utc: Any) -> str:
    """As squeue writes times; N/A: there is none."""
    if not utc:
        return "N/A"
    return datetime.fromisoformat(utc).astimezone().strftime("%Y-%m-%dT%H:%M:%S")


def _nodes(nodes: Sequence[str]) -> str:
    more = f" and {len(nodes) - _MOST_NODES} more" if len(nodes) > _MOST_NODES else ""
    return ", ".join(nodes[:_MOST_NODES]) + more or "(null)"
