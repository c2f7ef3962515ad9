"""Starts as ranges: `fairlead queue --start`, and the sentence of `fairlead explain`."""

import io
import time
from datetime import UTC, datetime

import pytest

from builders import a_node, a_pod
from fairlead.apps.config.run_plan import RunOptions, plan
from fairlead.apps.live.start_forecasts import run_time_answer, start_answer
from fairlead.apps.queues.starts import show_starts, starts_among
from fairlead.engine import start_dumps
from fairlead.engine.engine import Engine
from fairlead.engine.events import Event, NodeSeen, PodSeen, StartRecordLoaded
from fairlead.engine.start_record import OpenForecast, StartRecord
from fairlead.model.pods import Pod
from fairlead.model.run_times import RunTime


def ago(seconds: float) -> str:
    return datetime.fromtimestamp(time.time() - seconds, UTC).isoformat()


def running(run_time: RunTime | None) -> Pod:
    return a_pod("runs", gpus=4, node="n", started=ago(600), run_time=run_time)


def a_cluster(run_time: RunTime | None, *waiting: Pod) -> list[Event]:
    pods = (running(run_time), *waiting)
    return [NodeSeen(a_node("n", gpus=4)), *(PodSeen(pod) for pod in pods)]


def fed(events: list[Event]) -> Engine:
    engine = Engine(plan(RunOptions()).profiles)
    engine.wall_offset_s = time.time()
    for event in events:
        engine.handle(event, now=0.0)
    return engine


def test_the_range_is_that_of_the_ends_it_waits_for() -> None:
    pod = a_pod("waits", gpus=4)
    told = start_answer(fed(a_cluster(RunTime(1800.0), pod)), pod, now=0.0)["start"]
    assert told["earliest"] < told["expected"] < told["latest"]
    assert (told["nodes"], told["waitsFor"]) == (["n"], ["default/runs"])
    assert told["message"].startswith("start: between ")
    assert told["message"].endswith(
        ", when default/runs ends; no such forecast has been judged yet"
    )


def test_a_bound_is_said_to_be_one() -> None:
    pod = a_pod("waits", gpus=4)
    told = start_answer(fed(a_cluster(RunTime(bound_s=1800.0), pod)), pod, now=0.0)["start"]
    assert told["bounded"]
    assert told["message"].endswith("; their time is limited")


def test_nothing_is_said_where_nothing_is_known() -> None:
    pod = a_pod("waits", gpus=4)
    assert start_answer(fed(a_cluster(None, pod)), pod, now=0.0) == {}
    assert start_answer(fed(a_cluster(None)), pod, now=0.0) == {}


def test_units_are_listed_by_their_start() -> None:
    first, second = (a_pod(name, gpus=4, run_time=RunTime(3600.0)) for name in ("b", "a"))
    never = a_pod("c", gpus=8)
    rows = starts_among(a_cluster(RunTime(1800.0), first, second, never), plan(RunOptions()))
    assert [row.unit for row in rows] == ["default/b", "default/a", "default/c"]
    assert [row.nodes for row in rows] == [["n"], ["n"], []]
    assert rows[0].earliest is not None
    assert rows[0].start is not None
    assert rows[0].latest is not None
    assert rows[0].earliest < rows[0].start < rows[0].latest
    out = io.StringIO()
    show_starts(rows, "text", out)
    head, *lines = out.getvalue().splitlines()
    assert head.split() == [
        "UNIT", "QUEUE", "GPUS", "START_TIME", "EARLIEST", "LATEST", "HELD", "SCHEDNODES"
    ]  # fmt: skip
    assert lines[2].split() == ["default/c", "-", "8", "N/A", "N/A", "N/A", "-", "(null)"]


def test_starts_are_listed_with_the_record_of_such_forecasts() -> None:
    record = StartRecord()
    for number in range(10):
        record.note(f"unit-{number}", OpenForecast(0.0, 600.0, 1200.0, 1800.0), bounded=False)
        record.started(f"unit-{number}", 1000.0 if number % 2 else 5000.0)
    kept = StartRecordLoaded(start_dumps.dump(record, 0.0))
    waits = a_pod("waits", gpus=4, run_time=RunTime(3600.0))
    (row,) = starts_among([kept, *a_cluster(RunTime(1800.0), waits)], plan(RunOptions()))
    assert row.held == pytest.approx(0.5, abs=0.02)
    out = io.StringIO()
    show_starts([row], "text", out)
    assert " % " in out.getvalue().splitlines()[1]


def test_without_waiting_units_there_is_a_sentence() -> None:
    out = io.StringIO()
    show_starts([], "text", out)
    assert out.getvalue() == "no unit with GPUs waits\n"


@pytest.mark.parametrize(
    ("run_time", "message"),
    [
        (RunTime(1800.0, source="annotation"),
         "run time: 30 min, between 15 min and 60 min, basis annotation"),
        (RunTime(None, 7200.0, "pod activeDeadlineSeconds"),
         "run time: 2 h, between 60 min and 2 h, basis pod activeDeadlineSeconds"),
        (RunTime(problem="fairlead.dev/run-time is 'x' and is ignored"),
         "run time: unknown; fairlead.dev/run-time is 'x' and is ignored"),
        (None, ""),
    ],
)  # fmt: skip
def test_the_run_time_of_a_waiting_pod_and_its_basis_are_said(
    run_time: RunTime | None, message: str
) -> None:
    pod = a_pod("waits", gpus=4, run_time=run_time)
    told = run_time_answer(fed(a_cluster(None, pod)), pod)
    assert told.get("runTime", {}).get("message", "") == message
