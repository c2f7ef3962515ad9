"""Nodes that come with more pods than can be counted in a turn: unused until enough are gone."""

from collections.abc import Iterator

import pytest

from builders import SCHEDULER, a_node, a_pod, an_engine, decide, see
from fairlead.apps.config.profiles import built_in
from fairlead.cluster import crowded
from fairlead.cluster.checking import misplaced, wrong_nodes
from fairlead.engine.engine import Engine
from fairlead.engine.events import NodeGone, NodeSeen, PodGone, PodSeen
from fairlead.engine.instructions import Bind, Instruction
from fairlead.model.gpus import Gpu, GpuRequest, GpuUse, Grant, Inventory
from fairlead.model.pods import Pod
from fairlead.model.selectors import LabelSelector, PodTerm

WHOLE = GpuRequest(1, False, 1000, memory_milli=1000, dialect="fairlead")


@pytest.fixture(autouse=True)
def _four_pods(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crowded, "MOST_WEIGHT", 4 * crowded.POD_WEIGHT)


def early(count: int, **more: object) -> list[Pod]:
    return [a_pod(f"p{n}", uid=f"p{n}", node="late", **more) for n in range(count)]


def bound(made: list[Instruction]) -> dict[str, str]:
    return {each.pod.name: each.node for each in made if isinstance(each, Bind)}


def times() -> Iterator[float]:
    """Far enough from each other that a pod was backed off."""
    return iter(float(at) for at in range(100, 10_000, 100))


def test_a_node_with_too_many_pods_is_used_when_enough_are_gone() -> None:
    engine, pods, at = an_engine(), early(6), times()
    see(engine, *pods)
    engine.handle(NodeSeen(a_node("late")), now=1.0)
    see(engine, a_pod("new", uid="new"))
    assert "late" not in engine.cluster.row_of
    assert [*engine.cluster.crowded] == ["late"]
    assert bound(decide(engine, now=next(at))) == {}
    engine.handle(PodGone(pods[0]), now=next(at))
    assert "late" not in engine.cluster.row_of
    engine.handle(PodGone(pods[1]), now=next(at))
    assert bound(decide(engine, now=next(at))) == {"new": "late"}
    assert not engine.cluster.crowded
    assert wrong_nodes(engine.cluster, ["late"]) == []
    assert [*misplaced(engine.cluster, {each.uid: each for each in pods[2:]})] == []


def test_it_is_as_it_was_seen_last() -> None:
    engine, pods = an_engine(), early(5)
    see(engine, *pods)
    for labels in ({"a": "1"}, {"a": "2"}):
        engine.handle(NodeSeen(a_node("late", labels=labels)), now=1.0)
    engine.handle(PodGone(pods[0]), now=2.0)
    found = engine.cluster.node_named("late")
    assert found is not None
    assert found.labels["a"] == "2"


def test_a_node_that_goes_meanwhile_does_not_come_back() -> None:
    engine, pods = an_engine(), early(5)
    see(engine, *pods)
    engine.handle(NodeSeen(a_node("late")), now=1.0)
    engine.handle(NodeGone("late"), now=2.0)
    for pod in pods:
        engine.handle(PodGone(pod), now=3.0)
    assert "late" not in engine.cluster.row_of


def test_terms_count() -> None:
    terms = tuple(PodTerm("zone", LabelSelector(), (f"team-{n}",)) for n in range(20))
    engine, pods = an_engine(), early(2, anti_affinity=terms)
    see(engine, *pods)
    engine.handle(NodeSeen(a_node("late")), now=1.0)
    assert "late" not in engine.cluster.row_of
    engine.handle(PodGone(pods[0]), now=2.0)
    assert "late" in engine.cluster.row_of
    assert wrong_nodes(engine.cluster, ["late"]) == []


def test_the_gpu_of_a_pod_that_goes_meanwhile_is_kept_until_its_agent_says_so() -> None:
    """Its processes may still run when the node gets its row."""
    engine, at = Engine({SCHEDULER: built_in(SCHEDULER)}), times()
    grant = Grant((GpuUse("GPU-a", False, 1000, 1000),), "fairlead")
    said = {"node": "late", "grant": grant, "gpu_request": WHOLE}
    old = a_pod("old", uid="old", started="2026-01-01T00:00:00Z", **said)
    others = early(5)
    see(engine, old, *others)

    def node(*released: str) -> NodeSeen:
        gpus = (Gpu("GPU-a", 0, memory_mib=1000),)
        listed = Inventory(
            gpus, dialects=frozenset({"fairlead"}), confirms=True, released=frozenset(released)
        )
        return NodeSeen(a_node("late", gpus=0, inventory=listed))

    engine.handle(node(), now=next(at))
    for pod in (old, *others[:2]):
        engine.handle(PodGone(pod), now=next(at))
    assert "late" in engine.cluster.row_of
    engine.handle(PodSeen(a_pod("new", uid="new", gpu_request=WHOLE)), now=next(at))
    assert bound(decide(engine, now=next(at))) == {}
    engine.handle(node("old"), now=next(at))
    assert bound(decide(engine, now=next(at))) == {"new": "late"}
    assert wrong_nodes(engine.cluster, ["late"]) == []
