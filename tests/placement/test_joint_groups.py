"""Groups of one gang with topology rules of their own: if they fit together, a plan is found."""

from collections.abc import Sequence
from itertools import product

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
from fairlead.placement.gang_topology import GangPlan, GangPlans
from fairlead.placement.joint_groups import JointGroups
from fairlead.placement.place import Placement
from fairlead.placement.unequal_pods import Kinds, Taken

BLOCK, RACK, POOL = "example.com/block", "example.com/rack", "example.com/pool"
ONE_RACK = TopologyRule(RACK)

#: Racks of nodes with so many free GPUs; groups of pods with so many GPUs each.
Racks = Sequence[Sequence[int]]
Sizes = Sequence[Sequence[int]]


def cluster_of(racks: Racks) -> Cluster:
    cluster = Cluster()
    cluster.topology.configured = Topology((TopologyLevel(BLOCK), TopologyLevel(RACK)))
    for rack, nodes in enumerate(racks):
        for number, gpus in enumerate(nodes):
            labels = {BLOCK: str(rack // 2), RACK: str(rack), POOL: str(rack % 2)}
            cluster.put_node(a_node(f"r{rack}-{number}", gpus=gpus, labels=labels))
    return cluster


def pods_of(sizes: Sizes, pools: Sequence[str | None] = ()) -> list[Pod]:
    found = []
    for group, each in enumerate(sizes):
        pool = pools[group] if group < len(pools) else None
        selector = ((POOL, pool),) if pool is not None else ()
        found += [
            a_pod(f"g{group}-{n}", uid=f"g{group}-{n}", gpus=gpus, node_selector=selector,
                  gang=Membership("g", f"g{group}", n))
            for n, gpus in enumerate(each)
        ]  # fmt: skip
    return found


def first_plan(
    cluster: Cluster, pods: Sequence[Pod], groups: int, *rules: TopologyRule
) -> GangPlan | None:
    each = tuple(Group(f"g{n}", 0, topology=(ONE_RACK,)) for n in range(groups))
    spec = GangSpec("g", len(pods), topology=rules, groups=each)
    placements = {SCHEDULER: Placement(built_in(SCHEDULER), cluster)}
    return next(iter(GangPlans(spec, pods, {}, cluster, placements, 0.0)), None)


def fits(racks: Racks, sizes: Sizes, pools: Sequence[str | None], one_block: bool) -> bool:
    """By trying everything."""
    for chosen in product(range(len(racks)), repeat=len(sizes)):
        if one_block and len({rack // 2 for rack in chosen}) > 1:
            continue
        if any(pool is not None and str(rack % 2) != pool
               for rack, pool in zip(chosen, pools, strict=False)):  # fmt: skip
            continue
        per_rack = [
            [size for rack_, each in zip(chosen, sizes, strict=True) if rack_ == rack
             for size in each]
            for rack in range(len(racks))
        ]  # fmt: skip
        if all(
            _packs(sorted(each, reverse=True), list(racks[n])) for n, each in enumerate(per_rack)
        ):
            return True
    return False


def _packs(sizes: Sequence[int], free: list[int]) -> bool:
    if not sizes:
        return True
    for node, left in enumerate(free):
        if left >= sizes[0]:
            free[node] -= sizes[0]
            if _packs(sizes[1:], free):
                return True
            free[node] += sizes[0]
    return False


def keeps_the_rules(cluster: Cluster, plan: GangPlan, racks: Racks) -> None:
    used: dict[str, int] = {}
    where: dict[str, set[str]] = {}
    for pod in plan.order:
        node = cluster.node_at(plan.rows[pod.uid])
        used[node.name] = used.get(node.name, 0) + pod.request.amount("nvidia.com/gpu")
        assert pod.gang is not None
        where.setdefault(pod.gang.group, set()).add(node.labels[RACK])
    free = {f"r{r}-{n}": gpus for r, each in enumerate(racks) for n, gpus in enumerate(each)}
    assert all(used[name] <= free[name] for name in used)
    assert all(len(each) == 1 for each in where.values())


sizes_of_a_group = st.lists(st.integers(1, 4), min_size=1, max_size=3)


@examples(150)
@given(
    racks=st.lists(st.lists(st.integers(0, 6), min_size=1, max_size=3), min_size=2, max_size=4),
    sizes=st.lists(sizes_of_a_group, min_size=2, max_size=3),
    pools=st.lists(st.sampled_from([None, "0", "1"]), min_size=0, max_size=3),
    one_block=st.booleans(),
)
def test_groups_that_fit_together_are_planned(
    racks: Racks, sizes: Sizes, pools: Sequence[str | None], one_block: bool
) -> None:
    cluster, pods = cluster_of(racks), pods_of(sizes, pools)
    plan = first_plan(cluster, pods, len(sizes), *([TopologyRule(BLOCK)] if one_block else []))
    assert (plan is not None) == fits(racks, sizes, pools, one_block)
    if plan is not None:
        assert len(plan.rows) == len(pods)
        keeps_the_rules(cluster, plan, racks)


def test_a_group_leaves_the_rack_that_only_another_can_use() -> None:
    """The larger group comes first, and the first rack would be its best."""
    racks = [[4, 4], [4, 4, 4]]
    sizes = [[4, 4], [2]]
    plan = first_plan(cluster_of(racks), pods_of(sizes, [None, "0"]), 2)
    assert plan is not None
    keeps_the_rules(cluster_of(racks), plan, racks)


def test_members_that_are_bound_keep_the_domain_of_their_group() -> None:
    cluster = cluster_of([[4, 4], [4, 4, 4]])
    pods = pods_of([[4], [4, 4]])
    each = tuple(Group(f"g{n}", 0, topology=(ONE_RACK,)) for n in range(2))
    spec = GangSpec("g", 3, groups=each)
    placements = {SCHEDULER: Placement(built_in(SCHEDULER), cluster)}
    plans = GangPlans(spec, pods, {"g0": ["r0-0"]}, cluster, placements, 0.0)
    plan = next(iter(plans))
    rows = {uid: cluster.node_at(row).name for uid, row in plan.rows.items()}
    assert rows["g0-0"].startswith("r0")
    assert {name[:2] for uid, name in rows.items() if uid != "g0-0"} == {"r1"}


def test_what_is_tried_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twelve groups in pairs would fit by sums, and never by nodes."""
    racks = [[3] * 4 for _ in range(12)]
    pods = pods_of([[2, 2, 2]] * 24)
    solved = 0
    own = JointGroups._solved

    def counted(self: JointGroups, kinds: Kinds) -> Taken | None:
        nonlocal solved
        solved += 1
        return own(self, kinds)

    monkeypatch.setattr(JointGroups, "_solved", counted)
    assert first_plan(cluster_of(racks), pods, 24) is None
    assert 0 < solved < 100
