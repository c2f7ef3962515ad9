"""A search for pods to evict ends in time, says so, and goes on with the next attempt."""

from dataclasses import replace

import pytest

from builders import a_node, a_pod, an_engine, decide, see
from fairlead.engine.engine import Engine
from fairlead.engine.instructions import AnnounceFailure, Evict, Instruction
from fairlead.model.budgets import Budget
from fairlead.model.pods import HostPort
from fairlead.placement import preempt
from fairlead.queue.entries import Pool

PORT = (HostPort(80),)
NODES = 5


@pytest.fixture
def engine() -> Engine:
    """A more important pod has the port on every node but the last, a lesser one is on each."""
    engine = an_engine(*(a_node(f"n{number}") for number in range(NODES)))
    for number in range(NODES):
        last = number == NODES - 1
        holds = a_pod(f"holds-{number}", priority=0 if last else 20, node=f"n{number}")
        request = replace(holds.request, host_ports=PORT)
        see(engine, replace(holds, request=request), a_pod(f"low-{number}", node=f"n{number}"))
    return engine


def attempts(engine: Engine) -> list[list[Instruction]]:
    found = []
    while engine.queue.counts()[Pool.ACTIVE] or engine.queue.counts()[Pool.BACKOFF]:
        found.append(decide(engine, now=1000.0 * (1 + len(found)), times=1))
    return found


def test_what_one_attempt_does_not_get_to_the_next_does(engine, monkeypatch) -> None:
    monkeypatch.setattr(preempt, "_MOST_WORK", 0)  # one node an attempt
    see(engine, a_pod("asks", priority=10, host_ports=PORT))
    *cut, last = attempts(engine)
    for number, (told,) in enumerate(cut):
        assert isinstance(told, AnnounceFailure)
        assert f"preemption: 0/{NODES} nodes are available" in told.message
        assert f"{NODES - 1} not evaluated yet" in told.message, number
    assert [victim.name for step in last if isinstance(step, Evict) for victim in step.victims] == [
        f"holds-{NODES - 1}"
    ]
    assert len(cut) == NODES - 1


def test_a_search_that_found_nothing_ends_and_the_pod_waits(engine, monkeypatch) -> None:
    monkeypatch.setattr(preempt, "_MOST_WORK", 0)
    see(engine, a_pod("in-the-way", priority=20, node=f"n{NODES - 1}", host_ports=PORT))
    see(engine, a_pod("asks", priority=10, host_ports=PORT))
    found = attempts(engine)
    assert len(found) == NODES
    assert engine.queue.counts()[Pool.WAITING] == 1


def test_a_node_with_too_many_pods_is_passed_over_and_told_of(engine, monkeypatch) -> None:
    monkeypatch.setattr(preempt, "_MOST_EVICTABLE", 1)
    see(engine, a_pod("asks", priority=10, host_ports=PORT))
    ((told,),) = attempts(engine)
    assert isinstance(told, AnnounceFailure)
    assert "1 too many pods or disruption budgets to evaluate" in told.message


def test_a_node_whose_pods_have_too_many_budgets_is_passed_over(engine, monkeypatch) -> None:
    monkeypatch.setattr(preempt, "_MOST_COMPARED", 10)
    for number in range(6):
        budget = Budget("default", f"b{number}")
        engine.cluster.budgets[budget.key] = budget
    see(engine, a_pod("asks", priority=10, host_ports=PORT))
    ((told,),) = attempts(engine)
    assert isinstance(told, AnnounceFailure)
    assert "too many pods or disruption budgets to evaluate" in told.message
