"""Claims, slices and rules whose parts are as many as the API allows, or as an author writes."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from claims import CLASSES, DRIVER, whole_gpus
from fairlead.engine.events import ClaimObjectGone, ClaimObjectSeen, PodGone
from fairlead.kube.claims.claims import decode_claim
from fairlead.kube.claims.classes import decode_device_class, decode_taint_rule
from fairlead.kube.claims.slices import decode_slice
from fairlead.kube.codec import decode_pod
from fairlead.model.devices import DeviceNodes
from hostile_claims import shared_slice
from hostile_cluster import Made, Shape, Size, a_pod, encoded, seen
from pods import Body

#: As many requests of a claim, alternatives of a request, constraints, devices of a claim, and pods
#: that a claim is reserved for, as the API allows.
_REQUESTS, _ALTERNATIVES, _CONSTRAINTS = 32, 8, 32
_GPU = "gpu.nvidia.com"


def _claim(name: str, *requests: Body, version: int = 1, status: Body | None = None,
           **more: Any) -> Made:  # fmt: skip
    meta = {"name": name, "namespace": "team-0", "uid": name, "resourceVersion": str(version)}
    spec = {"devices": {"requests": list(requests), **more}}
    raw = encoded({"metadata": meta, "spec": spec, "status": status or {}})
    return lambda: ClaimObjectSeen(decode_claim(raw))


def _exactly(name: str, **more: Any) -> Body:
    return {"name": name, "exactly": {"deviceClassName": _GPU, **more}}


def _user(name: str, claim: str) -> Made:
    return seen(a_pod(name, resourceClaims=[{"name": "e", "resourceClaimName": claim}]))


def _devices(size: Size, *, own: bool) -> Iterator[Made]:
    yield from (partial(ClaimObjectSeen, known) for known in CLASSES.values())
    if own:
        for number in range(size.nodes):
            yield partial(ClaimObjectSeen, whole_gpus(size.node(number)))
        return
    count = size.each * 128 // 10_000
    for number in range(count):
        yield partial(ClaimObjectSeen, shared_slice(size, number, count, "all"))


def many_kinds(size: Size) -> Iterator[Made]:
    """Requests that all ask for something else, of devices for all nodes; for all devices, too."""
    yield from _devices(size, own=False)
    other = (f"k{number}" for number in range(2 * _REQUESTS * _ALTERNATIVES))
    for name, mode in (("some", {"count": 1}), ("all", {"allocationMode": "All"})):
        requests = []
        for at in range(_REQUESTS):
            needs = [
                {"name": f"s{number}", "deviceClassName": _GPU, **mode,
                 "tolerations": [{"key": next(other), "operator": "Exists"}]}
                for number in range(_ALTERNATIVES)
            ]  # fmt: skip
            requests.append({"name": f"r{at}", "firstAvailable": needs})
        yield _claim(name, *requests)
        yield _user(f"h-{name}", name)
    names = ("uuid", "productName", *(f"a{at}" for at in range(_CONSTRAINTS - 2)))
    constraints = [{"matchAttribute": f"{DRIVER}/{name}"} for name in names]
    yield _claim("apart", *(_exactly(f"r{at}") for at in range(_REQUESTS)), constraints=constraints)
    yield _user("h-apart", "apart")


def many_lines(size: Size) -> Iterator[Made]:
    """Slices and claims are for nodes without some of thousands of labels."""
    yield from _devices(size, own=True)
    term = [{"key": f"k{number}", "operator": "DoesNotExist"} for number in range(size.each)]
    selector = {"nodeSelectorTerms": [{"matchExpressions": term}]}
    for number in range(size.each // 200):
        lines = [{"key": f"s{number}-{at}", "operator": "DoesNotExist"} for at in range(size.each)]
        only = {"nodeSelectorTerms": [{"matchExpressions": lines}]}
        pool = {"name": f"p{number}", "generation": 1, "resourceSliceCount": 1}
        raw = encoded({"metadata": {"name": f"s{number}"},
                       "spec": {"driver": DRIVER, "pool": pool, "nodeSelector": only,
                                "devices": [{"name": "d"}]}})  # fmt: skip
        yield lambda raw=raw: ClaimObjectSeen(decode_slice(raw))
    result = {"request": "r", "driver": DRIVER, "pool": "p0", "device": "d"}
    status = {"allocation": {"devices": {"results": [result]}, "nodeSelector": selector}}
    yield _claim("c", _exactly("r"), status=status)
    yield _user("h", "c")
    yield _claim("d", _exactly("r"))
    yield _user("i", "d")


def many_rules(size: Size) -> Iterator[Made]:
    """Each of them taints all devices otherwise; as many as are followed."""
    yield from _devices(size, own=True)
    for number in range(size.many // 20):
        taint = {"key": f"k{number}", "value": "v", "effect": "NoSchedule"}
        raw = encoded({"metadata": {"name": f"t{number}", "uid": f"t{number}"},
                       "spec": {"deviceSelector": {"driver": DRIVER}, "taint": taint}})  # fmt: skip
        yield lambda raw=raw: ClaimObjectSeen(decode_taint_rule(raw))
    yield _claim("c", _exactly("r", tolerations=[{"operator": "Exists"}]))
    yield _user("h", "c")
    yield partial(ClaimObjectSeen, replace(whole_gpus(size.node(0)), generation=2))


def changing(size: Size) -> Iterator[Made]:
    """All slices, and their class, change between two pods for a claim that fits nowhere."""
    yield from _devices(size, own=True)
    apart = [{"distinctAttribute": f"{DRIVER}/type"}]  # each node has to be asked
    yield _claim("c", _exactly("r", count=2), constraints=apart)
    for round_ in range(2, 4):
        body = a_pod(f"h{round_}", resourceClaims=[{"name": "e", "resourceClaimName": "c"}])
        yield seen(body)
        yield partial(PodGone, decode_pod(encoded(body)))
        for number in range(size.nodes):
            part = replace(whole_gpus(size.node(number)), generation=round_)
            yield partial(ClaimObjectSeen, part)
        changed = {"cel": {"expression": f"device.driver == '{DRIVER}' && {round_} > 0"}}
        raw = encoded({"metadata": {"name": _GPU}, "spec": {"selectors": [changed]}})
        yield lambda raw=raw: ClaimObjectSeen(decode_device_class(raw))
    yield _user("last", "c")


def one_uuid(size: Size) -> Iterator[Made]:
    """Slices of all nodes publish the same GPUs; then one of them goes, and comes again."""
    yield from (partial(ClaimObjectSeen, known) for known in CLASSES.values())
    first = whole_gpus(size.node(0))
    for number in range(size.nodes):
        node = size.node(number)
        same = replace(first, name=node, pool=node, nodes=DeviceNodes(node))
        yield partial(ClaimObjectSeen, same)
    yield _claim("c", _exactly("r"))
    yield _user("h", "c")
    yield partial(ClaimObjectGone, first)
    yield partial(ClaimObjectSeen, first)


CLAIM_OBJECT_SHAPES: dict[str, Shape] = {
    "claims, many kinds of requests": many_kinds,
    "claims and slices of many labels": many_lines,
    "taint rules, many": many_rules,
    "claims that change": changing,
    "slices with the GPUs of others": one_uuid,
}
