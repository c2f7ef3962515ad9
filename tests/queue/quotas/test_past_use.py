"""Past use: independent of how often it is looked at, and kept across leaders."""

from datetime import UTC, datetime
from math import log

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.model.queues import GpuBudget, PastUse, Period
from fairlead.queue.quotas.past_use import (
    HALF_LIFE_S,
    UseMeter,
    exhausted,
    month_end,
    month_start,
    period_end,
)

NOON = datetime(2026, 11, 16, 12, tzinfo=UTC).timestamp()
HOUR, DAY = 3600.0, 86400.0

STEPS = st.lists(st.tuples(st.floats(0.0, 40 * HOUR), st.integers(0, 64_000)), max_size=8)


def numbers(past: PastUse) -> tuple[float, float, float]:
    return past.gpu_seconds, past.day_hours, past.month_hours


@given(STEPS, st.lists(st.floats(0.0, 400 * HOUR), max_size=20))
def test_it_does_not_matter_how_often_it_is_looked_at(
    steps: list[tuple[float, int]], looks: list[float]
) -> None:
    rarely, often, now = UseMeter(NOON), UseMeter(NOON), NOON
    pending = sorted(NOON + look for look in looks)
    for passed, milli in [*steps, (HOUR, 0)]:
        now += passed
        while pending and pending[0] <= now:
            often.at(pending.pop(0))
        for meter in (rarely, often):
            meter.use(milli, now)
    assert often.at(now) == rarely.at(now)


def test_use_of_one_half_life_ago_counts_half() -> None:
    meter = UseMeter(NOON, half_life_s=HOUR)
    meter.use(16_000, NOON)
    meter.use(0, NOON + 60)
    soon = meter.at(NOON + 60).gpu_seconds
    assert soon == pytest.approx(16 * 60, rel=0.01)
    assert meter.at(NOON + 60 + HOUR).gpu_seconds == pytest.approx(soon / 2)


def test_constant_use_approaches_its_fraction_of_the_cluster() -> None:
    meter = UseMeter(NOON, half_life_s=HOUR)
    meter.use(4_000, NOON)
    assert meter.fraction(NOON + HOUR, 16_000) == pytest.approx(0.125)
    assert meter.fraction(NOON + 100 * HOUR, 16_000) == pytest.approx(0.25)
    assert meter.fraction(NOON + 100 * HOUR, 0) == 0.0
    assert meter.at(NOON + 1000 * HOUR).gpu_seconds == pytest.approx(4 * HOUR / log(2))


@pytest.mark.parametrize(("minutes", "mean"), [(5, 2.343), (10, 4.0)])
def test_the_mean_with_half_life_is_that_of_admission_fair_sharing_of_kueue(
    minutes: int, mean: float
) -> None:
    meter = UseMeter(NOON, half_life_s=600.0)
    meter.use(8_000, NOON)
    seconds = meter.at(NOON + 60.0 * minutes).gpu_seconds
    assert seconds * log(2) / 600.0 == pytest.approx(mean, abs=1e-3)


def test_a_clock_that_goes_back_changes_nothing() -> None:
    meter = UseMeter(NOON)
    meter.use(8_000, NOON)
    before = meter.at(NOON + HOUR)
    meter.use(8_000, NOON - 5 * DAY)
    assert meter.at(NOON + HOUR / 2) == before
    assert meter.at(NOON + 2 * HOUR).day_hours == pytest.approx(16.0)


def test_days_and_months_begin_in_utc() -> None:
    meter = UseMeter(NOON)
    meter.use(2_000, NOON)
    assert meter.at(NOON + 13 * HOUR).day_hours == pytest.approx(2.0)
    assert meter.at(NOON + 13 * HOUR).month_hours == pytest.approx(26.0)
    december = datetime(2026, 12, 2, tzinfo=UTC).timestamp()
    assert meter.at(december).month_hours == pytest.approx(48.0)
    assert meter.at(december).day_hours == pytest.approx(0.0)


def test_a_new_leader_goes_on_from_the_record() -> None:
    first = UseMeter(NOON)
    first.use(8_000, NOON)
    recorded, later = first.at(NOON + 10 * HOUR), NOON + 10 * HOUR + 30
    second = UseMeter(later, recorded)
    second.use(8_000, later)  # the pods that it finds
    for meter in (first, second):
        meter.use(8_000, later + 60)
    apart = first.at(later + 60).gpu_seconds - second.at(later + 60).gpu_seconds
    assert 0 <= apart <= 8 * 30 * 1.001, "at most the use of half a minute"


@pytest.mark.parametrize(
    "recorded",
    [
        PastUse(NOON + 2 * DAY, 5.0, 5.0, 5.0),
        PastUse(-1.0, 5.0, 5.0, 5.0),
        PastUse(float("nan"), 5.0, 5.0, 5.0),
        PastUse(NOON, float("inf"), float("nan"), -3.0),
    ],
)
def test_a_record_that_cannot_be_true_is_left_out(recorded: PastUse) -> None:
    assert numbers(UseMeter(NOON, recorded).at(NOON)) == (0.0, 0.0, 0.0)


def test_budgets() -> None:
    day, month = GpuBudget(Period.DAY, 10.0), GpuBudget(Period.MONTH, 100.0)
    assert exhausted((day, month), PastUse(NOON, day_hours=9.0, month_hours=99.0)) is None
    assert exhausted((day, month), PastUse(NOON, day_hours=10.0)) is day
    assert exhausted((day, month), PastUse(NOON, month_hours=100.0)) is month
    assert period_end(Period.DAY, NOON) == NOON + 12 * HOUR
    assert period_end(Period.MONTH, NOON) == datetime(2026, 12, 1, tzinfo=UTC).timestamp()
    assert month_start(NOON) < NOON < month_end(NOON)
    assert month_end(1e18) > 0, "a clock far off breaks nothing"
    assert HALF_LIFE_S == 7 * DAY
