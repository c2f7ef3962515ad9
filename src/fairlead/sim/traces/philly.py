"""Jobs of Microsoft's Philly clusters as the Pollux authors filtered them, on 64 nodes with 8 GPUs.

The virtual cluster of a job is its user.
"""

from datetime import UTC, datetime
from pathlib import Path

from fairlead.sim.traces.rows import TraceRow, csv_rows
from fairlead.sim.traces.trace import JobMaker, SimTrace, in_order
from fairlead.sim.virtual.jobs import SimJob, equal_nodes

_COLUMNS = ("timestamp", "duration", "num_gpus", "cluster")
_NODES, _GPUS_OF_NODE = 64, 8


def read_philly(file: Path, first: str = "", end: str = "") -> SimTrace:
    """`first`, `end`: only jobs from the first day on and before the other one, as 2017-10-01."""
    rows = [
        (_moment_s(row), row)
        for row in csv_rows(file, _COLUMNS)
        if first <= row.text("timestamp") and (not end or row.text("timestamp") < end)
    ]
    start_s = min((moment for moment, _ in rows), default=0.0)
    maker = JobMaker()
    jobs = [_job(row, moment - start_s, maker) for moment, row in rows]
    return SimTrace(file.stem, equal_nodes(_NODES, _GPUS_OF_NODE), in_order(jobs))


def _moment_s(row: TraceRow) -> float:
    word = row.text("timestamp")
    try:
        return datetime.fromisoformat(word).replace(tzinfo=UTC).timestamp()
    except ValueError:
        raise row.error(f"timestamp is {word[:40]!r}, not a time") from None


def _job(row: TraceRow, submit_s: float, maker: JobMaker) -> SimJob:
    gpus, run_s = row.whole("num_gpus", least=1), row.number("duration")
    user = row.text("cluster")
    return maker.of_gpus(f"job-{row.line}", submit_s, run_s, gpus, _GPUS_OF_NODE, user)
