"""Gangs evict pods for devices of claims: whole units, as few as are enough, and never in vain."""

from dataclasses import replace
from typing import Any

import pytest
from test_device_rooms import an_engine, freed, gone, run, said, show, victims

from builders import decide, see
from claim_objects import a_claim, a_claim_user, a_claiming_pod, an_allocation
from fairlead.apps.explain.device_evictions import devices_answer
from fairlead.engine import gang_flights, gang_rooms, gang_trials
from fairlead.engine.engine import Engine
from fairlead.engine.events import EvictionEnded
from fairlead.engine.instructions import Evict, Instruction, Prepare
from fairlead.model.gangs import GangSpec, Membership
from fairlead.model.pods import Pod
from fairlead.placement import making_room
from fairlead.placement.room_rows import RoomRows

KEY = "fairlead/default/g"


def members(engine: Engine, count: int, devices: int = 1, **more: Any) -> list[Pod]:
    """The pods of a gang with a claim each."""
    spec = GangSpec(KEY, count)
    for at in range(count):
        show(engine, a_claim(f"m{at}", devices))
    gang = Membership(KEY, spec=spec)
    return [a_claiming_pod(f"m{at}", f"m{at}", gang=gang, **{"priority": 10, **more})
            for at in range(count)]  # fmt: skip


def ask(engine: Engine, count: int, devices: int = 1, **more: Any) -> list[Instruction]:
    see(engine, *members(engine, count, devices, **more))
    return decide(engine)


def prepared(made: list[Instruction]) -> dict[str, str]:
    return {each.pod.name: each.node for each in made if isinstance(each, Prepare)}


def full(*nodes: str) -> tuple[Engine, list[Pod]]:
    """Nodes whose devices pods of low priority have, one each."""
    engine = an_engine(*nodes)
    pods = [run(engine, f"{node}-{at}", f"gpu-{at}", node) for node in nodes for at in range(2)]
    return engine, pods


def test_a_gang_evicts_for_devices_of_several_nodes_and_gets_them() -> None:
    engine, pods = full("n1", "n2")
    made = ask(engine, 2, devices=2)
    assert victims(made) == ["n1-0", "n1-1", "n2-0", "n2-1"]
    assert said(made) == (
        "gang default/g: 4 pod(s) are evicted for it; it has room when they are gone and their "
        "claims are deallocated."
    )

    (evict,) = [each for each in made if isinstance(each, Evict)]
    engine.handle(EvictionEnded(evict.pod.uid), now=1.0)
    for pod in pods:
        gone(engine, pod, now=10.0)
    assert not prepared(decide(engine, now=20.0)), "the claims still have the devices"
    for pod in pods:
        freed(engine, pod.name, now=21.0)
    assert prepared(decide(engine, now=40.0)) == {"m0": "n1", "m1": "n2"}
    assert not engine.held_room
    assert not engine.cluster.nominations


def test_as_few_as_possible_and_of_the_lowest_priority_are_evicted() -> None:
    engine = an_engine("n1", "n2", "n3")
    for node, priorities in {"n1": (5, 1), "n2": (2, 6), "n3": (9, 9)}.items():
        for at, priority in enumerate(priorities):
            run(engine, f"{node}-{at}", f"gpu-{at}", node, priority=priority)
    assert victims(ask(engine, 2)) == ["n1-1", "n2-0"]


def test_free_devices_are_used_before_pods_are_evicted() -> None:
    engine = an_engine("n1", "n2")
    for node, at in (("n1", 0), ("n1", 1), ("n2", 0)):
        run(engine, f"{node}-{at}", f"gpu-{at}", node)
    assert len(victims(ask(engine, 2))) == 1


@pytest.mark.parametrize("why", ["important pods", "too few devices", "shared with another"])
def test_nothing_is_evicted_in_vain(why: str) -> None:
    engine = an_engine("n1", "n2")
    others = {"important pods": 20, "too few devices": 0, "shared with another": 0}[why]
    run(engine, "a", "gpu-0", "n1")
    run(engine, "b", "gpu-1", "n1")
    run(engine, "c", "gpu-0", "n2")
    pod = run(engine, "d", "gpu-1", "n2", priority=others)
    if why == "shared with another":
        users = a_claim_user(pod), replace(a_claim_user(pod), uid="u-x", name="x")
        held = an_allocation("n2", "gpu-1")
        show(engine, a_claim("d", allocation=held, reserved_for=users, version="9"))
    made = ask(engine, 4 if why != "too few devices" else 5)
    assert victims(made) == []
    assert "Evicting the pods that it may evict does not help" in said(made)
    assert engine.cluster.claims.held.keys() == {"u-a", "u-b", "u-c", "u-d"}, "nothing is left"


def test_all_pods_that_share_a_claim_go_together() -> None:
    engine = an_engine("n1")
    pods = [replace(a_claiming_pod(name, "s"), node="n1") for name in ("x", "y")]
    shared = an_allocation("n1", "gpu-0", "gpu-1")
    show(engine, a_claim("s", allocation=shared, reserved_for=tuple(map(a_claim_user, pods))))
    see(engine, *pods)
    assert victims(ask(engine, 2)) == ["x", "y"]


def test_a_gang_is_evicted_whole() -> None:
    engine = an_engine("n1", "n2", "n3")
    other = Membership("fairlead/default/o", spec=GangSpec("fairlead/default/o", 2))
    for node in ("n1", "n2"):
        run(engine, f"o-{node}", "gpu-0", node, gang=other)
        run(engine, f"x-{node}", "gpu-1", node, priority=9)
    for at in range(2):
        run(engine, f"y-{at}", f"gpu-{at}", "n3", priority=9)
    assert victims(ask(engine, 2)) == ["o-n1", "o-n2"]


def test_a_gang_whose_pods_share_a_claim_evicts_for_it() -> None:
    engine, _ = full("n1")
    show(engine, a_claim("shared", 2))
    gang = Membership(KEY, spec=GangSpec(KEY, 2))
    see(engine, *(a_claiming_pod(f"m{at}", "shared", gang=gang, priority=10) for at in range(2)))
    assert victims(decide(engine)) == ["n1-0", "n1-1"]


def test_nothing_is_evicted_unless_the_profile_says_so() -> None:
    engine = an_engine("n1", preempts=False)
    for at in range(2):
        run(engine, f"a{at}", f"gpu-{at}")
    assert victims(ask(engine, 2)) == []


def test_many_members_with_claims_of_their_own_are_one_kind() -> None:
    """Their claims have different names, and ask for the same."""
    nodes = [f"n{at}" for at in range(40)]
    engine, pods = full(*nodes)
    before = engine.cluster.work.spent
    assert len(victims(ask(engine, 80))) == len(pods) == 80
    assert engine.cluster.work.spent - before < 140_000


def test_explain_names_the_pods() -> None:
    engine, _ = full("n1", "n2")
    (pod, _) = pods = members(engine, 2, devices=2)
    see(engine, *pods)
    found = devices_answer({"state": "unschedulable"}, engine, pod, 0.0, pods=True)
    assert found["devices"]["pods"] == [f"default/{name}" for name in
                                        ("n1-0", "n1-1", "n2-0", "n2-1")]  # fmt: skip


def test_gangs_that_are_too_large_evict_nothing_and_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gang_rooms, "MOST_CLAIMING", 1)
    engine, _ = full("n1")
    made = ask(engine, 2)
    assert victims(made) == []
    assert "pods with resource claims evict no others" in said(made)


def test_a_search_goes_on_with_what_it_found_though_something_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In a busy cluster something always changes between two attempts."""
    monkeypatch.setattr(making_room, "_WORK_WITH_DEVICES", 0)
    packed: list[RoomRows] = []
    pack = RoomRows.pack
    monkeypatch.setattr(
        RoomRows, "pack", lambda self, *args: [packed.append(self), pack(self, *args)][1]
    )
    engine, pods = full("n1", "n2", "n3")
    made = ask(engine, 2, devices=2)
    assert victims(made) == []
    assert "goes on in its next attempt" in said(made)
    free = next(pod for pod in pods if pod.node == "n3")
    gone(engine, free, now=1.0)
    assert len(victims(decide(engine, now=20.0))) == 4
    assert len(packed) == 1


def test_what_a_search_found_is_not_used_if_a_pod_may_not_go_any_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(making_room, "_WORK_WITH_DEVICES", 0)
    engine, pods = full("n1", "n2", "n3")
    assert victims(ask(engine, 2, devices=2)) == []
    for pod in pods[:2]:
        see(engine, replace(pod, priority=20))
    found: list[str] = []
    for at in range(1, 5):
        found += victims(decide(engine, now=20.0 * at))
    assert found == ["n2-0", "n2-1", "n3-0", "n3-1"]


def test_a_gang_whose_trial_takes_too_long_evicts_nothing_and_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gang_trials, "_MOST_WORK", 0)
    monkeypatch.setattr(gang_flights, "SLICE_WORK", 0)
    engine, _ = full("n1", "n2")
    made = ask(engine, 2, devices=2)
    assert victims(made) == []
    assert making_room.TOO_LONG in said(made)


def test_a_gang_whose_claims_take_long_is_placed_over_several_turns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gang_trials, "_MOST_WORK", 0)
    monkeypatch.setattr(gang_flights, "SLICE_WORK", 0)
    engine = an_engine("n1", "n2", "n3")
    see(engine, *members(engine, 3, devices=2))
    turns, made = 0, []
    while (attempt := engine.decide(now=0.0)) is not None:
        turns, made = turns + 1, [*made, *attempt.instructions]
    assert sorted(prepared(made)) == ["m0", "m1", "m2"]
    assert turns >= 4
