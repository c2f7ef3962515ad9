"""Units start in the window that is best for their whole run, and at the latest when slack ends."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from builders import a_node, a_pod, an_engine, decide, see
from examples import examples
from fairlead.engine import start_windows
from fairlead.engine.best_start import BestStart
from fairlead.engine.engine import Engine
from fairlead.engine.events import ForecastSeen, NodeSeen, PodGone
from fairlead.engine.instructions import (
    AnnounceFailure,
    AnnounceNotice,
    AnnounceWarning,
    Bind,
    Instruction,
)
from fairlead.engine.reasons import WAITING_FOR_WINDOW
from fairlead.model.forecasts import MOST_SPANS, Forecast
from fairlead.model.pods import Pod
from fairlead.model.run_times import RunTime
from fairlead.model.start_times import StartTimes, Window
from gang_world import GangWorld, a_gang

HOUR = 3600.0
DAY = 24 * HOUR
#: Midnight of some day; the engine's clock begins there.
MIDNIGHT = 1_800_000_000.0 - 1_800_000_000.0 % DAY


def a_forecast(
    *values: float, step_s: float = HOUR, window: Window = Window.LOW_CARBON
) -> Forecast:
    spans = tuple(
        (MIDNIGHT + n * step_s, MIDNIGHT + (n + 1) * step_s, value)
        for n, value in enumerate(values)
    )
    return Forecast(window, "grid", "g/kWh", spans)


#: Low from 2 to 5 o'clock, and lowest for a moment at 12.
NIGHT = a_forecast(300, 300, 100, 100, 100, *[300] * 7, 50, *[300] * 11)


def an_engine_at_midnight(*forecasts: Forecast, gpus: int = 8) -> Engine:
    engine = an_engine(a_node("a", gpus=gpus))
    engine.wall_offset_s = MIDNIGHT
    for each in forecasts:
        engine.handle(ForecastSeen(each), now=0.0)
    return engine


def green(
    name: str = "p",
    run_s: float | None = 2 * HOUR,
    within_s: float | None = 10 * HOUR,
    deadline_s: float | None = None,
    **more: float,
) -> Pod:
    start = StartTimes(
        MIDNIGHT,
        MIDNIGHT + more.get("not_before_s", 0.0),
        None if deadline_s is None else MIDNIGHT + deadline_s,
        Window.LOW_CARBON,
        None if within_s is None else MIDNIGHT + within_s,
    )
    run_time = None if run_s is None else RunTime(run_s, run_s, "annotation")
    return replace(a_pod(name, gpus=1), start=start, run_time=run_time)


def binds(made: Sequence[Instruction]) -> list[str]:
    return [each.pod.name for each in made if isinstance(each, Bind)]


def failures(made: Sequence[Instruction]) -> list[AnnounceFailure]:
    return [each for each in made if isinstance(each, AnnounceFailure)]


def starts(engine: Engine, *pods: Pod, step_s: float = 900.0) -> dict[str, float]:
    """When each pod is bound, by a clock that moves in steps."""
    see(engine, *pods)
    found: dict[str, float] = {}
    now = 0.0
    while len(found) < len(pods) and now <= 2 * DAY:
        engine.tend(now=now)
        found |= dict.fromkeys(binds(decide(engine, now=now)), now)
        now += step_s
    return found


def test_a_unit_starts_in_the_hours_that_are_best_for_its_whole_run() -> None:
    assert starts(an_engine_at_midnight(NIGHT), green()) == {"p": 2 * HOUR}
    assert starts(an_engine_at_midnight(NIGHT), green(run_s=HOUR, within_s=DAY)) == {"p": 12 * HOUR}


def test_it_says_when_it_starts_and_what_starting_now_would_come_to() -> None:
    engine = an_engine_at_midnight(NIGHT)
    see(engine, green())
    (failure,) = failures(decide(engine))
    assert failure.reason == WAITING_FOR_WINDOW
    assert failure.message == (
        f"it starts at {start_windows.utc(MIDNIGHT + 2 * HOUR)}: grid forecasts a mean of "
        "100 g/kWh over its run of 2h, and 300 for a start at once; at the latest it starts at "
        f"{start_windows.utc(MIDNIGHT + 10 * HOUR)}"
    )


def test_the_wait_is_said_even_if_no_node_fits() -> None:
    engine = an_engine_at_midnight(NIGHT, gpus=0)
    see(engine, green())
    assert [each.reason for each in failures(decide(engine))] == [WAITING_FOR_WINDOW]
    engine.tend(now=2 * HOUR)
    assert [each.reason for each in failures(decide(engine, now=2 * HOUR))] == ["Unschedulable"]


def test_a_deadline_limits_the_wait_by_the_longest_run() -> None:
    engine = an_engine_at_midnight(NIGHT)
    pod = green(within_s=None, deadline_s=4 * HOUR)
    assert starts(engine, pod) == {"p": 2 * HOUR}
    late = replace(green(within_s=None, deadline_s=3 * HOUR), run_time=RunTime(HOUR, 3 * HOUR, ""))
    assert starts(an_engine_at_midnight(NIGHT), late) == {"p": 0.0}


def test_it_starts_at_the_latest_when_its_slack_ends() -> None:
    falling = a_forecast(*range(500, 476, -1))
    assert starts(an_engine_at_midnight(falling), green(within_s=5 * HOUR)) == {"p": 5 * HOUR}


def test_not_before_holds_without_a_run_time_and_without_a_forecast() -> None:
    start = StartTimes(MIDNIGHT, MIDNIGHT + 3 * HOUR)
    pod = replace(a_pod("p", gpus=1), start=start)
    engine = an_engine_at_midnight()
    see(engine, pod)
    (failure,) = failures(decide(engine))
    assert failure.reason == WAITING_FOR_WINDOW
    assert "fairlead.dev/not-before" in failure.message
    assert starts(an_engine_at_midnight(), pod) == {"p": 3 * HOUR}


@pytest.mark.parametrize(
    ("pod", "forecasts", "words"),
    [
        (green(run_s=None), (NIGHT,), "no run time is known"),
        (green(within_s=None), (NIGHT,), "nothing says how long it may wait"),
        (green(), (), "no forecast for low-carbon is usable"),
        (green(), (a_forecast(1.0, window=Window.CHEAP),), "no forecast for low-carbon is usable"),
        (green(), (a_forecast(300),), "no values for a run that starts at once"),
        (green(), (replace(NIGHT, spans=NIGHT.spans[1:]),), "no values for a run"),
    ],
)
def test_a_unit_that_cannot_choose_starts_at_once_and_says_why(
    pod: Pod, forecasts: tuple[Forecast, ...], words: str
) -> None:
    engine = an_engine_at_midnight(*forecasts)
    see(engine, pod)
    assert binds(decide(engine)) == ["p"]
    (notice,) = engine.tend(now=0.0)
    assert isinstance(notice, AnnounceNotice)
    assert words in notice.message


def test_hours_without_values_are_never_chosen() -> None:
    hole = replace(NIGHT, spans=NIGHT.spans[:3] + NIGHT.spans[4:])
    assert starts(an_engine_at_midnight(hole), green()) == {"p": HOUR}
    assert starts(an_engine_at_midnight(hole), green(run_s=HOUR)) == {"p": 2 * HOUR}


def test_after_its_end_the_last_day_of_a_forecast_is_repeated() -> None:
    engine = an_engine_at_midnight(NIGHT)
    pod = green(run_s=3 * HOUR, within_s=30 * HOUR, not_before_s=6 * HOUR)
    assert starts(engine, pod) == {"p": 26 * HOUR}


def test_a_new_forecast_moves_a_start_and_one_that_says_nearly_the_same_does_not() -> None:
    engine = an_engine_at_midnight(NIGHT)
    see(engine, green())
    decide(engine)
    nearly = a_forecast(300, 300, 100, 100, 99, *[300] * 19)
    engine.handle(ForecastSeen(nearly), now=60.0)
    assert engine.wake_at_s() == 0.0
    engine.tend(now=60.0)
    assert not decide(engine, now=60.0)
    other = a_forecast(*[300] * 5, 100, 100, *[300] * 17)
    engine.handle(ForecastSeen(other), now=HOUR)
    engine.tend(now=HOUR)
    (failure,) = failures(decide(engine, now=HOUR))
    assert start_windows.utc(MIDNIGHT + 5 * HOUR) in failure.message
    engine.tend(now=5 * HOUR)
    assert binds(decide(engine, now=5 * HOUR)) == ["p"]


def conditions(engine: Engine, now: float, before: str = "") -> list[str]:
    """The messages of a turn, but for one that is written already."""
    engine.tend(now=now)
    return [each.message for each in failures(decide(engine, now=now)) if each.message != before]


def test_a_feed_that_changes_each_minute_moves_no_start_by_little() -> None:
    draw = np.random.default_rng(7)
    engine = an_engine_at_midnight(a_forecast(*[300] * 4, 100, 100, 102, 103, *[300] * 16))
    see(engine, green(run_s=HOUR))
    written = conditions(engine, 0.0)
    for minute in range(1, 240):
        noise = draw.uniform(-4, 4, 4)  # 2 % of what it ranges over, up and down
        feed = a_forecast(*[300] * 4, *(np.array([100, 100, 102, 103]) + noise), *[300] * 16)
        engine.handle(ForecastSeen(feed), now=60.0 * minute)
        written += conditions(engine, 60.0 * minute, written[-1])
    assert len(written) == 1
    engine.tend(now=4 * HOUR)
    assert binds(decide(engine, now=4 * HOUR)) == ["p"]


def test_a_feed_that_changes_its_mind_each_minute_writes_few_conditions() -> None:
    two, six = (a_forecast(*[300] * at, 100, 100, *[300] * (22 - at)) for at in (4, 7))
    engine = an_engine_at_midnight(two)
    see(engine, green())
    (message,) = conditions(engine, 0.0)
    written = []
    for minute in range(1, 61):
        engine.handle(ForecastSeen(six if minute % 2 else two), now=60.0 * minute)
        new = conditions(engine, 60.0 * minute, message)
        message = new[-1] if new else message
        written.append(len(new))
    assert written[0] == 1, "the first change is followed at once"
    assert sum(written) > 1, "and later ones in time"
    assert all(sum(written[at : at + 5]) <= 1 for at in range(56))


def test_a_move_that_was_put_off_is_made_before_the_unit_starts() -> None:
    soon, later = (a_forecast(*[300] * at, 100, 100, *[300] * (22 - at)) for at in (1, 6))
    engine = an_engine_at_midnight(later)
    see(engine, green())
    conditions(engine, 0.0)
    engine.handle(ForecastSeen(soon), now=HOUR - 120.0)
    assert len(conditions(engine, HOUR - 120.0)) == 1, "moved to one o'clock"
    engine.handle(ForecastSeen(later), now=HOUR - 60.0)
    assert not conditions(engine, HOUR - 60.0), "it was moved a minute ago"
    engine.tend(now=HOUR)
    assert not binds(decide(engine, now=HOUR)), "it starts at six"
    engine.tend(now=6 * HOUR)
    assert binds(decide(engine, now=6 * HOUR)) == ["p"]


def test_those_who_look_see_the_forecast_of_now() -> None:
    engine = an_engine_at_midnight(NIGHT)
    see(engine, green())
    (failure,) = failures(decide(engine))
    assert "a mean of 100" in failure.message
    engine.handle(ForecastSeen(a_forecast(300, 300, 103, 101, 100, *[300] * 19)), now=60.0)
    engine.tend(now=60.0)
    (entry,) = engine.queue.entries()
    plan = engine.start_windows.of(entry.unit, MIDNIGHT + 60.0)
    assert plan.start_s == MIDNIGHT + 2 * HOUR
    assert "a mean of 102" in plan.sentence


@examples(60)
@given(
    feeds=st.lists(st.lists(st.floats(50, 400), min_size=12, max_size=12), min_size=1, max_size=12)
)
def test_whatever_feeds_say_the_start_is_nearly_as_good_as_the_best(
    feeds: list[list[float]],
) -> None:
    engine = an_engine_at_midnight(a_forecast(*feeds[0]))
    see(engine, green(run_s=HOUR, within_s=8 * HOUR))
    at = dict.fromkeys(binds(decide(engine)), 0.0)
    for minute in range(1, 10 * 60, 10):
        now = 60.0 * minute
        if minute // 10 < len(feeds):
            engine.handle(ForecastSeen(a_forecast(*feeds[minute // 10])), now=now)
        engine.tend(now=now)
        at |= {name: at.get(name, now) for name in binds(decide(engine, now=now))}
    assert at["p"] <= 8 * HOUR + 600
    last = BestStart(a_forecast(*feeds[-1]))
    settled_s = 600.0 * len(feeds)
    if at["p"] > settled_s:
        best = last.choose(MIDNIGHT + settled_s, MIDNIGHT + 8 * HOUR, HOUR)
        mean = last.mean(MIDNIGHT + at["p"] - 600.0, HOUR)
        assert best is not None
        assert mean is not None
        allowed = (0.05 + 0.01) * (max(feeds[-1]) - min(feeds[-1])) + 350 / 6
        assert mean <= best.mean + allowed


def test_a_window_across_a_change_of_clocks_is_as_long_as_it_is() -> None:
    """25 October 2026 has 25 hours in Central Europe; the low is from 2 to 3, both times."""
    begin = datetime(2026, 10, 25, tzinfo=ZoneInfo("Europe/Berlin")).timestamp()
    values = [300.0] * 2 + [100.0] * 2 + [300.0] * 21
    spans = tuple((begin + HOUR * n, begin + HOUR * (n + 1), v) for n, v in enumerate(values))
    engine = an_engine(a_node("a", gpus=8))
    engine.wall_offset_s = begin
    engine.handle(ForecastSeen(Forecast(Window.LOW_CARBON, "grid", "g/kWh", spans)), now=0.0)
    start = StartTimes(begin, begin, None, Window.LOW_CARBON, begin + 10 * HOUR)
    pod = replace(a_pod("p", gpus=1), start=start, run_time=RunTime(2 * HOUR, 2 * HOUR, "x"))
    assert starts(engine, pod) == {"p": 2 * HOUR}


def test_forecasts_for_two_windows_may_come_at_the_same_time() -> None:
    engine = an_engine_at_midnight(NIGHT, replace(NIGHT, window=Window.CHEAP))
    cheap = green("cheap")
    assert cheap.start is not None
    see(engine, green("green"), replace(cheap, start=replace(cheap.start, window=Window.CHEAP)))
    decide(engine)
    now = a_forecast(1, 1, *[300] * 22)
    engine.handle(ForecastSeen(now), now=60.0)
    engine.handle(ForecastSeen(replace(now, window=Window.CHEAP)), now=60.0)
    engine.tend(now=60.0)
    assert sorted(binds(decide(engine, now=75.0))) == ["cheap", "green"]


def test_a_start_that_was_chosen_stays_when_the_forecast_ends() -> None:
    engine = an_engine_at_midnight(NIGHT)
    see(engine, green())
    decide(engine)
    engine.handle(ForecastSeen(Forecast(Window.LOW_CARBON)), now=HOUR)
    assert not binds(decide(engine, now=HOUR))
    engine.tend(now=2 * HOUR)
    assert binds(decide(engine, now=2 * HOUR)) == ["p"]


def test_a_unit_whose_start_has_come_is_not_held_back_again() -> None:
    engine = an_engine_at_midnight(NIGHT, gpus=0)
    see(engine, green())
    decide(engine)
    engine.tend(now=2 * HOUR)
    decide(engine, now=2 * HOUR)
    engine.handle(ForecastSeen(a_forecast(*[300] * 8, 1, 1, 1)), now=2 * HOUR)
    engine.handle(NodeSeen(a_node("a", gpus=8)), now=3 * HOUR)
    engine.tend(now=3 * HOUR)
    assert binds(decide(engine, now=3 * HOUR)) == ["p"]


def test_an_edit_that_takes_the_window_away_lets_it_start() -> None:
    engine = an_engine_at_midnight(NIGHT)
    pod = green()
    see(engine, pod)
    decide(engine)
    see(engine, replace(pod, start=None, annotations={"edited": ""}), now=60.0)
    assert binds(decide(engine, now=75.0)) == ["p"]


def test_changes_of_nodes_do_not_wake_it_and_others_of_its_kind_start() -> None:
    engine = an_engine_at_midnight(NIGHT)
    see(engine, green())
    decide(engine)
    engine.handle(NodeSeen(a_node("b", gpus=8)), now=60.0)
    see(engine, a_pod("plain", gpus=1), now=60.0)
    made = decide(engine, now=60.0)
    assert binds(made) == ["plain"]
    assert not failures(made)


def test_a_gang_waits_as_a_whole() -> None:
    engine = an_engine_at_midnight(NIGHT)
    world = GangWorld(engine)
    world.create(*(replace(pod, start=green().start, run_time=green().run_time)
                   for pod in a_gang("job", 4)))  # fmt: skip
    world.decide_all()
    assert not world.binds
    assert {each.reason for each in world.failures.values()} == {WAITING_FOR_WINDOW}
    world.now = 2 * HOUR
    engine.tend(now=world.now)
    world.decide_all()
    assert len(world.binds) == 4


def patient(timeout_s: float, gpus: int = 1) -> Pod:
    start = StartTimes(MIDNIGHT, give_up_s=MIDNIGHT + timeout_s)
    return replace(a_pod("p", gpus=gpus), start=start)


def test_a_unit_that_has_waited_for_as_long_as_it_said_gets_a_final_word() -> None:
    engine = an_engine_at_midnight(gpus=0)
    see(engine, patient(HOUR), a_pod("other", gpus=1))
    reasons = {each.pod.name: each.reason for each in failures(decide(engine))}
    assert reasons == {"p": "Unschedulable", "other": "Unschedulable"}
    (warning,) = warnings(
        [*engine.tend(now=HOUR), *decide(engine, now=HOUR), *engine.tend(now=HOUR)]
    )
    assert warning.reason == "WaitTimedOut"
    assert "fairlead.dev/wait-timeout" in warning.message
    engine.handle(NodeSeen(a_node("a", gpus=8)), now=2 * HOUR)
    assert binds(decide(engine, now=2 * HOUR)) == ["other"]


def test_the_condition_of_a_wait_that_timed_out_has_a_reason_of_its_own() -> None:
    engine = an_engine_at_midnight(gpus=0)
    see(engine, patient(HOUR))
    decide(engine)
    engine.tend(now=HOUR)
    assert [each.reason for each in failures(decide(engine, now=HOUR))] == ["WaitTimedOut"]


def test_a_longer_timeout_lets_it_be_tried_again() -> None:
    engine = an_engine_at_midnight(gpus=0)
    pod = patient(HOUR)
    see(engine, pod)
    decide(engine)
    engine.tend(now=HOUR)
    decide(engine, now=HOUR)
    engine.handle(NodeSeen(a_node("a", gpus=8)), now=2 * HOUR)
    longer = replace(pod, start=patient(9 * HOUR).start, annotations={"edited": ""})
    see(engine, longer, now=2 * HOUR)
    assert binds(decide(engine, now=2 * HOUR + 15)) == ["p"]


def warnings(made: Sequence[Instruction]) -> list[AnnounceWarning]:
    return [each for each in made if isinstance(each, AnnounceWarning)]


def test_a_deadline_that_cannot_be_met_is_said_at_once_and_once() -> None:
    engine = an_engine_at_midnight()
    see(engine, green(within_s=None, deadline_s=HOUR))
    assert binds(decide(engine)) == ["p"]
    (warning,) = warnings(engine.tend(now=0.0))
    assert warning.reason == "DeadlineCannotBeMet"
    assert "would end 1h too late if it started now" in warning.message
    assert not warnings(engine.tend(now=1.0))


def test_a_deadline_that_a_pending_unit_misses_is_said_when_it_is_known() -> None:
    engine = an_engine_at_midnight(gpus=0)
    see(engine, green(within_s=None, deadline_s=5 * HOUR))
    decide(engine)
    assert not warnings(engine.tend(now=3 * HOUR))
    assert engine.start_windows.due_s() == 3 * HOUR + 1
    (warning,) = warnings(engine.tend(now=3 * HOUR + 1))
    assert warning.reason == "DeadlineCannotBeMet"
    assert not warnings(engine.tend(now=4 * HOUR))


def test_the_clock_of_the_day_may_be_set_while_a_unit_waits() -> None:
    engine = an_engine_at_midnight(NIGHT)
    see(engine, green())
    decide(engine)
    engine.wall_offset_s += 2 * HOUR
    engine.tend(now=60.0)
    assert binds(decide(engine, now=60.0)) == ["p"]


def test_thousands_of_plans_are_made_again_over_several_turns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(start_windows, "_AT_ONCE", 2)
    engine = an_engine_at_midnight(NIGHT)
    see(engine, *(green(f"p{n}") for n in range(5)))
    decide(engine)
    engine.handle(ForecastSeen(a_forecast(*[300] * 5, 100, 100, *[300] * 17)), now=1.0)
    for _ in range(3):
        assert engine.start_windows.due_s() == 0.0
        engine.tend(now=1.0)
    assert engine.start_windows.due_s() == 2 * HOUR, "times that were replaced stay for a while"
    engine.tend(now=2 * HOUR)
    assert not binds(decide(engine, now=2 * HOUR))


def test_units_that_are_gone_are_forgotten() -> None:
    engine = an_engine_at_midnight(NIGHT)
    for n in range(200):
        pod = green(f"p{n}")
        see(engine, pod)
        decide(engine)
        engine.handle(PodGone(pod), now=0.0)
    windows = engine.start_windows
    assert len(windows._heap) < 80
    assert len(windows._plans) < 80


def test_units_that_start_at_once_are_forgotten_too() -> None:
    engine = an_engine_at_midnight()  # without a forecast, nothing is to be looked at later
    for n in range(200):
        pod = green(f"p{n}")
        see(engine, pod)
        decide(engine)
        engine.handle(PodGone(pod), now=0.0)
    assert len(engine.start_windows._plans) < 80
    assert len(engine.start_windows._released) < 80


def test_times_of_units_that_are_gone_do_not_keep_the_scheduler_awake() -> None:
    engine = an_engine_at_midnight(NIGHT)
    pod = green()
    see(engine, pod)
    decide(engine)
    engine.queue.wake(engine.queue.all_waiting()[0], "UnschedulableTimeout", now=0.0)
    engine.handle(ForecastSeen(a_forecast(*[300] * 5, 100, *[300] * 18)), now=1.0)
    engine.tend(now=1.0)
    engine.handle(PodGone(pod), now=1.0)
    engine.tend(now=3 * HOUR)
    assert engine.start_windows.due_s() is None


def test_waiting_units_are_counted_in_one_pass() -> None:
    engine = an_engine_at_midnight(NIGHT)
    see(engine, *(green(f"p{n}") for n in range(20)))
    decide(engine)
    sizes = []

    class Counted(set[str]):
        def __or__(self, other: object) -> "Counted":
            sizes.append(len(self))
            return self

    engine.start_windows._released = Counted({"p0"})
    engine.start_windows._over = Counted()
    assert engine.start_windows.waiting == 20
    assert len(sizes) <= 1


def test_the_starts_that_are_compared_are_few_whatever_the_forecast(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = []
    means = BestStart._means

    def counted(best: BestStart, starts: NDArray[np.float64], run_s: float) -> NDArray[np.float64]:
        asked.append(len(starts))
        return means(best, starts, run_s)

    monkeypatch.setattr(BestStart, "_means", counted)
    values = (300.0 - 200 * (1400 < n < 1800) for n in range(MOST_SPANS))
    best = BestStart(a_forecast(*values, step_s=31.0))
    chosen = best.choose(MIDNIGHT, MIDNIGHT + 20 * DAY, HOUR)
    assert chosen is not None
    assert chosen.mean == 100.0
    assert max(asked) <= 1002


def test_a_restart_starts_no_unit_before_its_forecast_is_read() -> None:
    engine = an_engine_at_midnight(Forecast(Window.LOW_CARBON, awaited=True))
    see(engine, green())
    (failure,) = failures(decide(engine))
    assert failure.reason == WAITING_FOR_WINDOW
    assert "the forecast is not read yet" in failure.message
    engine.handle(ForecastSeen(NIGHT), now=3.0)
    engine.tend(now=3.0)
    (failure,) = failures(decide(engine, now=20.0))
    assert start_windows.utc(MIDNIGHT + 2 * HOUR) in failure.message


def test_a_forecast_that_cannot_be_read_lets_units_start_at_once() -> None:
    engine = an_engine_at_midnight(Forecast(Window.LOW_CARBON, awaited=True))
    see(engine, green())
    assert not binds(decide(engine))
    engine.handle(ForecastSeen(Forecast(Window.LOW_CARBON)), now=3.0)
    engine.tend(now=3.0)
    assert binds(decide(engine, now=20.0)) == ["p"]


def test_a_forecast_that_never_comes_is_awaited_for_half_a_minute() -> None:
    engine = an_engine_at_midnight(Forecast(Window.LOW_CARBON, awaited=True))
    see(engine, green(), green("late", within_s=10.0))
    assert not binds(decide(engine))
    assert engine.start_windows.due_s() == 10.0
    engine.tend(now=30.0)
    assert sorted(binds(decide(engine, now=30.0))) == ["late", "p"]


def test_a_gang_waits_if_any_of_its_pods_says_so() -> None:
    engine = an_engine_at_midnight()
    world = GangWorld(engine)
    first, *others = a_gang("job", 4)
    later = StartTimes(MIDNIGHT, MIDNIGHT + 2 * HOUR)
    world.create(first, *(replace(pod, start=later) for pod in others))
    world.decide_all()
    assert not world.binds
    world.now = 2 * HOUR
    engine.tend(now=world.now)
    world.decide_all()
    assert len(world.binds) == 4


def test_a_pod_that_joins_a_gang_with_nodes_does_not_wait() -> None:
    engine = an_engine_at_midnight()
    world = GangWorld(engine)
    *first, last = a_gang("job", 4, minimum=3)
    world.create(*first)
    world.decide_all()
    world.answer_all()
    assert world.bound("job") == 3
    world.create(replace(last, start=StartTimes(MIDNIGHT, MIDNIGHT + 2 * HOUR)))
    world.decide_all()
    world.answer_all()
    assert world.bound("job") == 4


def test_an_edit_counts_while_a_start_stays_without_a_forecast() -> None:
    engine = an_engine_at_midnight(NIGHT)
    pod = green()
    see(engine, pod)
    decide(engine)
    engine.handle(ForecastSeen(Forecast(Window.LOW_CARBON)), now=1.0)
    assert pod.start
    edited = replace(pod.start, give_up_s=MIDNIGHT + HOUR)
    see(engine, replace(pod, start=edited, annotations={"edited": ""}), now=1.0)
    assert not binds(decide(engine, now=60.0))
    assert engine.start_windows.due_s() == HOUR


@examples(60)
@given(
    values=st.lists(st.integers(-50, 500), min_size=1, max_size=60),
    missing=st.sets(st.integers(0, 59)),
    run=st.integers(1, 30),
    slack=st.integers(0, 60),
)
def test_no_start_by_the_minute_has_a_better_mean(
    values: list[int], missing: set[int], run: int, slack: int
) -> None:
    """Against a sum over all minutes; a step has 20 of them."""
    full = a_forecast(*values, step_s=1200.0)
    spans = tuple(span for n, span in enumerate(full.spans) if n not in missing)
    best = BestStart(replace(full, spans=spans))
    by_minute = np.full(20 * len(values), np.nan)
    for n, value in enumerate(values):
        if n not in missing:
            by_minute[20 * n : 20 * (n + 1)] = value
    length = 10 * run
    means = [
        by_minute[at : at + length].mean()
        for at in range(min(10 * slack, max(0, len(by_minute) - length)) + 1)
        if at + length <= len(by_minute)
    ]
    found = best.choose(MIDNIGHT, MIDNIGHT + 600.0 * slack, 600.0 * run)
    if not means or np.isnan(means[0]):
        assert found is None
        return
    assert found is not None
    assert MIDNIGHT <= found.start_s <= MIDNIGHT + 600.0 * slack
    assert found.first_mean == pytest.approx(means[0])
    known = [value for n, value in enumerate(values) if n not in missing]
    assert found.mean <= np.nanmin(means) + 0.01 * np.ptp(known) + 1e-6
