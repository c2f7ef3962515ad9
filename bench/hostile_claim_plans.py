"""Units with resource claims that wait for their planned starts."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from fairlead.engine.engine import Engine
from fairlead.engine.events import ClaimObjectSeen, ForecastDue, PodSeen
from fairlead.kube.codec import decode_pod
from fairlead.model.backfill import BackfillMode
from fairlead.model.claim_uses import ClaimUse
from fairlead.model.claims import (
    AllocatedDevice,
    Allocation,
    ClaimUser,
    DeviceNeed,
    DeviceRequest,
    ResourceClaim,
)
from fairlead.model.devices import Device, DeviceClass, DeviceForm, DeviceNodes, ResourceSlice
from fairlead.model.pods import Pod
from fairlead.model.run_times import RunTime
from hostile_cluster import GANG, Made, Shape, Size, a_pod, encoded, gone
from hostile_gangs import planning_engine

#: Not NVIDIA's: GPUs of its driver are those of the device plugin that pods of the cluster have.
_DRIVER = "gpu.example.com"


def planned_claims(size: Size, pods: int, devices: int = 8) -> Iterator[Made]:
    """Claims of running pods end one after the other; gangs wait for the devices of whole nodes."""
    yield from _devices(size)
    yield from _ending_claims(size)
    for gang in range(4):
        yield from _waiting_gang(f"g{gang}", max(1, size.each * pods // 10_000), devices)
    for number in range(size.each // 100):
        yield from _waiting(f"s{number}", 1, run_s=60.0 * (1 + number))
    for number in range(10):
        yield gone(size, number)
        yield partial(ClaimObjectSeen, _claim(f"there-{number}", 1))
    yield partial(ForecastDue, 50)


def _devices(size: Size) -> Iterator[Made]:
    chosen = (f"device.driver == '{_DRIVER}'",)
    yield partial(ClaimObjectSeen, DeviceClass(_DRIVER, chosen))
    there = tuple(Device(DeviceForm(f"gpu-{at}")) for at in range(8))
    for number in range(size.nodes):
        node = size.node(number)
        part = ResourceSlice(node, _DRIVER, node, nodes=DeviceNodes(node), devices=there)
        yield partial(ClaimObjectSeen, part)


def _ending_claims(size: Size) -> Iterator[Made]:
    """Each pod of the cluster has a device of its node, the last ones excepted."""
    kind = decode_pod(encoded(a_pod("there", cpu="1", gpus=1)))
    for number in range(size.pods):
        uid, node, at = f"there-{number}", size.node(number), number // size.nodes
        if at < 8:
            given = Allocation((AllocatedDevice("r", _DRIVER, node, f"gpu-{at}"),))
            user = (ClaimUser(uid, uid),)
            made = replace(_claim(uid, 1), allocation=given, reserved_for=user, version="1")
            yield partial(ClaimObjectSeen, made)
        run = RunTime(bound_s=float(60 + 36_000 * number // size.pods), source="bench")
        pod = replace(kind, name=uid, uid=uid, node=node, run_time=run, namespace="team-0",
                      started="1970-01-01T00:00:00Z")  # fmt: skip
        yield partial(PodSeen, _using(pod, uid))


def _waiting_gang(name: str, pods: int, devices: int) -> Iterator[Made]:
    words = {GANG: name, f"{GANG}-min": str(pods), "fairlead.dev/run-time": "1h"}
    for number in range(pods):
        yield from _waiting(f"{name}-{number}", devices, words)


def _waiting(
    name: str, devices: int, words: dict[str, str] | None = None, run_s: float | None = None
) -> Iterator[Made]:
    yield partial(ClaimObjectSeen, _claim(name, devices))
    body = a_pod(name)
    body["metadata"]["annotations"] = words or {"fairlead.dev/run-time": f"{run_s:.0f}s"}
    raw = encoded(body)
    yield lambda: PodSeen(_using(decode_pod(raw), name))


def _claim(name: str, devices: int) -> ResourceClaim:
    need = DeviceRequest("r", DeviceNeed(_DRIVER, count=devices))
    return ResourceClaim("team-0", name, name, version="2", requests=(need,))


def _using(pod: Pod, claim: str) -> Pod:
    uses = (ClaimUse("c", f"team-0/{claim}"),)
    return replace(pod, request=replace(pod.request, claims=uses))


PLAN_SHAPES: dict[str, Shape] = {
    "planned claims, easy": partial(planned_claims, pods=64),
    "planned claims, many": partial(planned_claims, pods=64),
    "planned claims, large gangs": partial(planned_claims, pods=512),
}
PLAN_ENGINES: dict[str, Callable[[], Engine]] = {
    "planned claims, easy": partial(planning_engine, BackfillMode.EASY),
    "planned claims, many": partial(planning_engine, BackfillMode.CONSERVATIVE),
    "planned claims, large gangs": partial(planning_engine, BackfillMode.CONSERVATIVE),
}
