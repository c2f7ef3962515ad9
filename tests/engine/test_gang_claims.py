"""Gangs whose pods use resource claims: allocated together, or not at all."""

from dataclasses import replace

from test_extended_resources import MAPPED, gpu_pod

from builders import a_node, an_engine, decide, see
from claim_objects import (
    GPU_CLASS,
    a_claim,
    a_claim_user,
    a_claiming_pod,
    a_slice,
    an_allocation,
)
from fairlead.engine import events
from fairlead.engine.engine import Engine
from fairlead.engine.instructions import (
    AnnounceFailure,
    Bind,
    FreeClaim,
    Prepare,
    ReleaseClaims,
)
from fairlead.model.claims import ClaimObject, DeviceNeed, DeviceRequest
from fairlead.model.gangs import GangSpec, Membership
from fairlead.model.pods import Pod
from fairlead.plugins.claim_step import ClaimStep


def engine_with(*objects: ClaimObject) -> Engine:
    engine = an_engine(*(a_node(name, gpus=0) for name in ("n1", "n2")))
    show(engine, GPU_CLASS, *objects)
    return engine


def show(engine: Engine, *objects: ClaimObject, now: float = 0.0) -> None:
    for each in objects:
        engine.handle(events.ClaimObjectSeen(each), now=now)


def a_gang_with(*claims: str, minimum: int | None = None) -> list[Pod]:
    """One pod for each of these claims."""
    key = "fairlead/default/g"
    spec = GangSpec(key, minimum or len(claims))
    return [
        a_claiming_pod(f"g-{rank}", claim, gang=Membership(key, rank=rank, spec=spec))
        for rank, claim in enumerate(claims)
    ]


def step_of(asked: Prepare) -> ClaimStep:
    (step,) = asked.steps
    assert isinstance(step, ClaimStep)
    return step


def devices_of(asked: Prepare) -> list[str]:
    writes = step_of(asked).writes
    return [device.device for write in writes if write.allocation
            for device in write.allocation.devices]  # fmt: skip


def prepares(engine: Engine, now: float = 0.0) -> list[Prepare]:
    return [made for made in decide(engine, now=now) if isinstance(made, Prepare)]


def test_members_get_different_devices() -> None:
    engine = engine_with(a_slice("n1", "gpu-0", "gpu-1"), a_claim("a"), a_claim("b"))
    see(engine, *a_gang_with("a", "b"))

    assert [devices_of(asked) for asked in prepares(engine)] == [["gpu-0"], ["gpu-1"]]


def test_a_gang_that_does_not_fit_leaves_nothing_in_flight() -> None:
    engine = engine_with(a_slice("n1", "gpu-0", "gpu-1"), *map(a_claim, "abcd"))
    see(engine, *a_gang_with("a", "b", "c"))
    assert prepares(engine) == []

    assert engine.cluster.claims.held == {}
    see(engine, a_claiming_pod("d", "d"))
    (asked,) = prepares(engine)
    assert devices_of(asked) == ["gpu-0"]


def test_members_that_share_a_claim_get_one_allocation() -> None:
    engine = engine_with(a_slice("n2", "gpu-0", "gpu-1"), a_claim("a"))
    see(engine, *a_gang_with("a", "a", "a", "a"))

    asked = prepares(engine)

    assert [each.node for each in asked] == ["n2"] * 4
    allocations = {step_of(each).writes[0].allocation for each in asked}
    assert len(allocations) == 1
    assert engine.cluster.claims.held.keys() == {"u-a"}
    assert len(engine.cluster.claims.held["u-a"]) == 1


def test_a_shared_claim_is_held_until_the_last_member_is_settled() -> None:
    engine = engine_with(a_slice("n2", "gpu-0"), a_claim("a"), a_claim("b"))
    first, second = a_gang_with("a", "a")
    see(engine, first, second)
    decide(engine)

    engine.handle(events.PrepareFailed(first.uid, "no"), now=1.0)
    assert engine.cluster.claims.held.keys() == {"u-a"}, "the other write may still succeed"

    engine.handle(events.PrepareFailed(second.uid, "no"), now=1.0)
    assert engine.cluster.claims.held == {}


def test_what_was_written_for_a_gang_that_is_given_up_is_taken_back() -> None:
    engine = engine_with(a_slice("n1", "gpu-0", "gpu-1"), a_claim("a"), a_claim("b"))
    first, second = a_gang_with("a", "b")
    see(engine, first, second)
    asked, _ = prepares(engine)
    (write,) = step_of(asked).writes
    user = (a_claim_user(first),)
    show(engine, replace(write.claim, allocation=write.allocation, reserved_for=user), now=1.0)
    assert engine.handle(events.Prepared(first.uid), now=1.0) == []

    made = engine.handle(events.PrepareFailed(second.uid, "no"), now=2.0)

    assert ReleaseClaims(first) in made
    assert not any(isinstance(each, Bind) for each in made)
    assert engine.cluster.claims.held.keys() == {"u-a"}, "until the API server shows otherwise"


def test_a_claim_that_keeps_a_gang_from_all_nodes_is_freed() -> None:
    gone = a_claim("a", allocation=an_allocation("n9", "gpu-0"))
    engine = engine_with(a_slice("n1", "gpu-0", "gpu-1"), gone, a_claim("b"))
    first, second = a_gang_with("a", "b")
    see(engine, first, second)

    made = decide(engine)

    assert FreeClaim(first, gone) in made


def test_a_selector_that_fails_is_told_to_a_gang_as_to_a_pod() -> None:
    need = DeviceNeed("gpu", ("device.attributes['gpu.nvidia.com'].colour == 'red'",))
    failing = a_claim("a", requests=(DeviceRequest("r", need),))
    engine = engine_with(a_slice("n1", "gpu-0", "gpu-1"), failing, a_claim("b"))
    see(engine, *a_gang_with("a", "b"))

    made = decide(engine)

    told = [each for each in made if isinstance(each, AnnounceFailure)]
    assert told
    assert all("no such key: colour" in each.message for each in told), told
    assert not any("bug" in each.message for each in told)
    assert engine.cluster.claims.held == {}


def test_members_that_ask_for_plain_gpus_get_different_devices_of_a_class() -> None:
    key = "fairlead/default/g"
    spec = GangSpec(key, 3)
    members = [
        replace(gpu_pod(f"g-{rank}"), gang=Membership(key, rank=rank, spec=spec))
        for rank in range(3)
    ]
    engine = engine_with(MAPPED, a_slice("n1", "gpu-0", "gpu-1"))
    see(engine, *members)
    assert not prepares(engine), "two GPUs for three members"
    assert not engine.cluster.claims.held

    show(engine, a_slice("n2", "gpu-0"), now=20.0)

    made = prepares(engine, now=20.0)
    found = sorted((asked.node, *devices_of(asked)) for asked in made)
    assert found == [("n1", "gpu-0"), ("n1", "gpu-1"), ("n2", "gpu-0")]
