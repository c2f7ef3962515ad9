"""Forecasts that are old, cut off, with holes, negative or without time zones are neutral."""

import json
import os
from base64 import b64encode
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from fairlead.apps.config.forecasts_config import forecast_plans
from fairlead.apps.config.goals_config import GoalsConfig
from fairlead.apps.config.typed_yaml import convert
from fairlead.apps.run.forecast_feed import ForecastFeed, read_config_map
from fairlead.engine.events import Event, ForecastSeen
from fairlead.model.errors import ConfigError
from fairlead.model.forecasts import MOST_SPANS, Forecast
from fairlead.model.start_times import Window
from fairlead.telemetry.figures.forecast_series import Point, read_records, spans_of
from fairlead.telemetry.figures.forecast_sources import ForecastPlan
from fairlead.telemetry.sources.api import SourceFault
from test_figure_sources import prometheus

MIDNIGHT = 1_794_787_200.0  # 2026-11-16T00:00:00Z
HOUR = 3600.0


def plans(text: str, base: Path = Path()) -> tuple[ForecastPlan, ...]:
    config = convert(text, GoalsConfig, str)
    return forecast_plans(config.forecasts, base, config.currency)


class World:
    def __init__(self, found: tuple[ForecastPlan, ...]) -> None:
        self.seen: list[Forecast] = []
        self.feed = ForecastFeed(found, None, self._put)

    def _put(self, event: Event) -> None:
        assert isinstance(event, ForecastSeen)
        self.seen.append(event.forecast)

    async def take(self, wall_s: float) -> Forecast:
        await self.feed.take(wall_s, wall_s)
        return self.seen[-1] if self.seen else Forecast(Window.CHEAP)

    @property
    def problem(self) -> str:
        return self.feed.sources[0].status.problem


FILE = "forecasts: [{window: low-carbon, kind: file, file: grid.json}]"


def hours(*values: object, **more: object) -> list[dict[str, object]]:
    return [
        {"Location": "x", "Time": f"2026-11-16T{n:02}:00:00+00:00", "Rating": value, **more}
        for n, value in enumerate(values)
    ]


def answer(listed: str, time: str, **values: tuple[object, object]) -> bytes:
    """Two hours of midnight, with other names."""
    ((name, said),) = values.items()
    rows = [{time: f"2026-11-16T0{n}:00:00Z", name: value} for n, value in enumerate(said)]
    return json.dumps({"zone": "DE", listed: rows}).encode()


async def from_file(tmp_path: Path, data: object, text: str = FILE) -> tuple[Forecast, str]:
    said = data if isinstance(data, bytes) else json.dumps(data).encode()
    (tmp_path / "grid.json").write_bytes(said)
    world = World(plans(text, tmp_path))
    return await world.take(MIDNIGHT), world.problem


async def test_a_file_with_records_of_the_exporter(tmp_path: Path) -> None:
    found, problem = await from_file(tmp_path, hours(300, 200.5, 100))
    assert problem == ""
    assert found.unit == "g/kWh"
    assert found.spans == tuple(
        (MIDNIGHT + n * HOUR, MIDNIGHT + (n + 1) * HOUR, value)
        for n, value in enumerate((300, 200.5, 100))
    )


@pytest.mark.parametrize(
    "data",
    [
        b"time,value\n2026-11-16T00:00:00Z,5\n2026-11-16T01:00:00Z,6\n",
        answer("data", "point_time", value=(5, 6)),
        answer("forecast", "datetime", carbonIntensity=(5, 6)),
        answer("data", "from", intensity=({"forecast": 5}, {"forecast": 6})),
        b'[{"time": 1794787200, "value": "5"}, {"time": 1794790800000, "value": "6"}]',
    ],
)
async def test_the_forms_of_several_sources(tmp_path: Path, data: bytes) -> None:
    found, problem = await from_file(tmp_path, data)
    assert problem == ""
    assert [span[2] for span in found.spans] == [5, 6]
    assert found.spans[0][:2] == (MIDNIGHT, MIDNIGHT + HOUR)


async def test_a_time_without_a_zone_is_not_used(tmp_path: Path) -> None:
    """Central Europe, 25 October: the hour from 2 to 3 comes twice."""
    local = [{"time": f"2026-10-25T0{n}:00:00", "value": 1} for n in (1, 2, 2, 3)]
    found, problem = await from_file(tmp_path, local)
    assert found.spans == ()
    assert "4 no time with a time zone" in problem


async def test_hours_when_clocks_are_changed_have_their_own_offsets(tmp_path: Path) -> None:
    said = ["01:00:00+02:00", "02:00:00+02:00", "02:00:00+01:00", "03:00:00+01:00"]
    rows = [{"time": f"2026-10-25T{each}", "value": n} for n, each in enumerate(said)]
    (tmp_path / "grid.json").write_text(json.dumps(rows))
    world = World(plans(FILE, tmp_path))
    begins = [span[0] for span in (await world.take(MIDNIGHT - 30 * 24 * HOUR)).spans]
    assert [b - begins[0] for b in begins] == [0.0, HOUR, 2 * HOUR, 3 * HOUR]
    assert world.problem == ""


async def test_a_hole_stays_one_and_a_single_missing_step_is_bridged(tmp_path: Path) -> None:
    rows = hours(*range(12))
    del rows[5], rows[7:9]
    found, _ = await from_file(tmp_path, rows)
    gaps = [
        (a[1], b[0]) for a, b in zip(found.spans, found.spans[1:], strict=False) if a[1] != b[0]
    ]
    assert gaps == [(MIDNIGHT + 8 * HOUR, MIDNIGHT + 10 * HOUR)]


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ([100, 100, -5, 100], "1 negative"),
        ([100, 100, "NaN", 100], "1 not a number"),
        ([100, 100, None, 100], "1 not a number"),
        ([100, 100, 1e9, 100], "1 too much"),
        ([1, 1, 5000, 1], "1 too much"),
    ],
)
async def test_values_that_cannot_be_true_are_holes(
    tmp_path: Path, values: list[object], why: str
) -> None:
    found, problem = await from_file(tmp_path, hours(*values))
    assert len(found.spans) == 3
    assert why in problem


async def test_prices_may_be_negative(tmp_path: Path) -> None:
    text = "forecasts: [{window: cheap, kind: file, file: grid.json, unit: EUR/MWh}]"
    found, problem = await from_file(tmp_path, hours(50, -20, 60), text)
    assert problem == ""
    assert (found.spans[1][2], found.unit) == (-20, "EUR/MWh")


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b'[{"Time": "2026-11-16T00:00:00Z", "Rat', "it cannot be read"),
        (b"\xff\xfe", "it cannot be read"),
        (b"[]", "no usable values"),
        (b"{}", "no usable values"),
        (b"[1, 2, 3]", "no usable values"),
        (json.dumps(hours(-1, -1, -1, 5)).encode(), "more than half"),
        (json.dumps(hours(1) + hours(2, Location="y")).encode(), "about 2 locations"),
        (b"[" * 100_000, "it cannot be read"),
    ],
)
async def test_what_cannot_be_read_is_no_forecast(tmp_path: Path, data: bytes, why: str) -> None:
    found, problem = await from_file(tmp_path, data)
    assert found.spans == ()
    assert why in problem


def test_a_location_is_chosen_by_name() -> None:
    rows = hours(1) + hours(2, Location="y")
    points, _ = read_records(json.dumps(rows).encode(), "y")
    assert [point.value for point in points] == [2]


def test_of_two_values_for_one_time_the_first_counts() -> None:
    rejected: Counter[str] = Counter()
    points = [Point(0.0, 1.0), Point(0.0, 2.0), Point(3600.0, 1.0)]
    spans = spans_of(points, rejected, may_be_negative=False)
    assert [span[2] for span in spans] == [1.0, 1.0]
    assert rejected == {"two values for one time": 1}


def test_too_many_values_are_cut() -> None:
    rejected: Counter[str] = Counter()
    points = [Point(60.0 * n, 1.0) for n in range(MOST_SPANS + 10)]
    assert len(spans_of(points, rejected, may_be_negative=False)) == MOST_SPANS
    assert rejected == {"too many": 10}


async def test_a_forecast_that_is_over_or_too_old_is_none(tmp_path: Path) -> None:
    (tmp_path / "grid.json").write_text(json.dumps(hours(1, 2, 3)))
    os.utime(tmp_path / "grid.json", (MIDNIGHT, MIDNIGHT))
    world = World(plans(FILE, tmp_path))
    assert (await world.take(MIDNIGHT)).spans
    assert not (await world.take(MIDNIGHT + 4 * HOUR)).spans
    assert world.problem == "it ends in the past"
    aged = World(plans(FILE.replace("grid.json", "grid.json, maxAge: 1h"), tmp_path))
    assert (await aged.take(MIDNIGHT + 0.5 * HOUR)).spans
    assert not (await aged.take(MIDNIGHT + 2 * HOUR)).spans
    assert aged.problem == "it is too old"


async def test_a_file_that_goes_away_counts_until_it_is_over(tmp_path: Path) -> None:
    (tmp_path / "grid.json").write_text(json.dumps(hours(1, 2, 3)))
    world = World(plans(FILE, tmp_path))
    await world.take(MIDNIGHT)
    (tmp_path / "grid.json").unlink()
    assert (await world.take(MIDNIGHT + HOUR)).spans
    assert "cannot be read" in world.problem
    assert len(world.seen) == 1


def test_a_config_map_in_the_form_of_the_exporter() -> None:
    """How it is read from an API server is in tests/stories/test_windows_live.py."""
    records = json.dumps(hours(3, 2, 1)).encode()
    said = {"lastHeartbeatTime": "2026-11-16T00:00:00Z", "numOfRecords": "3"}
    binary = {"data": said, "binaryData": {"data": b64encode(records).decode()}}
    assert read_config_map(json.dumps(binary).encode()) == (records, MIDNIGHT)
    plain = {"data": {"data": "[]"}}
    assert read_config_map(json.dumps(plain).encode()) == (b"[]", None)


@pytest.mark.parametrize(
    "body", [b"{", b"[]", b'{"data": {"other": "x"}}', b'{"binaryData": {"data": "*"}}']
)
def test_a_config_map_without_a_forecast(body: bytes) -> None:
    with pytest.raises(SourceFault):
        read_config_map(body)


async def test_the_last_day_of_a_prometheus_server_is_the_forecast_of_the_next() -> None:
    rows: Any = [[MIDNIGHT - 24 * HOUR + n * 900.0, str(n)] for n in range(96)]
    result = [{"metric": {}, "values": rows}]
    said: dict[str, Any] = {"status": "success", "data": {"resultType": "matrix", "result": result}}
    async with prometheus(lambda: said) as url:
        text = f"forecasts: [{{window: low-carbon, kind: prometheus, url: '{url}', query: grid}}]"
        world = World(plans(text))
        found = await world.take(MIDNIGHT)
        assert found.spans[0] == (MIDNIGHT, MIDNIGHT + 900.0, 0.0)
        assert len(found.spans) == 2 * 96
        assert [value for _, _, value in found.spans[:96]] == [*range(96)]
        result.append({"metric": {}, "values": []})
        await world.take(MIDNIGHT + 600.0)
        assert "returns 2 series" in world.problem
        said["data"]["resultType"] = "vector"
        del result[1]
        await world.take(MIDNIGHT + 1200.0)
        assert "no values over time" in world.problem


async def test_the_first_usable_source_counts(tmp_path: Path) -> None:
    (tmp_path / "b.json").write_text(json.dumps(hours(7)))
    text = """
forecasts:
  - {window: low-carbon, kind: file, file: a.json, name: a}
  - {window: low-carbon, kind: file, file: b.json, name: b}
"""
    world = World(plans(text, tmp_path))
    assert (await world.take(MIDNIGHT)).source == "b"
    (tmp_path / "a.json").write_text(json.dumps(hours(8)))
    assert (await world.take(MIDNIGHT + 600.0)).source == "a"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{window: cheap, kind: file}", "kind file needs file"),
        ("{window: cheap, kind: file, file: a, url: 'http://x'}", "takes no url"),
        ("{window: cheap, kind: prometheus, url: 'http://x'}", "needs a query"),
        ("{window: cheap, kind: prometheus, url: x, query: y}", "is not a valid URL"),
        ("{window: cheap, kind: configmap, configMap: x}", "write a namespace and a name"),
        ("{window: cheap, kind: file, file: a, maxAge: soon}", "is not a time"),
        ("{window: cheap, kind: file, file: a}, {window: cheap, kind: file, file: b}", "the name"),
    ],
)
def test_a_configuration_that_makes_no_sense(text: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        plans(f"forecasts: [{text}]")


def test_records_nested_without_end_are_refused() -> None:
    with pytest.raises(SourceFault):
        read_records(b'{"data":' * 50_000)


@pytest.mark.parametrize(
    "changed",
    [{"Rating": 10**400}, {"Time": 10**400}, {"Time": -(10**400)}, {"Duration": 10**400},
     {"Location": ["x"]}, {"Location": {"x": 1}}],
    ids=["value", "time", "early", "duration", "list", "object"],
)  # fmt: skip
async def test_no_record_ends_the_feed(tmp_path: Path, changed: dict[str, object]) -> None:
    rows = hours(300, 100, 200)
    text = FILE.replace("file: grid.json", "file: grid.json, location: x")
    found, _ = await from_file(tmp_path, [*rows, {**rows[2], **changed}], text)
    assert [value for _, _, value in found.spans] == [300, 100, 200]
    points, _ = read_records(json.dumps([{**rows[0], **changed}]).encode())
    assert len(points) <= 1


@pytest.mark.parametrize(
    "data", [b"[" + b"{}," * 30_000 + b"{}]", b"time,value\n" + b"1,2\n" * 30_000]
)
async def test_too_many_records_are_not_read(tmp_path: Path, data: bytes) -> None:
    found, problem = await from_file(tmp_path, data)
    assert found.spans == ()
    assert problem == "it has more than 20000 records"


async def test_a_feed_says_that_it_has_not_asked_yet_and_what_it_found(tmp_path: Path) -> None:
    world = World(plans(FILE, tmp_path))
    world.feed.announce()
    assert world.seen == [Forecast(Window.LOW_CARBON, awaited=True)]
    assert await world.take(MIDNIGHT) == Forecast(Window.LOW_CARBON), "there is no file"
    await world.take(MIDNIGHT + 1)
    world.feed.announce()
    assert len(world.seen) == 2


async def test_a_forecast_that_is_dated_in_the_future_becomes_old(tmp_path: Path) -> None:
    file = tmp_path / "grid.json"
    file.write_bytes(json.dumps(hours(*[300] * 24)).encode())
    text = FILE.replace("}]", ", maxAge: 2h, every: 1s}]")
    world = World(plans(text, tmp_path))
    ahead_s = MIDNIGHT + 365 * 24 * HOUR
    for hour in range(3):
        os.utime(file, (ahead_s + hour, ahead_s + hour))  # the date moves, the values do not
        assert (await world.take(MIDNIGHT + hour * HOUR)).spans
    assert "dated in the future" in world.problem
    assert not (await world.take(MIDNIGHT + 2 * HOUR + 2)).spans
    file.write_bytes(json.dumps(hours(*[200] * 24)).encode())
    os.utime(file, (ahead_s, ahead_s))
    assert (await world.take(MIDNIGHT + 3 * HOUR)).spans, "it is another forecast"


async def test_a_leap_second_is_no_time_and_leaves_the_rest(tmp_path: Path) -> None:
    rows = [*hours(1, 2, 3), {"time": "2026-12-31T23:59:60Z", "value": 1}]
    found, problem = await from_file(tmp_path, rows)
    assert len(found.spans) == 3
    assert "1 no time" in problem
