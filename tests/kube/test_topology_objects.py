"""Objects that describe the topology, as users write them."""

from typing import Any

import msgspec
import pytest

from builders import a_node
from fairlead.kube.gangs.topology_objects import (
    MOST_NODES,
    MOST_PATTERNS,
    TopologyObject,
    decode_topology,
)
from fairlead.model.hyper_nodes import HyperNode
from fairlead.model.topology import Topology

Json = dict[str, Any]


def read(dialect: str, spec: Json) -> TopologyObject:
    meta = {"name": "default", "uid": "u", "resourceVersion": "7"}
    return decode_topology(dialect, msgspec.json.encode({"metadata": meta, "spec": spec}))


def levels(*labels: str) -> Json:
    return {"levels": [{"nodeLabel": label} for label in labels]}


@pytest.mark.parametrize("dialect", ["kai", "kueue"])
def test_levels_are_labels_the_widest_first(dialect: str) -> None:
    found = read(dialect, levels("example.com/block", "example.com/rack", "kubernetes.io/hostname"))
    assert isinstance(found.described, Topology)
    assert found.described.labels == ("example.com/block", "example.com/rack")
    assert not found.problem


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({}, "0 levels"),
        (levels(*(f"l{n}" for n in range(30))), "30 levels"),
        (levels("no label!"), "is no label"),
        (levels("a", "a"), "twice"),
        (levels("kubernetes.io/hostname", "rack"), "must be the last"),
        ({"levels": 7}, "Expected"),
    ],
)
def test_levels_that_make_no_sense_are_named(spec: Json, problem: str) -> None:
    found = read("kai", spec)
    assert found.described is None
    assert problem in found.problem


def member(type_: str, **selector: Json) -> Json:
    return {"type": type_, "selector": selector}


FIVE_LABELS: Json = {"matchLabels": {f"l{number}": "x" for number in range(5)}}


def hyper_node(*members: Json, tier: int = 1) -> TopologyObject:
    return read("volcano", {"tier": tier, "tierName": "rack", "members": [*members]})


def test_a_hyper_node_names_nodes_in_three_ways() -> None:
    found = hyper_node(
        member("Node", exactMatch={"name": "n1"}),
        member("Node", regexMatch={"pattern": "^gpu-[0-9]+$"}),
        member("Node", labelMatch={
            "matchLabels": {"rack": "a"},
            "matchExpressions": [{"key": "old", "operator": "DoesNotExist"}],
        }),
        member("HyperNode", exactMatch={"name": "s0"}),
        tier=2,
    ).described  # fmt: skip
    assert isinstance(found, HyperNode)
    assert (found.name, found.tier, found.tier_name) == ("default", 2, "rack")
    assert (found.nodes, found.hyper_nodes) == ({"n1"}, ("s0",))
    assert found.matches(a_node("gpu-17"))
    assert found.matches(a_node("x", labels={"rack": "a"}))
    assert not found.matches(a_node("x", labels={"rack": "a", "old": ""}))


@pytest.mark.parametrize(
    ("members", "problem"),
    [
        ([member("Node", regexMatch={"pattern": "a("})], "pattern cannot be used"),
        ([member("Node", regexMatch={"pattern": ".*a.{60}"})], "too many states"),
        ([member("Node", regexMatch={"pattern": "a"})] * (MOST_PATTERNS + 1), "the limit"),
        ([member("Node", exactMatch={"name": "n"})] * (MOST_NODES + 1), "the limit"),
        ([member("Node", labelMatch=FIVE_LABELS)] * 13, "65 of the lines of labelMatch"),
        ([member("HyperNode", regexMatch={"pattern": "a"})], "no exactMatch"),
        ([member("Rack", exactMatch={"name": "n"})], "another type"),
    ],
)
def test_a_hyper_node_that_makes_no_sense_is_named(members: list[Json], problem: str) -> None:
    found = hyper_node(*members)
    assert found.described is None
    assert problem in found.problem


def test_a_selector_that_says_nothing_selects_nothing() -> None:
    """As in Volcano; elsewhere an empty selector means everything."""
    found = hyper_node(member("Node", labelMatch={}), member("Node")).described
    assert isinstance(found, HyperNode)
    assert not found.matches(a_node("n1"))


def test_a_tier_out_of_range_is_named() -> None:
    assert "spec.tier is -1" in hyper_node(tier=-1).problem
