"""Gangs with resource claims: for devices that are free, and for those of pods to be evicted."""

from collections.abc import Callable, Iterator
from functools import partial

from claims import CLASSES, DRIVER, whole_gpus
from fairlead.apps.config.profiles import built_in, claiming
from fairlead.engine.engine import Engine
from fairlead.engine.events import ClaimObjectSeen, PodSeen
from fairlead.kube.claims.claims import decode_claim
from fairlead.kube.codec import decode_pod
from fairlead.model.claims import AllocatedDevice, Allocation, ClaimUser, ResourceClaim
from fairlead.model.nodes import GPU
from hostile_cluster import (
    GANG,
    MAPPING,
    PROFILE,
    SCHEDULER,
    Later,
    Made,
    Shape,
    Size,
    a_node,
    a_pod,
    encoded,
    gone,
    node_seen,
    seen,
)
from pods import Body

_CLASS = "gpu.nvidia.com"
#: As long as any unit waits for its next attempt.
_BACKOFF_S = 11.0


def _asking(*requests: Body, **more: object) -> Body:
    named = [{"name": f"r{at}", **request} for at, request in enumerate(requests)]
    return {"requests": named, **more}


def _exactly(count: int) -> Body:
    return {"exactly": {"deviceClassName": _CLASS, "count": count}}


def _one_of(*counts: int) -> Body:
    needs = [
        {"name": f"s{at}", "deviceClassName": _CLASS, "count": n} for at, n in enumerate(counts)
    ]
    return {"firstAvailable": needs}


#: Pairs that are near each other, each of eight alternatives.
_PAIRS = _asking(
    *(_one_of(*(1,) * 8) for _ in range(8)),
    constraints=[
        {"requests": [f"r{at}", f"r{7 - at}"], "matchAttribute": "resource.kubernetes.io/numaNode"}
        for at in range(4)
    ],
)


def gang_of_claims(size: Size, spec: Body, part: int = 10) -> Iterator[Made]:
    """One node of `part` has devices, which are free."""
    yield from _nodes(size, part)
    pods = size.each // 20
    for number in range(pods):
        yield _claim(f"m{number}", spec)
        yield seen(_member(f"m{number}", pods))


def _nodes(size: Size, part: int) -> Iterator[Made]:
    """With devices, and without pods."""
    yield from (partial(ClaimObjectSeen, known) for known in CLASSES.values())
    nodes = size.nodes // part
    yield from (gone(size, at) for at in range(size.pods) if at % size.nodes < nodes)
    for number in range(nodes):
        yield node_seen(a_node(size, number, resources={GPU: "0"}))
        yield partial(ClaimObjectSeen, whole_gpus(size.node(number)))


def gang_for_devices(size: Size, spec: Body, part: int = 10) -> Iterator[Made | Later]:
    """Each device of the nodes has a pod; other pods end while the search goes on."""
    yield from _nodes(size, part)
    for number in range(8 * (size.nodes // part)):
        yield from _running(f"d{number}", size.node(number // 8), number % 8)
    pods = size.each // 100
    for number in range(pods):
        yield _claim(f"m{number}", spec)
        yield seen(_member(f"m{number}", pods))
    for number in range(1, 4):
        yield gone(size, size.nodes - number)
        yield Later(_BACKOFF_S)


def _running(name: str, node: str, gpu: int) -> Iterator[Made]:
    """A pod with a device of its own."""
    allocation = Allocation((AllocatedDevice("r", DRIVER, node, f"gpu-{gpu}"),))
    claim = ResourceClaim("team-0", name, name, version="1", allocation=allocation,
                          reserved_for=(ClaimUser(name, name),))  # fmt: skip
    yield partial(ClaimObjectSeen, claim)
    body = _user(name, cpu="1m")
    body["spec"]["nodeName"] = node
    yield partial(PodSeen, decode_pod(encoded(body)))


def _user(name: str, **more: object) -> Body:
    entries = [{"name": "e", "resourceClaimName": name}]
    return a_pod(name, resourceClaims=entries, **more)


def _member(name: str, pods: int) -> Body:
    body = _user(name, cpu="1m", priority=10)
    body["metadata"]["annotations"] = {GANG: "g", f"{GANG}-min": str(pods)}
    return body


def _claim(name: str, spec: Body) -> Made:
    body = {
        "metadata": {"name": name, "namespace": "team-0", "uid": name, "resourceVersion": "1"},
        "spec": {"devices": spec},
    }
    raw = encoded(body)
    return lambda: ClaimObjectSeen(decode_claim(raw))


def evicting_engine() -> Engine:
    profile = claiming(built_in(PROFILE), preempts=True)
    return Engine({SCHEDULER: profile, MAPPING: built_in("gpu-scheduler")})


EVICTION_SHAPES: dict[str, Shape] = {
    "gang of claims": partial(gang_of_claims, spec=_asking(_exactly(1))),
    "gang of claims with pairs": partial(gang_of_claims, spec=_PAIRS),
    "gang for devices of others": partial(gang_for_devices, spec=_asking(_exactly(8))),
    "gang for one device each": partial(gang_for_devices, spec=_asking(_exactly(1))),
    "gang for devices, alternatives": partial(gang_for_devices, spec=_asking(_one_of(8, 7))),
    "gang for devices, pairs": partial(gang_for_devices, spec=_PAIRS),
}
EVICTION_ENGINES: dict[str, Callable[[], Engine]] = dict.fromkeys(EVICTION_SHAPES, evicting_engine)
