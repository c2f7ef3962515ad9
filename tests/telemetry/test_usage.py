"""What pods made of their GPUs: sums that hold whatever happens, and what follows for advice."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.model.machines import geometry_of
from fairlead.telemetry.rightsizing import ENOUGH_S, PodAllocation, advise, span
from fairlead.telemetry.usage import IDLE, LONGEST_GAP_S, Sample, Use

H200_MIB = 143771
shares = st.floats(0, 1, allow_nan=False)


@st.composite
def samples(draw: st.DrawFn) -> Sample:
    held = draw(st.sampled_from([0.1, 0.5, 1.0, 2.0, 8.0]))
    measured = held * draw(st.sampled_from([0.0, 0.5, 1.0]))
    memory = draw(st.none() | st.floats(0, 1e5))
    return Sample(held, measured, draw(shares) * measured * 2, memory)


@given(st.lists(st.tuples(st.floats(0, 300), samples()), max_size=30))
def test_no_more_is_used_wasted_or_idle_than_was_held_and_watched(looks):
    use, now_s = Use(0.0), 0.0
    for passed_s, sample in looks:
        now_s += passed_s
        use.add(sample, now_s)
    assert 0 <= use.watched_s <= now_s + 1e-6
    assert use.measured_s <= use.held_s + 1e-6
    assert 0 <= use.idle_s <= use.measured_s + 1e-6
    assert 0 <= use.wasted_s <= use.measured_s + 1e-6
    assert use.wasted_s >= use.measured_s - use.used_s - 1e-6
    assert use.idle_since_s is None or 0 <= use.idle_since_s <= now_s
    levels = [use.level_for(share) for share in (0.1, 0.5, 0.95, 1.0)]
    assert levels == sorted(levels, key=lambda level: level or 0.0)
    assert (levels[0] is None) == (use.watched_s == 0)


@given(st.lists(samples(), min_size=1, max_size=20), st.integers(1, 19))
def test_it_does_not_matter_how_often_somebody_looks_while_nothing_changes(kept, parts):
    """Each sample holds for ten seconds, looked at once or `parts` times."""
    once, often = Use(0.0), Use(0.0)
    for number, sample in enumerate(kept):
        once.add(sample, 10.0 * (number + 1))
        for part in range(parts):
            often.add(sample, 10.0 * (number + (part + 1) / parts))
    for name in ("watched_s", "held_s", "measured_s", "used_s", "wasted_s", "idle_s"):
        assert getattr(once, name) == pytest.approx(getattr(often, name))


def watched(*samples: Sample, each_s: float = 60.0) -> Use:
    use = Use(0.0)
    for number, sample in enumerate(samples):
        use.add(sample, each_s * (number + 1))
    return use


def test_a_long_silence_is_held_but_not_watched():
    use = watched(Sample(2.0, 2.0, 1.0), each_s=LONGEST_GAP_S + 1)
    assert use.held_s == 2 * (LONGEST_GAP_S + 1)
    assert (use.watched_s, use.used_s, use.wasted_s, use.mean) == (0, 0, 0, None)


def test_who_does_nothing_is_idle_since_it_began_and_no_longer_once_it_works():
    use = watched(Sample(1, 1, 0.9), Sample(1, 1, 0.0), Sample(1, 1, IDLE / 2))
    assert (use.idle_since_s, use.idle_s) == (60.0, 120.0)
    use.add(Sample(1, 1, IDLE), 240.0)
    assert use.idle_since_s is None


def test_an_older_look_changes_nothing():
    use = watched(Sample(1, 1, 0.5))
    use.add(Sample(8, 8, 8), 10.0)
    assert (use.held_s, use.latest.held) == (60.0, 1)


# -- advice ----------------------------------------------------------------------------------------


def long(*samples: Sample) -> Use:
    return watched(*(samples * (int(ENOUGH_S / 60 / len(samples)) + 1)))


WHOLE_H200 = PodAllocation(1, gpu_memory_mib=H200_MIB, mig=geometry_of("NVIDIA H200", H200_MIB))


@pytest.mark.parametrize(
    ("use", "having", "kind", "words"),
    [
        (watched(Sample(1.0)), WHOLE_H200, "unmeasured", "no readings"),
        (watched(Sample(1, 1, 1)), WHOLE_H200, "too-early", "measured for 1 min; advice after 30"),
        (long(Sample(1, 1, 0.2, guessed=True)), WHOLE_H200, "guessed", "per-pod usage is not"),
        (long(Sample(1, 1, 0.0, 900)), WHOLE_H200, "idle", "idle for 31 min"),
        (long(Sample(4, 4, 2.0, 900, 0b0101)), PodAllocation(4), "fewer-gpus", "2 of its 4 GPUs"),
        (long(Sample(4, 4, 2.0, 900, 0b1111)), PodAllocation(4), "right", "has what it needs"),
        (
            long(Sample(1, 1, 0.2, 20_000, 1)),
            WHOLE_H200,
            "smaller",
            "0.3 of a GPU with 24 GiB would have been enough, or a MIG 3g.71gb",
        ),
        (
            long(Sample(1, 1, 0.1, 20_000, 1)),
            WHOLE_H200,
            "smaller",
            "0.2 of a GPU with 24 GiB would have been enough, or a MIG 2g.35gb",
        ),
        (long(Sample(1, 1, 0.9, 20_000, 1)), WHOLE_H200, "right", "has what it needs"),
        (long(Sample(1, 1, 0.1, 130_000, 1)), WHOLE_H200, "right", "has what it needs"),
        (long(Sample(1, 1, 0.1, None, 1)), WHOLE_H200, "right", "has what it needs"),
        (
            long(Sample(0.5, 0.5, 0.1, 4_000, 1)),
            PodAllocation(1, whole=False, milli=500, memory_mib=40_000, gpu_memory_mib=80_000),
            "smaller",
            "0.2 of a GPU with 5 GiB would have been enough",
        ),
        (
            long(Sample(0.5, 0.5, 0.5, 38_000, 1)),
            PodAllocation(1, whole=False, milli=500, memory_mib=40_000, gpu_memory_mib=80_000),
            "right",
            "has what it needs",
        ),
        (
            long(Sample(0.5, 0.5, 0.06, 10_000, 1)),
            PodAllocation(
                1, whole=False, profile="3g.71gb", gpu_memory_mib=H200_MIB, mig=WHOLE_H200.mig
            ),
            "smaller",
            "a MIG 1g.18gb would have been enough",
        ),
    ],
    ids=str,
)  # fmt: skip
def test_advice(use, having, kind, words):
    advice = advise(use, having)
    assert (advice.kind, words in advice.text) == (kind, True), advice


@given(shares, st.floats(0, H200_MIB))
def test_what_is_advised_would_have_been_enough(busy, memory_mib):
    """By the figures that it goes by: all but a twentieth of the time, and the most memory."""
    advice = advise(long(Sample(1, 1, busy, memory_mib, 1)), WHOLE_H200)
    if advice.kind != "smaller":
        return
    assert busy <= advice.share <= 1
    assert memory_mib <= advice.memory_mib <= H200_MIB
    kinds = {kind.name: kind for kind in WHOLE_H200.mig}
    if advice.profile:
        kind = kinds[advice.profile]
        assert kind.compute / 7 >= busy
        assert kind.slices / 8 * H200_MIB >= memory_mib


def test_a_short_rest_does_not_make_a_busy_pod_smaller():
    """Busy for a tenth of the time is more than may be cut off."""
    samples = [Sample(1, 1, 0.1, 100, 1)] * 9 + [Sample(1, 1, 1.0, 100, 1)]
    assert advise(long(*samples), WHOLE_H200).kind == "right"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (59, "59 s"), (60, "1 min"), (7199, "120 min"), (7200, "2 h"), (200000, "2 d")],
)
def test_spans_read_well(seconds, text):
    assert span(seconds) == text
