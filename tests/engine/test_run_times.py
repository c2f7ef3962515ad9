"""When units end, by what they declare."""

import pytest

from builders import a_node, a_pod, an_engine, see
from fairlead.engine import events
from fairlead.engine.engine import Engine
from fairlead.engine.instructions import AnnounceWarning
from fairlead.model.run_times import RunEnd, RunTime

STARTED = "2027-01-15T08:00:00Z"
WALL_S = 1_800_000_000.0  # the same moment


def an_engine_with(run_time: RunTime | None, **more: object) -> Engine:
    """A pod that started at 0 on the clock of the engine."""
    engine = an_engine(a_node("n1"))
    engine.wall_offset_s = WALL_S
    pod = a_pod("p", node="n1", run_time=run_time, **{"started": STARTED, **more})
    see(engine, pod, now=0.0)
    return engine


def end_of(engine: Engine, now: float) -> RunEnd | None:
    (uid,) = engine.cluster.holdings
    return engine.run_times.end_s(uid, now=now)


def test_an_estimate_gives_a_range() -> None:
    engine = an_engine_with(RunTime(1000.0, None, "annotation"))
    assert end_of(engine, 100.0) == RunEnd(500.0, 1000.0, 2000.0)


def test_a_pod_that_has_not_started_ends_later() -> None:
    engine = an_engine_with(RunTime(1000.0, None, "annotation"), started="")
    assert end_of(engine, 100.0) == RunEnd(600.0, 1100.0, 2100.0)


def test_a_pod_that_declares_nothing_runs_for_ever() -> None:
    assert end_of(an_engine_with(None), 100.0) is None
    assert end_of(an_engine_with(RunTime(problem="nonsense")), 100.0) is None


def test_a_pod_that_is_gone_ends_no_more() -> None:
    assert an_engine().run_times.end_s("unknown", now=0.0) is None


def test_a_bound_is_the_latest_end() -> None:
    engine = an_engine_with(RunTime(None, 600.0, "pod activeDeadlineSeconds"))
    assert end_of(engine, 100.0) == RunEnd(300.0, 600.0, 600.0, bounded=True)
    engine = an_engine_with(RunTime(400.0, 600.0, "annotation and pod activeDeadlineSeconds"))
    assert end_of(engine, 100.0) == RunEnd(200.0, 400.0, 600.0, bounded=True)


def test_a_pod_that_runs_longer_than_estimated_is_extended_a_few_times() -> None:
    engine = an_engine_with(RunTime(100.0, None, "annotation"))
    ends = [end_of(engine, float(now)) for now in range(0, 10_000, 10)]
    expected = [end.expected_s for end in ends if end]
    assert sorted(set(expected)) == [100.0 * 2**n for n in range(8)]
    assert expected == sorted(expected)
    assert [end.overdue for end in ends if end] == [now >= 100 for now in range(0, 10_000, 10)]
    assert all(
        end.earliest_s >= now and end.expected_s > now
        for now, end in zip(range(0, 10_000, 10), ends, strict=True)
        if end
    )


def test_a_bound_that_is_not_enforced_is_lost_when_it_passes() -> None:
    engine = an_engine_with(RunTime(None, 600.0, "time limit", enforced=False))
    assert end_of(engine, 599.0) == RunEnd(599.0, 600.0, 600.0, bounded=True)
    assert end_of(engine, 600.0) == RunEnd(600.0, 1200.0, 1200.0, overdue=True)


def test_a_kubelet_has_a_minute_to_end_a_pod() -> None:
    engine = an_engine_with(RunTime(None, 600.0, "pod activeDeadlineSeconds"))
    assert end_of(engine, 630.0) == RunEnd(630.0, 630.0, 630.0, bounded=True, overdue=True)
    assert end_of(engine, 700.0) == RunEnd(700.0, 1200.0, 1200.0, overdue=True)


@pytest.mark.parametrize("started", ["2099-01-01T00:00:00Z", "nonsense"])
def test_a_clock_of_a_node_that_is_wrong_starts_a_pod_now_at_the_latest(started: str) -> None:
    engine = an_engine_with(RunTime(100.0, None, "annotation"), started=started)
    assert end_of(engine, 50.0) == RunEnd(100.0, 150.0, 250.0)


def test_a_gang_runs_as_long_as_the_longest_of_its_pods() -> None:
    engine = an_engine()
    known = [RunTime(60.0), RunTime(90.0, 100.0), RunTime(30.0, 900.0)]
    unit = _Several([a_pod(f"p{n}", run_time=each) for n, each in enumerate(known)])
    assert engine.run_times.of(unit) == known[1]
    assert engine.run_times.quantiles(unit) == (45.0, 90.0, 100.0)
    unit.pods.append(a_pod("service"))
    assert engine.run_times.of(unit) is None


class _Several:
    def __init__(self, pods: list) -> None:
        self.pods = pods


def test_a_wrong_run_time_is_reported_once() -> None:
    engine = an_engine(a_node("n1"))
    pod = a_pod("p", run_time=RunTime(problem="nonsense"))
    made = engine.handle(events.PodSeen(pod), now=0.0)
    assert made == [AnnounceWarning(pod, "InvalidRunTime", "nonsense")]
    assert engine.handle(events.PodSeen(pod), now=1.0) == []
