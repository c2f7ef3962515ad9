"""What `fairlead explain` says about the claims of a pod, and of a gang that lacks devices."""

from dataclasses import replace

import pytest

from builders import a_node, an_engine, decide, see
from claim_objects import (
    GPU_CLASS,
    a_claim,
    a_claim_user,
    a_claiming_pod,
    a_slice,
    an_allocation,
)
from fairlead.apps.explain.claims import asked_claim_lines, claims_answer
from fairlead.engine.engine import Engine
from fairlead.engine.events import ClaimObjectSeen
from fairlead.model.claims import ALL_DEVICES, ClaimObject, DeviceNeed, DeviceRequest
from fairlead.model.gangs import GangSpec, Membership
from fairlead.model.pods import Pod

ALTERNATIVES = DeviceRequest(
    "r", first_available=(DeviceNeed("large", count=2, name="a"), DeviceNeed("small", name="b"))
)
EVERY = DeviceRequest("r", DeviceNeed("gpu", mode=ALL_DEVICES, count=0))


def engine_with(*objects: ClaimObject) -> Engine:
    engine = an_engine(a_node("n1", gpus=0))
    for each in (GPU_CLASS, a_slice("n1", "gpu-0", "gpu-1"), *objects):
        engine.handle(ClaimObjectSeen(each), now=0.0)
    return engine


def told(engine: Engine, pod: Pod) -> str:
    (line,) = asked_claim_lines(claims_answer(engine.cluster, pod)["claims"])
    return line


@pytest.mark.parametrize(
    ("requests", "asks"),
    [((), "2 gpu"), ((ALTERNATIVES,), "2 large or 1 small"), ((EVERY,), "all gpu")],
    ids=["a count", "alternatives", "all"],
)
def test_what_a_claim_asks_for(requests: tuple[DeviceRequest, ...], asks: str) -> None:
    claim = a_claim("c", requests=requests) if requests else a_claim("c", 2)
    found = told(engine_with(claim), a_claiming_pod("p", "c"))
    assert found.endswith(f"(default/c) asks for {asks}")


def test_an_allocated_claim_has_devices() -> None:
    pod = a_claiming_pod("p", "c")
    held = a_claim("c", allocation=an_allocation("n1", "gpu-1"), reserved_for=(a_claim_user(pod),))
    assert told(engine_with(held), pod).endswith("n1/gpu-1")


def test_a_claim_that_is_missing_says_what_to_look_at() -> None:
    pod = a_claiming_pod("p", "c")
    assert told(engine_with(), pod).endswith('could not find ResourceClaim "default/c"')
    uses = tuple(replace(use, key="", template="t") for use in pod.request.claims)
    waiting = replace(pod, request=replace(pod.request, claims=uses))
    assert "of template t, not made yet: does the template exist" in told(engine_with(), waiting)


def test_pods_without_claims_are_told_nothing() -> None:
    assert not claims_answer(engine_with().cluster, replace(a_claiming_pod("p")))


def test_a_gang_that_lacks_devices_is_told_how_many_would_help() -> None:
    engine = engine_with(a_claim("c0", 2), a_claim("c1", 2))
    key = "fairlead/default/g"
    gang = Membership(key, spec=GangSpec(key, 2))
    pods = [a_claiming_pod(f"p{at}", f"c{at}", gang=gang) for at in range(2)]
    see(engine, *pods)
    decide(engine)
    found = engine.gang_outlook(pods[0])
    assert found is not None
    assert "for 1 more pod(s) with 2 gpu each" in found.remedies[-1]
