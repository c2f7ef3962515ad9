"""What start windows save beside an oracle, if the forecast is the day before: CARBON-24.

python bench/windows.py [--data FOLDER] [--days 4] [--run 4h] [--slack 24h]

With a folder: each file in it is a series of carbon intensity or prices, as `goals.forecasts` reads
files: CSV with a header (Electricity Maps, carbonintensity.org.uk) or JSON, up to 106,000 records.
Files of "Let's Wait Awhile" (Middleware'21: data/ger_ci.csv) are read, too; their times are UTC.
The goal is 85 % of what an oracle saves. Without: generated series of a year, which are no
measurements: days with a low at noon or at night, weekends, and weather that comes and goes over
days (an autoregressive process).

Units come over the whole series. The mean over the run is compared: started at once, at the start
that the values of the day before give, at the one that the mean day of the last week gives (as
with values in Prometheus), and at the best start. The saving is that of all units together. The
forecast is renewed each hour until the unit starts.
"""

import argparse
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fairlead.apps.simulate.series_files import series_of_file
from fairlead.engine.best_start import BestStart
from fairlead.model.forecasts import Forecast
from fairlead.model.past_forecasts import PAST_DAYS, forecast_of_past
from fairlead.model.run_times import duration_s
from fairlead.model.start_times import Window

HOUR_S, DAY = 3600.0, 24
Series = NDArray[np.float64]


def generated(seed: int, *, noon: float, night: float, weather: float, days: int = 365) -> Series:
    """By hour: the depths of the lows at noon and at night, and how much weather matters."""
    draw, hours = np.random.default_rng(seed), np.arange(DAY * days)
    of_day = 2 * np.pi * (hours % DAY) / DAY
    shape = noon * np.cos(of_day - np.pi) + night * np.cos(of_day - np.pi / 4)
    noise = np.zeros(len(hours))
    for at in range(1, len(hours)):
        noise[at] = 0.98 * noise[at - 1] + draw.normal(0, 0.2)
    weekend = np.where(hours // DAY % 7 >= 5, -0.3, 0.0)
    found: Series = 300.0 - 60.0 * shape + 60.0 * weather * noise + 60.0 * weekend
    return np.clip(found, 20.0, None)


GENERATED = {
    "generated: solar": {"noon": 1.5, "night": 0.2, "weather": 0.3},
    "generated: night tariff": {"noon": 0.0, "night": 1.5, "weather": 0.2},
    "generated: wind": {"noon": 0.3, "night": 0.3, "weather": 1.0},
}


def of_file(path: Path) -> Series:
    spans = _spans_of(path)
    hours = np.arange(spans[0][0], spans[-1][1], HOUR_S)
    begins, values = np.array([s[0] for s in spans]), np.array([s[2] for s in spans])
    return values[np.searchsorted(begins, hours, side="right") - 1]


def _spans_of(path: Path) -> Sequence[tuple[float, float, float]]:
    text = path.read_text()
    if not text.startswith("Time,Carbon Intensity"):
        return series_of_file(path, Window.CHEAP).spans
    rows = [line.split(",") for line in text.splitlines()[1:]]
    times = [datetime.fromisoformat(at).replace(tzinfo=UTC).timestamp() for at, _ in rows]
    ends = [*times[1:], times[-1] + HOUR_S]
    values = (float(value) for _, value in rows)
    return list(zip(times, ends, values, strict=True))


def a_forecast(values: Series, begin: int) -> BestStart:
    spans = (((begin + n) * HOUR_S, (begin + n + 1) * HOUR_S, v) for n, v in enumerate(values))
    return BestStart(Forecast(Window.LOW_CARBON, spans=tuple(spans)))


Predictor = Callable[[Series, int], Series]


def yesterday(series: Series, hour: int) -> Series:
    """The last day is the forecast of the next one."""
    return series[hour - DAY : hour]


def week(series: Series, hour: int) -> Series:
    """What the last week says."""
    first = max(0, hour - DAY * PAST_DAYS)
    past = [((first + n) * HOUR_S, float(v)) for n, v in enumerate(series[first:hour])]
    return np.array([value for _, value in forecast_of_past(past, hour * HOUR_S, HOUR_S)])


def chosen(series: Series, came: int, run_s: float, slack: int, predict: Predictor) -> int:
    """The hour of the start, if there is a new forecast each hour."""
    for hour in range(came, came + slack):
        best = a_forecast(predict(series, hour), hour)
        found = best.choose(hour * HOUR_S, (came + slack) * HOUR_S, run_s)
        if found is None or found.start_s < (hour + 1) * HOUR_S:
            return hour
    return came + slack


def compare(series: Series, days: int, run_s: float, slack: int) -> list[float]:
    """The mean of runs that start at once, as chosen by either forecast, and at the best time."""
    last = len(series) - slack - round(run_s / HOUR_S) - DAY
    sums, units = np.zeros(4), 0
    for came in np.linspace(DAY * PAST_DAYS, last, DAY * days).astype(int):
        truth = a_forecast(series[came : came + slack + round(run_s / HOUR_S) + 1], int(came))
        latest_s = float(came + slack) * HOUR_S
        oracle = truth.choose(came * HOUR_S, latest_s, run_s)
        hours = [chosen(series, int(came), run_s, slack, each) for each in (yesterday, week)]
        means = [truth.mean(hour * HOUR_S, run_s) for hour in hours]
        assert oracle is not None
        sums += [oracle.first_mean, *(mean or 0.0 for mean in means), oracle.mean]
        units += 1
    return [float(each) for each in sums / units]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--days", type=int, default=4, help="so many times 24 units, over the year")
    parser.add_argument("--run", default="4h")
    parser.add_argument("--slack", default="24h")
    options = parser.parse_args()
    run_s, slack_s = (
        duration_s(options.run) or 4 * HOUR_S,
        duration_s(options.slack) or DAY * HOUR_S,
    )
    files = sorted(options.data.iterdir()) if options.data else []
    found = {path.name: of_file(path) for path in files}
    found = found or {name: generated(7, **terms) for name, terms in GENERATED.items()}
    print(f"run {options.run}, slack {options.slack}")
    print(f"{'':26} {'MEAN':>39} {'':9} {'SAVED':>29} {'':9} {'OF THE ORACLE':>19}")
    names = ("YESTERDAY", "WEEK", "ORACLE")
    header = " ".join(f"{name:>9}" for name in ("AT ONCE", *names, "", *names, "", *names[:2]))
    print(f"{'SERIES':26} {header}")
    for name, series in found.items():
        means = compare(series, options.days, run_s, round(slack_s / HOUR_S))
        saved = [1 - mean / means[0] for mean in means[1:]]
        row = " ".join(f"{mean:9.1f}" for mean in means)
        row += "           " + " ".join(f"{each:9.1%}" for each in saved)
        row += "           " + " ".join(f"{each / saved[2]:9.0%}" for each in saved[:2])
        print(f"{name:26} {row}", flush=True)


if __name__ == "__main__":
    main()
