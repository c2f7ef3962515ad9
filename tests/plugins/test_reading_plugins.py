"""What decides by named readings: goals, scores, limits and rules."""

from dataclasses import replace

import pytest

from builders import a_node, a_pod
from examples import some
from fairlead.apps.config.profiles import aiming, built_in, ruled
from fairlead.cluster.cluster import Cluster
from fairlead.cluster.named_readings import put_named_reading
from fairlead.engine.attempts import Outcome
from fairlead.engine.engine import Engine
from fairlead.engine.events import NodeSeen, PodSeen, ReadingSeen
from fairlead.model.gpus import GpuRequest
from fairlead.model.named_readings import ReadingTerms, SeenReading
from fairlead.model.pods import Pod
from fairlead.model.rules import NodeRule
from fairlead.placement.place import Placement
from fairlead.placement.profile import Profile
from fairlead.placement.verdicts import Placed, Refused
from fairlead.plugins.goals import GoalLevel, Goals
from fairlead.plugins.named_readings import (
    GpuReadingScore,
    ReadingGoal,
    ReadingLimit,
    ReadingScore,
)
from fairlead.plugins.rules import RulesOfReadings
from fairlead.testing import check_plugin
from fairlead.testing.builders import a_gpu_node, gpu_share

BASE = built_in("gpu-scheduler")


def cluster_of(*seen: SeenReading) -> Cluster:
    cluster = Cluster()
    for name in ("a", "b", "c"):
        cluster.put_node(a_gpu_node(name, gpus=2))
    for each in seen:
        put_named_reading(cluster, each)
    return cluster


def x(fallback: float | None = None, **values: float) -> SeenReading:
    return SeenReading(ReadingTerms("x", "C", fallback=fallback), values)


def uuids(node: str) -> list[str]:
    inventory = a_gpu_node(node, gpus=2).inventory
    assert inventory
    return [gpu.uuid for gpu in inventory.gpus]


def asks(gpus: int) -> Pod:
    return a_pod(gpu_request=GpuRequest(gpus))


def goal() -> Profile:
    return aiming(BASE, Goals((GoalLevel(((ReadingGoal("x", "readings.x"), 1.0),)),)))  # type: ignore[arg-type]


def limit(**at_most: float) -> Profile:
    return replace(BASE, filters=(*BASE.filters, ReadingLimit(at_most)))


@pytest.mark.parametrize(
    ("values", "node"),
    [({"a": 3.0, "b": 1.0, "c": 2.0}, "b"), ({"a": 3.0, "c": 1.0}, "c"), ({"b": 5.0}, "a")],
)
def test_a_goal_prefers_the_lowest_and_unknown_nodes_count_as_the_median(
    values: dict[str, float], node: str
) -> None:
    verdict = Placement(goal(), cluster_of(x(**values))).place(a_pod("p"))
    assert isinstance(verdict, Placed)
    assert (verdict.node == node) or len(values) == 1


def test_a_goal_of_gpus_counts_the_gpus_that_the_pod_would_get() -> None:
    values = dict(zip(uuids("a") + uuids("b"), (90.0, 10.0, 40.0, 40.0), strict=True))
    seen = SeenReading(ReadingTerms("x", by_gpu=True, fallback=80.0), values)
    placement = Placement(goal(), cluster_of(seen))
    one, two = placement.place(asks(1)), placement.place(asks(2))
    assert isinstance(one, Placed)
    assert isinstance(two, Placed)
    assert (one.node, two.node) == ("a", "b")


def test_a_score_of_gpus_chooses_the_gpu_on_the_node() -> None:
    values = dict(zip(uuids("a") + uuids("b"), (90.0, 10.0, 40.0, 40.0), strict=True))
    seen = SeenReading(ReadingTerms("x", by_gpu=True, fallback=80.0), values)
    profile = replace(BASE, scores=((GpuReadingScore("x", best=0.0, worst=100.0), 1.0),))
    verdict = Placement(profile, cluster_of(seen)).place(a_pod(gpu_request=gpu_share()))
    assert isinstance(verdict, Placed)
    assert verdict.grant is not None
    assert (verdict.node, [use.uuid for use in verdict.grant.uses]) == ("a", uuids("a")[1:])


def test_a_limit_refuses_with_the_reading_and_lets_unknown_nodes_pass() -> None:
    placement = Placement(limit(x=80.0), cluster_of(x(a=90.0, b=95.0)))
    assert int(placement.view(a_pod("p")).left.sum()) == 1
    placement = Placement(limit(x=80.0), cluster_of(x(99.0, a=90.0, b=95.0)))
    verdict = placement.place(a_pod("p"))
    assert isinstance(verdict, Refused)
    assert verdict.reasons == (("node(s) had x above 80", 3),)


@pytest.mark.parametrize(
    ("expression", "left"),
    [
        ('node.readings["x"] < 5.0', 1),
        ('node.readings[?"x"].orValue(0.0) < 5.0', 2),
        ('gpus.all(g, g.readings[?"x"].orValue(0.0) == 0.0)', 3),
        ('node.readings["x"] < 5', 1),
    ],
)
def test_rules_read_readings(expression: str, left: int) -> None:
    rules = RulesOfReadings((NodeRule("r", expression),))
    placement = Placement(ruled(BASE, rules), cluster_of(x(a=1.0, b=9.0)))
    assert int(placement.view(a_pod("p")).left.sum()) == left


def test_answers_follow_when_a_value_changes() -> None:
    rules = RulesOfReadings((NodeRule("r", 'node.readings["x"] < 5.0'),))
    cluster = cluster_of(x(0.0, a=1.0, b=9.0))
    for profile in (ruled(BASE, rules), limit(x=5.0)):
        placement = Placement(profile, cluster)
        put_named_reading(cluster, x(0.0, b=9.0))
        assert int(placement.view(a_pod("p")).left.sum()) == 2
        put_named_reading(cluster, x(0.0, b=1.0))
        assert int(placement.view(a_pod("p")).left.sum()) == 3


def test_a_waiting_pod_is_tried_again_when_a_reading_falls() -> None:
    engine = Engine({"gpu-scheduler": limit(x=80.0)})
    engine.handle(NodeSeen(a_node("a")), now=0.0)
    engine.handle(ReadingSeen(x(a=90.0)), now=0.0)
    engine.handle(PodSeen(a_pod("p")), now=0.0)
    first = engine.decide(now=0.0)
    assert first is not None
    assert first.outcome is not Outcome.SCHEDULED
    engine.handle(ReadingSeen(x(a=70.0)), now=60.0)
    second = engine.decide(now=60.0)
    assert second is not None
    assert second.outcome is Outcome.SCHEDULED


def test_the_plugins_keep_the_contract() -> None:
    seeds = some(range(12), 3)
    check_plugin(ReadingLimit({"x": 5.0}, {"x": 1.0}), seeds=seeds)
    check_plugin(ReadingScore("x", best=0.0, worst=10.0), seeds=seeds)
    check_plugin(GpuReadingScore("x", best=0.0, worst=10.0), seeds=seeds)
