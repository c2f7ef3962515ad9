"""Durations, read and written."""

import pytest

from fairlead.base.durations import DurationError, length_s, text_of


@pytest.mark.parametrize(
    ("text", "expected_s"),
    [("30s", 30), ("2m", 120), ("1h30m", 5400), ("500ms", 0.5), ("1.5s", 1.5), ("0s", 0)],
)
def test_a_length_of_time_is_read(text: str, expected_s: float) -> None:
    assert length_s(text) == expected_s


@pytest.mark.parametrize("text", ["", "5", "s", "5 s", "-5s", "5x", "1h 2m", "٣s", "1" * 40 + "s"])
def test_what_is_no_length_of_time_says_how_to_write_one(text: str) -> None:
    with pytest.raises(DurationError, match="write for example 30s"):
        length_s(text)


@pytest.mark.parametrize(("given_s", "text"), [(30, "30s"), (0.25, "250ms"), (0, "1ms")])
def test_a_length_of_time_is_written(given_s: float, text: str) -> None:
    assert text_of(given_s) == text
