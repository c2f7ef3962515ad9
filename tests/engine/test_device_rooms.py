"""Pods are evicted for devices, where a profile allows it: by claim, and never twice."""

from dataclasses import replace
from typing import Any

import pytest

from builders import SCHEDULER, a_node, decide, see, without_annotations
from claim_objects import (
    GPU_CLASS,
    a_claim,
    a_claim_user,
    a_claiming_pod,
    a_slice,
    an_allocation,
)
from fairlead.apps.config.profiles import built_in, claiming
from fairlead.apps.explain.device_evictions import devices_answer
from fairlead.engine import events, room_searches
from fairlead.engine.engine import Engine
from fairlead.engine.instructions import AnnounceFailure, Evict, Instruction, Prepare
from fairlead.model.budgets import Budget
from fairlead.model.claims import ClaimUser, DeviceNeed, DeviceRequest
from fairlead.model.gangs import GangSpec, Membership
from fairlead.model.pods import Pod
from fairlead.model.selectors import LabelSelector, Requirement
from fairlead.placement.disruption_units import ByLowerPriority, DisruptionUnit, DisruptionUnits


def an_engine(*nodes: str, preempts: bool = True) -> Engine:
    profile = claiming(built_in(SCHEDULER), preempts=preempts)
    engine = Engine({SCHEDULER: profile}, encode=without_annotations)
    for name in nodes:
        engine.handle(events.NodeSeen(a_node(name, gpus=0)), now=0.0)
        show(engine, a_slice(name, "gpu-0", "gpu-1"))
    show(engine, GPU_CLASS)
    return engine


def show(engine: Engine, *objects: Any, now: float = 0.0) -> None:
    for each in objects:
        engine.handle(events.ClaimObjectSeen(each), now=now)


def run(engine: Engine, name: str, device: str, node: str = "n1", **more: Any) -> Pod:
    """A pod with a node and a claim of its own for one device."""
    pod = replace(a_claiming_pod(name, name, **more), node=node)
    held = a_claim(name, allocation=an_allocation(node, device), reserved_for=(a_claim_user(pod),))
    show(engine, held)
    see(engine, pod)
    return pod


def ask(engine: Engine, name: str = "high", count: int = 1, **more: Any) -> list[Instruction]:
    show(engine, a_claim(name, count))
    see(engine, a_claiming_pod(name, name, **{"priority": 10, **more}))
    return decide(engine)


def victims(made: list[Instruction]) -> list[str]:
    evictions = [each for each in made if isinstance(each, Evict)]
    return sorted(pod.name for each in evictions for pod in each.victims)


def said(made: list[Instruction]) -> str:
    return [each.message for each in made if isinstance(each, AnnounceFailure)][-1]


def freed(engine: Engine, name: str, now: float) -> None:
    show(engine, replace(engine.cluster.claims.claims[f"default/{name}"], allocation=None,
                         reserved_for=(), version=""), now=now)  # fmt: skip


def gone(engine: Engine, pod: Pod, now: float) -> None:
    engine.handle(events.PodGone(pod), now=now)


def test_as_few_pods_as_possible_and_of_the_lowest_priority_are_evicted() -> None:
    engine = an_engine("n1", "n2")
    run(engine, "a", "gpu-0", "n1", priority=5)
    run(engine, "b", "gpu-1", "n1", priority=2)
    run(engine, "c", "gpu-0", "n2", priority=3)
    run(engine, "d", "gpu-1", "n2", priority=3)

    made = ask(engine)

    assert victims(made) == ["b"]
    assert "1 pod(s) that have devices which its claims ask for are evicted for it" in said(made)
    assert all(each.within_budgets for each in made if isinstance(each, Evict))


def test_devices_are_free_after_deallocation_and_no_others_are_evicted_before() -> None:
    engine = an_engine("n1")
    low = run(engine, "low", "gpu-0")
    run(engine, "other", "gpu-1", priority=1)
    assert victims(ask(engine)) == ["low"]

    engine.handle(events.EvictionEnded(a_claiming_pod("high").uid), now=1.0)
    gone(engine, low, now=30.0)
    see(engine, a_claiming_pod("wakes", "wakes"), now=31.0)
    engine.handle(events.NodeSeen(a_node("n1", gpus=0, labels={"new": "label"})), now=31.0)
    assert victims(decide(engine, now=40.0)) == [], "the claim still has its device"

    freed(engine, "low", now=41.0)
    (asked,) = [each for each in decide(engine, now=60.0) if isinstance(each, Prepare)]
    assert (asked.pod.name, asked.node) == ("high", "n1")


def test_the_work_that_is_lost_counts_with_the_devices_of_claims() -> None:
    engine = an_engine("n1")
    one = run(engine, "one", "gpu-0")
    show(engine, a_slice("n1", "gpu-0", "gpu-1", "gpu-2"))
    two = replace(a_claiming_pod("two", "two"), node="n1")
    held = an_allocation("n1", "gpu-1", "gpu-2")
    show(engine, a_claim("two", allocation=held, reserved_for=(a_claim_user(two),)))
    see(engine, two)
    losses = {unit.key: unit.cost.loss for unit in units_on(engine, 0)}
    assert losses[two.uid] == 2 * losses[one.uid] > 0


def units_on(engine: Engine, row: int) -> list[DisruptionUnit]:
    rule = ByLowerPriority(engine.cluster, a_claiming_pod("high", "high", priority=10))
    return [*DisruptionUnits(engine.cluster, rule, 0.0).on(row)]


def test_nothing_is_evicted_unless_the_profile_says_so() -> None:
    engine = an_engine("n1", preempts=False)
    run(engine, "a", "gpu-0")
    run(engine, "b", "gpu-1")
    made = ask(engine)
    assert victims(made) == []
    assert "cannot allocate all claims" in said(made)


def test_pods_of_the_same_priority_stay() -> None:
    engine = an_engine("n1")
    run(engine, "a", "gpu-0", priority=10)
    run(engine, "b", "gpu-1", priority=10)
    made = ask(engine)
    assert victims(made) == []
    assert "Evicting pods for devices does not help" in said(made)


def test_all_pods_that_share_a_claim_go_or_none() -> None:
    engine = an_engine("n1")
    run(engine, "important", "gpu-1", priority=20)
    pods = [replace(a_claiming_pod(name, "s", priority=priority), node="n1")
            for name, priority in (("x", 1), ("y", 2))]  # fmt: skip
    shared = a_claim("s", allocation=an_allocation("n1", "gpu-0"),
                     reserved_for=tuple(map(a_claim_user, pods)))  # fmt: skip
    show(engine, shared)
    see(engine, *pods)
    assert victims(ask(engine)) == ["x", "y"]


@pytest.mark.parametrize("why", ["a user of higher priority", "a user elsewhere", "a group"])
def test_a_claim_that_stays_allocated_is_not_counted_on(why: str) -> None:
    engine = an_engine("n1")
    run(engine, "important", "gpu-1", priority=20)
    low = replace(a_claiming_pod("low", "s"), node="n1")
    others = {
        "a user of higher priority": a_claim_user(a_claiming_pod("important")),
        "a user elsewhere": ClaimUser("u-unknown", "unknown"),
        "a group": ClaimUser("u-g", "g", "podgroups", "scheduling.k8s.io"),
    }
    users = (a_claim_user(low), others[why])
    show(engine, a_claim("s", allocation=an_allocation("n1", "gpu-0"), reserved_for=users))
    see(engine, low)
    assert victims(ask(engine)) == []


def test_disruption_budgets_are_kept() -> None:
    engine = an_engine("n1")
    run(engine, "a", "gpu-0", labels={"app": "web"})
    run(engine, "b", "gpu-1", labels={"app": "web"}, priority=1)
    lines = (Requirement("app", "In", ("web",)),)
    budget = Budget("default", "pdb", selector=LabelSelector(lines), allowed=1)
    engine.handle(events.BudgetSeen(budget), now=0.0)
    assert victims(ask(engine, "two", count=2)) == []
    assert victims(ask(engine, "one", priority=11)) == ["a"]


def test_a_gang_is_evicted_whole() -> None:
    engine = an_engine("n1", "n2")
    gang = Membership("fairlead/default/g", spec=GangSpec("fairlead/default/g", 2))
    run(engine, "g-0", "gpu-0", "n1", gang=gang)
    run(engine, "g-1", "gpu-0", "n2", gang=gang)
    run(engine, "x", "gpu-1", "n1", priority=9)
    run(engine, "y", "gpu-1", "n2", priority=9)
    assert victims(ask(engine)) == ["g-0", "g-1"], "of the lowest priority, though they are two"


def test_nothing_is_evicted_for_admin_access() -> None:
    engine = an_engine("n1")
    need = DeviceNeed("gpu", ("device.driver == 'none'",), admin_access=True)
    run(engine, "a", "gpu-0")
    show(engine, a_claim("high", requests=(DeviceRequest("r", need),)))
    see(engine, a_claiming_pod("high", "high", priority=10))
    assert victims(decide(engine)) == []


def test_nothing_is_evicted_where_it_would_be_in_vain() -> None:
    engine = an_engine("n1")
    run(engine, "a", "gpu-0")
    run(engine, "b", "gpu-1", priority=20)
    made = ask(engine, count=2)
    assert victims(made) == []
    assert engine.cluster.claims.held.keys() == {"u-a", "u-b"}, "the trial left nothing"


def test_a_policy_of_never_is_kept() -> None:
    engine = an_engine("n1")
    run(engine, "a", "gpu-0")
    run(engine, "b", "gpu-1")
    assert victims(ask(engine, preempts=False)) == []


def test_explain_names_the_pods() -> None:
    engine = an_engine("n1")
    run(engine, "a", "gpu-0")
    run(engine, "b", "gpu-1", priority=1)
    pod = a_claiming_pod("high", "high", priority=10)
    show(engine, a_claim("high"))
    see(engine, pod)
    told = {"state": "unschedulable"}
    found = devices_answer(told, engine, pod, 0.0, pods=True)
    assert found["devices"]["message"] == "would be evicted for its devices: default/a"
    hidden = devices_answer(told, engine, replace(pod, namespace="n"), 0.0, pods=False)
    assert hidden["devices"]["message"] == "would be evicted for its devices: 1 pod(s) of others"


def test_to_be_asked_changes_no_later_decision(monkeypatch: pytest.MonkeyPatch) -> None:
    """What searches may cost over time is not used up: a replay without questions agrees."""
    monkeypatch.setattr(room_searches, "_MOST_AT_ONCE", 1)
    engine = an_engine("n1")
    run(engine, "a", "gpu-0")
    run(engine, "b", "gpu-1", priority=1)
    pod = a_claiming_pod("high", "high", priority=10)
    show(engine, a_claim("high"))
    see(engine, pod)
    assert devices_answer({"state": "unschedulable"}, engine, pod, 0.0, pods=True)
    assert not devices_answer({"state": "unschedulable"}, engine, pod, 0.0, pods=True), "too often"
    assert victims(decide(engine)) == ["a"]
