"""What was learned about run times is sound, bounded, and kept across restarts."""

import math
import struct
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.engine import run_dumps, run_history, run_record
from fairlead.engine.run_history import RunHistory
from fairlead.engine.run_record import RunRecord
from fairlead.model.unit_kinds import LEVELS, UnitKind, name_pattern

NAMES = st.sampled_from(["a", "b", "c"])
KINDS = st.builds(UnitKind, NAMES, NAMES, NAMES, st.sampled_from([1000, 8000]))
TIMES = st.floats(60.0, 1e6)


def taught(*runs: tuple[UnitKind, float]) -> RunHistory:
    history = RunHistory()
    for kind, ran_s in runs:
        history.learn(kind, ran_s)
    return history


def a_kind(name: str = "Job/train-#", namespace: str = "team", gpus: int = 1) -> UnitKind:
    return UnitKind(namespace, name, "image:1", 1000 * gpus)


@pytest.mark.parametrize(
    ("name", "pattern"),
    [
        ("Job/train", "Job/train"),
        ("Job/train-28391820", "Job/train-#"),
        ("Job/train-resnet50-28391820-x7k2p", "Job/train-resnet#-#"),
        ("Job/train-3", "Job/train-#"),
        ("PyTorchJob/sft.2026-11-16.run7", "PyTorchJob/sft-#-run#"),
        ("Pod/eval-6ba7b810-9dad-11d1-80b4-00c04fd430c8", "Pod/eval-#"),
        ("Workflow/pipeline-k8x2d", "Workflow/pipeline-#"),
        ("Job/" + "7" * 400, "Job/#"),
        ("", ""),
    ],
)
def test_a_name_loses_what_differs_from_run_to_run(name: str, pattern: str) -> None:
    assert name_pattern(name) == pattern


def test_names_of_runs_of_one_kind_have_one_pattern() -> None:
    assert len({name_pattern(f"Job/nightly-{number}") for number in range(5000, 9000)}) == 1


@given(values=st.lists(TIMES, min_size=1, max_size=200), above=st.floats(0.0, 1e6))
def test_quantiles_are_ordered_and_within_what_was_seen(values: list[float], above: float) -> None:
    record = RunRecord()
    for value in values:
        record.add(value)
    kept = list(record.times)
    assert len(record) == min(len(values), run_record.MOST_TIMES)
    assert list(record.sorted) == sorted(kept)
    found = [record.quantile(share / 10) for share in range(11)]
    assert found == sorted(found, key=lambda each: each or 0.0)
    assert (found[0], found[-1]) == (min(kept), max(kept))
    longer = [value for value in kept if value > above]
    assert record.above(above) == len(longer)
    middle = record.quantile(0.5, above)
    assert middle is None if not longer else min(longer) <= (middle or 0.0) <= max(longer)


@given(runs=st.lists(st.tuples(KINDS, TIMES), max_size=60), asked=KINDS)
def test_a_forecast_is_a_range_around_what_is_expected(
    runs: list[tuple[UnitKind, float]], asked: UnitKind
) -> None:
    found = taught(*runs).forecast(asked)
    if len(runs) < run_history.ENOUGH_RUNS:
        assert found is None
    elif found is not None:
        times = [ran_s for _, ran_s in runs]
        assert found.least_s <= found.expected_s <= found.most_s
        assert min(times) * 0.999 <= found.expected_s <= max(times) * 1.001
        assert 0.0 <= found.held <= 1.0


def test_like_units_count_before_others() -> None:
    history = taught(*[(a_kind("Job/eval"), 300.0), (a_kind("Job/train-#"), 7200.0)] * 30)
    train, other = history.forecast(a_kind("Job/train-#")), history.forecast(a_kind("Job/new"))
    assert train is not None
    assert other is not None
    assert (train.level, train.expected_s) == (0, 7200.0)
    assert (train.least_s, train.most_s) == (7200.0, 7200.0)
    assert LEVELS[other.level] == (True, False, True, True)  # of the namespace, image and size
    assert (other.least_s, other.most_s) == (300.0, 7200.0)


def test_a_kind_with_too_few_runs_is_not_forecast() -> None:
    assert taught(*[(a_kind(), 600.0)] * 3).forecast(a_kind()) is None


@pytest.mark.parametrize("ran_s", [0.0, 59.0, -5.0, math.nan, math.inf, 4e9])
def test_a_run_of_no_length_is_no_example(ran_s: float) -> None:
    assert len(taught((a_kind(), ran_s))) == 0


def test_the_record_says_how_many_forecasts_held() -> None:
    history = taught(*[(a_kind(), 600.0)] * 40)
    found = history.forecast(a_kind())
    assert found is not None
    assert found.judged > 20
    assert found.held == pytest.approx(1.0)


def test_ranges_widen_until_as_many_hold_as_they_should() -> None:
    history = RunHistory()
    held = []
    for number in range(600):
        ran_s = 600.0 * 1.01**number  # each one is longer than all before
        found = history.forecast(a_kind())
        held.append(found is not None and found.least_s <= ran_s <= found.most_s)
        history.learn(a_kind(), ran_s)
    assert 0.8 < sum(held[200:]) / 400 < 0.97


def test_what_was_declared_is_compared_with_what_it_came_to() -> None:
    history = RunHistory()
    assert history.ratios(a_kind()) is None
    for _ in range(3):
        history.learn_declared(a_kind(), 60.0, 6000.0)
    assert history.ratios(a_kind()) == (100.0, 100.0, 100.0)
    assert history.ratios(a_kind("Job/renamed")) == (100.0, 100.0, 100.0)  # of the namespace
    assert history.ratios(a_kind(namespace="other")) is None


def test_a_namespace_with_many_names_loses_its_own_records_alone() -> None:
    history = taught(*[(a_kind(namespace="small"), 600.0)] * 10)
    for number in range(10_000):
        history.learn(a_kind(f"Job/{number}x{number}", "flood"), 900.0)
    assert len(history) < 3 * run_history.MOST_OF_NAMESPACE
    found = history.forecast(a_kind(namespace="small"))
    assert found is not None
    assert (found.level, found.expected_s) == (0, 600.0)


def test_all_namespaces_together_are_bounded() -> None:
    history = RunHistory()
    for number in range(3000):
        history.learn(a_kind(namespace=f"team-{number}"), 900.0)
    assert len(history) <= run_history.MOST_KINDS
    assert len(run_dumps.dump(history)) <= run_dumps.LARGEST_DUMP
    assert run_dumps.LARGEST_DUMP * 4 / 3 < 1_000_000  # as base64 it fits a ConfigMap


@given(runs=st.lists(st.tuples(KINDS, TIMES), max_size=40))
def test_a_dump_is_read_as_it_was_written(runs: list[tuple[UnitKind, float]]) -> None:
    history = taught(*runs)
    for kind, ran_s in runs:
        history.learn_declared(kind, 60.0, ran_s)
    data = run_dumps.dump(history)
    loaded = run_dumps.load(data)
    assert run_dumps.dump(loaded) == data
    for kind, _ in runs:
        assert loaded.ratios(kind) == history.ratios(kind)
        assert loaded.forecast(kind) == history.forecast(kind)


@given(data=st.data())
def test_a_damaged_dump_is_refused(data: st.DataObject) -> None:
    good = run_dumps.dump(taught(*[(a_kind(), 600.0)] * 5))
    at = data.draw(st.integers(0, len(good) - 1))
    flipped = bytes([*good[:at], good[at] ^ data.draw(st.integers(1, 255)), *good[at + 1 :]])
    for bad in (flipped, good[:at], good + b"x"):
        with pytest.raises(ValueError, match="damaged"):
            run_dumps.load(bad)


@given(body=st.binary(max_size=300))
def test_a_dump_with_a_right_sum_and_wrong_content_is_refused_or_bounded(body: bytes) -> None:
    """A ConfigMap can be edited: what is in it is checked, not only its sum."""
    made = b"fairlead run times 1\n" + body
    try:
        history = run_dumps.load(made + struct.pack("<I", crc32(made)))
    except ValueError:
        return
    assert len(history) <= len(body)


@pytest.mark.parametrize("value", [math.nan, math.inf, -1.0, 0.0])
def test_a_record_that_is_not_sound_is_refused(value: float) -> None:
    body = b"fairlead run times 1\n" + struct.pack("<8sH", b"space...", 1)
    body += struct.pack("<8s5dBf", b"kind....", 0, 0, 0, 0, 0, 1, value)
    with pytest.raises(ValueError, match="not sound"):
        run_dumps.load(body + struct.pack("<I", crc32(body)))


def test_a_width_that_is_no_width_is_refused() -> None:
    """Ranges are widened by a power of it: a large one would be too large a number."""
    body = b"fairlead run times 1\n" + struct.pack("<8sH", b"space...", 1)
    body += struct.pack("<8s5dBf", b"kind....", 0, 0, 0, 0, 1000.0, 1, 5.0)
    with pytest.raises(ValueError, match="not sound"):
        run_dumps.load(body + struct.pack("<I", crc32(body)))


def test_a_dump_that_is_too_large_is_not_read() -> None:
    with pytest.raises(ValueError, match="more than a dump has"):
        run_dumps.load(bytes(run_dumps.LARGEST_DUMP + 1))
