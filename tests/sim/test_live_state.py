"""A simulation that begins with the state of a real cluster."""

from builders import a_node, a_pod
from fairlead.apps.config.profiles import built_in
from fairlead.engine.engine import Engine
from fairlead.engine.events import NodeSeen, PodSeen
from fairlead.model.run_times import RunTime
from fairlead.queue.retry_times import ONLY_ON_CHANGE
from fairlead.sim.virtual.live_state import AssumedRunTimes, begin_with
from gang_world import a_gang

NOW = 50.0


def an_engine(*pods: object) -> Engine:
    engine = Engine({"gpu-scheduler": built_in("gpu-scheduler")}, retries=ONLY_ON_CHANGE)
    for name in ("n1", "n2"):
        engine.handle(NodeSeen(a_node(name, gpus=4)), now=NOW)
    for pod in pods:
        engine.handle(PodSeen(pod), now=NOW)
    return engine


def test_waiting_units_start_when_running_ones_end_as_expected() -> None:
    engine = an_engine(
        a_pod("short", node="n1", gpus=4, run_time=RunTime(100.0)),
        a_pod("long", node="n2", gpus=4, run_time=RunTime(1000.0)),
        a_pod("waits", gpus=4, run_time=RunTime(10.0)),
        *a_gang("both", 2, gpus=4),
    )
    cluster = begin_with(engine, now_s=NOW, assumed=AssumedRunTimes(waiting_s=5.0))
    records = cluster.run().records
    assert records["default/waits"].start_s == NOW + 100
    assert records["default/waits"].nodes == ["n1"]
    gang = records["fairlead/default/both"]
    assert (gang.start_s, gang.end_s) == (NOW + 1000, NOW + 1005)
    assert sorted(gang.nodes) == ["n1", "n2"]


def test_pods_of_which_nothing_is_known_run_for_ever_or_as_assumed() -> None:
    pods = [
        a_pod("service", node="n1", gpus=4), a_pod("other", node="n2", gpus=4),
        a_pod("waits", gpus=1),
    ]  # fmt: skip
    for_ever = begin_with(an_engine(*pods), now_s=NOW).run()
    assert for_ever.records["default/waits"].start_s is None
    assumed = begin_with(an_engine(*pods), now_s=NOW, assumed=AssumedRunTimes(60.0, 60.0)).run()
    assert assumed.records["default/waits"].start_s == NOW + 60


def test_it_uses_gpus_that_are_only_counted() -> None:
    engine = an_engine(a_pod("runs", node="n1", gpus=4, run_time=RunTime(10.0)))
    cluster = begin_with(engine, now_s=NOW)
    assert (cluster.result.meter.total_gpus, cluster.result.meter.used_gpus) == (8, 4)
