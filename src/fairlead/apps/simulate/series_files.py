"""Series of prices and carbon intensity for a simulation, from files as forecasts are read."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from fairlead.model.errors import ConfigError
from fairlead.model.start_times import Window
from fairlead.sim.virtual.forecasts import SimSeriesOfValues
from fairlead.telemetry.figures.forecast_series import read_records, spans_of
from fairlead.telemetry.sources.api import SourceFault

#: A year in steps of five minutes.
MOST_RECORDS = 106_000
_MOST_BYTES = 32 << 20


def read_series(words: Sequence[str]) -> tuple[SimSeriesOfValues, ...]:
    """Of words such as `low-carbon=FILE`. Raises ConfigError."""
    found = tuple(map(_series, words))
    windows = [each.window for each in found]
    if len(set(windows)) < len(windows):
        raise ConfigError("--series names a window twice; give one file for each window")
    return found


def _series(word: str) -> SimSeriesOfValues:
    name, _, file = word.partition("=")
    if name not in list(Window) or not file:
        windows = " or ".join(f"{window}=FILE" for window in Window)
        raise ConfigError(f"--series is {word!r}; write {windows}")
    return series_of_file(Path(file), Window(name))


def series_of_file(file: Path, window: Window) -> SimSeriesOfValues:
    """All values of a file in one of the published forms. Raises ConfigError."""
    try:
        if file.stat().st_size > _MOST_BYTES:
            raise ConfigError(f"{file} is larger than {_MOST_BYTES >> 20} MiB")
        points, rejected = read_records(file.read_bytes(), most=MOST_RECORDS)
        cheap = window is Window.CHEAP
        spans = spans_of(points, Counter(rejected), may_be_negative=cheap, most=MOST_RECORDS)
    except (OSError, SourceFault) as error:
        raise ConfigError(f"{file} cannot be read: {error}") from error
    return SimSeriesOfValues(window, file.name, spans, "g/kWh" if not cheap else "per kWh")
