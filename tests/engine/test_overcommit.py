"""Shares beyond a GPU: only while it is measured to be quiet, and never of memory."""

from dataclasses import replace

import pytest

from builders import SCHEDULER, a_node, a_pod, decide, see
from fairlead.apps.config.config import build_profiles, parse
from fairlead.apps.config.profiles import built_in, overcommitted
from fairlead.engine.engine import Engine
from fairlead.engine.events import NodeSeen, PodGone, ReadingsTaken
from fairlead.engine.instructions import AnnounceFailure, Bind, Evict
from fairlead.model.errors import ConfigError
from fairlead.model.gpus import Gpu, GpuRequest, Inventory, MigProfile
from fairlead.model.readings import GpuReading, NodeReadings
from fairlead.placement.explain import explain
from fairlead.placement.place import Placement
from fairlead.plugins.gpu_fit import Overcommitting
from fairlead.plugins.registry import Registry
from fairlead.testing import check_plugin

PROFILE = overcommitted(built_in("alnair-cost-saving"), 1.5, 0.8)
MIG = (MigProfile("1g.10gb", 1, (0, 1, 2)),)


def share(milli: int, mib: int = 1000) -> GpuRequest:
    return GpuRequest(1, False, milli, mib, dialect="fairlead")


def an_engine(*nodes: str, profile=PROFILE, **gpu: object) -> Engine:
    engine = Engine({SCHEDULER: profile})
    for name in nodes or ("n1",):
        listed = (Gpu(f"GPU-{name}", 0, "H100", 80_000, **gpu),)
        gpus = Inventory(listed, dialects=frozenset({"fairlead"}))
        engine.handle(NodeSeen(a_node(name, gpus=1, inventory=gpus)), now=0.0)
    return engine


def measure(engine: Engine, now: float, **busy: float) -> None:
    told = tuple(NodeReadings(n, now, {"0": GpuReading(b)}) for n, b in busy.items())
    engine.handle(ReadingsTaken(told), now=now)


def tried(engine: Engine, name: str, ask: GpuRequest, now: float, **more: object) -> str:
    """The node it went to, or why not."""
    counted = ask.gpus if ask.whole else 0
    pod = a_pod(name, uid=name, gpus=counted, gpu_request=ask, **more)
    see(engine, pod, now=now)
    for made in decide(engine, now=now):
        if isinstance(made, Bind) and made.pod.uid == name:
            return made.node
        if isinstance(made, AnnounceFailure) and made.pod.uid == name:
            return made.message
    return ""


def fill(engine: Engine, now: float, *names: str) -> None:
    for name in names:
        assert tried(engine, name, share(500), now) == "n1"


def test_a_quiet_gpu_takes_shares_up_to_the_limit() -> None:
    engine = an_engine()
    measure(engine, 1.0, n1=0.3)
    fill(engine, 2.0, "a", "b", "c")
    assert "1 node(s) had no GPU with a large enough free share" in tried(
        engine, "d", share(500), 3.0
    )
    assert engine.cluster.columns.devices.milli_free[0, 0] == -500


@pytest.mark.parametrize("ask", [GpuRequest(1), share(500, 79_000)])
def test_whole_gpus_and_memory_are_never_given_twice(ask) -> None:
    engine = an_engine()
    measure(engine, 1.0, n1=0.0)
    fill(engine, 2.0, "a", "b")
    assert "0/1 nodes are available" in tried(engine, "c", ask, 3.0)


def test_slices_and_the_gpus_they_are_cut_from_are_never_overcommitted() -> None:
    engine = an_engine(mig=MIG)
    measure(engine, 1.0, n1=0.0)
    slices = GpuRequest(3, False, 0, profile="1g.10gb")
    assert tried(engine, "a", slices, 2.0) == "n1"
    assert "no room for the MIG slices" in tried(engine, "b", replace(slices, gpus=1), 3.0)
    assert "0/1 nodes are available" in tried(engine, "c", share(100), 3.0)


def test_without_the_key_nothing_is_overcommitted() -> None:
    engine = an_engine(profile=built_in("alnair-cost-saving"))
    measure(engine, 1.0, n1=0.0)
    fill(engine, 2.0, "a", "b")
    assert "large enough free share" in tried(engine, "c", share(500), 3.0)


def told_of_gpu(engine: Engine, name: str, ask: GpuRequest) -> str:
    pod = a_pod(name, gpu_request=ask)
    (node,) = explain(Placement(PROFILE, engine.cluster), engine.cluster, pod).nodes
    return node.detail


def test_a_busy_gpu_takes_no_more_and_says_how_busy_it_is() -> None:
    engine = an_engine()
    measure(engine, 1.0, n1=0.85)
    fill(engine, 2.0, "a", "b")
    assert "1 node(s) had no GPU quiet enough to be overcommitted" in tried(
        engine, "c", share(500), 3.0
    )
    assert told_of_gpu(engine, "d", share(500)) == (
        "requested 0.5 of a GPU, the largest free share is 0 while 85% busy, "
        "overcommitted below 80%"
    )


def test_a_gpu_that_nobody_measures_is_not_overcommitted() -> None:
    engine = an_engine()
    fill(engine, 2.0, "a", "b")
    assert "quiet enough to be overcommitted" in tried(engine, "c", share(500), 3.0)
    assert told_of_gpu(engine, "d", share(500)).endswith(
        "the largest free share is 0 and its utilisation was not measured in the last minute"
    )


def test_old_readings_let_nobody_join_and_those_who_are_there_stay() -> None:
    engine = an_engine()
    measure(engine, 1.0, n1=0.1)
    fill(engine, 2.0, "a", "b", "c")
    engine.handle(PodGone(engine.cluster.holdings["c"].pod), now=3.0)
    engine.handle(ReadingsTaken(), now=62.0)
    assert "quiet enough to be overcommitted" in tried(engine, "d", share(500), 63.0)
    assert set(engine.cluster.holdings) == {"a", "b"}


def test_a_pod_that_waits_for_quiet_is_woken_by_it() -> None:
    engine = an_engine()
    measure(engine, 1.0, n1=1.0)
    fill(engine, 2.0, "a", "b")
    assert "quiet enough" in tried(engine, "c", share(500), 3.0)
    measure(engine, 600.0, n1=0.1)
    made = decide(engine, now=620.0)
    assert [step.pod.uid for step in made if isinstance(step, Bind)] == ["c"]


def test_no_gpu_is_overcommitted_while_another_has_room() -> None:
    engine = an_engine("n1", "n2")
    measure(engine, 1.0, n1=0.0, n2=0.9)
    fill(engine, 2.0, "a", "b")
    assert tried(engine, "c", share(500), 3.0) == "n2"  # though packing would stay on n1
    assert tried(engine, "d", share(500), 3.0) == "n2"
    assert tried(engine, "e", share(500), 3.0) == "n1"


def test_somebody_more_important_evicts_no_more_than_the_limit_needs() -> None:
    engine = an_engine()
    measure(engine, 1.0, n1=0.1)
    fill(engine, 2.0, "a", "b", "c")
    see(engine, a_pod("vip", gpu_request=share(500), priority=10), now=3.0)
    (evict,) = [made for made in decide(engine, now=3.0) if isinstance(made, Evict)]
    assert len(evict.victims) == 1


def test_the_rule_keeps_the_contract_of_plugins() -> None:
    check_plugin(Overcommitting(1.5, 0.6))


def configured(text: str):
    profiles = f"profiles: [{{schedulerName: x, {text}}}]"
    return build_profiles(parse(profiles).profiles, Registry())["x"]


def test_the_key_turns_it_on_with_its_two_numbers() -> None:
    fit = configured("overcommit: {limit: 2, highWater: 0.6}").gpu_details
    assert fit == Overcommitting(2.0, 0.6)
    assert configured("overcommit: {}").gpu_details == Overcommitting(1.5, 0.8)
    assert not isinstance(configured("profile: spread").gpu_details, Overcommitting)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("overcommit: {limit: 0.5}", "limit"),
        ("overcommit: {highWater: 80}", "highWater"),
        ("overcommit: {highwater: 0.8}", "highWater"),
        ("profile: default-scheduler, overcommit: {}", "overcommit needs the filter GpuFit"),
    ],
)
def test_what_makes_no_sense_is_refused(text, complaint) -> None:
    with pytest.raises(ConfigError, match=complaint):
        configured(text)
