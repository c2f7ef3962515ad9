"""The stages of a pod between its decision and its node."""

import pytest

from builders import a_node, a_pod, an_engine, see
from fairlead.engine.engine import Engine
from fairlead.engine.events import BindDone, BindFailed, BindProblem, PodGone, PodSeen
from fairlead.engine.in_flight import InFlight, Stage, contradictions
from fairlead.model.storage import VolumePlan
from fairlead.plugins.volume_step import VolumeStep
from fairlead.queue.entries import Entry, Pool
from fairlead.queue.units import PodUnit

STEPS = (VolumeStep(VolumePlan()),)


def an_entry() -> Entry:
    return Entry(PodUnit(a_pod("p", uid="p")), 0.0, 0.0)


def test_a_pod_with_steps_is_prepared_bound_and_confirmed() -> None:
    in_flight, entry = InFlight(), an_entry()
    in_flight.begin("p", entry, STEPS)
    assert in_flight.stage_of("p") is Stage.PREPARING
    assert in_flight.steps_ended("p") == STEPS
    assert in_flight.steps_ended("p") == (), "once"
    assert in_flight.stage_of("p") is Stage.BINDING
    assert in_flight.written("p", seen=False) is entry
    assert in_flight.unconfirmed() == ["p"]
    assert in_flight.entry_of("p") is None
    in_flight.confirm("p")
    assert "p" not in in_flight


def test_a_watch_that_is_faster_than_the_reply_leaves_nothing_to_confirm() -> None:
    in_flight, entry = InFlight(), an_entry()
    in_flight.begin("p", entry)
    in_flight.confirm("p")
    assert in_flight.entry_of("p") is entry, "the outcome of the bind is still to come"
    assert in_flight.written("p", seen=True) is entry
    assert "p" not in in_flight


def one_pod(stage: Stage | None) -> Engine:
    """An engine whose only pod, of two GPUs, is in this stage."""
    engine = an_engine(a_node("n1", gpus=2))
    see(engine, a_pod("p", uid="p", gpus=2))
    assert contradictions(engine.in_flight, engine.cluster, engine.queue) == []
    if stage is not None:
        engine.decide(now=1.0)
    if stage is Stage.BOUND:
        engine.handle(BindDone("p"), now=1.0)
    assert engine.in_flight.stage_of("p") is stage
    assert contradictions(engine.in_flight, engine.cluster, engine.queue) == []
    return engine


def test_every_contradiction_is_found() -> None:
    for stage, spoil, said in (
        (Stage.BINDING, lambda e: e.in_flight.end("p"), "no bind is under way"),
        (Stage.BOUND, lambda e: e.cluster.remove("p"), "holds nothing"),
        (Stage.BOUND, lambda e: e.queue.put(a_pod("p", uid="p"), now=2.0), "still in the queue"),
        (Stage.BINDING, lambda e: setattr(dict(e.in_flight)["p"], "steps", STEPS), "wrong stage"),
        (Stage.BINDING, lambda e: e.queue.adopt(an_entry()), "another entry"),
        (Stage.BINDING, lambda e: setattr(e.queue.get("p"), "pool", Pool.ACTIVE), "to be tried"),
    ):
        engine = one_pod(stage)
        spoil(engine)
        (found,) = contradictions(engine.in_flight, engine.cluster, engine.queue)
        assert said in found


@pytest.mark.parametrize("stage", [None, Stage.BINDING, Stage.BOUND])
def test_stages_agree_when_a_pod_goes_comes_back_or_is_denied(stage: Stage | None) -> None:
    pod = a_pod("p", uid="p", gpus=2)
    for events in (
        [PodGone(pod), BindFailed("p", BindProblem.GONE, "")],
        [PodGone(pod), PodSeen(pod), BindDone("p")],
        [PodSeen(pod), BindFailed("p", BindProblem.DENIED, "no")],
        [PodSeen(a_pod("p", uid="p", gpus=2, node="n1")), BindDone("p"), PodSeen(pod)],
        [PodSeen(a_pod("p", uid="p", gpus=2, node="n2")), BindFailed("p", BindProblem.TAKEN, "")],
    ):
        engine = one_pod(stage)
        for event in events:
            engine.handle(event, now=2.0)
            assert contradictions(engine.in_flight, engine.cluster, engine.queue) == []
