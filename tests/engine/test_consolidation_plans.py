"""Which moves would let a waiting unit start, and when there are none."""

import pytest

from builders import a_node, a_pod, see
from consolidation_world import NOW_S, a_plan, drawn_engine, plan_for, running, why_none
from fairlead.engine.consolidation.planner import USUAL
from fairlead.engine.consolidation.plans import ConsolidationPlan
from fairlead.engine.events import BudgetSeen, NodeSeen, QueueKindSeen, QueueSeen
from fairlead.model.budgets import Budget
from fairlead.model.consolidation import MoveLimits
from fairlead.model.gangs import GangSpec, Membership, TopologyRule
from fairlead.model.gpus import GpuRequest, GpuUse, Grant
from fairlead.model.pods import Pod
from fairlead.model.queues import QueueSpec
from fairlead.model.selectors import LabelSelector, Requirement
from fairlead.testing.builders import a_gpu_node, gpu_share
from gang_world import a_gang


def test_one_small_pod_moves_for_a_large_one() -> None:
    engine = drawn_engine("n1 aabbc...", "n2 aaaabb..")
    found = a_plan(engine, a_pod("big", gpus=4))
    assert [(m.pod.name, m.node, m.target) for m in found.moves] == [("n1-c", "n1", "n2")]
    assert [(s.pod.name, s.node) for s in found.starts] == [("big", "n1")]
    assert (found.moved_milli, found.lost_gpu_s, found.gained_gpu_s) == (1000, 1200.0, 4 * 3600.0)


def test_a_cluster_without_room_in_sum_is_not_consolidated() -> None:
    engine = drawn_engine("n1 abcdefg.", "n2 abcdefg.", "n3 abcdefg.")
    said = why_none(engine, a_pod("big", gpus=4))
    assert said == "3 free on 3 node(s), most on one: 1: too few in sum, so no move helps"


def test_one_free_gpu_on_each_of_eight_nodes_for_a_pod_of_four() -> None:
    engine = drawn_engine(*(f"n{n} abcdefg." for n in range(1, 9)))
    found = a_plan(engine, a_pod("big", gpus=4))
    assert len(found.moves) == 3
    assert {move.node for move in found.moves} == {found.starts[0].node}
    assert len({move.target for move in found.moves}) == 3


def test_no_plan_when_a_moved_pod_would_find_no_place() -> None:
    engine = drawn_engine("n1 aaaaa...", "n2 aaaaa...")
    assert "no moves were found" in why_none(engine, a_pod("big", gpus=4))


def test_a_second_pod_moves_so_that_the_first_can() -> None:
    """The pod of two on n1 fits nowhere, unless the pod of one on n2 goes to n3."""
    engine = drawn_engine("n1 aabbbb..", "n2 abbbbbb.", "n3 aaaaaaa.")
    found = a_plan(engine, a_pod("big", gpus=4))
    assert {(m.pod.name, m.target) for m in found.moves} == {("n1-a", "n2"), ("n2-a", "n3")}


@pytest.mark.parametrize(
    "fields",
    [
        {"controller": ""},
        {"controller": "DaemonSet/agent"},
        {"controller": "Node/n1"},
        {"scheduler": "another"},
        {"annotations": {"fairlead.dev/do-not-move": "true"}},
        {"annotations": {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}},
        {"annotations": {"descheduler.alpha.kubernetes.io/prefer-no-eviction": ""}},
        {"priority": 1},
        {"started": ""},
        {"started": "2026-01-01T11:55:00Z"},
        {"deleting": True},
    ],
)
def test_pods_that_must_not_be_moved_stay(fields: dict[str, object]) -> None:
    engine = drawn_engine("n1 aabbc...", "n2 aaaabb..", **fields)
    assert "pod(s)" in why_none(engine, a_pod("big", gpus=4))


def test_an_annotation_that_says_otherwise_protects_nothing() -> None:
    words = {
        "fairlead.dev/do-not-move": "false",
        "cluster-autoscaler.kubernetes.io/safe-to-evict": "true",
    }
    engine = drawn_engine("n1 aabbc...", "n2 aaaabb..", annotations=words)
    assert a_plan(engine, a_pod("big", gpus=4)).moves


@pytest.mark.parametrize(("allowed", "moves"), [(0, 0), (2, 0), (3, 3)])
def test_a_disruption_budget_must_allow_all_moves(allowed: int, moves: int) -> None:
    engine = drawn_engine(
        "n1 abcdefg.", "n2 aaaaaaa.", "n3 aaaaaaa.", "n4 aaaaaaa.", labels={"app": "web"}
    )
    selector = LabelSelector((Requirement("app", "In", ("web",)),))
    engine.handle(BudgetSeen(Budget("default", "web", selector=selector, allowed=allowed)), now=0.0)
    found = plan_for(engine, a_pod("big", gpus=4))
    assert len(found.moves if isinstance(found, ConsolidationPlan) else ()) == moves


@pytest.mark.parametrize(("least_s", "moves"), [(600.0, True), (3600.0, False)])
def test_the_least_run_time_of_a_queue_counts(least_s: float, moves: bool) -> None:
    key = "fairlead/research"
    engine = drawn_engine("n1 aabbc...", "n2 aaaabb..", queue=key)
    engine.handle(QueueSeen(QueueSpec(key, min_run_s=least_s)), now=0.0)
    engine.handle(QueueKindSeen("fairlead", is_served=True), now=0.0)
    engine.decide(now=0.0)
    found = plan_for(engine, a_pod("big", gpus=4))
    assert isinstance(found, ConsolidationPlan) is moves, found


def test_the_move_that_loses_least_work_is_chosen() -> None:
    engine = drawn_engine("n1 aaaab...", "n2 aaaab...", "n3 aaaaaaa.")
    saved = {"fairlead.dev/last-checkpoint": "2026-01-01T11:59:00Z"}
    see(engine, running("n2-b", 1, "n2", annotations=saved))
    found = a_plan(engine, a_pod("big", gpus=4))
    assert [move.pod.name for move in found.moves] == ["n2-b"]
    assert found.lost_gpu_s == 60.0


@pytest.mark.parametrize("said", ["2026-01-01T10:00:00Z", "2027-01-01T00:00:00Z", "yesterday", ""])
def test_a_checkpoint_before_the_start_or_in_the_future_is_none(said: str) -> None:
    words = {"fairlead.dev/last-checkpoint": said}
    engine = drawn_engine("n1 aaaab...", "n2 aaaaaaa.", annotations=words)
    assert a_plan(engine, a_pod("big", gpus=4)).lost_gpu_s == 1200.0


def test_work_is_not_thrown_away_for_less() -> None:
    engine = drawn_engine("n1 aaaab...", "n2 aaaaaaa.", started="2026-01-01T04:00:00Z")
    said = why_none(engine, a_pod("big", gpus=4))
    assert "lose 28800 GPU-seconds or more, and at most 14400 may be lost" in said
    assert a_plan(engine, a_pod("big", gpus=4), limits=MoveLimits(horizon_s=8000.0)).moves


def test_a_plan_keeps_its_allowance_of_moves() -> None:
    engine = drawn_engine(*(f"n{n} abcdefg." for n in range(1, 9)))
    said = why_none(engine, a_pod("big", gpus=4), limits=MoveLimits(most_moves=2))
    assert "moves of more than 2 pods are not planned" in said


def test_a_unit_that_fits_needs_no_moves() -> None:
    engine = drawn_engine("n1 aabbc...")
    assert why_none(engine, a_pod("small", gpus=2)) == "it fits as things are"


def test_moves_make_room_for_a_whole_gang() -> None:
    engine = drawn_engine(*(f"n{n} abc....." for n in range(1, 5)))
    found = a_plan(engine, *a_gang("train", 2, gpus=6))
    assert len(found.starts) == 2
    assert len(found.moves) == 2
    targets = {move.target for move in found.moves}
    assert targets.isdisjoint({start.node for start in found.starts})


def test_a_running_gang_moves_whole() -> None:
    engine = drawn_engine("n1 ........", "n2 ........", "n3 ........", "n4 aaaaaaa.")
    members = [
        running(f"train-{rank}", 3, f"n{rank + 1}", gang=pod.gang)
        for rank, pod in enumerate(a_gang("train", 3))
    ]
    see(engine, *members)
    found = a_plan(engine, a_pod("big", gpus=8))
    assert {move.pod.name for move in found.moves} == {"train-0", "train-1", "train-2"}
    assert found.moved_milli == 9000


@pytest.mark.parametrize(
    ("row", "pods"),
    [
        ("aaaaa...", [a_pod("big", gpus=4)]),
        ("abcde...", [a_pod("big", gpus=8)]),
        ("abcdefg.", a_gang("train", 40, gpus=8)),
        ("abcdefg.", a_gang("train", 200, gpus=2)),
    ],
)
def test_a_search_costs_no_more_than_its_limit(row: str, pods: list[Pod]) -> None:
    """What one trial of the unit costs comes on top: the limit is looked at after each."""
    engine = drawn_engine(*(f"n{number} {row}" for number in range(400)))
    see(engine, *pods)
    entry = engine.queue.get(pods[0].uid)
    assert entry is not None
    begun = engine.cluster.work.spent
    engine.planning.plan(entry, MoveLimits(), NOW_S)
    spent = engine.cluster.work.spent - begun
    assert spent < USUAL.most_work + 400 * len(pods) + 20_000


def test_nothing_changes_by_looking() -> None:
    engine = drawn_engine(*(f"n{n} abcdefg." for n in range(1, 9)))
    before = {uid: held.node for uid, held in engine.cluster.holdings.items()}
    a_plan(engine, a_pod("big", gpus=4))
    assert {uid: held.node for uid, held in engine.cluster.holdings.items()} == before
    assert not engine.cluster.in_trial
    assert not engine.cluster.nominations


def test_shares_move_together_so_that_whole_gpus_are_free() -> None:
    """Two GPUs on each of two nodes, each with one share of 0.4: two fit on one GPU."""
    engine = drawn_engine()
    for node in ("s1", "s2"):
        engine.handle(NodeSeen(a_gpu_node(node, 2)), now=0.0)
        for number in range(2):
            use = GpuUse(f"GPU-{node}-{number}", whole=False, milli=400)
            grant = Grant((use,), dialect="fairlead")
            share = gpu_share(400)
            see(engine, running(f"{node}-{number}", 0, node, gpu_request=share, grant=grant))
    pod = a_pod("big", gpus=2, gpu_request=GpuRequest(2))
    found = a_plan(engine, pod)
    assert {move.node for move in found.moves} == {found.starts[0].node}
    assert found.moved_milli == 800
    assert {move.target for move in found.moves}.isdisjoint({found.starts[0].node})


def test_a_pod_that_needs_no_particular_model_moves_for_one_that_does() -> None:
    engine = drawn_engine()
    for node, model in (("h1", "H100"), ("a1", "A100")):
        engine.handle(NodeSeen(a_gpu_node(node, 2, model=model)), now=0.0)
    grant = Grant((GpuUse("GPU-h1-0"), GpuUse("GPU-h1-1")))
    see(engine, running("any", 2, "h1", gpu_request=GpuRequest(2), grant=grant))
    asked = GpuRequest(2, models=frozenset({"H100"}))
    found = a_plan(engine, a_pod("big", gpus=2, gpu_request=asked))
    assert [(move.pod.name, move.target) for move in found.moves] == [("any", "a1")]


def test_room_is_made_in_one_rack_for_a_gang_that_requires_one() -> None:
    engine = drawn_engine()
    for number in range(1, 7):
        labels = {"rack": f"r{(number + 1) // 2}"}
        engine.handle(NodeSeen(a_node(f"n{number}", gpus=8, labels=labels)), now=0.0)
        taken = 3 if number < 5 else 5
        for letter in "abcde"[:taken]:
            see(engine, running(f"n{number}-{letter}", 1, f"n{number}"))
    spec = GangSpec("fairlead/default/train", 2, topology=(TopologyRule("rack"),))
    pods = [
        a_pod(f"train-{rank}", gpus=6, gang=Membership(spec.key, rank=rank, spec=spec))
        for rank in range(2)
    ]
    found = a_plan(engine, *pods)
    racks = [engine.cluster.node_named(start.node) for start in found.starts]
    assert len({node.labels["rack"] for node in racks if node}) == 1
    assert found.moved_milli == 2000
