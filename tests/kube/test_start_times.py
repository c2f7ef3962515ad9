"""What pods say about when they start: times with zones, durations, and words with a limit."""

import msgspec
import pytest

from fairlead.kube.codec import decode_pod
from fairlead.kube.start_times import read_start_times
from fairlead.model.start_times import (
    DEADLINE,
    NOT_BEFORE,
    START_WINDOW,
    WAIT_TIMEOUT,
    StartTimes,
    Window,
    missed,
    of_pods,
    words,
)

CREATED = "2026-11-16T12:00:00Z"
NOON_S = 1_794_830_400.0
HOUR = 3600.0


def read(**said: str) -> StartTimes:
    keys = {"not_before": NOT_BEFORE, "deadline": DEADLINE, "window": START_WINDOW}
    found = read_start_times({keys[key]: word for key, word in said.items()}, CREATED)
    assert found is not None
    return found


def test_most_pods_say_nothing() -> None:
    assert read_start_times(None, CREATED) is None
    assert read_start_times({"fairlead.dev/run-time": "4h"}, CREATED) is None


@pytest.mark.parametrize(
    ("word", "at_s"),
    [
        ("2026-11-16T14:00:00Z", NOON_S + 2 * HOUR),
        ("2026-11-16T14:00:00+01:00", NOON_S + HOUR),
        ("2026-11-16T14:00:00", NOON_S + 2 * HOUR),
        ("2h", NOON_S + 2 * HOUR),
        ("90m", NOON_S + 1.5 * HOUR),
    ],
)
def test_a_time_of_day_or_so_long_after_the_creation(word: str, at_s: float) -> None:
    assert read(deadline=word).deadline_s == at_s
    assert read(not_before=word).not_before_s == at_s


def test_hours_when_clocks_are_changed_are_an_hour_apart() -> None:
    """Central Europe, 25 October: the hour from 2 to 3 comes twice, and each has its offset."""
    first, second = (f"2026-10-25T02:30:00{offset}" for offset in ("+02:00", "+01:00"))
    assert read(deadline=second).deadline_s == (read(deadline=first).deadline_s or 0.0) + HOUR
    skipped = read(deadline="2026-03-29T02:30:00+01:00").deadline_s
    assert skipped == read(deadline="2026-03-29T03:30:00+02:00").deadline_s, "in spring"


@pytest.mark.parametrize("word", ["2026-11-16T14:00:00 Europe/Berlin", "2026-12-31T23:59:60Z"])
def test_names_of_time_zones_and_leap_seconds_are_no_times(word: str) -> None:
    found = read(deadline=word)
    assert found.deadline_s is None
    assert "and is ignored" in found.problem


@pytest.mark.parametrize(
    "word",
    [
        "soon",
        "",
        "25:00",
        "9" * 100,
        "400d",
        "0001-01-01T00:00:00+23:59",
        "2026-12-31T23:59:60Z",  # a leap second
        "2026-11-16T14:00 Berlin",  # the name of a zone
        "2026-11-16T14:00[CET]",
    ],
)
def test_what_is_no_time_is_ignored_with_a_sentence(word: str) -> None:
    found = read(deadline=word, not_before="1h")
    assert found.deadline_s is None
    assert found.not_before_s == NOON_S + HOUR
    assert found.problem.startswith(f"fairlead.dev/deadline is {word[:32]!r} and is ignored: write")


def test_a_window_and_how_long_it_may_be_waited_for() -> None:
    assert read(window="cheap") == StartTimes(NOON_S, window=Window.CHEAP)
    found = read(window="low-carbon 8h")
    assert (found.window, found.start_by_s) == (Window.LOW_CARBON, NOON_S + 8 * HOUR)


@pytest.mark.parametrize("word", ["green", "", "cheap soon", "cheap 8h 9h", "CHEAP", "cheap 400d"])
def test_an_unknown_window_is_ignored_with_a_sentence(word: str) -> None:
    found = read(window=word)
    assert found.window is None
    assert "write cheap or low-carbon" in found.problem


def test_how_long_it_waits_at_most() -> None:
    found = read_start_times({WAIT_TIMEOUT: "2h"}, CREATED)
    assert found == StartTimes(NOON_S, give_up_s=NOON_S + 2 * HOUR)


def test_the_codec_reads_them_with_the_creation_of_the_pod() -> None:
    metadata = {
        "name": "p", "namespace": "n", "uid": "u", "creationTimestamp": CREATED,
        "annotations": {DEADLINE: "1h"},
    }  # fmt: skip
    pod = decode_pod(msgspec.json.encode({"metadata": metadata, "spec": {}, "status": {}}))
    assert pod.start == StartTimes(NOON_S, deadline_s=NOON_S + HOUR)
    assert not pod.misspelt


def test_a_gang_has_the_strictest_times_of_its_pods_and_a_window_if_all_have_it() -> None:
    one = StartTimes(1.0, 10.0, 100.0, Window.CHEAP, 50.0, 7.0)
    other = StartTimes(2.0, 20.0, 90.0, Window.CHEAP, 60.0)
    assert of_pods((one, other)) == StartTimes(2.0, 20.0, 90.0, Window.CHEAP, 50.0, 7.0)
    assert of_pods((one, None)).window is None


def test_a_deadline_that_cannot_be_met_says_by_how_much() -> None:
    times = StartTimes(0.0, deadline_s=2 * HOUR)
    assert missed(times, 2 * HOUR, 0.0) == ""
    assert missed(times, None, HOUR) == ""
    assert "would end 30m too late if it started now" in missed(times, 2.5 * HOUR, 0.0)
    later = StartTimes(0.0, HOUR, 2 * HOUR)
    assert "if it started 1970-01-01T01:00:00Z" in missed(later, 2 * HOUR, 0.0)
    assert "has passed" in missed(times, None, 2 * HOUR)


def test_durations_are_written_as_people_do() -> None:
    found = [words(each) for each in (0.0, 20.0, 90.0, 3600.0, 9000.0, 3601.0)]
    assert found == ["0s", "20s", "1m30s", "1h", "2h30m", "1h"]


def test_the_hour_that_comes_twice_is_told_apart_by_its_offset() -> None:
    """Central Europe, 25 October: 2:30 in summer time, and an hour later again."""
    summer, winter = (read(not_before=f"2026-10-25T02:30:00+0{hours}:00") for hours in (2, 1))
    assert summer.not_before_s is not None
    assert winter.not_before_s == summer.not_before_s + HOUR
