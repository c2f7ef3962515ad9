"""Forecasts of starts are judged by what happened, kept in bounded space, and quoted."""

import math
import random
import time
from dataclasses import replace

import pytest

from builders import a_node, a_pod
from fairlead.apps.config.run_plan import RunOptions, plan
from fairlead.apps.live.start_forecasts import start_answer
from fairlead.engine import events, start_dumps
from fairlead.engine.engine import Engine
from fairlead.engine.start_record import (
    CLASSES,
    ENOUGH_JUDGED,
    MOST_OPEN,
    OpenForecast,
    StartRecord,
    class_of,
)
from fairlead.model.pods import Pod
from fairlead.model.run_times import RunTime

HOUR = 3600.0


def forecast(made_s: float = 0.0, wait_s: float = HOUR) -> OpenForecast:
    return OpenForecast(made_s, made_s + 0.5 * wait_s, made_s + 0.9 * wait_s, made_s + 2 * wait_s)


def always(_: str) -> bool:
    return True


@pytest.mark.parametrize(
    ("start_s", "result"),
    [(600.0, "early"), (1760.0, "held"), (3000.0, "held"), (7250.0, "held"), (7300.0, "late")],
)
def test_a_start_is_judged_by_the_range_to_the_minute(start_s: float, result: str) -> None:
    record = StartRecord()
    record.note("unit", forecast(), bounded=False)
    record.started("unit", start_s)
    assert record.counts == {("1h", result): 1}
    judged = record.of(0.9 * HOUR, bounded=False)
    assert (judged.judged, judged.held) == (1.0, float(result == "held"))
    assert not record


def test_a_range_that_passes_is_counted_once_and_before_the_start() -> None:
    record = StartRecord()
    record.note("unit", forecast(), bounded=False)
    record.tend(2 * HOUR + 61, always)
    record.tend(3 * HOUR, always)
    assert record.counts == {("1h", "late"): 1}
    record.started("unit", 4 * HOUR)
    assert record.counts == {("1h", "late"): 1}
    assert record.errors_s == {"1h": round(4 * HOUR - 0.9 * HOUR)}


def test_the_first_forecast_of_each_length_counts() -> None:
    """A unit that is forecast every minute is one example for each length, not a hundred."""
    record = StartRecord()
    for minute in range(58):
        made_s = 60.0 * minute
        record.note("unit", OpenForecast(made_s, made_s, HOUR, 2 * HOUR), bounded=False)
    record.started("unit", HOUR)
    assert record.counts == {("6h", "held"): 1, ("1h", "held"): 1, ("10m", "held"): 1}


def test_units_that_are_gone_are_not_judged() -> None:
    record = StartRecord()
    record.note("unit", forecast(), bounded=False)
    record.tend(60.0, lambda _: False)
    assert not record
    assert not record.counts


def test_bounds_and_estimates_have_records_of_their_own() -> None:
    record = StartRecord()
    record.note("unit", forecast(), bounded=True)
    record.started("unit", HOUR)
    assert record.of(HOUR - 1, bounded=True).judged == 1.0
    assert record.of(HOUR - 1, bounded=False).judged == 0.0


def test_ranges_are_widened_as_long_as_they_do_not_hold() -> None:
    record = StartRecord()
    for number in range(20):
        record.note(f"unit-{number}", forecast(), bounded=False)
        record.started(f"unit-{number}", 4 * HOUR)
    assert record.of(0.9 * HOUR, bounded=False).width > 1.0


def test_it_is_bounded() -> None:
    record = StartRecord()
    for number in range(3 * MOST_OPEN):
        for wait_s in (300.0, HOUR, 10_000.0, 1e6):
            record.note(f"unit-{number}", forecast(wait_s=wait_s), bounded=number % 2 == 0)
    assert len(record.open()) == MOST_OPEN
    for number in range(3 * MOST_OPEN):
        record.started(f"unit-{number}", HOUR)
        record.note(f"unit-{number}", forecast(), bounded=False)
    assert len(start_dumps.dump(record, 1.7e9)) <= start_dumps.LARGEST_DUMP


def test_it_is_kept_across_restarts_with_what_is_not_judged_yet() -> None:
    before = StartRecord()
    for number in range(10):
        before.note(f"unit-{number}", forecast(), bounded=False)
        before.started(f"unit-{number}", HOUR)
    before.note("waits", forecast(made_s=5000.0), bounded=True)
    after = start_dumps.load(start_dumps.dump(before, 1.7e9), 1.7e9 + 5000.0)
    kept, was = (each.of(HOUR - 1, bounded=False) for each in (after, before))
    assert (kept.judged, kept.held, kept.width) == (was.judged, was.held, was.width)
    assert list(kept.times) == list(was.times)
    after.started("waits", HOUR)
    assert after.counts == {("1h", "held"): 1}


def test_damaged_bytes_are_refused() -> None:
    record = StartRecord()
    record.note("unit", forecast(), bounded=False)
    good = start_dumps.dump(record, 0.0)
    draw = random.Random(5)
    for _ in range(300):
        at = draw.randrange(len(good))
        broken = bytearray(good)
        broken[at] ^= 1 << draw.randrange(8)
        with pytest.raises(ValueError, match="damaged"):
            start_dumps.load(bytes(broken))
        with pytest.raises(ValueError, match="damaged"):
            start_dumps.load(good[:at])
    with pytest.raises(ValueError, match="more than a dump has"):
        start_dumps.load(good + bytes(start_dumps.LARGEST_DUMP))


@pytest.mark.parametrize("at_s", [-math.inf, 1e300])
def test_forecasts_and_widths_that_make_no_sense_are_refused(at_s: float) -> None:
    """A ConfigMap can be edited, and its sum computed again."""
    record = StartRecord()
    record.note("unit", replace(forecast(), earliest_s=at_s), bounded=False)
    with pytest.raises(ValueError, match="not sound"):
        start_dumps.load(start_dumps.dump(record, 0.0))
    wide = StartRecord()
    wide.of(0.0, bounded=False).width = 1000.0
    with pytest.raises(ValueError, match="not sound"):
        start_dumps.load(start_dumps.dump(wide, 0.0))


def test_a_bound_of_any_length_does_not_make_the_record_unreadable() -> None:
    record = StartRecord()
    record.note("unit", replace(forecast(), latest_s=float(2**63)), bounded=False)
    assert start_dumps.load(start_dumps.dump(record, 1.8e9)).open()


def test_each_forecast_has_a_class() -> None:
    assert {class_of(ahead_s, bounded=b) for ahead_s in (-5.0, 600.0, 3600.0, 1e9)
            for b in (True, False)} == set(CLASSES)  # fmt: skip


# -- in the engine -------------------------------------------------------------------------------


class _World:
    """One node with four GPUs; each job takes all of them."""

    def __init__(self) -> None:
        self.engine = Engine(plan(RunOptions()).profiles)
        self.engine.wall_offset_s = time.time()
        self.now = 0.0
        self.engine.handle(events.NodeSeen(a_node("n", gpus=4)), now=0.0)

    def come(self, name: str, run_s: float) -> Pod:
        pod = a_pod(name, gpus=4, run_time=RunTime(run_s))
        self.engine.handle(events.PodSeen(pod), now=self.now)
        self.decide()
        return pod

    def decide(self) -> None:
        while self.engine.decide(now=self.now) is not None:
            pass

    def end(self, pod: Pod, at_s: float) -> None:
        self.now = at_s
        self.engine.handle(events.PodGone(pod), now=at_s)
        self.decide()


def test_a_unit_that_waits_is_forecast_and_judged_when_it_is_placed() -> None:
    world = _World()
    first = world.come("first", 1000.0)
    world.come("second", 1000.0)
    world.engine.handle(events.ForecastDue(8), now=0.0)
    assert world.engine.start_record
    world.end(first, 900.0)
    assert world.engine.start_record.counts == {("1h", "held"): 1}


def test_the_record_is_quoted_when_it_has_enough() -> None:
    world = _World()
    running = world.come("job-0", 1000.0)
    for number in range(int(ENOUGH_JUDGED) + 2):
        waiting = world.come(f"job-{number + 1}", 1000.0)
        told = start_answer(world.engine, waiting, now=world.now)["start"]
        world.engine.handle(events.ForecastDue(1), now=world.now)
        world.end(running, world.now + 1000.0)
        running = waiting
    assert told["record"] == "starts"
    assert told["message"].endswith("; 100 % of such forecasts held")
