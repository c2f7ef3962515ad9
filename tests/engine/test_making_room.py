"""Gangs for which others are evicted: whole units, the fewest, and never in vain."""

from dataclasses import replace

import pytest

from builders import a_node, a_pod, an_engine
from fairlead.engine import held_room
from fairlead.engine.engine import Engine
from fairlead.engine.events import BudgetSeen, EvictionEnded, GangSeen, NodeSeen, PodGone, PodSeen
from fairlead.engine.instructions import Evict
from fairlead.model.budgets import Budget
from fairlead.model.gangs import GangSpec, Membership, TopologyRule
from fairlead.model.pods import Pod
from fairlead.model.selectors import LabelSelector, Requirement
from gang_world import GangWorld, a_gang


def a_world(*nodes: int, racks: int = 0) -> GangWorld:
    """A node with so many GPUs each; in racks of two, if there are any."""
    made = [
        a_node(f"n{at}", gpus=gpus, labels={"rack": f"r{at // 2}"} if racks else {})
        for at, gpus in enumerate(nodes)
    ]
    return GangWorld(an_engine(*made))


def run(world: GangWorld, *pods: Pod) -> None:
    world.create(*pods)
    world.decide_all()
    world.answer_all()
    world.check()


def victims(world: GangWorld) -> list[str]:
    return sorted(victim.name for evict in world.evictions for victim in evict.victims)


def the_eviction(world: GangWorld) -> Evict:
    (evict,) = world.evictions
    return evict


def leave(world: GangWorld, *names: str) -> None:
    """The pods begin to terminate, and hold what they have."""
    for pod in [pod for pod in world.pods.values() if pod.name in names]:
        world.pods[pod.uid] = replace(pod, deleting=True, evicted=True)
        world.tell(PodSeen(world.pods[pod.uid]))


def terminate(world: GangWorld) -> None:
    """All that is evicted begins to terminate; the evictions have ended well."""
    for evict in world.evictions[:]:
        world.evictions.remove(evict)
        leave(world, *(victim.name for victim in evict.victims))
        world.tell(EvictionEnded(evict.pod.uid))


def test_a_gang_evicts_pods_of_lower_priority_and_has_their_room() -> None:
    world = a_world(4, 4)
    run(world, *(a_pod(f"low-{n}", gpus=1) for n in range(8)))
    run(world, *a_gang("high", 2, gpus=4, priority=10))
    evict = the_eviction(world)
    assert len(evict.victims) == 8
    assert set(evict.victims_by_node) == {"n0", "n1"}
    world.evict_all()
    world.decide_all()
    world.answer_all()
    assert world.bound("high") == 2
    assert not world.engine.cluster.nominations


def test_only_as_many_are_evicted_as_it_needs() -> None:
    world = a_world(4, 4)
    run(world, *(a_pod(f"low-{n}", gpus=1) for n in range(8)))
    run(world, *a_gang("high", 2, gpus=1, priority=10))
    assert len(victims(world)) == 2


def test_nothing_is_evicted_for_a_gang_that_would_not_fit_then() -> None:
    world = a_world(4, 4)
    run(world, *(a_pod(f"low-{n}", gpus=1) for n in range(7)))
    run(world, a_pod("peer", gpus=1, priority=10))
    run(world, *a_gang("high", 8, gpus=1, priority=10))
    assert not world.evictions
    said = world.failures["high-0"].message
    assert said.endswith(
        "Evicting the pods that it may evict does not help: without them there would be room for "
        "7 of 8 pods."
    )


def test_equal_priority_and_never_evict_nothing() -> None:
    world = a_world(4)
    run(world, *(a_pod(f"low-{n}", gpus=1) for n in range(4)))
    run(world, *a_gang("equal", 2, gpus=1))
    assert not world.evictions
    assert "Evicting" not in world.failures["equal-0"].message
    run(world, *a_gang("never", 2, gpus=1, priority=10, preempts=False))
    assert not world.evictions
    assert "preemptionPolicy" in world.failures["never-0"].message


def test_nothing_is_evicted_for_a_group_whose_policy_is_never() -> None:
    world = a_world(4)
    run(world, *(a_pod(f"low-{n}", gpus=1) for n in range(4)))
    world.engine.handle(GangSeen(GangSpec("native/default/g", 2, preempts=False)), now=world.now)
    run(world, *(
        a_pod(f"m-{n}", uid=f"m-{n}", gpus=1, priority=10, gang=Membership("native/default/g"))
        for n in range(2)
    ))  # fmt: skip
    assert not world.evictions
    assert "the preemptionPolicy of its group is Never" in world.failures["m-0"].message


def test_whole_gangs_are_evicted_and_the_fewest() -> None:
    """E9: a cluster full of gangs whose minimum is their size."""
    world = a_world(4, 4, 4, 4)
    for name in ("a", "b", "c", "d"):
        run(world, *a_gang(name, 4, gpus=1))
    run(world, *a_gang("high", 4, gpus=1, priority=10))
    names = victims(world)
    assert len(names) == 4
    assert len({name[0] for name in names}) == 1, "all of one gang"


def test_members_above_the_minimum_go_singly_the_highest_ranks_first() -> None:
    world = a_world(4, 4)
    run(world, *a_gang("elastic", 8, minimum=5))
    run(world, *a_gang("high", 2, gpus=1, priority=10))
    assert victims(world) == ["elastic-6", "elastic-7"]


def test_below_the_minimum_the_whole_gang_goes() -> None:
    world = a_world(4)
    run(world, *a_gang("elastic", 4, minimum=3))
    run(world, *a_gang("high", 2, gpus=1, priority=10))
    assert victims(world) == [f"elastic-{n}" for n in range(4)]


def test_the_lowest_priority_goes_and_then_the_least_work() -> None:
    world = a_world(4, 4, 4)
    run(world, *(a_pod(f"mid-{n}", gpus=4, priority=5) for n in range(2)))
    run(world, a_pod("low", gpus=4))
    run(world, *a_gang("high", 1, gpus=4, priority=10))
    assert victims(world) == ["low"]


def test_what_was_saved_is_not_lost() -> None:
    world = a_world(4, 4)
    world.now = 10_000.0
    saved = {"fairlead.dev/last-checkpoint": "1970-01-01T02:45:00Z"}
    for name, more in (("old", {"annotations": saved}), ("young", {})):
        run(world, a_pod(name, gpus=4, **more))
    started = {"old": "1970-01-01T00:00:00Z", "young": "1970-01-01T02:00:00Z"}
    for pod in list(world.pods.values()):
        world.pods[pod.uid] = replace(pod, started=started[pod.name])
        world.tell(PodSeen(world.pods[pod.uid]))
    run(world, *a_gang("high", 1, gpus=4, priority=10))
    assert victims(world) == ["old"], "it lost 100 s, the young one 2,800 s"


@pytest.mark.parametrize("said", ["1970-01-09T00:00:00Z", "1969-12-31T00:00:00Z", "soon", ""])
def test_a_checkpoint_that_cannot_be_true_says_nothing(said: str) -> None:
    world = a_world(4, 4)
    world.now = 10_000.0
    run(world, a_pod("forged", gpus=4, annotations={"fairlead.dev/last-checkpoint": said}))
    run(world, a_pod("young", gpus=4))
    started = {"forged": "1970-01-01T00:00:00Z", "young": "1970-01-01T02:00:00Z"}
    for pod in list(world.pods.values()):
        world.pods[pod.uid] = replace(pod, started=started[pod.name])
        world.tell(PodSeen(world.pods[pod.uid]))
    run(world, *a_gang("high", 1, gpus=4, priority=10))
    assert victims(world) == ["young"]


def test_slow_termination_brings_one_eviction_and_the_room_is_kept() -> None:
    """E6: while victims terminate, nothing else is evicted, and no other pod has their room."""
    world = a_world(4, 4)
    run(world, *a_gang("low", 8, gpus=1))
    run(world, *a_gang("high", 2, gpus=4, priority=10))
    assert len(victims(world)) == 8
    terminate(world)
    for _ in range(9):
        world.now += 10.0
        run(world)
    assert not world.evictions, "one eviction is enough"
    run(world, *(a_pod(f"filler-{n}", gpus=1) for n in range(4)))
    run(world, *a_gang("equal", 2, gpus=1, priority=10))
    assert not world.evictions
    world.end(*(f"low-{n}" for n in range(7)))
    run(world)
    assert world.bound("high") == 0
    assert not any(pod.node for pod in world.pods.values() if pod.name.startswith("filler"))
    world.end("low-7")
    world.now += 10.0
    run(world)
    assert world.bound("high") == 2
    assert world.bound("equal") == 0


def test_one_message_while_it_waits() -> None:
    world = a_world(2)
    run(world, a_pod("a", gpus=1), a_pod("b", gpus=1))
    run(world, *a_gang("high", 2, gpus=1, priority=10))
    before = {uid: each.message for uid, each in world.failures.items()}
    terminate(world)
    world.end("a")
    world.now += 20.0
    run(world)
    assert {uid: each.message for uid, each in world.failures.items()} == before
    nominated = {each.nominated for uid, each in world.failures.items() if uid[:4] == "high"}
    assert nominated == {"n0"}


def test_a_higher_priority_may_have_the_room_and_the_gang_starts_over() -> None:
    world = a_world(4, 4)
    run(world, *(a_pod(f"low-{n}", gpus=4) for n in range(2)))
    run(world, *a_gang("high", 1, gpus=4, priority=10))
    (first,) = victims(world)
    terminate(world)
    run(world, a_pod("top", gpus=4, priority=20))
    world.end(first)
    run(world)
    assert next(pod.node for pod in world.pods.values() if pod.name == "top")
    world.now += 20.0
    run(world)
    assert victims(world) == sorted({"low-0", "low-1"} - {first})
    terminate(world)
    world.end("low-0", "low-1")
    world.now += 20.0
    run(world)
    assert world.bound("high") == 1


def test_room_that_is_not_used_is_given_back() -> None:
    world = a_world(4)
    run(world, a_pod("low", gpus=4))
    run(world, *a_gang("high", 2, gpus=2, priority=10))
    terminate(world)
    gang = [pod for pod in world.pods.values() if pod.name.startswith("high")]
    for pod in gang:  # it cannot be tried while it has gates
        world.tell(PodSeen(replace(pod, gates=("later",))))
    world.end("low")
    run(world, a_pod("filler", gpus=1))
    assert not any(pod.node for pod in world.pods.values())
    world.now += held_room.HELD_S + 10.0
    run(world)
    run(world)
    assert [pod.name for pod in world.pods.values() if pod.node] == ["filler"]
    assert not world.engine.cluster.nominations


def test_no_room_is_held_for_a_gang_that_is_gone() -> None:
    world = a_world(4)
    run(world, a_pod("low", gpus=4))
    run(world, *a_gang("high", 2, gpus=2, priority=10))
    terminate(world)
    world.end("high-0", "high-1")
    assert not world.engine.cluster.nominations
    world.end("low")
    run(world, a_pod("filler", gpus=1))
    assert [pod.name for pod in world.pods.values() if pod.node] == ["filler"]


def test_an_eviction_that_fails_is_not_tried_again_at_once() -> None:
    world = a_world(4)
    run(world, a_pod("low", gpus=4))
    run(world, *a_gang("high", 2, gpus=2, priority=10))
    world.evict_all(well=False)
    assert not world.engine.cluster.nominations
    world.now += 12.0
    run(world)
    assert not world.evictions
    world.now += 60.0
    run(world, a_pod("any", gpus=1))
    world.now += 330.0
    run(world)
    assert victims(world) == ["low"]


def budget(allowed: int, **labels: str) -> BudgetSeen:
    lines = tuple(Requirement(key, "In", (value,)) for key, value in labels.items())
    return BudgetSeen(Budget("default", "pdb", selector=LabelSelector(lines), allowed=allowed))


def test_a_budget_protects_all_or_none() -> None:
    """E20: no member is evicted if not all may be."""
    world = a_world(4, 4)
    world.tell(budget(3, app="low"))
    run(world, *a_gang("low", 8, gpus=1, labels={"app": "low"}))
    run(world, *a_gang("high", 1, gpus=1, priority=10))
    assert not world.evictions
    assert "no set of them is enough" in world.failures["high-0"].message
    world.tell(budget(8, app="low"))
    world.now += 330.0
    run(world)
    world.now += 330.0
    run(world)
    assert len(victims(world)) == 8


def test_a_budget_counts_all_victims_together() -> None:
    world = a_world(4, 4)
    world.tell(budget(1, app="low"))
    run(world, *(a_pod(f"low-{n}", gpus=4, labels={"app": "low"}) for n in range(2)))
    run(world, *a_gang("high", 2, gpus=4, priority=10))
    assert not world.evictions


def in_racks(name: str, count: int, **more: object) -> list[Pod]:
    key = f"fairlead/default/{name}"
    rules = (TopologyRule("rack"),)
    spec = GangSpec(key, count, priority=int(str(more.get("priority", 0))), topology=rules)
    return [
        a_pod(f"{name}-{n}", uid=f"{name}-{n}", gang=Membership(key, rank=n, spec=spec), **more)
        for n in range(count)
    ]


def test_a_gang_that_needs_one_rack_evicts_only_there() -> None:
    """E10: one GPU of each node is taken by a pod that may not go; only rack 1 can be cleared."""
    world = a_world(4, 4, 4, 4, racks=2)
    run(world, *(a_pod(f"stays-{n}", gpus=1, priority=50, node_name=f"n{n}") for n in (0, 2, 3)))
    run(world, *(a_pod(f"low-{n}", gpus=1) for n in range(13)))
    run(world, *in_racks("high", 2, gpus=3, priority=10))
    evict = the_eviction(world)
    nodes = set(evict.victims_by_node)
    assert nodes in ({"n0", "n1"}, {"n2", "n3"})
    assert len(evict.victims) == 6


def test_room_on_no_single_node_evicts_nothing() -> None:
    """E18: pods that may go leave one GPU free on each of eight nodes, never four on one."""
    world = a_world(*[4] * 8)
    run(world, *(a_pod(f"stays-{n}", gpus=3, priority=50, node_name=f"n{n}") for n in range(8)))
    run(world, *(a_pod(f"low-{n}", gpus=1) for n in range(8)))
    run(world, *a_gang("high", 1, gpus=4, priority=10))
    assert not world.evictions


def test_a_restart_waits_for_those_that_terminate() -> None:
    world = a_world(4)
    run(world, a_pod("low", gpus=4))
    run(world, *a_gang("high", 2, gpus=2, priority=10))
    terminate(world)
    engine: Engine = an_engine(a_node("n0", gpus=4))
    world.restart(engine)
    world.now += 20.0
    run(world)
    assert not world.evictions
    world.end("low")
    run(world)
    world.now += 20.0
    run(world)
    assert world.bound("high") == 2


def test_victims_that_go_by_themselves_are_enough() -> None:
    world = a_world(4, 4)
    run(world, a_pod("going", gpus=4), a_pod("staying", gpus=4))
    leave(world, "going")
    run(world, *a_gang("high", 1, gpus=4, priority=10))
    assert not world.evictions
    world.end("going")
    run(world)
    assert world.bound("high") == 1


def test_a_gang_that_is_evicted_waits_and_runs_again() -> None:
    world = a_world(4)
    run(world, *a_gang("low", 4, gpus=1))
    run(world, *a_gang("high", 2, gpus=2, priority=10))
    world.evict_all()
    world.settle(3)
    assert (world.bound("high"), world.bound("low")) == (2, 0)
    world.end("high-0", "high-1")
    world.settle(3)
    assert world.bound("low") == 4


def test_a_pod_gone_between_plan_and_eviction() -> None:
    world = a_world(4)
    run(world, a_pod("low", gpus=4))
    run(world, *a_gang("high", 2, gpus=2, priority=10))
    (victim,) = the_eviction(world).victims
    world.pods.pop(victim.uid)
    world.tell(PodGone(victim))
    world.evictions.clear()
    world.tell(EvictionEnded("high-0"))
    world.now += 20.0
    run(world)
    assert world.bound("high") == 2


def delayed(delay_s: float) -> list[Pod]:
    """A gang of high priority."""
    found = []
    for pod in a_gang("high", 2, priority=5):
        assert pod.gang is not None
        assert pod.gang.spec is not None
        spec = replace(pod.gang.spec, eviction_delay_s=delay_s)
        found.append(replace(pod, gang=replace(pod.gang, spec=spec)))
    return found


def test_a_gang_with_a_delay_evicts_none_before_it_has_passed() -> None:
    """An autoscaler gets the time to add nodes (KAI's `preemptionDelay`)."""
    world = a_world(4)
    run(world, *(a_pod(f"low-{n}", gpus=1, uid=f"low-{n}") for n in range(4)))
    run(world, *delayed(300.0))
    assert not world.evictions
    assert "it evicts none before it has waited for 300 seconds" in world.failures["high-0"].message
    world.now = 299.0
    run(world)
    assert not world.evictions
    world.now = 300.0
    world.engine.tend(now=world.now)
    run(world)
    assert len(victims(world)) == 2


def test_a_gang_with_a_delay_starts_as_soon_as_there_is_room() -> None:
    world = a_world(4)
    run(world, *(a_pod(f"low-{n}", gpus=1, uid=f"low-{n}") for n in range(4)))
    run(world, *delayed(300.0))
    world.now = 10.0
    world.tell(NodeSeen(a_node("n9", gpus=4)))
    run(world)
    assert not world.evictions
    assert sum(pod.name.startswith("high") and bool(pod.node) for pod in world.pods.values()) == 2
