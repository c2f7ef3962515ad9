"""Devices that are kept for a unit are found again by a scheduler that starts or takes over."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from test_device_rooms import an_engine, ask, freed, gone, run, show, victims
from test_gang_device_rooms import ask as ask_for_gang
from test_gang_device_rooms import full, prepared
from test_kept_devices import claims, evicted

from builders import SCHEDULER, decide, see, without_annotations
from claim_objects import a_claim, a_claiming_pod, a_slice, an_allocation
from fairlead.apps.config.profiles import built_in, claiming
from fairlead.engine import events
from fairlead.engine.engine import Engine
from fairlead.engine.instructions import AnnounceFailure, Instruction
from fairlead.kube.kept_records import kept_text, read_kept
from fairlead.model.claims import AllocatedDevice, Allocation
from fairlead.model.devices import CounterSet, Device, DeviceCapacity, DeviceForm
from fairlead.model.kept_record import KeptClaim, KeptDevice, KeptRecord
from fairlead.model.pods import Pod


def written(made: list[Instruction], pod: Pod) -> Pod:
    """The pod with what is written in its status."""
    for each in made:
        about = isinstance(each, AnnounceFailure) and each.pod.uid == pod.uid
        if about and each.nominated is not None:
            kept = read_kept(kept_text(each.kept))
            pod = replace(pod, nominated=each.nominated, kept=kept)
    return pod


def restarted(engine: Engine, made: list[Instruction], *leaving: Pod) -> Engine:
    """A new scheduler that sees what the API server has; the pods are being deleted.

    It tries another pod of the same priority before those that were there.
    """
    after = Engine(
        {SCHEDULER: claiming(built_in(SCHEDULER), preempts=True)}, encode=without_annotations
    )
    old, going = engine.cluster, {pod.uid for pod in leaving}
    for row in range(len(old)):
        after.handle(events.NodeSeen(old.node_at(row)), now=0.0)
    show(after, *old.claims.inventory.slices(), *old.claims.classes.values())
    show(after, *old.claims.claims.values())
    for held in old.holdings.values():
        see(after, replace(held.pod, node=held.node, deleting=held.pod.uid in going))
    thief(after)
    pending = {pod.uid: pod for entry in engine.queue.entries() for pod in entry.unit.pods}
    for pod in pending.values():
        see(after, written(made, pod))
    return after


def taken_over(engine: Engine, made: list[Instruction], *leaving: Pod) -> Engine:
    """A standby that ran all along: it saw the pods before the status of any was written."""
    after = restarted(engine, [])
    held = (pod for pod in leaving if pod.uid in engine.cluster.holdings)
    see(after, *(replace(pod, deleting=True) for pod in held))
    for pod in [pod for entry in engine.queue.entries() for pod in entry.unit.pods]:
        see(after, written(made, pod))
    return after


Next = Callable[..., Engine]
next_scheduler = pytest.mark.parametrize("next_one", [restarted, taken_over])


def thief(engine: Engine, name: str = "a-thief") -> None:
    """It has the same priority, and evicts no others."""
    claims(engine, name, priority=10, preempts=False)


@next_scheduler
@pytest.mark.parametrize("point", ["they are leaving", "they are gone", "all is free"])
def test_another_pod_does_not_get_the_device_after_a_restart(point: str, next_one: Next) -> None:
    engine = an_engine("n1")
    low, _ = run(engine, "low", "gpu-0"), run(engine, "other", "gpu-1", priority=10)
    made = ask(engine)
    assert victims(made) == ["low"]
    if point != "they are leaving":
        evicted(engine, made, low, now=0.2)
    if point == "all is free":
        freed(engine, "low", now=0.3)

    after = next_one(engine, made, low)
    got = decide(after, now=1.0)

    assert not victims(got), "no other pod is evicted for it"
    if point == "they are leaving":
        gone(after, low, now=2.0)
    if point != "all is free":
        assert not prepared(got)
        freed(after, "low", now=3.0)
        got = decide(after, now=4.0)
    assert prepared(got) == {"high": "n1"}
    assert not after.cluster.claims.kept


@next_scheduler
@pytest.mark.parametrize("freed_before", range(5))
def test_a_gang_has_its_devices_after_a_restart_wherever_it_was(
    freed_before: int, next_one: Next
) -> None:
    engine, pods = full("n1", "n2")
    made = ask_for_gang(engine, 2, devices=2)
    evicted(engine, made, *pods, now=1.0)
    for pod in pods[:freed_before]:
        freed(engine, pod.name, now=2.0)

    after = next_one(engine, made)
    got = prepared(decide(after, now=3.0))
    for pod in pods[freed_before:]:
        assert not got
        freed(after, pod.name, now=4.0)
        got = prepared(decide(after, now=5.0))
    assert got == {"m0": "n1", "m1": "n2"}


@next_scheduler
def test_a_device_that_was_free_already_is_kept_after_a_restart(next_one: Next) -> None:
    engine = an_engine("n1")
    low = run(engine, "low", "gpu-0")
    made = ask(engine, count=2)
    after = next_one(engine, made, low)
    assert not prepared(decide(after, now=1.0))
    gone(after, low, now=2.0)
    freed(after, "low", now=3.0)
    assert prepared(decide(after, now=60.0)) == {"high": "n1"}


@next_scheduler
def test_a_pod_that_was_not_evicted_after_all_is_evicted_then(next_one: Next) -> None:
    """The scheduler ended before it had evicted all of them."""
    engine = an_engine("n1")
    one, two = run(engine, "one", "gpu-0"), run(engine, "two", "gpu-1")
    made = ask(engine, count=2)
    assert victims(made) == ["one", "two"]
    after = next_one(engine, made, one)
    assert not victims(decide(after, now=1.0)), "the first one is leaving"
    gone(after, one, now=2.0)
    freed(after, "one", now=2.0)
    again = decide(after, now=3.0)
    assert victims(again) == ["two"]
    evicted(after, again, two, now=4.0)
    freed(after, "two", now=5.0)
    assert prepared(decide(after, now=60.0)) == {"high": "n1"}


@next_scheduler
def test_what_another_claim_has_got_since_is_not_taken_from_it(next_one: Next) -> None:
    engine = an_engine("n1")
    low, _ = run(engine, "low", "gpu-0"), run(engine, "other", "gpu-1", priority=10)
    made = ask(engine)
    evicted(engine, made, low, now=0.2)
    freed(engine, "low", now=0.3)
    after = next_one(engine, made)
    run(after, "taker", "gpu-0", priority=10)
    assert not prepared(decide(after, now=1.0))
    held = [each for of_claim in after.cluster.claims.held.values() for each in of_claim]
    assert len({device.key for device in held}) == len(held) == 2


def test_a_claim_that_other_pods_use_now_is_not_waited_for() -> None:
    engine = an_engine("n1")
    run(engine, "a", "gpu-0", priority=20)
    run(engine, "b", "gpu-1", priority=20)
    device = KeptDevice("gpu.nvidia.com", "n1", "gpu-0")
    assert not kept_by(engine, KeptRecord(1, (KeptClaim("u-a", (device,)),)))
    assert not engine.cluster.claims.kept
    assert not engine.held_room


@pytest.mark.parametrize(
    "device",
    [
        KeptDevice("gpu.nvidia.com", "n1", "no-such"),
        KeptDevice("gpu.nvidia.com", "n2", "gpu-0"),
        KeptDevice("other.example.com", "n1", "gpu-0"),
        KeptDevice("gpu.nvidia.com", "n1", "gpu-0", "a-share", (("memory", "1"),)),
    ],
)
def test_a_device_that_the_nominated_node_does_not_have_is_not_kept(device: KeptDevice) -> None:
    engine = an_engine("n1", "n2")
    assert not kept_by(engine, KeptRecord(1, (), (device,)))


@pytest.mark.parametrize(
    ("held", "kept"), [((), ["half-0"]), (("half-1",), ["half-0"]), (("whole",), []),
                       (("half-0",), []), (("half-1", "quarter-1"), [])],
)  # fmt: skip
def test_a_part_of_a_gpu_is_kept_if_its_counters_are_left(
    held: tuple[str, ...], kept: list[str]
) -> None:
    """The GPU has two halves, and quarters that are parts of neither by name."""
    engine = an_engine("n1")
    total, sizes = CounterSet("s", (("slots", 4),)), {"whole": 4, "half": 2, "quarter": 1}
    names = ["whole", *(f"{size}-{at}" for size in ("half", "quarter") for at in range(4))]
    parts = []
    for name in names:
        slots = (("slots", sizes[name.partition("-")[0]]),)
        parts.append(Device(DeviceForm(name, consumes=(CounterSet("s", slots),))))
    show(engine, a_slice("n1", *parts, slice_count=2))
    show(engine, a_slice("n1", name="n1-sets", slice_count=2, counter_sets=(total,)))
    for name in held:
        show(engine, a_claim(f"of-{name}", allocation=an_allocation("n1", name)))
    record = KeptRecord(1, (), (KeptDevice("gpu.nvidia.com", "n1", "half-0"),))
    assert [each.device for each in kept_by(engine, record)] == kept


def kept_by(engine: Engine, record: KeptRecord) -> Sequence[AllocatedDevice]:
    """What is kept for a pod with this record, before it is tried."""
    pod = a_claiming_pod("high", nominated="n1", kept=record, gates=("not-yet",))
    see(engine, pod)
    decide(engine, now=1.0)
    return engine.cluster.claims.kept.devices(pod.uid)


@pytest.mark.parametrize(("used", "kept"), [(40, 1), (41, 0)])
def test_a_share_is_kept_if_so_much_of_the_device_is_left(used: int, kept: int) -> None:
    engine = an_engine("n1")
    form = DeviceForm("gpu-0", shareable=True, capacity=(("memory", DeviceCapacity(80)),))
    show(engine, a_slice("n1", Device(form)))
    has = AllocatedDevice("r", "gpu.nvidia.com", "n1", "gpu-0", share_id="one",
                          consumed_capacity=(("memory", used),))  # fmt: skip
    show(engine, a_claim("other", allocation=Allocation((has,))))
    share = KeptDevice("gpu.nvidia.com", "n1", "gpu-0", "two", (("memory", "40"),))
    assert len(kept_by(engine, KeptRecord(1, (), (share,)))) == kept


def test_many_records_are_restored_over_several_turns() -> None:
    names = [f"n{at}" for at in range(30)]
    engine = an_engine(*names)
    for name in names:
        show(engine, a_slice(name, *(f"gpu-{at}" for at in range(64))))
        devices = tuple(KeptDevice("gpu.nvidia.com", name, f"gpu-{at}") for at in range(64))
        show(engine, a_claim(f"p-{name}", 65))
        record = KeptRecord(1, (), devices)
        pod = a_claiming_pod(f"p-{name}", f"p-{name}", nominated=name, kept=record)
        see(engine, pod)
    first = engine.decide(now=1.0)
    assert first is not None
    assert 0 < sum(1 for _ in engine.cluster.claims.kept) < len(names)
    decide(engine, now=1.0)


def test_the_record_is_forgotten_with_the_nomination() -> None:
    engine = an_engine("n1")
    low, _ = run(engine, "low", "gpu-0"), run(engine, "other", "gpu-1", priority=10)
    made = ask(engine)
    (told,) = [each for each in made if isinstance(each, AnnounceFailure)]
    assert told.nominated == "n1"
    assert told.kept == KeptRecord(
        1, (KeptClaim("u-low", (KeptDevice("gpu.nvidia.com", "n1", "gpu-0"),)),)
    )
    assert low.uid


@next_scheduler
@pytest.mark.parametrize("seed", range(20))
def test_no_eviction_for_devices_is_in_vain_although_schedulers_restart(
    seed: int, next_one: Next
) -> None:
    """At any moment; pods of the same priority come, and victims go in any order."""
    lots = Random(seed)
    engine = an_engine("n1", "n2", "n3")
    low = {f"low-{node}-{at}": run(engine, f"low-{node}-{at}", f"gpu-{at}", node)
           for node in ("n1", "n2", "n3") for at in range(2)}  # fmt: skip
    made = ask(engine, "pod", count=lots.choice((1, 2)))
    made += ask_for_gang(engine, lots.choice((1, 2)), devices=lots.choice((1, 2)))
    going = victims(made)
    lots.shuffle(going)
    leaving, now, got = {name: low[name] for name in going}, 1.0, dict[str, str]()
    for name in going:
        for has_pod in (True, False):
            if lots.random() < 0.5:
                engine = next_one(engine, made, *leaving.values())
            if has_pod:
                gone(engine, leaving.pop(name), now)
            else:
                freed(engine, name, now=now)
            more = decide(engine, now=now)
            made += more
            assert not victims(more)
            got |= prepared(more)
            now += 1.0
    got |= prepared(decide(engine, now=now + 60))
    assert {"pod", "m0"} <= got.keys()
    held: list[Any] = [each for some in engine.cluster.claims.held.values() for each in some]
    assert len({device.key for device in held}) == len(held), "no device is held twice"
