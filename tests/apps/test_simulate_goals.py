"""`fairlead sim` with prices, carbon intensity and deadlines: money, grams and deadlines met."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fairlead.apps import cli
from fairlead.model.errors import ConfigError
from fairlead.model.start_times import Window
from fairlead.sim.virtual.forecasts import ForecastMode, SimForecasts, SimSeriesOfValues

HOUR = 3600
#: Two jobs of four hours, one of which may wait for a day.
JOBS = (
    "name,submit_s,run_s,gpus,start_window,wait_at_most_s,deadline_s\n"
    "green,0,14400,2,low-carbon,86400,\n"
    "plain,0,14400,2,,,10800\n"
)


def run(*words: object, code: int = 0) -> str:
    done = CliRunner().invoke(cli.app, ["sim", *map(str, words), "--quiet"])
    assert done.exit_code == code, done.output
    return done.output if not code else str(done.exception or done.output)


def hours(file: Path, *values: float, days: int = 1) -> Path:
    """A series by the hour, from the first of a month on."""
    lines = ["time,value"]
    for hour in range(24 * days):
        at = f"2026-01-{1 + hour // 24:02d}T{hour % 24:02d}:00:00Z"
        lines.append(f"{at},{values[hour % len(values)]}")
    file.write_text("\n".join(lines))
    return file


@pytest.fixture
def jobs(tmp_path: Path) -> Path:
    file = tmp_path / "jobs.csv"
    file.write_text(JOBS)
    return file


@pytest.fixture
def carbon(tmp_path: Path) -> Path:
    """400 g/kWh, and 100 from 12 to 16 o'clock."""
    day = [400.0] * 12 + [100.0] * 4 + [400.0] * 8
    return hours(tmp_path / "carbon.csv", *day, days=6)


def test_windows_save_grams_and_the_figures_say_how_many(jobs: Path, carbon: Path) -> None:
    modes = [f"--forecast={mode}" for mode in ForecastMode]
    words = ("--nodes=1x8", "--watts-per-gpu=500", "--json", *modes)
    lines = run("--trace", jobs, "--series", f"low-carbon={carbon}", *words).splitlines()
    none, yesterday, week, perfect = map(json.loads, lines)
    assert [each["forecast"] for each in (none, yesterday, week, perfect)] == [*ForecastMode]
    assert none["energy_kwh"] == perfect["energy_kwh"] == 8.0, "4 GPUs, 500 W, 4 hours"
    assert none["co2_kg"] == pytest.approx(3.2)
    assert perfect["co2_kg"] == pytest.approx(1.6 + 0.4), "one job waits for noon"
    assert yesterday["co2_kg"] == pytest.approx(perfect["co2_kg"]), "days are alike"
    assert week["co2_kg"] == pytest.approx(perfect["co2_kg"])
    assert (none["wait_avg_s"], perfect["wait_avg_s"]) == (0, 12 * HOUR / 2)
    assert (perfect["deadlines"], perfect["deadlines_met"]) == (1, 0)
    assert perfect["money"] is None


def test_the_table_has_what_there_is(jobs: Path, carbon: Path, tmp_path: Path) -> None:
    prices = hours(tmp_path / "prices.csv", 0.25, days=6)
    header, line = run(
        "--trace", jobs, "--nodes=1x8",
        "--series", f"low-carbon={carbon}", "--series", f"cheap={prices}",
    ).splitlines()  # fmt: skip
    assert header.split()[2] == "FORECAST"
    assert header.split()[-5:] == ["KWH", "MONEY", "KG", "CO2", "MET"]
    assert line.split()[-4:] == ["11", "2.80", "2.8", "0/1"]
    assert "MET" in run("--trace", jobs, "--nodes=1x8").splitlines()[0]
    without = JOBS.replace(",10800", ",").splitlines()
    plain = tmp_path / "plain.csv"
    plain.write_text("\n".join(without))
    assert run("--trace", plain, "--nodes=1x8").splitlines()[0].split()[-1] == "NEVER"


def test_yesterday_misleads_where_days_differ(jobs: Path, tmp_path: Path) -> None:
    """The low of the first day is at noon, that of the second at 20 o'clock."""
    first, second = [400.0] * 24, [400.0] * 24
    first[12:16], second[20:24] = [100.0] * 4, [100.0] * 4
    series = hours(tmp_path / "c.csv", *first, *second, *second, days=6)
    modes = ("--forecast=yesterday", "--forecast=perfect")
    lines = run("--trace", jobs, "--series", f"low-carbon={series}", *modes, "--json").splitlines()
    yesterday, perfect = map(json.loads, lines)
    assert yesterday["co2_kg"] > perfect["co2_kg"]


def test_slack_meets_deadlines_that_arrival_misses(tmp_path: Path) -> None:
    file = tmp_path / "jobs.csv"
    file.write_text(
        "name,submit_s,run_s,gpus,deadline_s\n"
        "first,0,100,8,1000\nlong,1,300,8,900\nsoon,2,50,8,160\nlate,3,500,8,200\n"
    )
    orders = ("fifo", "deadline", "slack")
    lines = run("--trace", file, "--nodes=1x8", "--json", *[f"--policy={o}" for o in orders])
    met = {each["policy"]: each["deadlines_met"] for each in map(json.loads, lines.splitlines())}
    assert met == {"fifo": 2, "deadline": 2, "slack": 3}


def test_a_job_that_may_not_start_yet_waits(tmp_path: Path) -> None:
    file = tmp_path / "jobs.csv"
    file.write_text("submit_s,run_s,gpus,not_before_s\n0,10,1,500\n")
    assert json.loads(run("--trace", file, "--json"))["wait_avg_s"] == 500


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--forecast=perfect"], "--forecast needs --series"),
        (["--series=green=x.csv"], "write cheap=FILE or low-carbon=FILE"),
        (["--series=cheap=absent.csv"], "absent.csv cannot be read"),
        (["--series=cheap={0}", "--series=cheap={0}"], "names a window twice"),
        (["--series=cheap={0}", "--forecast=guess"], "choose of none, yesterday, week, perfect"),
        (["--series=cheap={1}"], "less than two days"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(
    words: list[str], problem: str, jobs: Path, carbon: Path, tmp_path: Path
) -> None:
    short = hours(tmp_path / "short.csv", 1.0)
    said = [word.format(carbon, short) for word in words]
    assert problem in run("--trace", jobs, *said, code=1)


def test_a_window_that_is_none_names_its_line(tmp_path: Path) -> None:
    file = tmp_path / "jobs.csv"
    file.write_text("submit_s,run_s,gpus,start_window\n0,10,1,green\n")
    problem = run("--trace", file, code=1)
    assert "jobs.csv, line 2: start_window is 'green', not cheap or low-carbon" in problem


def test_a_series_that_ends_too_early_is_said() -> None:
    begin = 1_767_225_600.0
    spans = tuple((begin + HOUR * n, begin + HOUR * (n + 1), 100.0) for n in range(20))
    series = SimSeriesOfValues(Window.CHEAP, "short.csv", spans)
    with pytest.raises(ConfigError, match="less than two days"):
        _ = SimForecasts((series,)).begin_s


def test_a_year_by_five_minutes_is_told_in_parts() -> None:
    begin = 1_767_225_600.0
    spans = tuple((begin + 300 * n, begin + 300 * (n + 1), float(n % 288)) for n in range(105_000))
    series = SimSeriesOfValues(Window.CHEAP, "year", spans)
    for mode in (ForecastMode.PERFECT, ForecastMode.YESTERDAY, ForecastMode.WEEK):
        told = series.told(mode, begin + 86_400 * 30)
        assert 192 <= len(told.spans) <= 2880
        assert told.spans[0][0] <= begin + 86_400 * 30
