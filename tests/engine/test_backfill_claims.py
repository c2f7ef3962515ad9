"""Planned starts of units whose pods use resource claims."""

from dataclasses import replace

import pytest
from test_extended_resources import MAPPED, gpu_pod

from claim_objects import GPU_CLASS, a_claim, a_device, a_gpu_device, a_slice, an_allocation
from fairlead.apps.live.start_forecasts import start_answer
from fairlead.claims import turn_limit
from fairlead.engine.attempts import Outcome
from fairlead.engine.reasons import WAITING_FOR_PLANNED_START
from fairlead.model.backfill import FILLER, BackfillMode, BackfillTerms
from fairlead.model.claims import DeviceNeed, DeviceRequest
from fairlead.model.devices import DeviceNodes
from fairlead.model.pods import Pod
from fairlead.testing.builders import a_gpu_node, gpu_share
from timed_claims import ClaimWorld, a_claiming_job, a_sharing_job, nodes_with
from timed_world import EXACT, a_job, bounded

CONSERVATIVE = replace(EXACT, mode=BackfillMode.CONSERVATIVE)


def with_head(terms: BackfillTerms = EXACT) -> ClaimWorld:
    """Six of eight devices are in use until 10, and the head waits for all eight."""
    world = ClaimWorld(*nodes_with(8), terms=terms)
    world.submit(*a_claiming_job("r1", 6, 10))
    world.submit(*a_claiming_job("head", 1, 5, count=8))
    return world


def test_a_claim_that_cannot_be_allocated_is_planned_for_when_devices_are_free() -> None:
    world = with_head()
    planned = world.engine.plans.start_of("head")
    assert planned is not None
    assert (planned.start_s, planned.end_s, planned.bounded) == (10, 15, True)
    assert sorted(planned.basis) == [f"r1-{at}" for at in range(6)]


def test_a_short_claim_starts_on_planned_devices_and_a_longer_one_waits() -> None:
    world = with_head()
    world.submit(*a_claiming_job("long", 1, 11))
    assert not world.runs("long")
    assert world.failures["long"].reason == WAITING_FOR_PLANNED_START
    world.submit(*a_claiming_job("short", 1, 10))
    assert world.runs("short")
    world.run_until(100)
    assert world.start_of("head") == 10
    assert world.start_of("long") == 15


def test_a_large_claim_does_not_starve_behind_small_ones() -> None:
    world = with_head()
    for at in range(40):
        world.submit(*a_claiming_job(f"small{at}", 1, 7))
        world.run_until(at + 1.0)
    assert world.start_of("head") == 10


def test_without_backfill_small_claims_pass_the_large_one() -> None:
    world = ClaimWorld(*nodes_with(8), terms=replace(EXACT, mode=BackfillMode.NONE))
    world.submit(*a_claiming_job("r1", 6, 10))
    world.submit(*a_claiming_job("head", 1, 5, count=8))
    world.submit(*a_claiming_job("long", 1, 11))
    assert world.runs("long")


def test_a_device_more_is_for_any_run_time() -> None:
    world = ClaimWorld(*nodes_with(8))
    world.submit(*a_claiming_job("r1", 6, 10))
    world.submit(*a_claiming_job("head", 1, 5, count=7))
    world.submit(*a_claiming_job("long", 1, 1000))
    assert world.runs("long")
    world.submit(*a_claiming_job("too-long", 1, 11))
    assert not world.runs("too-long")
    world.run_until(10)
    assert world.start_of("head") == 10


def test_a_planned_claim_waits_until_devices_of_ended_pods_are_deallocated() -> None:
    """It keeps its planned start meanwhile, and no other unit gets the devices."""
    world = with_head()
    world.is_slow = True
    world.run_until(10.5)
    assert not world.runs("head")
    assert world.planned_s("head", 1) == 10
    world.submit(*a_claiming_job("long", 1, 20))
    world.free_left_over()
    world.work()
    assert world.start_of("head") == 10.5
    assert not world.runs("long")


def test_a_claim_of_several_pods_is_free_when_the_last_of_them_ends() -> None:
    world = ClaimWorld(*nodes_with(2))
    world.submit(*a_sharing_job("a", 1, 10, "common-2"))
    world.submit(*a_sharing_job("b", 1, 30, "common-2"))
    world.submit(*a_claiming_job("head", 1, 5))
    assert world.planned_s("head", 1) == 30
    world.run_until(40)
    assert world.start_of("head") == 30


def test_a_pod_that_joins_a_claim_must_not_delay_a_planned_start_either() -> None:
    world = ClaimWorld(*nodes_with(2))
    world.submit(*a_sharing_job("a", 1, 10, "common-2"))
    world.submit(*a_claiming_job("head", 1, 5))
    assert world.planned_s("head", 1) == 10
    world.submit(*a_sharing_job("late", 1, 30, "common-2"))
    assert not world.runs("late")
    world.submit(*a_sharing_job("early", 1, 10, "common-2"))
    assert world.runs("early")
    world.run_until(20)
    assert world.start_of("head") == 10


def test_a_claim_that_the_planned_unit_joins_is_not_free_for_its_other_claim() -> None:
    """Of three devices it joins two, and the third one is free when the first unit ends."""
    world = ClaimWorld(*nodes_with(3))
    world.submit(*a_sharing_job("r", 1, 30, "first-1", "common-2"))
    world.submit(*a_sharing_job("head", 1, 10, "own-1", "common-2"))
    assert world.planned_s("head", 1) == 30
    world.run_until(11)
    world.submit(*a_sharing_job("late", 1, 20, "first-1"))
    assert not world.runs("late"), "it would keep the third device until 31"
    world.run_until(100)
    assert world.start_of("head") == 30


def test_a_claim_without_a_reservation_stays_allocated() -> None:
    world = ClaimWorld(*nodes_with(1))
    world.show(a_claim("left", allocation=an_allocation("n0", "gpu-0")))
    world.submit(*a_claiming_job("head", 1, 5))
    assert world.planned_s("head", 1) is None
    assert not world.runs("head")


def test_a_gang_gets_its_devices_at_one_planned_start() -> None:
    world = ClaimWorld(*nodes_with(2, 2, 2))
    world.submit(*a_claiming_job("a", 2, 10))
    world.submit(*a_claiming_job("b", 1, 20))
    world.submit(*a_claiming_job("head", 3, 5, count=2))
    assert world.planned_s("head", 3) == 20
    world.submit(*a_claiming_job("long", 1, 21))
    world.submit(*a_claiming_job("short", 1, 20))
    assert (world.runs("long"), world.runs("short")) == (False, True)
    world.run_until(100)
    assert world.start_of("head") == 20


def test_members_that_share_a_claim_are_planned_together() -> None:
    world = ClaimWorld(*nodes_with(2))
    world.submit(*a_claiming_job("a", 1, 10))
    world.submit(*a_sharing_job("head", 3, 5, "common-2"))
    assert world.planned_s("head", 3) == 10
    world.submit(*a_claiming_job("long", 1, 11))
    assert not world.runs("long")
    world.run_until(20)
    assert world.start_of("head") == 10


def a_gpu_job(name: str, gpus: int, run_s: float) -> Pod:
    """A plain pod that requests GPUs as a device plugin would offer them."""
    return replace(gpu_pod(name, gpus), uid=name, run_time=bounded(run_s))


def test_a_gpu_pod_that_a_class_serves_is_planned() -> None:
    world = ClaimWorld(*nodes_with(4))
    world.show(MAPPED)
    world.submit(a_gpu_job("r", 3, 10))
    world.submit(a_gpu_job("head", 4, 5))
    assert world.planned_s("head", 1) == 10
    world.submit(a_gpu_job("long", 1, 11))
    world.submit(*a_claiming_job("long-claim", 1, 11))
    assert not world.runs("long")
    assert not world.runs("long-claim")
    world.submit(a_gpu_job("short", 1, 10))
    assert world.runs("short")
    world.run_until(100)
    assert world.start_of("head") == 10


def test_devices_that_pods_on_any_node_can_use_are_planned_too() -> None:
    """What is taken elsewhere is taken from the planned unit."""
    world = ClaimWorld(*nodes_with(0, 0))
    devices = a_slice("fabric", "gpu-0", "gpu-1")
    world.show(replace(devices, nodes=DeviceNodes(all_nodes=True)))
    world.submit(*a_claiming_job("r", 1, 10))
    world.submit(*a_claiming_job("head", 1, 5, count=2))
    assert world.planned_s("head", 1) == 10
    world.submit(*a_claiming_job("long", 1, 11))
    assert not world.runs("long")
    world.submit(*a_claiming_job("short", 1, 10))
    assert world.runs("short")
    world.run_until(20)
    assert world.start_of("head") == 10


def test_planned_claims_keep_the_very_devices_that_only_one_of_them_can_use() -> None:
    """The first claim may have any device, the second one only the red one."""
    world = ClaimWorld(*nodes_with(0), terms=CONSERVATIVE)
    world.show(a_slice("n0", a_device("red", colour="red"), a_device("blue", colour="blue")))
    world.submit(*a_claiming_job("r", 1, 10, count=2))
    world.submit(*a_claiming_job("any", 1, 20))
    need = DeviceNeed(GPU_CLASS.name, ("device.attributes['gpu.nvidia.com'].colour == 'red'",))
    world.show(a_claim("red", requests=(DeviceRequest("r", need),)))
    world.submit(*a_sharing_job("red", 1, 5, "red"))
    first, second = world.planned_s("any", 1), world.planned_s("red", 1)
    assert first == 10
    world.run_until(100)
    assert world.start_of("any") == first
    assert world.start_of("red") == second


def test_a_unit_without_claims_does_not_take_the_gpu_of_a_planned_claim() -> None:
    world = ClaimWorld((a_gpu_node("n0", gpus=2), 2))
    world.show(a_slice("n0", *(a_gpu_device(f"gpu-{at}", f"GPU-n0-{at}") for at in range(2))))
    world.submit(*a_claiming_job("r", 1, 10))
    world.submit(*a_claiming_job("head", 1, 5, count=2))
    assert world.planned_s("head", 1) == 10
    share = {"gpus": 0, "gpu_request": gpu_share(500)}
    world.submit(*a_job("long", 1, 11, **share))
    assert not world.runs("long")
    world.submit(*a_job("short", 1, 10, **share))
    assert world.runs("short")
    world.run_until(20)
    assert world.start_of("head") == 10


def test_a_filler_gets_no_planned_devices_where_no_pod_is_evicted_for_devices() -> None:
    world = ClaimWorld(*nodes_with(8))
    world.submit(*a_claiming_job("r1", 6, 10))
    (head,) = a_claiming_job("head", 1, 5, count=8)
    world.submit(replace(head, priority=10))
    (filler,) = a_claiming_job("filler", 1, None)
    world.submit(replace(filler, annotations={FILLER: "true"}))
    assert not world.runs("filler")
    world.run_until(10)
    assert world.start_of("head") == 10


def test_the_start_is_told_with_the_pods_that_it_waits_for() -> None:
    world = with_head()
    told = start_answer(world.engine, world.pods["head"], now=world.now)["start"]
    assert told["expected"] == "1970-01-01T00:00:10Z"
    assert told["nodes"] == ["n0"]
    assert len(told["waitsFor"]) == 6


def test_a_search_for_devices_that_is_given_up_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """The unit has no plan then, and holds nothing."""
    monkeypatch.setattr(turn_limit, "_STEPS", 3)
    world = with_head()
    assert world.planned_s("head", 1) is None
    told = start_answer(world.engine, world.pods["head"], now=world.now)
    assert "takes too long" in told["start"]["message"]
    world.submit(*a_claiming_job("long", 1, 11))
    assert world.runs("long")


def test_a_unit_waits_if_it_takes_too_long_to_find_out_what_it_delays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = with_head(replace(EXACT, other_places=False))
    monkeypatch.setattr(turn_limit, "_STEPS", 3)
    world.submit(*a_claiming_job("long", 1, 11))
    assert not world.runs("long")
    assert "not all places were looked at" in world.failures["long"].message


def test_no_other_unit_is_tried_while_devices_of_a_planned_claim_are_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Looking at them has taken the whole turn."""
    world = with_head()
    monkeypatch.setattr(turn_limit, "_STEPS", 1)
    world.show(a_slice("n0", *(f"gpu-{at}" for at in range(8)), generation=2))
    world.create(*a_job("other", 1, 5))
    attempt = world.engine.decide(now=world.now)
    assert attempt is not None
    assert (attempt.unit.key, attempt.outcome) == ("head", Outcome.UNFINISHED)


def test_a_gang_of_too_many_claims_has_no_plan_and_is_told() -> None:
    world = ClaimWorld(*nodes_with(*(8 for _ in range(17))))
    world.submit(*a_claiming_job("r", 1, 10, count=8))
    world.submit(*a_claiming_job("head", 136, 5))
    assert world.planned_s("head", 136) is None
    told = start_answer(world.engine, world.pods["head-0"], now=world.now)
    assert "takes too long" in told["start"]["message"]
