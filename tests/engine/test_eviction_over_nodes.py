"""An eviction whose victims are on several nodes: one instruction, one answer, one nomination."""

from dataclasses import replace
from typing import Any

import pytest

from builders import a_node, a_pod, an_engine, decide, see
from fairlead.engine.engine import Engine
from fairlead.engine.events import EvictionEnded, PodGone
from fairlead.engine.instructions import AnnounceFailure, Bind, ClearNomination, Evict
from fairlead.model.pods import Pod
from fairlead.placement.preempt import Preemption, PreemptionOutcome
from fairlead.placement.verdicts import Eviction

VICTIMS = {
    node: tuple(
        a_pod(f"{node}-{number}", uid=f"{node}-{number}", gpus=1, node=node)
        for number in range(2)
    )
    for node in ("n1", "n2")
}  # fmt: skip


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Engine:
    """No search of ours chooses victims on several nodes yet, so it is given its answer."""
    outcome = PreemptionOutcome(Eviction("n1", VICTIMS))
    monkeypatch.setattr(Preemption, "search", lambda *_: outcome)
    engine = an_engine(a_node("n1", gpus=2), a_node("n2", gpus=2))
    see(engine, *VICTIMS["n1"], *VICTIMS["n2"])
    return engine


def urgent(**more: Any) -> Pod:
    return a_pod("urgent", uid="u", gpus=2, priority=5, **more)


def test_it_is_one_instruction_with_the_victims_of_each_node(engine: Engine) -> None:
    see(engine, pod := urgent())
    failure, evict = decide(engine)
    assert evict == Evict(pod, "n1", VICTIMS)
    assert isinstance(failure, AnnounceFailure)
    assert failure.nominated == "n1"
    assert engine.cluster.nominations.node_of("u") == "n1"
    for victim in evict.victims:
        engine.handle(PodGone(victim), now=1.0)
    engine.handle(EvictionEnded("u", ""), now=1.0)
    (bind,) = decide(engine, now=20.0)
    assert isinstance(bind, Bind)
    assert bind.node == "n1"


def test_nominations_on_every_node_with_victims_are_cleared(engine: Engine) -> None:
    gated = {"gates": ("wait",), "gpus": 1}
    see(engine, *(a_pod(f"waits-{n}", nominated=f"n{n}", **gated) for n in (1, 2, 3)))
    see(engine, urgent())
    cleared = [step.pod.name for step in decide(engine) if isinstance(step, ClearNomination)]
    assert cleared == ["waits-1", "waits-2"]


def test_those_that_leave_already_are_not_evicted_again(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    leaving = {"n2": tuple(replace(pod, deleting=True) for pod in VICTIMS["n2"])}
    outcome = PreemptionOutcome(Eviction("n1", VICTIMS | leaving))
    monkeypatch.setattr(Preemption, "search", lambda *_: outcome)
    waits = a_pod("waits", nominated="n2", gates=("wait",), gpus=1)
    see(engine, waits, pod := urgent())
    assert decide(engine)[1:] == [Evict(pod, "n1", {"n1": VICTIMS["n1"]})]
