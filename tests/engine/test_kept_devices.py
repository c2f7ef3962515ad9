"""Devices for which pods were evicted are kept for the unit that the eviction was made for."""

from dataclasses import replace
from random import Random

import pytest
from test_device_rooms import an_engine, ask, freed, gone, run, show, victims
from test_gang_device_rooms import ask as ask_for_gang
from test_gang_device_rooms import full, prepared

from builders import a_pod, decide, see
from claim_objects import a_claim, a_claiming_pod, a_slice
from fairlead.apps.explain.explanation import ALL, Explainer
from fairlead.engine import events
from fairlead.engine.engine import Engine
from fairlead.engine.held_room import HELD_S, VICTIMS_GO_S
from fairlead.engine.instructions import Evict, Instruction
from fairlead.model.pods import Pod
from fairlead.placement.explain import explain


def claims(engine: Engine, name: str, count: int = 1, **more: object) -> Pod:
    """A pod that asks for devices."""
    show(engine, a_claim(name, count))
    pod = a_claiming_pod(name, name, **more)
    see(engine, pod)
    return pod


def evicted(engine: Engine, made: list[Instruction], *pods: Pod, now: float) -> None:
    """The eviction has ended, and the pods are gone."""
    (evict,) = [each for each in made if isinstance(each, Evict)]
    engine.handle(events.EvictionEnded(evict.pod.uid), now=now)
    for pod in pods:
        gone(engine, pod, now=now)


@pytest.mark.parametrize("comes", ["before the eviction", "after the pod is gone", "after all"])
def test_another_pod_does_not_get_the_device(comes: str) -> None:
    """It has the same priority, and is tried before the preemptor."""
    engine = an_engine("n1")
    low, _ = run(engine, "low", "gpu-0"), run(engine, "other", "gpu-1", priority=10)
    made = ask(engine)
    assert victims(made) == ["low"]
    if comes == "before the eviction":
        claims(engine, "thief", priority=10)
        decide(engine, now=0.1)
    evicted(engine, made, low, now=0.2)
    if comes == "after the pod is gone":
        claims(engine, "thief", priority=10)
    freed(engine, "low", now=0.3)
    if comes == "after all":
        claims(engine, "thief", priority=10)
    assert prepared(decide(engine, now=0.4)) == {"high": "n1"}


def test_a_device_that_was_free_already_is_kept_as_well() -> None:
    engine = an_engine("n1")
    low = run(engine, "low", "gpu-0")
    made = ask(engine, count=2)
    claims(engine, "thief")
    assert not prepared(decide(engine, now=0.1))
    evicted(engine, made, low, now=0.2)
    freed(engine, "low", now=0.3)
    assert prepared(decide(engine, now=60.0)) == {"high": "n1"}


def test_the_devices_of_a_gang_are_kept_while_its_victims_go_one_after_the_other() -> None:
    engine, pods = full("n1", "n2")
    made = ask_for_gang(engine, 2, devices=2)
    claims(engine, "thief", priority=10)
    evicted(engine, made, *pods, now=1.0)
    for at, pod in enumerate(pods):
        freed(engine, pod.name, now=2.0 + at)
        got = prepared(decide(engine, now=2.5 + at))
        assert "thief" not in got
        assert not got or pod is pods[-1]
    assert {**got, **prepared(decide(engine, now=60.0))} == {"m0": "n1", "m1": "n2"}


def test_a_more_important_pod_takes_them_and_the_preemptor_looks_again() -> None:
    engine = an_engine("n1")
    low, other = run(engine, "low", "gpu-0"), run(engine, "other", "gpu-1", priority=5)
    made = ask(engine)
    evicted(engine, made, low, now=0.1)
    freed(engine, "low", now=0.2)
    claims(engine, "vip", priority=99)
    made = decide(engine, now=0.3)
    assert prepared(made) == {"vip": "n1"}
    assert victims(made) == ["other"]
    evicted(engine, made, other, now=0.4)
    freed(engine, "other", now=0.5)
    assert prepared(decide(engine, now=60.0)) == {"high": "n1"}


def test_what_the_preemptor_does_not_need_is_free_for_others() -> None:
    engine = an_engine("n1")
    low = run(engine, "low", "gpu-0")
    show(engine, a_slice("n1", "gpu-0", "gpu-1", "gpu-2"))
    run(engine, "peer", "gpu-2", priority=10)
    run(engine, "peer2", "gpu-1", priority=10)
    made = ask(engine)
    claims(engine, "next", priority=1)
    decide(engine, now=0.1)
    evicted(engine, made, low, now=0.2)
    show(engine, a_slice("n1", "gpu-0", "gpu-1", "gpu-2", "gpu-3"), now=0.2)
    freed(engine, "low", now=0.3)
    got = prepared(decide(engine, now=60.0))
    got |= prepared(decide(engine, now=120.0))
    assert got == {"high": "n1", "next": "n1"}


@pytest.mark.parametrize("why", ["deleted", "too late", "victims stay"])
def test_a_preemptor_that_does_not_use_them_gives_them_back(why: str) -> None:
    engine = an_engine("n1")
    low, _ = run(engine, "low", "gpu-0"), run(engine, "other", "gpu-1", priority=10)
    made = ask(engine)
    claims(engine, "next")
    decide(engine, now=0.1)
    evicted(engine, made, low, now=0.2)
    high = next(pod for pod in engine.cluster.nominations.on("n1"))
    later = 1.0
    if why == "too late":  # it is not tried: another change of its claim keeps it away
        show(engine, replace(engine.cluster.claims.claims["default/high"], deleting=True))
        later = HELD_S + 10
    if why != "victims stay":
        freed(engine, "low", now=0.3)
    else:
        later = VICTIMS_GO_S + 10
    if why == "deleted":
        gone(engine, high, now=0.5)
    engine.tend(now=later)
    assert not engine.cluster.claims.kept
    freed(engine, "low", now=later)
    got = prepared(decide(engine, now=later + 60))
    assert got == ({"high": "n1"} if why == "victims stay" else {"next": "n1"})


def test_no_second_unit_counts_on_what_is_kept_for_the_first() -> None:
    engine = an_engine("n1")
    run(engine, "a", "gpu-0")
    run(engine, "b", "gpu-1", priority=1)
    assert victims(ask(engine, "one")) == ["a"]
    assert victims(ask(engine, "two")) == ["b"]
    assert victims(ask(engine, "three")) == []


def test_the_ledger_has_the_gpu_in_use_until_it_changes_hands() -> None:
    engine = an_engine("n1")
    low = run(engine, "low", "gpu-0")
    run(engine, "other", "gpu-1", priority=10)
    made = ask(engine)
    before = engine.cluster.claims.usage.whole.copy()
    evicted(engine, made, low, now=0.2)
    freed(engine, "low", now=0.3)
    assert engine.cluster.claims.usage.whole == before


def test_explain_says_that_devices_are_kept() -> None:
    engine = an_engine("n1")
    low = run(engine, "low", "gpu-0")
    run(engine, "other", "gpu-1", priority=10)
    evicted(engine, ask(engine), low, now=0.2)
    freed(engine, "low", now=0.3)
    pod = claims(engine, "next")
    placement = engine.placement(pod.scheduler)
    assert placement is not None
    told = explain(placement, engine.cluster, pod)
    assert "1 in use, 1 kept for another pod" in str(told)


@pytest.mark.parametrize("name", ["high", "m0"])
def test_explain_shows_the_preemptor_what_is_kept_for_it(name: str) -> None:
    """A pod, or a gang; and looking changes nothing."""
    engine = an_engine("n1")
    low = run(engine, "low", "gpu-0")
    run(engine, "other", "gpu-1", priority=10)
    made = ask(engine) if name == "high" else ask_for_gang(engine, 1)
    pods = {pod.name: pod for pod in engine.cluster.nominations.on("n1")}
    pods["next"] = claims(engine, "next")
    evicted(engine, made, low, now=0.2)
    freed(engine, "low", now=0.3)
    explainer = Explainer(engine, lambda key: pods[key.partition("/")[2]], now_s=lambda: 0.4)
    before = engine.cluster.claims.usage.whole.copy()
    for _ in range(2):
        told = explainer(f"default/{name}", ALL)
        assert told is not None
        assert told["state"] == "fits"
    other = explainer("default/next", ALL)
    assert other is not None
    assert "1 kept for another pod" in str(other["nodes"])
    assert engine.cluster.claims.usage.whole == before


@pytest.mark.parametrize("preempts", [True, False])
def test_a_gang_that_evicts_for_cpus_keeps_the_devices_that_are_free(preempts: bool) -> None:
    engine = an_engine("n1", preempts=preempts)
    busy = replace(a_pod("busy", cpu=60_000), node="n1")
    see(engine, busy)
    made = ask_for_gang(engine, 2, cpu=16_000)
    assert victims(made) == ["busy"]
    claims(engine, "thief", priority=10)
    assert not prepared(decide(engine, now=0.1))
    evicted(engine, made, busy, now=1.0)
    got = {**prepared(decide(engine, now=1.1)), **prepared(decide(engine, now=60.0))}
    assert got == {"m0": "n1", "m1": "n1"}


def test_a_gang_that_is_placed_in_part_keeps_nothing() -> None:
    engine, pods = full("n1")
    made = ask_for_gang(engine, 2)
    evicted(engine, made, *pods, now=1.0)
    for pod in pods:
        freed(engine, pod.name, now=2.0)
    assert len(prepared(decide(engine, now=60.0))) == 2
    assert not engine.cluster.claims.kept
    assert not [uid for uid in engine.cluster.claims.held if uid.startswith("kept/")]


@pytest.mark.parametrize("seed", range(20))
def test_no_eviction_for_devices_is_in_vain(seed: int) -> None:
    """Pods of the same priority come at any moment, and victims go in any order."""
    lots = Random(seed)
    engine = an_engine("n1", "n2", "n3")
    low = {f"low-{node}-{at}": run(engine, f"low-{node}-{at}", f"gpu-{at}", node)
           for node in ("n1", "n2", "n3") for at in range(2)}  # fmt: skip
    made = ask(engine, "pod", count=lots.choice((1, 2)))
    made += ask_for_gang(engine, lots.choice((1, 2)), devices=lots.choice((1, 2)))
    going, promised = victims(made), {"pod", "m0"}
    assert len(set(going)) == len(going), "each pod is evicted once"
    for evict in (each for each in made if isinstance(each, Evict)):
        engine.handle(events.EvictionEnded(evict.pod.uid), now=0.1)
    lots.shuffle(going)
    now, got = 1.0, dict[str, str]()
    for at, name in enumerate(going):
        for has_pod in (True, False):
            if has_pod:
                gone(engine, low[name], now)
            else:
                freed(engine, name, now=now)
            if lots.random() < 0.5:
                claims(engine, f"thief-{at}-{now}", priority=10)
            got |= prepared(decide(engine, now=now))
            now += 1.0
    got |= prepared(decide(engine, now=now + 60))
    assert promised <= got.keys()
    asked = [each for of_claim in engine.cluster.claims.held.values() for each in of_claim]
    assert len({device.key for device in asked}) == len(asked), "no device is held twice"
