"""Our own format of traces: one job in each row of a CSV file or each line of a JSONL file.

| column | |
|---|---|
| `submit_s` | when it comes, in seconds from the start of the trace |
| `run_s` | how long it runs, in seconds |
| `gpus` | GPUs; on one node if one has so many, else whole nodes |
| `name` | unique (`job-LINE` without one) |
| `gpu_milli` | thousandths of each GPU, if not all of it |
| `cpu_milli`, `memory_mib` | of each pod |
| `user` | for figures of fairness |
| `restart_s` | what a restart costs, for policies that interrupt jobs |
| `not_before_s` | it does not start before, in seconds from the start of the trace |
| `deadline_s` | it is to have ended by then, in seconds from the start of the trace |
| `start_window` | `cheap` or `low-carbon`: its start is chosen by that forecast |
| `wait_at_most_s` | how long it waits for a better start at most |

Only the first three are required.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from fairlead.model.gpus import FAIRLEAD, WHOLE, GpuRequest
from fairlead.model.nodes import Node
from fairlead.model.pods import PodRequest
from fairlead.model.start_times import StartTimes, Window
from fairlead.sim.traces.rows import TraceRow, csv_rows, json_rows
from fairlead.sim.traces.trace import JobMaker, SimTrace, in_order
from fairlead.sim.virtual.jobs import SimJob, consolidated, whole_gpus

_COLUMNS = ("submit_s", "run_s", "gpus")
_TIME_COLUMNS = ("not_before_s", "deadline_s", "start_window", "wait_at_most_s")
_MOST_MILLI_CPU, _MOST_MIB = 10**8, 10**9
_LONGEST_NAME = 200


def read_plain(file: Path, nodes: Sequence[Node], gpus_of_node: int) -> SimTrace:
    """On these nodes, each with so many GPUs."""
    rows = json_rows(file) if file.suffix == ".jsonl" else csv_rows(file, _COLUMNS)
    maker, names, jobs = JobMaker(), set[str](), []
    for row in rows:
        job = _job(row, maker, gpus_of_node)
        if job.name in names:
            raise row.error(f"another job has the name {job.name}")
        names.add(job.name)
        jobs.append(job)
    return SimTrace(file.name, tuple(nodes), in_order(jobs))


def _job(row: TraceRow, maker: JobMaker, gpus_of_node: int) -> SimJob:
    name = row.text("name", f"job-{row.line}")
    if len(name) > _LONGEST_NAME:
        raise row.error(f"name has more than {_LONGEST_NAME} characters")
    parts = _requests(row, gpus_of_node)
    restart_s = row.number("restart_s") if row.text("restart_s") else 0.0
    submit_s, run_s = row.number("submit_s"), row.number("run_s")
    made = maker.of_pods(name, submit_s, run_s, parts, row.text("user"), restart_s)
    times = _times(row, submit_s)
    return made if times is None else replace(made, times=times)


def _times(row: TraceRow, submit_s: float) -> StartTimes | None:
    """None: it starts as soon as it can, and has no deadline."""
    if not any(map(row.text, _TIME_COLUMNS)):
        return None
    wait_s = _optional(row, "wait_at_most_s")
    return StartTimes(
        created_s=submit_s,
        not_before_s=_optional(row, "not_before_s") or submit_s,
        deadline_s=_optional(row, "deadline_s"),
        window=_window(row),
        start_by_s=None if wait_s is None else submit_s + wait_s,
    )


def _optional(row: TraceRow, column: str) -> float | None:
    return row.number(column) if row.text(column) else None


def _window(row: TraceRow) -> Window | None:
    word = row.text("start_window")
    if word and word not in list(Window):
        raise row.error(f"start_window is {word[:40]!r}, not {' or '.join(Window)}")
    return Window(word) if word else None


def _requests(row: TraceRow, gpus_of_node: int) -> list[PodRequest]:
    gpus = row.whole("gpus")
    cpu = row.whole("cpu_milli", most=_MOST_MILLI_CPU) if row.text("cpu_milli") else 0
    mib = row.whole("memory_mib", most=_MOST_MIB) if row.text("memory_mib") else 0
    amounts = (("cpu", cpu), ("memory", mib << 20))
    resources = tuple((name, amount) for name, amount in amounts if amount)
    return [
        replace(part, resources=resources, scored=(cpu, mib << 20))
        for part in _gpu_parts(row, gpus, gpus_of_node)
    ]


def _gpu_parts(row: TraceRow, gpus: int, gpus_of_node: int) -> list[PodRequest]:
    milli = row.whole("gpu_milli", least=1, most=WHOLE) if row.text("gpu_milli") else WHOLE
    if milli == WHOLE or not gpus:
        return [whole_gpus(count) for count in consolidated(gpus, gpus_of_node)]
    share = GpuRequest(gpus, whole=False, milli=milli, dialect=FAIRLEAD)
    return [PodRequest(gpu_request=share)]
