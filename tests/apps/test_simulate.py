"""`fairlead sim` as a user runs it, on a small file of jobs."""

import json
import re
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from typer.testing import CliRunner

from fairlead.apps import cli
from fairlead.sim.virtual.policies.registry import POLICIES
from fairlead.sim.virtual.series import SimSeries

JOBS = "name,submit_s,run_s,gpus,user\nlong,0,100,6,ann\nwide,10,50,8,bob\nsmall,20,30,2,bob\n"


@pytest.fixture
def jobs(tmp_path: Path) -> Path:
    file = tmp_path / "jobs.csv"
    file.write_text(JOBS)
    return file


def sim(*words: object) -> str:
    done = CliRunner().invoke(cli.app, ["sim", *map(str, words), "--quiet"])
    assert done.exit_code == 0, done.output
    return done.output


def test_policies_are_shown_side_by_side(jobs: Path) -> None:
    policies = [f"--policy={name}" for name in POLICIES]
    lines = sim("--trace", jobs, "--nodes", "1x8", *policies).splitlines()
    assert lines[0].split() == [
        "TRACE", "POLICY", "JCT", "WAIT", "P50", "P99", "MAKESPAN", "USED", "FRAG", "FAIR",
        "EVICTED", "NEVER",
    ]  # fmt: skip
    rows = {line.split()[1]: line.split()[2:] for line in lines[1:]}
    assert list(rows) == list(POLICIES)
    assert rows["fifo"][:5] == ["90", "30", "0", "90", "150"]
    assert rows["fifo-strict"][:5] == ["133", "73", "90", "130", "180"]


def test_json_is_one_line_for_each_run(jobs: Path) -> None:
    lines = sim("--trace", jobs, "--nodes=1x8", "--policy=fifo", "--policy=sjf", "--json")
    first, second = map(json.loads, lines.splitlines())
    assert (first["trace"], first["policy"], first["knows"]) == ("jobs.csv", "fifo", "nothing")
    assert (second["policy"], second["jobs"], second["never_started"]) == ("sjf", 3, 0)
    assert first["jct_s"] == 90


def test_the_report_is_one_file_with_plots_and_no_script(jobs: Path, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    sim("--trace", jobs, "--nodes=1x8", "--policy=fifo", "--policy=sjf", "--html", file)
    text = file.read_text()
    assert text.count('role="img"') == 4
    for chart in re.findall(r"<svg.*?</svg>", text, re.DOTALL):
        ET.fromstring(chart)
    assert not re.findall(r"<script|https?:|<link|src=", text)


def test_names_of_traces_are_no_markup_in_the_report(tmp_path: Path) -> None:
    file, report = tmp_path / "<b>&.csv", tmp_path / "report.html"
    file.write_text(JOBS)
    sim("--trace", file, "--html", report)
    assert "<b>" not in report.read_text()
    assert "&lt;b&gt;&amp;.csv" in report.read_text()


def test_a_trace_without_jobs_has_a_report_as_well(tmp_path: Path) -> None:
    file, report = tmp_path / "none.csv", tmp_path / "report.html"
    file.write_text("submit_s,run_s,gpus\n")
    assert "none.csv" in sim("--trace", file, "--html", report)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--policy=best"], "unknown policy 'best'; choose one of fifo, "),
        (["--placement=Nowhere"], "Nowhere"),
        (["--placement=GpuFit"], "GpuFit is no score; --placement takes a profile"),
        (["--nodes=8"], "--nodes is '8'; write how many nodes with how many GPUs, as 8x8"),
    ],
)
def test_what_is_wrong_is_one_sentence(
    jobs: Path, words: list[str], sentence: str, monkeypatch, capsys
) -> None:
    monkeypatch.setattr(sys, "argv", ["fairlead", "sim", "--trace", str(jobs), *words])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 1
    error = capsys.readouterr().err
    assert sentence in error
    assert error.count("\n") == 1


def test_series_are_bounded_and_keep_first_and_last() -> None:
    series = SimSeries()
    for at in range(100_000):
        series.note(float(at), float(at), at)
    assert len(series.points) <= 1025
    assert series.points[0].at_s < 200
    assert series.points[-1].at_s == 99_999
    gaps = [b.at_s - a.at_s for a, b in zip(series.points, series.points[1:], strict=False)]
    assert max(gaps) < 1000
