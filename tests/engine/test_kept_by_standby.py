"""What is kept by one scheduler, as a standby follows it, and as the scheduler itself sees it."""

from dataclasses import replace

import pytest
from test_device_rooms import an_engine, ask, freed, gone, run, show, victims
from test_gang_device_rooms import prepared
from test_kept_after_restart import taken_over, written
from test_kept_devices import claims, evicted
from test_replayed_machines import KeptLog, check, recorded

from builders import decide, see
from claim_objects import a_claiming_pod
from fairlead.engine import events
from fairlead.engine.engine import Engine
from fairlead.engine.kept_records import KeptRecords
from fairlead.model.kept_record import KeptDevice, KeptRecord
from fairlead.model.pods import Pod

ONE = KeptRecord(1, (), (KeptDevice("gpu.nvidia.com", "n1", "gpu-0"),))
OTHER = KeptRecord(1, (), (KeptDevice("gpu.nvidia.com", "n1", "gpu-1"),))


def records_of(engine: Engine) -> KeptRecords:
    return engine._parts.kept_records


def a_pod_with(kept: KeptRecord | None, nominated: str = "n1") -> Pod:
    return a_claiming_pod("high", uid="u", nominated=nominated, kept=kept, gates=("not-yet",))


def kept_for(engine: Engine, pod: Pod) -> list[str]:
    return [each.device for each in engine.cluster.claims.kept.devices(pod.uid)]


@pytest.mark.parametrize(
    ("seen", "kept"),
    [
        ([None, ONE], ["gpu-0"]),
        ([ONE, OTHER], ["gpu-1"]),
        ([ONE, None], []),
        ([ONE, None, OTHER], ["gpu-1"]),
    ],
)
def test_a_standby_knows_the_newest_record(seen: list[KeptRecord | None], kept: list[str]) -> None:
    engine = an_engine("n1")
    for record in seen:
        see(engine, a_pod_with(record))
    decide(engine, now=1.0)
    assert kept_for(engine, a_pod_with(ONE)) == kept


def test_a_record_counts_no_more_when_the_pod_is_not_nominated() -> None:
    engine = an_engine("n1")
    see(engine, a_pod_with(ONE), a_pod_with(ONE, nominated=""))
    decide(engine, now=1.0)
    assert not engine.cluster.claims.kept


@pytest.mark.parametrize("end", ["bound", "deleted", "gone", "finished"])
def test_a_standby_does_not_gather_records_of_pods_that_wait_no_more(end: str) -> None:
    engine = an_engine("n1")
    pod = a_pod_with(ONE)
    see(engine, pod)
    assert records_of(engine).unread
    if end == "gone":
        gone(engine, pod, now=0.5)
    else:
        ends = {"bound": {"node": "n1"}, "deleted": {"deleting": True},
                "finished": {"node": "n1", "finished": True}}  # fmt: skip
        see(engine, replace(pod, **ends[end]))
    assert not records_of(engine).unread


def test_what_the_leader_wrote_changes_nothing_when_the_watch_shows_it() -> None:
    """It knows better: the devices were taken by a more important pod since."""
    engine = an_engine("n1")
    low, _ = run(engine, "low", "gpu-0"), run(engine, "other", "gpu-1", priority=10)
    made = ask(engine)
    (high,) = [pod for entry in engine.queue.entries() for pod in entry.unit.pods]
    evicted(engine, made, low, now=0.2)
    freed(engine, "low", now=0.3)
    vip = claims(engine, "vip", priority=99)
    assert prepared(decide(engine, now=0.4)) == {"vip": "n1"}
    engine.handle(events.PrepareFailed(vip.uid, "not now"), now=0.5)
    gone(engine, vip, now=0.6)
    assert not engine.cluster.claims.kept

    see(engine, written(made, high), now=0.7)

    assert not records_of(engine)
    decide(engine, now=0.7)
    assert not engine.cluster.claims.kept.devices(high.uid)


def test_records_that_are_not_read_yet_may_still_change() -> None:
    """It takes several turns to read them, and the watch goes on between these."""
    engine = an_engine("n1")
    records = records_of(engine)
    assert records.restore(now=0.0) is None
    see(engine, a_pod_with(ONE))
    see(engine, a_pod_with(OTHER))
    decide(engine, now=1.0)
    assert kept_for(engine, a_pod_with(ONE)) == ["gpu-1"]
    see(engine, a_pod_with(ONE))
    decide(engine, now=2.0)
    assert kept_for(engine, a_pod_with(ONE)) == ["gpu-1"], "it was read already"


def test_what_a_standby_does_when_it_takes_over_is_repeated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    logs: list[KeptLog] = []
    monkeypatch.setattr("test_kept_after_restart.Engine", lambda *a, **k: recorded(logs, *a, **k))
    leader = an_engine("n1")
    low, _ = run(leader, "low", "gpu-0"), run(leader, "other", "gpu-1", priority=10)
    made = ask(leader)
    evicted(leader, made, low, now=0.2)
    after = taken_over(leader, made)
    assert not victims(decide(after, now=1.0))
    freed(after, "low", now=3.0)
    assert prepared(decide(after, now=4.0)) == {"high": "n1"}
    (log,) = logs
    check(log)


def test_an_engine_that_is_built_again_reads_the_records_again() -> None:
    """After an internal error. It has led before."""
    engine = an_engine("n1")
    see(engine, a_pod_with(None))
    decide(engine)
    slices, row = [*engine.cluster.claims.inventory.slices()], engine.cluster.node_at(0)
    engine.forget()
    engine.handle(events.NodeSeen(row), now=1.0)
    show(engine, *slices)
    see(engine, a_pod_with(None), a_pod_with(ONE), now=1.0)
    decide(engine, now=1.0)
    assert kept_for(engine, a_pod_with(ONE)) == ["gpu-0"]
