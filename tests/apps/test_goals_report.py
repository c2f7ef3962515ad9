"""The report of goals: what queues and jobs came to by month, bounded and kept."""

import asyncio
import csv
import io
import json
import time
from base64 import b64encode
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from prometheus_client import generate_latest

from builders import a_node, a_pod, an_engine, see
from consolidation_world import running
from fairlead.apps.goals import report_book
from fairlead.apps.goals.report_book import MOST_ROWS, OTHERS, ReportBook, ReportRow, RowKind
from fairlead.apps.goals.report_view import report_rows, show_report
from fairlead.apps.live.learned import LearnedPlace, read_report
from fairlead.apps.run.goals_reporting import GoalsReporting
from fairlead.apps.run.report_measures import expose_report
from fairlead.apps.run.run_time_store import RunTimeStore
from fairlead.apps.run.usage import Usage
from fairlead.engine import events
from fairlead.engine.engine import Engine
from fairlead.engine.instructions import AnnounceScheduled
from fairlead.kube.errors import ApiError
from fairlead.kube.http.reply import Reply
from fairlead.model.node_figures import Figure, FigureList, FigureRule, SeenFigures
from fairlead.model.service_classes import SERVICE_CLASS, ServiceClass
from fairlead.model.start_times import StartTimes, utc
from fairlead.telemetry.metrics import Metrics

NOVEMBER = 1_794_787_200.0  # 2026-11-16
DECEMBER = NOVEMBER + 30 * 86_400.0


def a_reporting(engine: Engine) -> GoalsReporting:
    made = GoalsReporting(engine, Usage(engine.cluster), lambda: True)
    made.loaded = asyncio.Event()
    return made


def job(reporting: GoalsReporting, name: str) -> ReportRow:
    (found,) = [
        row for _, kind, each, row in reporting.book.rows() if (kind, each) == ("job", name)
    ]
    return found


async def test_running_pods_are_counted_from_look_to_look() -> None:
    engine = an_engine(a_node("a", gpus=4))
    rules = (FigureRule((), 8.0),)
    engine.handle(
        events.FiguresSeen(SeenFigures(Figure.PRICE, (FigureList("table", rules),))), now=0.0
    )
    pod = replace(running("web", 2, "a"), started=utc(NOVEMBER - 9000))
    see(engine, pod)
    reporting = a_reporting(engine)
    await reporting.look(NOVEMBER)
    await reporting.look(NOVEMBER + 1800)
    await reporting.look(NOVEMBER + 1800)
    found = job(reporting, "default/ReplicaSet/web")
    assert found.gpu_s == pytest.approx(2 * (60 + 1800))
    assert found.money == pytest.approx(4.0 * (60 + 1800) / 3600)
    await reporting.look(NOVEMBER + 10 * 3600)
    assert found.gpu_s == pytest.approx(2 * (60 + 1800 + 3600)), "a long gap counts as an hour"


async def test_a_clock_that_was_put_back_does_not_stop_the_count() -> None:
    engine = an_engine(a_node("a", gpus=4))
    see(engine, replace(running("web", 2, "a"), started=utc(NOVEMBER - 9000)))
    reporting = a_reporting(engine)
    reporting.book.at_s = NOVEMBER + 400 * 86_400.0
    for seconds in (0, 60, 120):
        await reporting.look(NOVEMBER + seconds)
    assert job(reporting, "default/ReplicaSet/web").gpu_s == pytest.approx(2 * 120)


async def test_starts_waits_and_deadlines_are_counted_once_for_each_unit() -> None:
    engine = an_engine(a_node("a", gpus=4))
    engine.handle(events.ServiceClassesSeen((ServiceClass("fast", 60.0),)), now=0.0)
    reporting = a_reporting(engine)
    now_s = time.time()
    due = StartTimes(now_s, deadline_s=now_s + 1000)
    pod = replace(a_pod("p", gpus=1), annotations={SERVICE_CLASS: "fast"}, start=due)
    for waited_s in (30.0, 500.0):
        reporting.started(AnnounceScheduled(pod, "a", 1, time.monotonic() - waited_s))
    reporting.started(AnnounceScheduled(a_pod("cpu"), "a", 1, time.monotonic()))
    for _ in range(2):
        reporting.note(events.PodSeen(replace(pod, finished=True)))
    late = replace(a_pod("late", gpus=9), start=StartTimes(now_s, deadline_s=now_s + 10))
    see(engine, late)
    await reporting.look(now_s)
    for _ in range(2):
        await reporting.look(now_s + 20)
    row = job(reporting, "default/p")
    assert (row.units, row.in_time, row.late, row.deadlines_met) == (1, 1, 0, 1)
    assert 30 <= row.wait_s < 400
    assert job(reporting, "default/late").deadlines_missed == 1
    assert len({name for _, _, name, _ in reporting.book.rows()}) == 3


def test_a_book_is_kept_by_month_and_bounded() -> None:
    book = ReportBook()
    for number in range(3 * MOST_ROWS):
        row = ReportRow(units=1.0, gpu_s=float(number), money=1.0)
        book.add(NOVEMBER, "q" * 300 + str(number), "n" * 90 + str(number), row)
    for month in range(40):
        book.add(NOVEMBER + month * 31 * 86_400.0, "team", "job", ReportRow(units=1.0))
    book.at_s = NOVEMBER
    data = book.dump()
    assert len(data) <= report_book.LARGEST_DUMP
    again = report_book.load(data)
    assert again.at_s == NOVEMBER
    months = {kind: {m for m, each, _, _ in again.rows() if each is kind} for kind in RowKind}
    assert (len(months[RowKind.QUEUE]), len(months[RowKind.JOB])) == (13, 3)


def test_what_does_not_fit_is_added_up() -> None:
    book = ReportBook()
    for number in range(500):
        book.add(NOVEMBER, f"q{number}", f"j{number}", ReportRow(gpu_s=float(number), units=1.0))
    kept = {
        name: row for _, kind, name, row in report_book.load(book.dump()).rows() if kind == "job"
    }
    assert sum(row.units for row in kept.values()) == 500
    assert {"j499", "j404", OTHERS} <= kept.keys()
    assert "j0" not in kept


def test_a_new_leader_adds_to_what_was_kept() -> None:
    old, new = ReportBook(), ReportBook()
    for book in (old, new):
        book.add(NOVEMBER, "team", "job", ReportRow(units=1.0))
    old.at_s = NOVEMBER
    new.take(report_book.load(old.dump()))
    assert [row.units for *_, row in new.rows()] == [2.0, 2.0]
    assert new.at_s == NOVEMBER


def test_names_beyond_ascii_leave_a_book_that_can_be_read() -> None:
    book = ReportBook()
    for number in range(200):
        for month in range(13):
            name = f"{number:03}" + "\N{GREEK SMALL LETTER OMEGA}" * 300
            at_s = NOVEMBER + month * 31 * 86_400.0
            book.add(at_s, name, name, ReportRow(*[1.5] * 11))
    assert len(report_book.load(book.dump()).dump()) <= report_book.LARGEST_DUMP


@pytest.mark.parametrize("at_s", [float("nan"), float("inf")])
def test_a_book_of_no_time_is_refused(at_s: float) -> None:
    book = ReportBook()
    book.at_s = at_s
    with pytest.raises(ValueError, match="not sound"):
        report_book.load(book.dump())


class _Server:
    """Holds a ConfigMap, and fails some requests first."""

    def __init__(self, kept: ReportBook, failures: int) -> None:
        self.data = {"report": b64encode(kept.dump()).decode()}
        self._failures = failures

    async def request(self, method: str, _path: str, **given: Any) -> Reply:
        if self._failures:
            self._failures -= 1
            raise ApiError("no answer")
        if method == "PUT":
            self.data = json.loads(given["body"])["binaryData"]
        body = {"metadata": {}, "binaryData": self.data}
        return Reply(200, json.dumps(body).encode())


async def test_a_first_read_that_fails_loses_no_report() -> None:
    kept, counted = ReportBook(), ReportBook()
    for book in (kept, counted):
        book.add(NOVEMBER, "team", "job", ReportRow(units=1.0))
    server, engine = _Server(kept, failures=1), an_engine()
    feed = partial(engine.handle, now=0.0)
    store = RunTimeStore(
        server, LearnedPlace("kube-system", "fairlead"), engine, feed, lambda: True, counted
    )  # type: ignore[arg-type]
    assert not await store._write()
    for _ in range(2):
        assert await store._write()
    found = read_report(server.data)
    assert found is not None
    assert [row.units for *_, row in found.rows()] == [2.0, 2.0], "kept, and not taken in twice"


@pytest.mark.parametrize("spoil", [b"", b"\x93", b"x" * 10])
def test_a_damaged_book_is_refused(spoil: bytes) -> None:
    with pytest.raises(ValueError, match="damaged"):
        report_book.load(spoil)
    book = ReportBook()
    book.add(NOVEMBER, "team", "job", ReportRow(units=float("inf")))
    with pytest.raises(ValueError, match="not sound"):
        read_report({"report": b64encode(book.dump()).decode()})


def test_as_text_json_and_csv() -> None:
    book = ReportBook()
    row = ReportRow(4, 240, 3, 1, 1, 1, 7200, 1800, 12.5, 3.0, 900.0)
    book.add(NOVEMBER, "team", "=cmd()", row)
    book.add(DECEMBER, "team", "train", row)
    rows = report_rows(book, "2026-11")
    told = {"currency": "EUR", "problem": "", "rows": rows}
    out = {output: io.StringIO() for output in ("text", "json", "csv")}
    for output, stream in out.items():
        show_report(told, output, stream)
    text = out["text"].getvalue()
    assert "2026-11 QUEUE  UNITS  MEAN WAIT  IN TIME  DEADLINES MET  GPU-HOURS" in text
    assert "1m   3 of 4         1 of 2        2.0    25 %  12.50  3.0     0.9" in text
    assert json.loads(out["json"].getvalue()) == told
    found = list(csv.DictReader(out["csv"].getvalue().splitlines()))
    assert [each["name"] for each in found] == ["team", "'=cmd()"]
    assert found[0]["money"] == "12.5"


def test_this_month_is_in_the_metrics_by_queue() -> None:
    book, metrics = ReportBook(), Metrics()
    expose_report(book, metrics)
    now_s = time.time()
    spent = ReportRow(money=2.5, kwh=3.0, grams=900.0, deadlines_met=3.0, deadlines_missed=1.0)
    book.add(now_s, "team", "job", spent)
    book.add(now_s - 70 * 86_400, "team", "job", ReportRow(money=100.0))
    book.add(now_s, "other", "job2", ReportRow(gpu_s=1.0))
    shown = generate_latest(metrics.registry).decode()
    for line in (
        'fairlead_report_money{queue="team"} 2.5',
        'fairlead_report_energy_kwh{queue="team"} 3.0',
        'fairlead_report_co2_grams{queue="team"} 900.0',
        'fairlead_report_deadlines{queue="team",result="met"} 3.0',
        'fairlead_report_deadlines{queue="team",result="missed"} 1.0',
    ):
        assert line in shown
    assert 'fairlead_report_deadlines{queue="other"' not in shown
    for number in range(100):
        book.add(now_s, f"q{number}", "job", ReportRow(money=1.0, gpu_s=10.0))
    shown = generate_latest(metrics.registry).decode()
    assert shown.count("fairlead_report_money{") == 33
    assert 'queue="(others)"' in shown
