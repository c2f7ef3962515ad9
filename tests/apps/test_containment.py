"""One object breaks the engine, and everything else goes on."""

import asyncio
from dataclasses import replace

import pytest

from builders import SCHEDULER, a_node, a_pod, drawing
from fairlead.apps.config.profiles import built_in
from fairlead.apps.run.containment import Containment
from fairlead.cluster.cluster import Cluster
from fairlead.engine import events
from fairlead.engine.engine import Engine
from fairlead.engine.instructions import AnnounceFailure, AttemptCrashed, Bind, Instruction
from fairlead.kube.failures import Failures
from fairlead.model.pods import Pod


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
