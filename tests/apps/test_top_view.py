"""`fairlead top` as its readers see it: pictures that fit, rows in the order wished for."""

import io

import pytest
from rich.console import Console

from fairlead.apps.live.running_scheduler import NotAnswered, running_scheduler
from fairlead.apps.top.selection import SORTS, Selection, narrowed, select_rows
from fairlead.apps.top.top import as_data, show
from fairlead.apps.top.view import render_usage
from fairlead.kube.access.credentials import Static
from fairlead.model.errors import ConfigError
from fairlead.telemetry.report import GpuRow, HeldRow, Holder, PodRow, UsageReport
from fairlead.telemetry.rightsizing import SizeAdvice


def gpu(node: str = "n1", index: int = 0, **more) -> GpuRow:
    known = {
        "uuid": f"GPU-{node}-{index}", "model": "NVIDIA H100 80GB HBM3", "state": "whole",
        "booked": 1.0, "utilisation": 0.5, "memory_mib": 81_559, "memory_booked_mib": 81_559,
        "memory_used_mib": 40_000.0, "power_w": 350.0, "reading_age_s": 3.0,
        "holders": [Holder("ml/train", "whole")],
    }  # fmt: skip
    return GpuRow(node=node, index=index, **{**known, **more})


def pod(name: str = "train", **more) -> PodRow:
    known = {
        "namespace": "ml", "owner": "Job/sweep", "scheduler": "gpu-scheduler", "node": "n1",
        "asked": "1", "held": 1.0, "memory_mib": 81_559, "mean": 0.5, "high": 0.6,
        "utilisation": 0.4, "memory_used_mib": 1000.0, "memory_peak_mib": 2000.0,
        "guessed": False, "watched_s": 7200.0, "idle_for_s": None, "held_hours": 2.0,
        "used_hours": 1.0, "idle_hours": 0.0, "wasted_hours": 1.0,
        "advice": SizeAdvice("has what it needs", "right"),
    }  # fmt: skip
    return PodRow(name=name, **{**known, **more})


UNKNOWN = {"utilisation": None, "memory_used_mib": None, "power_w": None, "reading_age_s": None}
IDLE = pod(
    "notebook", namespace="web", node="n2", mean=0.0, high=0.05, utilisation=0.0, idle_for_s=7100.0,
    wasted_hours=2.0, idle_hours=2.0, used_hours=0.0,
    advice=SizeAdvice("idle for 120 min: delete it, or scale it down", "idle"),
)  # fmt: skip
GUESSED = pod("shared", guessed=True, asked="0.5", held=0.5, wasted_hours=0.1)
REPORT = UsageReport(
    7200.0,
    [
        gpu(), gpu("n2", 1, holders=[Holder("web/notebook", "0.5")]), gpu("n2", 0, state="lost"),
        gpu("n3", holders=[], state="free", booked=0.0, **UNKNOWN),
    ],
    [pod(), IDLE, GUESSED],
)  # fmt: skip


def test_gpu_time_of_pods_that_have_ended_stays_in_the_head_and_in_namespaces():
    """Ten hours of a namespace, of which a pod that is there has two."""
    ended = [HeldRow("ml", 10.0, 4.0, 1.0, 6.0), HeldRow("gone", 5.0, 5.0, 0.0, 0.0)]
    report = UsageReport(7200.0, [gpu()], [pod()], held=ended)
    assert "GPU time allocated 15 h, used 9.0 h, wasted 6.0 h (fully idle 1.0 h)" in picture(
        Selection(), report=report
    )
    rows = {row["name"]: row for row in as_data(report, Selection("namespaces"))["namespaces"]}
    assert (rows["ml"]["pods"], rows["ml"]["heldHours"]) == (1, 10.0)
    assert (rows["gone"]["pods"], rows["gone"]["heldHours"]) == (0, 5.0)
    assert as_data(report, Selection(namespace="ml"))["total"]["heldHours"] == 10.0
    assert as_data(report, Selection(node="n1"))["total"]["heldHours"] == 2.0, "of the pods there"


def test_without_nodes_there_is_no_number_of_gpus():
    assert picture(Selection(), report=UsageReport(60.0, [], [pod()])).startswith(
        "GPUs allocated 1.0"
    )


def picture(
    selection: Selection, width: int | None = None, height: int | None = None, report=REPORT
) -> str:
    seen = narrowed(report, selection)
    return "\n".join(
        line.plain.rstrip()
        for line in render_usage(seen, select_rows(seen, selection), width, height)
    )


def names(selection: Selection) -> list[str]:
    chosen = select_rows(narrowed(REPORT, selection), selection)
    return [getattr(row, "name", "") or f"{row.node}/{row.index}" for row in chosen.rows]


@pytest.mark.parametrize("by", SORTS)
@pytest.mark.parametrize("width", [20, 80, 100, 140, 200])
def test_no_line_is_wider_than_the_terminal(by, width):
    assert max(map(len, picture(Selection(by), width).splitlines())) <= width


@pytest.mark.parametrize("height", [6, 7, 8])
def test_no_picture_is_taller_than_the_terminal(height):
    lines = picture(Selection("gpus"), 80, height).splitlines()
    assert len(lines) == height
    assert "more lines" in lines[-1]


def test_a_pod_shows_what_it_has_and_what_it_did():
    text = picture(Selection())
    assert "GPUs 4   allocated 2.5   in use 0.6 (24%)" in text
    assert "no readings of 1 of the GPUs" in text
    assert "GPU time allocated 6.0 h, used 2.0 h, wasted 3.1 h (fully idle 2.0 h)" in text
    [line] = [line for line in text.splitlines() if "web/notebook" in line]
    assert line.split() == [
        "web/notebook", "n2", "1", "0%", "0%", "≤5%", "2/80", "GiB", "118", "min", "2.0", "h",
        "2.0", "h", *IDLE.advice.text.split(),
    ]  # fmt: skip
    assert "~40%" in text


def test_on_a_narrow_terminal_advice_has_a_line_of_its_own_where_there_is_any():
    lines = picture(Selection(), 80).splitlines()
    below = next(n for n, line in enumerate(lines) if line.startswith("web/notebook")) + 1
    assert lines[below].strip() == f"↳ {IDLE.advice.text}"
    assert sum("↳" in line for line in lines) == 1


def test_gpus_say_who_has_what_of_them_and_what_is_not_known():
    text = picture(Selection("gpus"))
    lines = {line.split()[0]: line for line in text.splitlines() if "/" in line.split(" ")[0]}
    assert lines["n1/0"].endswith("ml/train")
    assert "████░░░░  50%" in lines["n1/0"]
    assert "350 W" in lines["n1/0"]
    assert lines["n2/1"].endswith("web/notebook (0.5)")
    assert "lost" in lines["n2/0"]
    assert lines["n3/0"].split() == [
        "n3/0",
        "H100",
        "free",
        "0%",
        "-",
        "-/80",
        "GiB",
        "80",
        "GiB",
        "-",
    ]


def test_without_any_readings_it_says_where_they_could_come_from():
    blind = UsageReport(5.0, [gpu(**UNKNOWN)], [])
    assert "no GPU readings: use a scheduler with telemetry (--scheduler)" in picture(
        Selection("gpus"), report=blind
    )
    assert "nothing to show" in picture(Selection("pods"), report=blind)


def test_what_a_source_did_wrong_is_shown():
    report = UsageReport(5.0, [gpu()], [], ["dcgm: n1 does not answer"])
    assert "dcgm: n1 does not answer" in picture(Selection("gpus"), report=report)


@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        (Selection(), ["notebook", "train", "shared"]),
        (Selection(sort="name"), ["shared", "train", "notebook"]),
        (Selection(sort="used"), ["shared", "train", "notebook"]),
        (Selection(sort="idle"), ["notebook", "shared", "train"]),
        (Selection(namespace="ml"), ["train", "shared"]),
        (Selection(node="n2"), ["notebook"]),
        (Selection("gpus"), ["n1/0", "n2/0", "n2/1", "n3/0"]),
        (Selection("gpus", sort="power", node="n3"), ["n3/0"]),
        (Selection("gpus", namespace="web"), ["n2/1"]),
        (Selection("gpus", sort="wasted"), ["n1/0", "n2/0", "n2/1", "n3/0"]),
        (Selection("nodes"), ["n1", "n2", "n3"]),
        (Selection("namespaces"), ["web", "ml"]),
        (Selection("owners"), ["web/Job/sweep", "ml/Job/sweep"]),
    ],
    ids=str,
)
def test_rows_are_those_wished_for_in_the_order_wished_for(selection, expected):
    assert names(selection) == expected


@pytest.mark.parametrize(
    ("by", "sort", "words"),
    [("pots", "", "choose one of pods, gpus"), ("nodes", "power", "sort nodes by name, used")],
)
def test_a_wish_that_cannot_be_is_refused_with_what_can(by, sort, words):
    with pytest.raises(ConfigError, match=words):
        Selection(by, sort)


def test_data_has_the_rows_and_the_sums():
    told = as_data(REPORT, Selection("namespaces", namespace="ml"))
    assert set(told) == {"sinceS", "notes", "total", "namespaces"}
    assert [row["name"] for row in told["namespaces"]] == ["ml"]
    assert told["total"]["wastedHours"] == pytest.approx(1.1)
    assert as_data(REPORT, Selection())["pods"][0]["advice"]["kind"] == "idle"


def test_a_pipe_gets_plain_lines_as_wide_as_they_are():
    out = io.StringIO()
    show(REPORT, Selection(), Console(file=out, width=40))
    assert "\x1b" not in out.getvalue()
    assert "ADVICE" in out.getvalue()


@pytest.mark.parametrize("where", ["somewhere", "a/b/c", "ftp://x", "a/b:c:d"])
async def test_a_scheduler_is_a_url_or_a_service(where):
    with pytest.raises(NotAnswered, match="NAMESPACE/SERVICE"):
        await running_scheduler(where, Static({})).__aenter__()


def test_what_keeps_shares_apart_is_a_column_where_there_are_shares() -> None:
    whole = UsageReport(7200.0, [gpu(isolation="advisory")], [pod()])
    shares = [
        pod("client", asked="0.25", isolation="mps"),
        pod("other", asked="0.5", isolation="advisory"),
    ]
    offers = [gpu(isolation="mps"), gpu(index=1, isolation="mig")]

    assert "ISOLATION" not in picture(Selection("pods"), report=whole)
    assert "ISOLATION" not in picture(Selection("gpus"), report=whole)
    pods = picture(Selection("pods"), report=UsageReport(7200.0, offers, shares)).splitlines()
    gpus = picture(Selection("gpus"), report=UsageReport(7200.0, offers, shares)).splitlines()
    for lines, name, isolation in (
        (pods, "/client", " mps "), (pods, "/other", " advisory "),
        (gpus, "n1/0", " mps "), (gpus, "n1/1", " mig "),
    ):  # fmt: skip
        (line,) = [line for line in lines if name in line]
        assert isolation in line
