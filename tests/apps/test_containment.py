"""One object breaks the engine, and everything else goes on."""

import asyncio
from dataclasses import replace
from typing import get_args

import pytest

from builders import SCHEDULER, a_node, a_pod, drawing
from fairlead.apps.config.profiles import built_in
from fairlead.apps.run.containment import _SEEN, Containment, _name_of
from fairlead.cluster.cluster import Cluster
from fairlead.engine import events
from fairlead.engine.engine import Engine
from fairlead.engine.instructions import AnnounceFailure, AttemptCrashed, Bind, Instruction
from fairlead.kube.failures import Failures
from fairlead.model.advance import AdvanceReservation
from fairlead.model.budgets import Budget
from fairlead.model.claims import ResourceClaim
from fairlead.model.counted import CountedResource
from fairlead.model.data_sets import DataSet
from fairlead.model.gangs import GangSpec
from fairlead.model.hyper_nodes import HyperNode
from fairlead.model.pods import Pod
from fairlead.model.queues import QueueSpec
from fairlead.model.run_times import RunTime
from fairlead.model.storage import StorageClass
from fairlead.model.topology import Topology

#: An event of each kind by which an object is shown.
SHOWN: tuple[events.Event, ...] = (
    events.PodSeen(a_pod("p")),
    events.NodeSeen(a_node("n1")),
    events.NamespaceSeen("team", {}),
    events.SelectorSeen("Service", "team", "s", None),
    events.StorageSeen(StorageClass("fast")),
    events.ClaimObjectSeen(ResourceClaim("team", "c")),
    events.BudgetSeen(Budget("team", "b")),
    events.GangSeen(GangSpec("volcano/team/g", 2)),
    events.QueueSeen(QueueSpec("fairlead/q")),
    events.AdvanceSeen(AdvanceReservation("r")),
    events.CountedSeen(CountedResource("c")),
    events.DataSeen(DataSet("dataset/team/d")),
    events.InventorySeen("n1", "other", None),
    events.NodeRequestSeen("volcano/team/g", "accepted"),
    events.TopologySeen("kai/default", Topology(())),
    events.HyperNodeSeen("h", HyperNode("h", 1)),
    events.OwnerRunTimeSeen("team/Job/j", RunTime()),
)

_GONE = "the object is gone, so a new engine is not told it again"
_ENDED = "what became of something that the scheduler did itself, told once"
_ASKED = "an answer of the scheduler's own parts, told once"
_SERVED = "which kinds are served: the text is the scheduler's own, and no object has it"
_CONFIGURED = "the configuration, which is checked when the scheduler starts"
_SOURCES = "values of sources that the configuration names: each is checked where it is read"
_KEPT = "what an earlier scheduler learned, loaded once"
#: Why the other events show no object that could be left out.
NO_OBJECT: dict[type[events.Event], str] = {
    events.ServerKnown: "the version of the API server, told once",
    events.NodeGone: _GONE,
    events.PodGone: _GONE,
    events.StorageGone: _GONE,
    events.ClaimObjectGone: _GONE,
    events.BudgetGone: _GONE,
    events.GangGone: _GONE,
    events.QueueGone: _GONE,
    events.AdvanceGone: _GONE,
    events.CountedGone: _GONE,
    events.PodRejected: "told once, after the pod of which it is was shown",
    events.RunEnded: "told once, when a pod ends",
    events.NodeDistrusted: "what is told in place of an object that is left out",
    events.TrustRestored: "what is told in place of an object that is left out",
    events.RunTimesLoaded: _KEPT,
    events.StartRecordLoaded: _KEPT,
    events.ServiceRecordLoaded: _KEPT,
    events.ReleaseOverdue: _ASKED,
    events.ReservationIdle: _ASKED,
    events.ReservationsPaused: _ASKED,
    events.ForecastDue: _ASKED,
    events.PricesComputed: _ASKED,
    events.PlanComputed: _ASKED,
    events.NodeChosen: "the bind of an extender, which is declined if it breaks the engine",
    events.ExtendersAnswered: "an answer of an HTTP extender, told once",
    events.Prepared: _ENDED,
    events.PrepareFailed: _ENDED,
    events.BindDone: _ENDED,
    events.BindFailed: _ENDED,
    events.EvictionEnded: _ENDED,
    events.GangKindSeen: _SERVED,
    events.QueueKindSeen: _SERVED,
    events.NodeRequestsServed: _SERVED,
    events.ServiceClassesSeen: _CONFIGURED,
    events.ReadingsTaken: _SOURCES,
    events.FiguresSeen: _SOURCES,
    events.ReadingSeen: _SOURCES,
    events.ForecastSeen: _SOURCES,
}


class Defect(Exception):
    pass


@pytest.fixture
def breaks(monkeypatch) -> set[str]:
    """Names of pods that no ledger can take."""
    names: set[str] = set()
    hold = Cluster._hold

    def _hold(self, held) -> None:
        if held.pod.name in names:
            self.columns.requested[:, self.row_of[held.node]] += 1  # half-changed
            raise Defect(held.pod.name)
        hold(self, held)

    monkeypatch.setattr(Cluster, "_hold", _hold)
    return names


class Driver:
    """What the scheduler does with an engine, without a cluster."""

    def __init__(self) -> None:
        self.engine = Engine({SCHEDULER: built_in(SCHEDULER)})
        self.containment = Containment(self.engine, Failures())
        self.objects: dict[str, events.Event] = {}
        self.now = 1000.0

    def see(self, *seen: events.Event) -> list[Instruction]:
        for event in seen:
            self.objects[str(event)] = event
        return [made for event in seen for made in self.handle(event)]

    def handle(self, event: events.Event) -> list[Instruction]:
        self.now += 0.01
        return self._look_for_crashes(self.containment.handle(event, self.now))

    def decide(self) -> list[Instruction]:
        self.now += 0.01
        attempt = self.containment.decide(self.now)
        return self._look_for_crashes(list(attempt.instructions) if attempt else [])

    def _look_for_crashes(self, made: list[Instruction]) -> list[Instruction]:
        for each in made:
            if isinstance(each, AttemptCrashed):
                self.containment.attempt_crashed(each, self.now)
        return made

    def rebuild_if_due(self) -> bool:
        if not self.containment.rebuild_is_due(self.now):
            return False
        self.containment.rebuild_begins(self.now)
        for event in self.objects.values():
            self.handle(event)
        self.containment.rebuild_ends(self.now)
        return True


def binds(made: list[Instruction]) -> list[str]:
    return [step.pod.name for step in made if isinstance(step, Bind)]


def test_a_bound_pod_that_breaks_the_ledger_costs_its_node_and_nothing_else(breaks) -> None:
    driver = Driver()
    driver.see(events.NodeSeen(a_node("n1", gpus=2)), events.NodeSeen(a_node("n2", gpus=2)))
    breaks.add("bad")
    driver.see(events.PodSeen(a_pod("bad", uid="u", gpus=1, node="n1")))
    assert driver.rebuild_if_due()
    driver.now += 5.0
    assert driver.rebuild_if_due(), "it broke the new engine, too"
    driver.now += 100.0
    assert not driver.rebuild_if_due(), "now it is left out"
    assert driver.containment.left_out() == 1
    assert "1 objects are left out" in driver.containment.standing
    assert drawing(driver.engine.cluster) == ["n1 ..", "n2 .."]
    driver.see(*(events.PodSeen(a_pod(f"p{n}", gpus=1)) for n in range(3)))
    made = [step for _ in range(3) for step in driver.decide()]
    assert [(step.pod.name, step.node) for step in made if isinstance(step, Bind)] == [
        ("p0", "n2"), ("p1", "n2"),
    ]  # fmt: skip
    breaks.clear()
    driver.see(events.PodSeen(a_pod("bad", uid="u", gpus=1, node="n1", labels={"a": "b"})))
    assert drawing(driver.engine.cluster) == ["n1 #.", "n2 ##"], "a changed one is tried"


def test_a_pod_that_breaks_every_decision_is_told_so_and_left_out(breaks) -> None:
    driver = Driver()
    driver.see(events.NodeSeen(a_node("n1", gpus=4)))
    breaks.add("bad")
    driver.see(events.PodSeen(a_pod("bad", gpus=1, version="7")))
    for _ in range(2):
        made = driver.decide()
        assert isinstance(made[0], AnnounceFailure)
        assert "internal error: Defect('bad')" in made[0].message
        driver.now += 20.0
        assert driver.rebuild_if_due()
    assert driver.decide() == []
    driver.see(events.PodSeen(a_pod("good", gpus=1)))
    assert binds(driver.decide()) == ["good"]
    assert driver.containment.failures.counts["deciding"] == 2


def test_what_was_decided_before_a_rebuild_stays_decided(breaks) -> None:
    driver = Driver()
    driver.see(events.NodeSeen(a_node("n1", gpus=3)))
    pods = [a_pod(name, uid=name, gpus=1) for name in ("under-way", "written", "waits")]
    driver.see(*map(events.PodSeen, pods))
    assert binds(driver.decide()) == ["under-way"]
    assert binds(driver.decide()) == ["written"]
    driver.handle(events.BindDone("written"))
    breaks.add("bad")
    driver.handle(events.PodSeen(a_pod("bad", node="n1")))
    assert driver.rebuild_if_due()
    assert drawing(driver.engine.cluster) == ["n1 ##."]
    driver.handle(events.TrustRestored("default/bad"))
    made = driver.handle(events.BindFailed("under-way", events.BindProblem.DENIED, "no"))
    assert [type(step) for step in made] == [AnnounceFailure], "it is tried again"
    assert drawing(driver.engine.cluster) == ["n1 #.."]
    assert binds(driver.decide()) == ["waits"]


def test_rebuilds_become_rare_when_ever_new_objects_break_the_engine(breaks) -> None:
    driver, rebuilds = Driver(), 0
    driver.see(events.NodeSeen(a_node("n1")), events.NodeSeen(a_node("n2", gpus=8)))
    for second in range(600):
        breaks.add(f"bad-{second}")
        driver.handle(events.PodSeen(a_pod(f"bad-{second}", node="n1", version=str(second))))
        driver.now += 1.0
        rebuilds += driver.rebuild_if_due()
    assert 5 <= rebuilds <= 20
    driver.see(events.PodSeen(a_pod("good", gpus=1)))
    assert binds(driver.decide()) == ["good"], "meanwhile pods are placed"
    assert len(driver.containment._struck) <= 1024


def test_a_pod_that_is_patched_again_and_again_is_left_out_in_any_case(breaks) -> None:
    driver = Driver()
    driver.see(events.NodeSeen(a_node("n1")))
    breaks.add("bad")
    for number in range(50):
        pod = a_pod("bad", uid="u", node="n1", labels={"number": str(number)})
        driver.handle(events.PodSeen(pod))
        driver.now += 5.0
        driver.rebuild_if_due()
    assert driver.containment.failures.counts["reading"] == 5


def test_our_own_writes_to_the_status_of_a_pod_are_no_change_of_it(breaks) -> None:
    driver = Driver()
    driver.see(events.NodeSeen(a_node("n1")))
    breaks.add("bad")
    for version in range(10):
        driver.handle(events.PodSeen(a_pod("bad", uid="u", node="n1", version=str(version))))
    assert driver.containment.failures.counts["reading"] == 2


async def test_a_part_that_breaks_is_started_again(monkeypatch) -> None:
    monkeypatch.setattr("fairlead.apps.supervising.FIRST_PAUSE_S", 0.001)
    containment, runs = Driver().containment, 0

    async def run() -> None:
        nonlocal runs
        runs += 1
        if runs < 3:
            raise Defect("again")

    async with asyncio.timeout(60):
        await containment.supervise("part", run)
    assert containment.failures.counts["running"] == 2


def test_an_object_that_is_left_out_is_tried_again_after_a_while(breaks) -> None:
    driver = Driver()
    pod: Pod = replace(a_pod("bad", node="n1"), version="7")
    driver.see(events.NodeSeen(a_node("n1")))
    breaks.add("bad")
    driver.see(events.PodSeen(pod))
    assert driver.rebuild_if_due()
    assert driver.containment.leaves_out(pod, driver.now)
    assert not driver.containment.leaves_out(pod, driver.now + 601)


def test_a_defect_in_the_queue_itself_is_no_empty_queue_for_long(monkeypatch) -> None:
    driver = Driver()
    driver.see(events.NodeSeen(a_node("n1", gpus=1)), events.PodSeen(a_pod("good", gpus=1)))
    pop = driver.engine.queue.pop
    monkeypatch.setattr(driver.engine.queue, "pop", lambda **_: pop(no="such argument"))
    assert driver.decide() == []
    assert driver.containment.failures.counts["deciding"] == 1
    assert driver.rebuild_if_due()
    assert binds(driver.decide()) == ["good"]


def test_every_event_shows_an_object_that_can_be_left_out_or_says_why_not() -> None:
    every = set(get_args(events.Event))
    assert set(_SEEN) == {type(event) for event in SHOWN}
    assert set(_SEEN) | NO_OBJECT.keys() == every
    assert not set(_SEEN) & NO_OBJECT.keys()


@pytest.mark.parametrize("event", SHOWN, ids=lambda event: type(event).__name__)
def test_an_object_of_any_kind_that_breaks_the_engine_is_left_out(event, monkeypatch) -> None:
    driver = Driver()
    handle = driver.engine.handle

    def _handle(seen: events.Event, *, now: float) -> list[Instruction]:
        if seen == event:
            raise Defect("oops")
        return handle(seen, now=now)

    monkeypatch.setattr(driver.engine, "handle", _handle)
    assert _name_of(event)[1], "it has a name"
    driver.see(event)
    for _ in range(5):
        driver.now += 100.0
        driver.rebuild_if_due()
    assert driver.containment.left_out() == 1
    assert driver.containment.rebuilds == 2
    assert driver.containment.failures.counts.total() == 2


def test_what_is_remembered_of_a_large_object_is_small(monkeypatch) -> None:
    driver = Driver()
    monkeypatch.setattr(driver.engine, "handle", lambda *_, **__: 1 / 0)
    names = frozenset(f"pod-{number}" for number in range(10_000))
    for text in ("a", "b", "b"):
        budget = Budget("team", "large", text, disrupted=names)
        driver.handle(events.BudgetSeen(budget))
    (struck,) = driver.containment._struck.values()
    assert len(struck.content) < 100
    assert (struck.count, struck.in_all) == (2, 3), "one that has changed is told from one that not"
