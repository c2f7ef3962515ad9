"""HyperNodes of Volcano as levels: which nodes are in which, and what contradicts itself."""

import pytest

from builders import a_node
from fairlead.cluster import hyper_nodes
from fairlead.cluster.cluster import Cluster
from fairlead.cluster.topology_levels import DomainTree
from fairlead.model.hyper_nodes import HyperNode
from fairlead.model.name_patterns import NamePattern
from fairlead.model.selectors import LabelSelector, Requirement
from fairlead.model.topology import MOST_LEVELS, TIER, Topology, TopologyLevel


def a_cluster(*found: HyperNode, nodes: int = 6) -> Cluster:
    cluster = Cluster()
    for each in found:
        cluster.topology.put_hyper_node(each.name, each)
    for number in range(nodes):
        cluster.put_node(a_node(f"n{number}", labels={"rack": str(number // 2)}))
    return cluster


def of(name: str, tier: int, *nodes: int, **more: object) -> HyperNode:
    return HyperNode(name, tier, nodes=frozenset(f"n{each}" for each in nodes), **more)  # type: ignore[arg-type]


def domains(cluster: Cluster, word: str) -> list[set[str]]:
    """The nodes of each domain of a level."""
    tree = cluster.topology.tree([word])
    level = tree.place(word)
    assert level is not None
    return _named(cluster, tree, level)


def _named(cluster: Cluster, tree: DomainTree, level: int) -> list[set[str]]:
    codes, inside = tree.at(level)
    found: dict[int, set[str]] = {}
    for name, row in cluster.row_of.items():
        if inside[row]:
            found.setdefault(int(codes[row]), set()).add(name)
    return sorted(found.values(), key=min)


def test_tiers_are_levels_and_contain_those_below() -> None:
    cluster = a_cluster(
        of("s0", 1, 0, 1), of("s1", 1, 2, 3), of("s2", 1, 4, 5),
        of("s3", 2, hyper_nodes=("s0", "s1")), of("s4", 2, hyper_nodes=("s2",)),
    )  # fmt: skip
    assert domains(cluster, f"{TIER}1") == [{"n0", "n1"}, {"n2", "n3"}, {"n4", "n5"}]
    assert domains(cluster, f"{TIER}2") == [{"n0", "n1", "n2", "n3"}, {"n4", "n5"}]


@pytest.mark.parametrize(("word", "sizes"), [("0", None), ("3", [2, 2]), ("6", [6]), ("99", [6])])
def test_a_tier_that_does_not_exist_means_the_next_below(
    word: str, sizes: list[int] | None
) -> None:
    """Above the highest, all nodes are near enough."""
    cluster = a_cluster(of("a", 2, 0, 1), of("b", 2, 2, 3), of("c", 5, hyper_nodes=("a", "b")))
    if sizes is None:
        assert domains(cluster, f"{TIER}{word}") == []
    else:
        assert [len(each) for each in domains(cluster, f"{TIER}{word}")] == sizes


def test_a_tier_has_the_name_that_rules_use() -> None:
    cluster = a_cluster(of("a", 1, 0, 1, tier_name="nvlink"), of("b", 1, 2, 3))
    assert domains(cluster, "nvlink") == [{"n0", "n1"}, {"n2", "n3"}]


def test_nodes_are_found_by_pattern_and_by_label_whenever_they_come() -> None:
    cluster = a_cluster(
        HyperNode("a", 1, patterns=(NamePattern("^n[01]$"),)),
        HyperNode("b", 1, selectors=(LabelSelector((Requirement("rack", "In", ("1",)),)),)),
    )
    assert domains(cluster, f"{TIER}1") == [{"n0", "n1"}, {"n2", "n3"}]
    cluster.put_node(a_node("n5", labels={"rack": "1"}))  # it had rack 2
    assert domains(cluster, f"{TIER}1") == [{"n0", "n1"}, {"n2", "n3", "n5"}]
    cluster.put_node(a_node("n2", labels={}))
    cluster.remove_node("n3")
    assert domains(cluster, f"{TIER}1") == [{"n0", "n1"}, {"n5"}]
    late = HyperNode("c", 1, patterns=(NamePattern("[24]"),))
    cluster.topology.put_hyper_node("c", late)
    assert domains(cluster, f"{TIER}1") == [{"n0", "n1"}, {"n2", "n4"}, {"n5"}]
    cluster.topology.put_hyper_node("a", None)
    assert domains(cluster, f"{TIER}1") == [{"n2", "n4"}, {"n5"}]


def problems(cluster: Cluster) -> tuple[str, ...]:
    return cluster.topology.tree([f"{TIER}1"]).topology.problems


def test_a_node_in_two_hyper_nodes_of_a_tier_is_in_neither() -> None:
    cluster = a_cluster(of("a", 1, 0, 1), of("b", 1, 1, 2))
    assert domains(cluster, f"{TIER}1") == [{"n0"}, {"n2"}]
    assert problems(cluster) == (
        "the HyperNodes a and b of tier 1 contain the same nodes; these are left out of the tier",
    )


def test_hyper_nodes_that_contain_each_other_are_told_apart_by_their_tiers() -> None:
    cluster = a_cluster(of("a", 1, 0, hyper_nodes=("b",)), of("b", 2, 1, hyper_nodes=("a", "b")))
    assert domains(cluster, f"{TIER}1") == [{"n0"}]
    assert domains(cluster, f"{TIER}2") == [{"n0", "n1"}]
    assert "the HyperNode a of tier 1 contains b of tier 2" in problems(cluster)[0]


def test_more_tiers_than_levels_are_left_out_at_the_top() -> None:
    chain = [of("t1", 1, 0, 1)]
    chain += [of(f"t{n}", n, hyper_nodes=(f"t{n - 1}",)) for n in range(2, 2 * MOST_LEVELS)]
    cluster = a_cluster(*chain)
    assert cluster.topology.tree([f"{TIER}1"]).depth == MOST_LEVELS
    assert problems(cluster) == (f"HyperNodes have 47 tiers; the limit is {MOST_LEVELS - 1}",)


def test_members_beyond_the_limit_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hyper_nodes, "MOST_MEMBERS", 10)
    every = NamePattern("")
    cluster = a_cluster(*(HyperNode(f"h{n}", n, patterns=(every,)) for n in range(1, 9)))
    kept = sum(map(len, cluster.topology._hyper_nodes._matched.values()))
    assert kept <= 10
    cluster.topology.tree([f"{TIER}1"])


def test_all_nodes_are_compared_as_one_is() -> None:
    """A HyperNode that comes late asks about all nodes at once, a node that comes about itself."""
    lines = [
        Requirement("rack", "In", ("0", "2")),
        Requirement("rack", "NotIn", ("1",)),
        Requirement("rack", "Exists"),
        Requirement("none", "DoesNotExist"),
        Requirement("rack", "Gt", ("1",)),
    ]
    for line in lines:
        found = HyperNode("a", 1, selectors=(LabelSelector((line, lines[2])),))
        late = a_cluster()
        late.topology.put_hyper_node("a", found)
        assert domains(late, f"{TIER}1") == domains(a_cluster(found), f"{TIER}1"), line


def test_hyper_nodes_in_others_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hyper_nodes, "MOST_INNER", 2)
    cluster = a_cluster(
        of("s0", 1, 0), of("s1", 1, 1), of("s2", 1, 2), of("t", 2, hyper_nodes=("s0", "s1", "s2"))
    )
    assert domains(cluster, f"{TIER}2") == [{"n0", "n1"}]
    assert problems(cluster) == ("HyperNodes contain more than 2 others; the rest is left out",)


def test_hyper_nodes_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hyper_nodes, "MOST_HYPER_NODES", 1)
    cluster = a_cluster(of("a", 1, 0), of("b", 1, 1))
    assert domains(cluster, f"{TIER}1") == [{"n0"}]
    assert "more than 1 HyperNodes" in problems(cluster)[0]


def test_patterns_of_all_hyper_nodes_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each node that comes is compared with all of them."""
    monkeypatch.setattr(hyper_nodes, "MOST_SELECTORS", 3)
    two = NamePattern("0"), NamePattern("1")
    cluster = a_cluster(HyperNode("a", 1, patterns=two), HyperNode("b", 1, patterns=two))
    assert domains(cluster, f"{TIER}1") == [{"n0", "n1"}]
    assert "more than 3 patterns and label selectors" in problems(cluster)[0]
    cluster.topology.put_hyper_node("a", None)
    cluster.topology.put_hyper_node("b", HyperNode("b", 1, patterns=two[:1]))
    assert domains(cluster, f"{TIER}1") == [{"n0"}]


def test_the_members_of_hyper_nodes_are_work() -> None:
    cluster = a_cluster(*(of(f"h{n}", n, *range(100)) for n in range(1, 11)), nodes=100)
    before = cluster.work.spent
    cluster.topology.tree([f"{TIER}1"])
    assert cluster.work.spent - before >= 10 * 100 * hyper_nodes.ROWS_OF_MEMBER // 200


def test_configured_levels_come_first() -> None:
    cluster = a_cluster(of("a", 1, 0, 1))
    cluster.topology.configured = Topology((TopologyLevel("rack", f"{TIER}1"),))
    assert len(domains(cluster, f"{TIER}1")) == 3
