"""When units end, by what they declare."""

from dataclasses import replace
from datetime import UTC, datetime
from itertools import count

import pytest

from builders import a_node, a_pod, an_engine, see
from fairlead.engine import events, run_times
from fairlead.engine.engine import Engine
from fairlead.engine.instructions import AnnounceWarning
from fairlead.model.gpus import GpuRequest
from fairlead.model.pods import Pod
from fairlead.model.run_times import RunEnd, RunTime
from fairlead.queue.units import PodUnit

STARTED = "2027-01-15T08:00:00Z"
WALL_S = 1_800_000_000.0  # the same moment
TICKS = count(1)


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
    assert end_of(engine, 600.0) == RunEnd(600.0, 1200.0, 2400.0, overdue=True)


def test_a_kubelet_has_a_minute_to_end_a_pod() -> None:
    engine = an_engine_with(RunTime(None, 600.0, "pod activeDeadlineSeconds"))
    assert end_of(engine, 630.0) == RunEnd(630.0, 630.0, 630.0, bounded=True, overdue=True)
    assert end_of(engine, 700.0) == RunEnd(700.0, 1200.0, 2400.0, overdue=True)


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


# -- what is learned -----------------------------------------------------------------------------


def a_run(engine: Engine, name: str, ran_s: float, **more: object) -> Pod:
    """A pod with a GPU ran for so long, and has ended."""
    pod = a_gpu_pod(name, **more)
    now = next(TICKS) * 1e6
    started = datetime.fromtimestamp(WALL_S + now, UTC).isoformat()
    pod = replace(pod, node="n1", started=started)
    engine.handle(events.PodSeen(pod), now=now)
    ended = replace(pod, finished=True, failed=bool(more.get("failed")))
    engine.handle(events.PodSeen(ended), now=now + ran_s)
    return pod


def a_gpu_pod(name: str, **more: object) -> Pod:
    fields = {"controller": f"Job/{name}", "gpu_request": GpuRequest(1), "images": ("image:1",)}
    more = {key: value for key, value in more.items() if key != "failed"}
    return a_pod(name, **{**fields, **more})


def a_taught_engine(*ran_s: float, **more: object) -> Engine:
    engine = an_engine(a_node("n1"))
    engine.wall_offset_s = WALL_S
    for number, each in enumerate(ran_s):
        a_run(engine, f"train-{number}", each, **more)
    return engine


def known_of(engine: Engine, **more: object) -> RunTime | None:
    return engine.run_times.of(PodUnit(a_gpu_pod("train-99", **more)))


def test_what_like_units_took_is_expected() -> None:
    engine = a_taught_engine(*[3600.0] * 4)
    assert known_of(engine) == RunTime(3600.0, None, "learned")
    bounded = RunTime(None, 7200.0, "pod activeDeadlineSeconds")
    both = RunTime(3600.0, 7200.0, "learned and pod activeDeadlineSeconds")
    assert known_of(engine, run_time=bounded) == both


def test_failed_short_and_deleted_runs_are_no_example() -> None:
    assert known_of(a_taught_engine(*[3600.0] * 9, failed=True)) is None
    assert known_of(a_taught_engine(*[30.0] * 9)) is None
    engine = an_engine(a_node("n1"))
    for number in range(9):
        pod = a_gpu_pod(f"train-{number}", node="n1", started=STARTED, deleting=True)
        engine.handle(events.PodSeen(pod), now=0.0)
        engine.handle(events.PodGone(pod), now=3600.0)
    assert known_of(engine) is None


def test_services_and_pods_without_gpus_are_not_learned_from() -> None:
    engine = a_taught_engine(*[3600.0] * 9)
    assert known_of(engine, controller="ReplicaSet/web-7d4b9c6f5") is None
    assert engine.run_times.of(PodUnit(a_pod("train-99", cpu=1))) is None


def test_a_pod_that_was_seen_after_its_end_teaches_nothing() -> None:
    engine = an_engine(a_node("n1"))
    for number in range(9):
        pod = a_gpu_pod(f"train-{number}", node="n1", started=STARTED, finished=True)
        engine.handle(events.PodSeen(pod), now=1e9)
    assert known_of(engine) is None


def test_a_gang_is_one_example() -> None:
    engine = an_engine(a_node("n1"))
    kind = engine.run_times.kind_of(a_gpu_pod("train-1"))
    assert kind is not None
    for _ in range(100):
        engine.handle(events.RunEnded(kind, 600.0, succeeded=True, gang="g 12:00"), now=0.0)
    assert known_of(engine) is None
    for number in range(4):
        engine.handle(events.RunEnded(kind, 600.0, succeeded=True, gang=f"g {number}"), now=0.0)
    assert known_of(engine) == RunTime(600.0, None, "learned")


def test_the_gangs_that_were_learned_from_are_bounded() -> None:
    engine = an_engine(a_node("n1"))
    kind = engine.run_times.kind_of(a_gpu_pod("train-1"))
    assert kind is not None
    for number in range(3000):
        run = events.RunEnded(kind, 600.0, succeeded=True, gang=f"g {number}")
        engine.handle(run, now=0.0)
    assert len(engine.run_times._gangs) == run_times.MOST_GANGS


def test_an_owner_whose_estimates_were_wrong_gains_nothing_by_them() -> None:
    """A hundred times too short, on purpose: after three runs the estimate is what they took."""
    lie = RunTime(60.0, None, "annotation")
    engine = a_taught_engine(*[6000.0] * 3, run_time=lie)
    assert known_of(engine, run_time=lie) == RunTime(6000.0, None, "annotation, corrected")
    renamed = replace(a_gpu_pod("other"), run_time=lie)
    assert engine.run_times.of_pod(renamed) == RunTime(6000.0, None, "annotation, corrected")
    elsewhere = replace(renamed, namespace="other")
    assert engine.run_times.of_pod(elsewhere) == lie


def test_to_fail_in_the_end_does_not_hide_a_wrong_estimate() -> None:
    lie = RunTime(60.0, None, "annotation")
    engine = a_taught_engine(*[6000.0] * 3, run_time=lie, failed=True)
    assert known_of(engine, run_time=lie) == RunTime(6000.0, None, "annotation, corrected")


def test_to_be_deleted_in_the_end_does_not_hide_a_wrong_estimate() -> None:
    lie = RunTime(60.0, None, "annotation")
    engine = an_engine(a_node("n1"))
    engine.wall_offset_s = WALL_S
    for number in range(3):
        pod = a_gpu_pod(f"train-{number}", node="n1", started=STARTED, run_time=lie)
        engine.handle(events.PodSeen(pod), now=0.0)
        engine.handle(events.PodGone(replace(pod, deleting=True)), now=6000.0)
    assert known_of(engine, run_time=lie) == RunTime(6000.0, None, "annotation, corrected")


def test_estimates_that_are_about_right_are_left_alone() -> None:
    said = RunTime(6000.0, None, "annotation")
    engine = a_taught_engine(5000.0, 6000.0, 7000.0, run_time=said)
    assert known_of(engine, run_time=said) == said
    unit = PodUnit(a_gpu_pod("train-99", run_time=said))
    assert engine.run_times.quantiles(unit) == pytest.approx((5000.0, 6000.0, 7000.0))


def test_a_run_that_outlasts_most_others_is_expected_to_take_what_the_rest_took() -> None:
    engine = a_taught_engine(*[1000.0] * 10, *[9000.0, 10_000.0, 11_000.0, 12_000.0])
    now = next(TICKS) * 1e6
    started = datetime.fromtimestamp(WALL_S + now, UTC).isoformat()
    pod = a_gpu_pod("train-99", node="n1", started=started)
    engine.handle(events.PodSeen(pod), now=now)
    ends = [engine.run_times.end_s(pod.uid, now=now + ran_s) for ran_s in range(0, 60_000, 100)]
    expected = [round(end.expected_s - now) for end in ends if end]
    assert expected == sorted(expected)
    assert sorted(set(expected)) == [1000, 10_500, 16_000, 32_000, 64_000]
    assert all(end.expected_s > now + 100 * n for n, end in enumerate(ends) if end)


def test_what_was_learned_survives_a_restart_and_a_defect() -> None:
    engine = a_taught_engine(*[3600.0] * 4)
    engine.forget()
    again = an_engine(a_node("n1"))
    again.handle(events.RunTimesLoaded(engine.run_times.dump()), now=0.0)
    assert known_of(engine) == known_of(again) == RunTime(3600.0, None, "learned")
    with pytest.raises(ValueError, match="damaged"):
        again.run_times.load(b"nonsense")
    assert known_of(again) == RunTime(3600.0, None, "learned")
