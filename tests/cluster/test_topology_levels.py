"""Domains of nodes: paths of values, from configured, known or named labels."""

import numpy as np
import pytest

from builders import a_node
from fairlead.cluster.cluster import Cluster
from fairlead.cluster.topology_levels import MOST_TREES, DomainTree
from fairlead.model.topology import KNOWN, MOST_LEVELS, Topology, TopologyLevel

ZONE = "topology.kubernetes.io/zone"
BLOCK, RACK = "example.com/block", "example.com/rack"
CONFIGURED = Topology((TopologyLevel(BLOCK), TopologyLevel(RACK, "cabinet")))


def a_cluster(*labels: dict[str, str]) -> Cluster:
    cluster = Cluster()
    for number, each in enumerate(labels):
        cluster.put_node(a_node(f"n{number}", labels=each))
    return cluster


def parts(tree: DomainTree, level: int) -> list[set[int]]:
    """The rows of each domain that has a label."""
    domains, inside = tree.at(level)
    codes = sorted(set(domains[inside].tolist()))
    return [set(np.flatnonzero((domains == code) & inside).tolist()) for code in codes]


def test_a_domain_is_the_path_of_values() -> None:
    cluster = a_cluster(
        {BLOCK: "a", RACK: "1"}, {BLOCK: "b", RACK: "1"}, {BLOCK: "a", RACK: "1"},
        {BLOCK: "a", RACK: "2"},
    )  # fmt: skip
    cluster.topology.configured = CONFIGURED
    tree = cluster.topology.tree([RACK])
    assert parts(tree, 0) == [{0, 2, 3}, {1}]
    assert parts(tree, 1) == [{0, 2}, {3}, {1}]
    assert parts(tree, tree.depth) == [{0}, {1}, {2}, {3}]


def test_a_node_without_the_label_is_outside_the_level() -> None:
    cluster = a_cluster({BLOCK: "a", RACK: "1"}, {BLOCK: "a"}, {RACK: "1"}, {}, {})
    cluster.topology.configured = CONFIGURED
    tree = cluster.topology.tree([RACK])
    assert parts(tree, 0) == [{0, 1}]
    assert parts(tree, 1) == [{2}, {0}]
    assert len({int(tree.domains[0, row]) for row in (0, 2, 3, 4)}) == 4  # not near each other


def test_numbers_of_domains_follow_those_above() -> None:
    rng = np.random.default_rng(1)
    cluster = a_cluster(*({BLOCK: str(b), RACK: str(r)} for b, r in rng.integers(0, 4, (40, 2))))
    cluster.topology.configured = CONFIGURED
    above, below = cluster.topology.tree([RACK]).domains
    order = np.argsort(below, kind="stable")
    assert (np.diff(above[order]) >= 0).all()


@pytest.mark.parametrize(
    ("word", "level"), [(RACK, 1), ("cabinet", 1), ("block", 0), ("rack", None)]
)
def test_rules_name_levels_by_label_or_by_name(word: str, level: int | None) -> None:
    cluster = a_cluster({BLOCK: "a", RACK: "1"})
    cluster.topology.configured = CONFIGURED
    assert cluster.topology.tree([RACK]).place(word) == level


def test_a_level_may_have_the_name_that_another_api_uses() -> None:
    cluster = a_cluster({BLOCK: "a", RACK: "1"}, {BLOCK: "a", RACK: "2"})
    tiers = (BLOCK, "topology.volcano.sh/tier-2"), (RACK, "topology.volcano.sh/tier-1")
    cluster.topology.configured = Topology(tuple(TopologyLevel(*each) for each in tiers))
    tree = cluster.topology.tree(["topology.volcano.sh/tier-1"])
    assert parts(tree, tree.place("topology.volcano.sh/tier-1")) == [{0}, {1}]
    assert parts(tree, tree.place("topology.volcano.sh/tier-2")) == [{0, 1}]


@pytest.mark.parametrize("word", ["hostname", "kubernetes.io/hostname"])
def test_the_last_level_is_single_nodes(word: str) -> None:
    tree = a_cluster({ZONE: "a"}, {ZONE: "a"}).topology.tree([ZONE, word])
    assert tree.place(word) == tree.depth == 1


@pytest.mark.parametrize("name", sorted(KNOWN))
def test_known_sets_are_detected_from_the_widest_to_the_narrowest(name: str) -> None:
    labels = KNOWN[name]
    every = {ZONE: "z", "nvidia.com/gpu.clique": "c.1"} | dict.fromkeys(labels, "x")
    cluster = a_cluster(every, {})
    tree = cluster.topology.tree([labels[-1]])
    assert tree.topology.labels == (ZONE, *labels, "nvidia.com/gpu.clique")


def test_of_a_known_set_only_labels_that_nodes_have_are_levels() -> None:
    tiers = {f"fabric.topograph.run/tier-{n}": "x" for n in range(3)}
    tree = a_cluster(tiers, {}).topology.tree(["fabric.topograph.run/tier-1"])
    assert tree.topology.labels == tuple(f"fabric.topograph.run/tier-{n}" for n in (2, 1, 0))
    assert tree.place("tier-0") == 2


def test_a_rule_gets_the_set_that_its_label_is_in() -> None:
    aws = dict.fromkeys(KNOWN["AWS"][:3], "x")
    older = dict.fromkeys(KNOWN["Topograph before 1.0"][2:4], "y")
    topology = a_cluster(aws | older).topology
    assert topology.tree([KNOWN["AWS"][2]]).topology.labels == KNOWN["AWS"][:3]
    spine = topology.tree(["network.topology.nvidia.com/spine"])
    assert spine.topology.labels == KNOWN["Topograph before 1.0"][2:4]


def test_labels_of_no_set_are_levels_by_the_number_of_their_domains() -> None:
    topology = a_cluster(*({"row": str(n // 4), "aisle": str(n // 2)} for n in range(8))).topology
    assert topology.tree(["aisle", "row"]).topology.labels == ("row", "aisle")


def test_labels_that_no_node_has_make_a_level_without_nodes() -> None:
    tree = a_cluster({}, {}).topology.tree(["example.com/unknown"])
    assert parts(tree, 0) == []


def test_trees_follow_labels_and_nodes() -> None:
    cluster = a_cluster({RACK: "1"}, {RACK: "1"})
    topology = cluster.topology
    assert parts(topology.tree([RACK]), 0) == [{0, 1}]
    assert topology.tree([RACK]) is topology.tree([RACK])
    cluster.put_node(a_node("n1", labels={RACK: "2"}))
    assert parts(topology.tree([RACK]), 0) == [{0}, {1}]
    cluster.put_node(a_node("n2", labels={RACK: "2"}))
    assert parts(topology.tree([RACK]), 0) == [{0}, {1, 2}]
    cluster.remove_node("n0")
    assert parts(topology.tree([RACK]), 0) == [{1, 2}]


def test_other_changes_of_nodes_do_not_rebuild_a_tree() -> None:
    cluster = a_cluster({RACK: "1"}, {RACK: "1"})
    tree = cluster.topology.tree([RACK])
    cluster.put_node(a_node("n1", gpus=4, labels={RACK: "1"}))
    assert cluster.topology.tree([RACK]) is tree


def test_objects_list_levels_and_members() -> None:
    cluster = a_cluster({}, {}, {})
    members = {"tier-2": {"n0": "s2", "n1": "s2"}, "tier-1": {"n0": "s0", "n1": "s1"}}
    levels = TopologyLevel("tier-2"), TopologyLevel("tier-1")
    cluster.topology.put("hypernodes", Topology(levels, members))
    tree = cluster.topology.tree(["tier-1"])
    assert parts(tree, 0) == [{0, 1}]
    assert parts(tree, 1) == [{0}, {1}]
    cluster.topology.put("hypernodes", None)
    assert cluster.topology.tree(["tier-1"]).topology.labels == ("tier-1",)


def test_the_number_of_trees_and_levels_is_bounded() -> None:
    topology = a_cluster({f"l{n}": "x" for n in range(40)}).topology
    for n in range(3 * MOST_TREES):
        topology.tree([f"l{n}"])
    assert len(topology._trees) == MOST_TREES
    assert topology.tree([f"l{n}" for n in range(40)]).depth == MOST_LEVELS
