"""Gangs in the engine: whole or not at all."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from builders import a_node, a_pod, an_engine, decide, see
from fairlead.engine.engine import Engine
from fairlead.engine.events import BindDone, PodGone, PodSeen
from fairlead.engine.in_flight import contradictions
from fairlead.engine.instructions import AnnounceFailure, AnnounceScheduled, Bind, Instruction
from fairlead.engine.reasons import UNSCHEDULABLE
from fairlead.model.gangs import GangSpec, Membership
from fairlead.model.pods import Pod

KEY = "fairlead/default/job"


def a_gang(count: int, minimum: int | None = None, key: str = KEY, **more: object) -> list[Pod]:
    spec = GangSpec(key, minimum or count, priority=int(str(more.get("priority", 0))))
    name = key.rpartition("/")[2]
    return [
        a_pod(
            f"{name}-{rank}",
            uid=f"{name}-{rank}",
            gang=Membership(key, rank=rank, spec=spec),
            **{"gpus": 1, **more},
        )
        for rank in range(count)
    ]


def binds(made: Sequence[Instruction]) -> dict[str, str]:
    return {each.pod.name: each.node for each in made if isinstance(each, Bind)}


def failures(made: Sequence[Instruction]) -> dict[str, AnnounceFailure]:
    return {each.pod.name: each for each in made if isinstance(each, AnnounceFailure)}


def settle(engine: Engine, made: Sequence[Instruction], now: float = 1.0) -> list[Instruction]:
    """Every bind succeeds, and the watch shows it."""
    after: list[Instruction] = []
    for each in made:
        if isinstance(each, Bind):
            after += engine.handle(BindDone(each.pod.uid), now=now)
            after += engine.handle(PodSeen(replace(each.pod, node=each.node)), now=now)
    return after


@pytest.fixture
def engine() -> Engine:
    return an_engine(a_node("n1", gpus=4), a_node("n2", gpus=4))


def test_a_gang_that_fits_is_bound_whole(engine: Engine) -> None:
    see(engine, *a_gang(8))
    made = decide(engine)
    assert len(binds(made)) == 8
    assert sum(isinstance(each, AnnounceScheduled) for each in settle(engine, made)) == 8
    assert contradictions(engine.in_flight, engine.cluster, engine.queue) == []


def test_a_gang_that_does_not_fit_gets_nothing_and_says_why(engine: Engine) -> None:
    see(engine, *a_gang(9))
    made = decide(engine)
    assert binds(made) == {}
    said = failures(made)
    assert len(said) == 9
    assert {each.reason for each in said.values()} == {UNSCHEDULABLE}
    assert said["job-0"].message == (
        "gang default/job: 8 of 9 pods have a node; job-8: 0/2 nodes are available: "
        "2 Insufficient nvidia.com/gpu."
    )
    assert sum(each.with_event for each in said.values()) == 1
    assert not engine.cluster.holdings


def test_a_gang_waits_for_its_pods(engine: Engine) -> None:
    pods = a_gang(3)
    see(engine, *pods[:2])
    assert decide(engine) == []
    see(engine, pods[2])
    assert len(binds(decide(engine))) == 3


def test_a_refused_gang_is_tried_again_when_there_is_room_for_all_of_it(engine: Engine) -> None:
    busy = [a_pod(f"busy-{n}", gpus=2, node="n1") for n in range(2)]
    see(engine, *busy, *a_gang(8))
    assert binds(decide(engine)) == {}
    engine.handle(PodGone(busy[0]), now=20.0)
    assert decide(engine, now=20.0) == [], "room for six"
    engine.handle(PodGone(busy[1]), now=21.0)
    assert len(binds(decide(engine, now=21.0))) == 8


def test_members_above_the_minimum_that_do_not_fit_wait_and_hold_no_other_back(
    engine: Engine,
) -> None:
    see(engine, *a_gang(10, minimum=3))
    made = decide(engine)
    assert len(binds(made)) == 8
    settle(engine, made)
    plain = a_pod("plain")
    see(engine, plain)
    made = decide(engine, now=20.0)
    assert binds(made) == {"plain": "n1"}
    assert set(failures(made)) == {"job-8", "job-9"}
    assert engine.decide(now=20.0) is None
