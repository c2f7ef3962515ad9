"""A forecast of the past: what days have in common, and what is unusual now."""

from statistics import mean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.model.past_forecasts import PAST_DAYS, Sample, forecast_of_past

HOUR, DAY = 3600.0, 86_400.0
NOW = 1_800_000_000.0


def hourly(*values: float) -> list[Sample]:
    """The last values, by the hour."""
    begin_s = NOW - HOUR * len(values)
    return [(begin_s + HOUR * n, value) for n, value in enumerate(values)]


def test_one_day_comes_again() -> None:
    day = [float(n) for n in range(24)]
    found = forecast_of_past(hourly(*day), NOW, HOUR)
    assert [value for _, value in found] == day * 2
    assert found[0][0] == NOW


def test_what_days_have_in_common_stays_and_their_weather_does_not() -> None:
    """Each day has a low at noon, and a level of its own."""
    levels = (0.0, 80.0, -40.0, 20.0, -60.0, 0.0, 0.0)
    shape = [300.0] * 12 + [100.0] * 3 + [300.0] * 9
    found = forecast_of_past(
        hourly(*(value + level for level in levels for value in shape)), NOW, HOUR
    )
    by_hour = [value for _, value in found[:24]]
    assert min(range(24), key=by_hour.__getitem__) in (12, 13, 14)
    assert mean(by_hour[12:15]) == pytest.approx(100.0, abs=5.0)


def test_what_is_unusual_now_fades() -> None:
    usual = [200.0] * 24
    found = forecast_of_past(hourly(*usual * 6, *usual[:20], *[300.0] * 4), NOW, HOUR)
    values = [value for _, value in found]
    assert 270.0 < values[0] < 300.0
    assert values[:18] == sorted(values[:18], reverse=True)
    assert values[40] == pytest.approx(210.0, abs=12.0)


def test_times_of_the_day_without_values_are_left_out() -> None:
    found = forecast_of_past(hourly(*[1.0] * 6), NOW, HOUR)
    assert len(found) == 2 * 6
    assert forecast_of_past([], NOW, HOUR) == []
    assert forecast_of_past(hourly(*[1.0] * 24), NOW + 30 * DAY, HOUR) == []


@given(
    values=st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=24 * PAST_DAYS),
    step_s=st.sampled_from([300.0, 900.0, HOUR]),
)
def test_no_value_is_beyond_what_was(values: list[float], step_s: float) -> None:
    found = forecast_of_past(hourly(*values), NOW, step_s)
    assert all(min(values) <= value <= max(values) for _, value in found)
    assert [at_s for at_s, _ in found] == sorted({at_s for at_s, _ in found})
    assert len(found) <= 2 * DAY / step_s
