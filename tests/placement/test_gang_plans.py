"""Plans for gangs keep their topology rules, and are what trying everything would find."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import SCHEDULER, a_node, a_pod
from examples import examples
from fairlead.apps.config.profiles import built_in
from fairlead.cluster.cluster import Cluster
from fairlead.model.gangs import GangSpec, Group, Membership, TopologyRule
from fairlead.model.pods import Pod
from fairlead.model.topology import Topology, TopologyLevel
from fairlead.placement import topology_solver
from fairlead.placement.gang_topology import GangPlan, GangPlans
from fairlead.placement.place import Placement
from fairlead.placement.rank_order import ring_crossings

BLOCK, RACK = "example.com/block", "example.com/rack"
LEVELS = Topology((TopologyLevel(BLOCK), TopologyLevel(RACK)))


def racks(**free: Sequence[int]) -> Cluster:
    """Nodes by rack with so many free GPUs each; the first letter of a rack is its block."""
    cluster = Cluster()
    cluster.topology.configured = LEVELS
    for rack, each in free.items():
        for number, gpus in enumerate(each):
            labels = {BLOCK: rack[0], RACK: rack[1:]} if rack != "none" else {}
            cluster.put_node(a_node(f"{rack}-{number}", gpus=gpus, labels=labels))
    return cluster


def members(count: int, gpus: int = 1, group: str = "", start: int = 0) -> list[Pod]:
    return [
        a_pod(f"{group}{n}", gpus=gpus, gang=Membership("g", group, n))
        for n in range(start, start + count)
    ]


def plans(
    cluster: Cluster,
    pods: Sequence[Pod],
    *rules: TopologyRule,
    waited_s: float = 0.0,
    **more: object,
) -> GangPlans:
    placed = more.pop("placed", {})
    spec = GangSpec("g", len(pods), topology=rules, **more)
    placements = {SCHEDULER: Placement(built_in(SCHEDULER), cluster)}
    return GangPlans(spec, pods, placed, cluster, placements, waited_s)


def nodes(cluster: Cluster, plan: GangPlan | None) -> list[str]:
    """Of the pods in the order of their ranks."""
    assert plan is not None
    return [cluster.node_at(plan.rows[pod.uid]).name for pod in plan.order]


def first(found: GangPlans) -> GangPlan | None:
    return next(iter(found), None)


def domains(names: list[str]) -> dict[str, int]:
    return dict(Counter(name.partition("-")[0] for name in names))


REQUIRED = TopologyRule(RACK)
PREFERRED = TopologyRule(RACK, required=False)


def test_one_rack_is_required() -> None:
    cluster = racks(a1=[4, 4], a2=[8, 1], b1=[4, 4, 4])
    found = nodes(cluster, first(plans(cluster, members(12), REQUIRED)))
    assert domains(found) == {"b1": 12}
    assert first(plans(cluster, members(13), REQUIRED)) is None


def test_of_racks_that_do_the_fullest_is_used_and_the_fewest_nodes() -> None:
    cluster = racks(a1=[8, 8, 8], a2=[2, 4, 8, 2, 1], b1=[8, 8])
    assert set(nodes(cluster, first(plans(cluster, members(8), REQUIRED)))) == {"b1-0"}
    assert set(nodes(cluster, first(plans(cluster, members(12), REQUIRED)))) == {"a2-1", "a2-2"}


def test_one_rack_is_preferred_to_two_and_two_of_one_block_to_two_of_two() -> None:
    cluster = racks(a1=[4, 4], a2=[4], b1=[4, 4], b2=[2, 2, 2, 2])
    assert domains(nodes(cluster, first(plans(cluster, members(8), PREFERRED)))) == {"a1": 8}
    found = nodes(cluster, first(plans(cluster, members(16), PREFERRED)))
    assert domains(found) == {"b1": 8, "b2": 8}


def test_nodes_without_the_label_come_last() -> None:
    cluster = racks(a1=[2, 2], a2=[2], b1=[2], none=[8])
    found = nodes(cluster, first(plans(cluster, members(8), PREFERRED)))
    assert domains(found) == {"a1": 4, "a2": 2, "b1": 2}
    found = nodes(cluster, first(plans(cluster, members(9), PREFERRED)))
    assert "none" in domains(found)
    assert first(plans(cluster, members(5), REQUIRED)) is None


def test_a_required_rule_with_patience_allows_one_rack_more_each_time() -> None:
    cluster = racks(a1=[4], a2=[4], b1=[4])
    rule = replace(REQUIRED, patience_s=600.0)
    assert first(plans(cluster, members(8), rule, waited_s=599.0)) is None
    found = nodes(cluster, first(plans(cluster, members(8), rule, waited_s=600.0)))
    assert domains(found) == {"a1": 4, "a2": 4}
    assert first(plans(cluster, members(12), rule, waited_s=601.0)) is None
    assert first(plans(cluster, members(12), rule, waited_s=1200.0)) is not None


def test_a_preferred_rule_with_patience_is_required_at_first() -> None:
    cluster = racks(a1=[4], b1=[4])
    rule = replace(PREFERRED, patience_s=60.0)
    assert first(plans(cluster, members(8), rule, waited_s=59.0)) is None
    assert first(plans(cluster, members(8), rule, waited_s=60.0)) is not None


def test_a_replaced_member_stays_in_the_rack_of_the_others() -> None:
    cluster = racks(a1=[1, 1], b1=[8])
    placed = {"": ["a1-0"]}
    found = nodes(cluster, first(plans(cluster, members(1), REQUIRED, placed=placed)))
    assert domains(found) == {"a1": 1}
    assert first(plans(cluster, members(3), REQUIRED, placed=placed)) is None
    soft = nodes(cluster, first(plans(cluster, members(1), PREFERRED, placed=placed)))
    assert domains(soft) == {"a1": 1}


def test_sets_of_ranks_stay_in_one_rack() -> None:
    cluster = racks(a1=[6], a2=[6], b1=[8])
    sets = Group("w", 0, set_size=4, set_topology=(REQUIRED,))
    found = nodes(cluster, first(plans(cluster, members(16, group="w"), groups=(sets,))))
    each = [{name.partition("-")[0] for name in found[n : n + 4]} for n in range(0, 16, 4)]
    assert [len(racks_of_set) for racks_of_set in each] == [1] * 4
    assert first(plans(cluster, members(20, group="w"), groups=(sets,))) is None
    soft = replace(sets, set_topology=(PREFERRED,))
    assert first(plans(cluster, members(20, group="w"), groups=(soft,))) is not None


def test_the_last_set_is_the_one_that_is_not_full() -> None:
    cluster = racks(a1=[6], a2=[4], b1=[8])
    sets = Group("w", 0, set_size=4, set_topology=(REQUIRED,))
    found = nodes(cluster, first(plans(cluster, members(18, group="w"), groups=(sets,))))
    each = [{name.partition("-")[0] for name in found[n : n + 4]} for n in range(0, 18, 4)]
    assert all(len(racks_of_set) == 1 for racks_of_set in each)


def test_groups_have_racks_of_their_own_in_one_block() -> None:
    cluster = racks(a1=[8, 8], a2=[4], b1=[8], b2=[8])
    groups = (
        Group("decode", 0, topology=(REQUIRED,)),
        Group("prefill", 0, topology=(REQUIRED,)),
    )
    pods = [*members(2, 4, "decode"), *members(8, 1, "prefill")]
    found = plans(cluster, pods, TopologyRule(BLOCK), groups=groups)
    plan = first(found)
    names = nodes(cluster, plan)
    assert {name[0] for name in names} in ({"a"}, {"b"})
    racks_of: dict[str, set[str]] = {}
    for name, pod in zip(names, plan.order, strict=True):
        racks_of.setdefault(pod.gang.group, set()).add(name.partition("-")[0])
    assert [len(each) for each in racks_of.values()] == [1, 1]


def test_unequal_pods_share_nodes_and_racks() -> None:
    cluster = racks(a1=[8, 8, 8], a2=[8, 8], b1=[8, 4, 4])
    pods = [*members(2, 4), *members(8, 1, start=2)]
    found = nodes(cluster, first(plans(cluster, pods, REQUIRED)))
    assert domains(found) == {"a2": 10}
    assert len(set(found)) == 2


def test_a_row_that_takes_fewer_pods_than_planned_is_not_planned_again() -> None:
    cluster = racks(a1=[4, 4], b1=[4, 4, 4])
    found = plans(cluster, members(8), REQUIRED)
    seen = []
    for plan in found:
        seen.append(domains(nodes(cluster, plan)) if plan.rows else None)
        found.learn(plan, [uid for uid, row in plan.rows.items() if row != 0], ())
    assert seen[0] == {"a1": 8}
    assert seen[1] == {"b1": 8}
    assert seen[-1] is None  # any node of the last domain
    assert len(seen) == 3


def test_an_elastic_gang_gets_as_many_pods_as_one_rack_takes() -> None:
    cluster = racks(a1=[4, 2], b1=[5])
    pods = members(8)
    found = GangPlans(
        GangSpec("g", 4, topology=(REQUIRED,)), pods, {}, cluster,
        {SCHEDULER: Placement(built_in(SCHEDULER), cluster)}, 0.0, needed=4,
    )  # fmt: skip
    plan = first(found)
    assert domains(nodes(cluster, plan)) == {"a1": 6}
    assert [pod.name for pod in plan.order] == [pod.name for pod in pods[:6]]


def test_ring_neighbours_share_a_node_then_a_rack() -> None:
    cluster = racks(a1=[4] * 4, a2=[4] * 4, b1=[4] * 4, b2=[4] * 4)
    found = plans(cluster, members(64), PREFERRED)
    plan = first(found)
    rows = np.array([plan.rows[pod.uid] for pod in plan.order])
    assert ring_crossings(rows, found.tree) == (2, 4, 16)
    shuffled = np.random.default_rng(1).permutation(rows)
    assert ring_crossings(shuffled, found.tree)[1] > 40


def by_trying_everything(cluster: Cluster, pods: int, most: int | None) -> tuple[int, ...] | None:
    """Racks, blocks, nodes."""
    free = [dict(n.allocatable).get("nvidia.com/gpu", 0) for n in cluster.columns.nodes if n]
    names = [n.name.partition("-")[0] for n in cluster.columns.nodes if n]
    best = None
    for taken in product(*(range(each + 1) for each in free)):
        if sum(taken) == pods:
            used = [name for name, count in zip(names, taken, strict=True) if count]
            value = len(set(used)), len({name[0] for name in used}), len(used)
            if (most is None or value[0] <= most) and (best is None or value < best):
                best = value
    return best


@examples(60)
@given(
    st.dictionaries(
        st.sampled_from(["a1", "a2", "b1"]), st.lists(st.integers(0, 3), min_size=1, max_size=2),
        min_size=1,
    ),
    st.integers(1, 8), st.booleans(),
)  # fmt: skip
def test_nothing_is_better(free: dict[str, list[int]], pods: int, required: bool) -> None:
    cluster = racks(**free)
    best = by_trying_everything(cluster, pods, 1 if required else None)
    plan = first(plans(cluster, members(pods), replace(REQUIRED, required=required)))
    assert (plan is None) == (best is None)
    if plan is not None:
        names = nodes(cluster, plan)
        found = domains(names)
        assert (len(found), len({rack[0] for rack in found}), len(set(names))) == best


@pytest.mark.parametrize("pods", [2000, 2001])
@pytest.mark.parametrize("most_work", [0, topology_solver.MOST_WORK])
def test_a_very_large_gang_is_planned_in_bounded_work(
    pods: int, most_work: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topology_solver, "MOST_WORK", most_work)
    cluster = racks(**{f"{'ab'[n % 2]}{n}": [8] * 20 for n in range(20)})
    sets = Group("w", 0, set_size=8, set_topology=(REQUIRED,))
    plan = first(plans(cluster, members(pods, group="w"), PREFERRED, groups=(sets,)))
    names = nodes(cluster, plan)
    assert sum(domains(names).values()) == pods
    assert len(domains(names)) == -(-pods // 160)
    each = [{name.partition("-")[0] for name in names[n : n + 8]} for n in range(0, pods, 8)]
    assert all(len(racks_of_set) == 1 for racks_of_set in each)


@pytest.mark.parametrize("required", [True, False])
def test_the_greedy_choice_keeps_the_rules(required: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topology_solver, "MOST_WORK", 0)
    cluster = racks(a1=[4, 4], a2=[8, 1], b1=[4, 4, 4])
    rule = replace(REQUIRED, required=required)
    assert domains(nodes(cluster, first(plans(cluster, members(12), rule)))) == {"b1": 12}
    assert (first(plans(cluster, members(13), rule)) is None) == required
