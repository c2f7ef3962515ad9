"""Scheduling follows what GPUs are doing, and only where a profile says so."""

import pytest

from builders import SCHEDULER, a_node, a_pod, decide, see
from fairlead.apps.config.profiles import NAMES, built_in
from fairlead.cluster.aspects import Aspect
from fairlead.engine.engine import Engine
from fairlead.engine.events import NodeSeen, ReadingsTaken
from fairlead.engine.instructions import AnnounceFailure, Bind, Decided
from fairlead.model.gpus import Gpu, GpuRequest, Inventory
from fairlead.model.loads import PodLoad
from fairlead.model.readings import GpuReading, NodeReadings
from fairlead.placement.profile import Profile
from fairlead.plugins.low_utilisation import LowUtilisation
from fairlead.plugins.quiet_neighbours import QuietNeighbours
from fairlead.plugins.registry import FILTERS

HALF = GpuRequest(1, False, 500, memory_mib=10_000, dialect="fairlead")


def a_listed_node(name: str, gpus: int = 2, model: str = "H100"):
    listed = tuple(Gpu(f"GPU-{name}-{i}", i, model, 80_000) for i in range(gpus))
    return a_node(name, gpus=gpus, inventory=Inventory(listed, dialects=frozenset({"fairlead"})))


def an_engine(*scores, nodes=("n1", "n2"), profile: Profile | None = None) -> Engine:
    filters = tuple(kind() for kind in FILTERS)
    chosen = profile or Profile("by-load", filters, tuple((score, 1.0) for score in scores))
    engine = Engine({SCHEDULER: chosen})
    for name in nodes:
        engine.handle(NodeSeen(a_listed_node(name)), now=0.0)
    return engine


def measure(engine: Engine, now: float, **busy: list[float]) -> None:
    told = tuple(
        NodeReadings(node, now, {str(i): GpuReading(share) for i, share in enumerate(shares)})
        for node, shares in busy.items()
    )
    engine.handle(ReadingsTaken(told), now=now)


def placed(engine: Engine, pod, now: float):
    see(engine, pod, now=now)
    (bind,) = [made for made in decide(engine, now=now) if isinstance(made, Bind)]
    return bind


def test_pods_go_where_it_is_quiet_and_elsewhere_when_that_changes() -> None:
    engine = an_engine(LowUtilisation())
    measure(engine, 1.0, n1=[0.1, 0.9], n2=[0.5, 0.5])
    first = placed(engine, a_pod("a", gpu_request=HALF), 2.0)
    assert (first.node, first.grant.uses[0].uuid) == ("n1", "GPU-n1-0")
    measure(engine, 200.0, n1=[0.9, 0.9], n2=[0.5, 0.2])
    second = placed(engine, a_pod("b", gpu_request=HALF), 201.0)
    assert (second.node, second.grant.uses[0].uuid) == ("n2", "GPU-n2-1")
    engine.handle(ReadingsTaken(), now=1000.0)  # nobody tells anything any more
    third = placed(engine, a_pod("c", gpu_request=HALF), 1001.0)
    assert third.node == "n1"


def test_what_a_pod_says_of_its_load_counts() -> None:
    engine = an_engine(QuietNeighbours())
    measure(engine, 1.0, n1=[0.8, 0.8], n2=[0.2, 0.2])
    busy = a_pod("busy", gpu_request=HALF, load=PodLoad(0.8))
    light = a_pod("light", gpu_request=HALF, load=PodLoad(0.0))
    assert placed(engine, busy, 2.0).node == "n2"
    assert placed(engine, light, 2.0).node == "n1"


def play(name: str, *, readings: bool) -> list[object]:
    """A day with shares, whole GPUs and one pod too many, and what came of it."""
    engine = an_engine(profile=built_in(name), nodes=("n1", "n2", "n3"))
    made: list[object] = []
    asks = [HALF, GpuRequest(1), GpuRequest(2), HALF, HALF, GpuRequest(1), GpuRequest(2), HALF]
    for step, ask in enumerate(asks):
        if readings:
            engine.handle(ReadingsTaken(), now=60.0 * step)
        counted = ask.gpus if ask.whole else 0
        see(engine, a_pod(f"p{step}", uid=f"u{step}", gpus=counted, gpu_request=ask), now=60 * step)
        made += decide(engine, now=60.0 * step + 1)
    return [
        (step.pod.name, step.node, step.grant) if isinstance(step, Bind) else step.message
        for step in made
        if isinstance(step, Bind | AnnounceFailure)
    ]


@pytest.mark.parametrize("name", NAMES)
def test_without_readings_every_profile_decides_as_if_there_were_no_telemetry(name) -> None:
    assert play(name, readings=True) == play(name, readings=False)


def test_no_rule_goes_by_readings() -> None:
    assert not [kind.name for kind in FILTERS if kind.reads & Aspect.LOAD]


@pytest.mark.parametrize("name", NAMES)
def test_readings_never_make_a_pod_wait(name) -> None:
    for busy in (0.0, 1.0):
        engine = an_engine(profile=built_in(name), nodes=("n1",))
        measure(engine, 1.0, n1=[busy, busy])
        assert placed(engine, a_pod("p", gpus=2, gpu_request=GpuRequest(2)), 2.0).node == "n1"


def test_the_record_of_a_decision_has_what_counted_before_it() -> None:
    engine = an_engine(LowUtilisation(), QuietNeighbours())
    measure(engine, 1.0, n1=[0.1, 0.9], n2=[0.5, 0.5])
    assert not [made for made in _all(engine, a_pod("a", gpu_request=HALF), 2.0) if noted(made)]
    engine.keeps_records = True
    engine.handle(ReadingsTaken(), now=7.0)
    bind, decided = _all(engine, a_pod("b", gpu_request=HALF), 8.0)
    assert isinstance(bind, Bind)
    record = decided.record
    assert (decided.pod.name, decided.node) == ("b", "n1")
    assert record.scores == pytest.approx({"LowUtilisation": 90.0, "QuietNeighbours": 95.0})
    assert record.score == pytest.approx(sum(record.scores.values()))
    (gpu,) = record.gpus
    assert (gpu.uuid, gpu.utilisation, gpu.reading_age_s) == ("GPU-n1-0", 0.1, 6.0)
    assert gpu.free_share == 0.5, "as it was before the pod came"


def test_weights_count_in_the_record() -> None:
    filters = tuple(kind() for kind in FILTERS)
    heavy = Profile("heavy", filters, ((LowUtilisation(), 3.0), (QuietNeighbours(), 0.5)))
    engine = an_engine(profile=heavy)
    engine.keeps_records = True
    _, decided = _all(engine, a_pod("a", gpu_request=HALF), 2.0)
    assert decided.record.scores == pytest.approx({"LowUtilisation": 150, "QuietNeighbours": 37.5})
    assert decided.record.score == pytest.approx(187.5)


def _all(engine: Engine, pod, now: float) -> list:
    see(engine, pod, now=now)
    return decide(engine, now=now)


def noted(made: object) -> bool:
    return isinstance(made, Decided)
