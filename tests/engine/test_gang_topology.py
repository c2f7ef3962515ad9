"""Topology rules of gangs in the engine: kept, waited for, and explained."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from builders import a_node, a_pod, an_engine, decide, pod_term, see, selects
from fairlead.cluster.trial import Trial
from fairlead.engine import gang_flights, gang_topology_trials
from fairlead.engine.engine import Engine
from fairlead.engine.events import (
    BindDone,
    GangSeen,
    InventorySeen,
    NodeGone,
    NodeSeen,
    PodGone,
    PodSeen,
)
from fairlead.engine.gang_trials import Filling, GangTrials
from fairlead.engine.in_flight import contradictions
from fairlead.engine.instructions import AnnounceFailure, Bind, Instruction
from fairlead.engine.reasons import UNSCHEDULABLE, WAITING_FOR_TOPOLOGY
from fairlead.model.gangs import GangSpec, Group, Membership, TopologyRule
from fairlead.model.gpus import FAIRLEAD, Gpu, GpuRequest, Inventory
from fairlead.model.pods import Pod
from fairlead.model.selectors import SpreadRule
from fairlead.model.topology import Topology, TopologyLevel

BLOCK, RACK = "example.com/block", "example.com/rack"
KEY = "volcano/default/job"
REQUIRED = TopologyRule(RACK)
PREFERRED = TopologyRule(RACK, required=False)


def racks(**free: Sequence[int]) -> Engine:
    """Nodes by rack with so many GPUs each; the first letter of a rack is its block."""
    nodes = [
        a_node(f"{rack}-{n}", gpus=gpus, labels={BLOCK: rack[0], RACK: rack})
        for rack, each in free.items()
        for n, gpus in enumerate(each)
    ]
    engine = an_engine(*nodes)
    engine.cluster.topology.configured = Topology((TopologyLevel(BLOCK), TopologyLevel(RACK)))
    return engine


def a_gang(
    engine: Engine, count: int, *rules: TopologyRule, minimum: int | None = None, **more: object
) -> list[Pod]:
    groups = more.pop("groups", ())
    spec = GangSpec(KEY, minimum or count, topology=rules, groups=groups)
    engine.handle(GangSeen(spec), now=0.0)
    group = groups[0].name if groups else ""
    pods = [
        a_pod(f"job-{n}", uid=f"job-{n}", gang=Membership(KEY, group, n), **{"gpus": 1, **more})
        for n in range(count)
    ]
    see(engine, *pods)
    return pods


def binds(made: Sequence[Instruction]) -> dict[str, str]:
    return {each.pod.name: each.node for each in made if isinstance(each, Bind)}


def said(made: Sequence[Instruction]) -> tuple[str, str]:
    failures = {(e.reason, e.message) for e in made if isinstance(e, AnnounceFailure)}
    assert len(failures) == 1, "all pods of a gang have the same reason"
    return failures.pop()


def racks_of(made: Sequence[Instruction]) -> list[str]:
    return sorted({node.partition("-")[0] for node in binds(made).values()})


def settle(engine: Engine, made: Sequence[Instruction]) -> None:
    for each in made:
        if isinstance(each, Bind):
            engine.handle(BindDone(each.pod.uid), now=1.0)
            engine.handle(PodSeen(replace(each.pod, node=each.node)), now=1.0)


def test_a_gang_is_bound_in_one_rack() -> None:
    engine = racks(a1=[4, 2], a2=[4, 4], b1=[4])
    a_gang(engine, 8, REQUIRED)
    made = decide(engine)
    assert racks_of(made) == ["a2"]
    assert len(binds(made)) == 8
    settle(engine, made)
    assert contradictions(engine.in_flight, engine.cluster, engine.queue) == []


def test_a_refusal_says_what_the_best_rack_lacks() -> None:
    engine = racks(a1=[8, 4], a2=[8], b1=[4])
    a_gang(engine, 8, REQUIRED, gpus=2)
    reason, message = said(decide(engine))
    assert reason == UNSCHEDULABLE
    assert message == (
        "gang default/job: rack a1 has room for 6 of 8 pods; 4 more GPUs in one rack would do; "
        "it would fit in 2 racks."
    )
    assert not engine.cluster.holdings


def test_a_refusal_counts_pods_where_gpus_would_not_help() -> None:
    engine = racks(a1=[3, 3, 3], b1=[2])
    a_gang(engine, 4, REQUIRED, gpus=2)
    assert said(decide(engine))[1] == (
        "gang default/job: rack a1 has room for 3 of 4 pods; room for 1 more pod in one rack "
        "would do; it would fit in 2 racks."
    )


def test_a_label_that_no_node_has_is_named() -> None:
    engine = racks(a1=[8])
    a_gang(engine, 2, TopologyRule("example.com/row"))
    assert said(decide(engine))[1] == "gang default/job: no node has the label example.com/row."


def test_pods_that_fit_on_no_node_have_the_reasons_of_a_plain_gang() -> None:
    engine = racks(a1=[8], b1=[8])
    a_gang(engine, 2, REQUIRED, gpus=9)
    assert said(decide(engine))[1] == (
        "gang default/job: 0 of 2 pods fit; job-0: 0/2 nodes are available: "
        "2 Insufficient nvidia.com/gpu."
    )


def test_rules_that_only_the_trial_knows_are_found_and_named() -> None:
    """Pods that spread over racks cannot be in one."""
    engine = racks(a1=[8], b1=[8])
    even = SpreadRule(RACK, 1, selects(job="x"))
    a_gang(engine, 2, REQUIRED, labels={"job": "x"}, spread=(even,))
    made = decide(engine)
    assert binds(made) == {}
    assert "didn't match pod topology spread constraints" in said(made)[1]


def test_pods_that_keep_each_other_from_a_node_need_several_nodes() -> None:
    engine = racks(a1=[8], b1=[1, 2])
    apart = pod_term("kubernetes.io/hostname", job="x")
    a_gang(engine, 2, REQUIRED, labels={"job": "x"}, anti_affinity=(apart,))
    assert sorted(binds(decide(engine)).values()) == ["b1-0", "b1-1"]


def test_patience_begins_when_the_gang_is_refused() -> None:
    engine = racks(a1=[4], b1=[4])
    pods = a_gang(engine, 4, replace(REQUIRED, patience_s=600.0))
    made = decide(engine)
    settle(engine, made)
    node = binds(made)["job-0"]
    engine.handle(PodGone(replace(pods[3], node=node)), now=9000.0)
    see(engine, a_pod("filler", gpus=1, node=node), replace(pods[3], uid="again", name="again"))
    assert binds(decide(engine, now=9010.0)) == {}, "it has just begun to wait"
    engine.tend(now=9700.0)
    assert len(binds(decide(engine, now=9700.0))) == 1


def test_a_refused_gang_is_tried_again_when_a_rack_has_room() -> None:
    engine = racks(a1=[4, 4], b1=[8])
    busy = [a_pod(f"busy-{n}", gpus=2, node=node) for n, node in enumerate(["a1-0", "b1-0"])]
    see(engine, *busy)
    a_gang(engine, 8, REQUIRED)
    assert binds(decide(engine)) == {}
    engine.handle(PodGone(busy[1]), now=20.0)
    assert racks_of(decide(engine, now=20.0)) == ["b1"]


@pytest.mark.parametrize("rule", [REQUIRED, PREFERRED])
def test_after_its_patience_a_gang_uses_two_racks(rule: TopologyRule) -> None:
    engine = racks(a1=[4], b1=[4])
    a_gang(engine, 8, replace(rule, patience_s=600.0))
    reason, message = said(decide(engine))
    assert reason == WAITING_FOR_TOPOLOGY, "an autoscaler must not add nodes"
    assert message.endswith("it would fit in 2 racks; it waits until its patience ends.")
    wake_at_s = engine.wake_at_s()
    assert wake_at_s is not None
    assert wake_at_s <= 600.0
    engine.tend(now=599.0)
    assert binds(decide(engine, now=599.0)) == {}
    engine.tend(now=600.0)
    assert racks_of(decide(engine, now=600.0)) == ["a1", "b1"]


def test_patience_does_not_make_a_gang_schedulable_that_fits_nowhere() -> None:
    engine = racks(a1=[4], b1=[2])
    a_gang(engine, 8, replace(REQUIRED, patience_s=600.0))
    assert said(decide(engine))[0] == UNSCHEDULABLE


def test_a_replaced_member_stays_in_the_rack() -> None:
    engine = racks(a1=[4], b1=[8])
    pods = a_gang(engine, 4, REQUIRED)
    made = decide(engine)
    settle(engine, made)
    assert racks_of(made) == ["a1"]
    engine.handle(PodGone(replace(pods[2], node="a1-0")), now=5.0)
    see(engine, replace(pods[2], uid="again", name="again"))
    made = decide(engine, now=10.0)
    assert binds(made) == {"again": "a1-0"}
    settle(engine, made)


def test_a_replaced_member_waits_if_the_rack_is_full() -> None:
    engine = racks(a1=[4], b1=[8])
    pods = a_gang(engine, 4, REQUIRED)
    settle(engine, decide(engine))
    engine.handle(PodGone(replace(pods[2], node="a1-0")), now=5.0)
    see(engine, a_pod("filler", gpus=1, node="a1-0"), replace(pods[2], uid="again", name="again"))
    made = decide(engine, now=10.0)
    assert binds(made) == {}
    assert said(made)[1] == (
        "gang default/job: rack a1 has room for 0 of 1 pods; 1 more GPU in one rack would do."
    )


def test_pods_above_the_minimum_stay_in_the_rack() -> None:
    engine = racks(a1=[4, 2], b1=[4])
    a_gang(engine, 8, REQUIRED, minimum=5)
    made = decide(engine)
    assert sorted(binds(made)) == [f"job-{n}" for n in range(6)]
    assert racks_of(made) == ["a1"]
    settle(engine, made)
    assert binds(decide(engine, now=400.0)) == {}


def test_sets_of_ranks_are_bound_in_one_rack_each() -> None:
    engine = racks(a1=[6], a2=[6], b1=[4])
    group = Group("w", 12, set_size=4, set_topology=(REQUIRED,))
    a_gang(engine, 12, groups=(group,))
    found = binds(decide(engine))
    sets = [{found[f"job-{n + k}"] for k in range(4)} for n in (0, 4, 8)]
    assert [len(each) for each in sets] == [1, 1, 1]


def test_a_gang_of_more_than_one_turn_keeps_its_rules() -> None:
    engine = racks(a1=[8] * 70, a2=[8] * 140, b1=[8] * 70)
    a_gang(engine, 1100, REQUIRED)
    made = decide(engine, times=20)
    assert len(binds(made)) == 1100
    assert racks_of(made) == ["a2"]


@pytest.mark.parametrize("level", ["hostname", "kubernetes.io/hostname"])
def test_a_node_is_a_level_too(level: str) -> None:
    engine = racks(a1=[4, 8], b1=[6])
    engine.handle(NodeGone("a1-0"), now=0.0)  # its row stays, empty
    a_gang(engine, 7, TopologyRule(level))
    assert set(binds(decide(engine)).values()) == {"a1-1"}


def test_a_refusal_names_the_best_node() -> None:
    engine = racks(a1=[4, 8], b1=[6])
    engine.handle(NodeGone("a1-0"), now=0.0)
    a_gang(engine, 9, TopologyRule("hostname"))
    assert said(decide(engine))[1] == (
        "gang default/job: node a1-1 has room for 8 of 9 pods; 1 more GPU in one node would do; "
        "it would fit in 2 nodes."
    )


def test_plain_gangs_make_no_trees() -> None:
    engine = racks(a1=[8])
    a_gang(engine, 4)
    assert len(binds(decide(engine))) == 4
    assert not engine.cluster.topology._trees


@pytest.mark.parametrize(("count", "minimum"), [(900, 1), (900, 3), (200, 1), (200, 3)])
def test_what_one_attempt_tries_is_bounded(
    monkeypatch: pytest.MonkeyPatch, count: int, minimum: int
) -> None:
    """Plans do not see that the pods keep each other out of a block, and fail one after another."""
    engine = racks(**{f"{block}{n}": [8] * 8 for block in "ab" for n in range(9)})
    tried = 0
    next_member = GangTrials._next

    def counted(trials: GangTrials, trial: Trial, filling: Filling) -> bool:
        nonlocal tried
        tried += 1
        return next_member(trials, trial, filling)

    monkeypatch.setattr(GangTrials, "_next", counted)
    apart = {"anti_affinity": (pod_term(BLOCK, app="x"),), "labels": {"app": "x"}}
    a_gang(engine, count, PREFERRED, minimum=minimum, **apart)
    made = decide(engine, times=1)
    assert bool(binds(made)) == (minimum < 3)
    assert tried <= 2 * max(count, 800)


def test_an_attempt_says_how_many_domains_the_gang_spans() -> None:
    engine = racks(a1=(2, 2), a2=(2,), b1=(2,))
    a_gang(engine, 6, PREFERRED)
    attempt = engine.decide(now=1.0)
    assert attempt is not None
    assert attempt.spans == {BLOCK: 1, RACK: 2, "kubernetes.io/hostname": 3}


# -- plans that do not work out --------------------------------------------------------------


def a_gang_apart(engine: Engine, *rules: TopologyRule) -> None:
    """By what is free, one node takes all of its pods; but these avoid each other."""
    apart = pod_term("kubernetes.io/hostname", app="apart")
    a_gang(engine, 4, *rules, labels={"app": "apart"}, anti_affinity=(apart,))


def nodes_apart(**free: Sequence[int]) -> Engine:
    engine = racks(**free)
    for node in [engine.cluster.node_at(row) for row in engine.cluster.row_of.values()]:
        named = replace(node, labels={**node.labels, "kubernetes.io/hostname": node.name})
        engine.handle(NodeSeen(named), now=0.0)
    return engine


def all_made(engine: Engine) -> list[Instruction]:
    """Of all turns until there is nothing to do."""
    made: list[Instruction] = []
    while (attempt := engine.decide(now=0.0)) is not None:
        made += attempt.instructions
    return made


@pytest.mark.parametrize("slice_", [3, 1000])
def test_a_rule_that_is_only_preferred_never_keeps_a_gang_waiting(
    slice_: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gang_flights, "SLICE", slice_)
    monkeypatch.setattr(gang_topology_trials, "_MOST_TRIED", 0)
    engine = nodes_apart(a1=[4], b1=[1, 1], c1=[1, 1])
    a_gang_apart(engine, PREFERRED)
    assert len(binds(all_made(engine))) == 4
    assert not contradictions(engine.in_flight, engine.cluster, engine.queue)


def test_a_gang_with_patience_waits_for_one_rack_although_others_have_room() -> None:
    engine = nodes_apart(a1=[4], b1=[1, 1], c1=[1, 1])
    a_gang_apart(engine, replace(PREFERRED, patience_s=60.0))
    assert not binds(all_made(engine))


@pytest.mark.parametrize("slice_", [3, 1000])
def test_after_a_plan_that_does_not_work_out_another_rack_is_tried(
    slice_: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gang_flights, "SLICE", slice_)
    engine = nodes_apart(a1=[4], b1=[1, 1, 1, 1])
    a_gang_apart(engine, REQUIRED)
    made = all_made(engine)
    assert racks_of(made) == ["b1"]
    assert len(binds(made)) == 4


def test_a_gang_of_parts_of_gpus_is_planned_and_placed_over_several_turns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gang_flights, "SLICE", 10)
    monkeypatch.setattr(gang_flights, "SLICE_WORK", 1)
    engine = racks(a1=[4], b1=[4])
    for node in ("a1-0", "b1-0"):
        gpus = tuple(Gpu(f"{node}-{at}", at, memory_mib=80_000) for at in range(4))
        listed = Inventory(gpus, dialects=frozenset({FAIRLEAD}))
        engine.handle(InventorySeen(node, "test", listed), now=0.0)
    a_gang(engine, 4, REQUIRED, gpus=0, gpu_request=GpuRequest(1, milli=500))
    turns = []
    while (attempt := engine.decide(now=0.0)) is not None:
        turns.append(attempt)
    assert len(turns) >= 5, "a plan, then one member in each turn"
    assert len(binds([each for turn in turns for each in turn.instructions])) == 4


def relabelled(engine: Engine, **labels: dict[str, str]) -> None:
    """Nodes by name get these labels."""
    for name, each in labels.items():
        node = engine.cluster.node_at(engine.cluster.row_of[name.replace("_", "-")])
        engine.handle(NodeSeen(replace(node, labels=each)), now=2.0)


def test_racks_that_are_renamed_live_keep_their_gangs_together() -> None:
    engine = racks(a1=[4], b1=[8])
    pods = a_gang(engine, 4, REQUIRED)
    settle(engine, decide(engine))
    names = {"a1_0": {BLOCK: "x", RACK: "left"}, "b1_0": {BLOCK: "x", RACK: "right"}}
    relabelled(engine, **names)
    engine.handle(PodGone(replace(pods[2], node="a1-0")), now=5.0)
    see(engine, replace(pods[2], uid="again", name="again"))
    assert binds(decide(engine, now=10.0)) == {"again": "a1-0"}


def test_a_gang_waits_while_its_label_has_another_name_and_starts_when_it_is_back() -> None:
    engine = racks(a1=[4])
    before = {BLOCK: "a", RACK: "a1"}
    relabelled(engine, a1_0={"example.com/cabinet": "a1"})
    a_gang(engine, 4, REQUIRED)
    assert "no node has the label" in said(decide(engine))[1]
    relabelled(engine, a1_0=before)
    assert racks_of(decide(engine, now=60.0)) == ["a1"]


@pytest.mark.parametrize("depth", [1, 6])
def test_a_tree_may_have_one_level_or_six_and_values_may_be_hashes(depth: int) -> None:
    levels = [f"example.com/level-{number}" for number in range(depth)]

    def labels(rack: int) -> dict[str, str]:
        """All levels above the last are the same for both racks."""
        above = dict.fromkeys(levels[:-1], "9f86d081884c7d659a2feaa0c55ad015")
        return {**above, levels[-1]: f"{rack:063x}"}

    nodes = [a_node(f"r{n % 2}-{n}", gpus=2, labels=labels(n % 2)) for n in range(4)]
    engine = an_engine(*nodes)
    engine.cluster.topology.configured = Topology(tuple(map(TopologyLevel, levels)))
    a_gang(engine, 4, TopologyRule(levels[-1]))
    assert len(racks_of(decide(engine))) == 1
