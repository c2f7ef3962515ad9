"""Resource claims, slices and classes that cost as much as they can."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from claims import CLASSES, DRIVER, mig_slices, whole_gpus
from fairlead.engine.events import ClaimObjectGone, ClaimObjectSeen
from fairlead.kube.claims.claims import decode_claim
from fairlead.kube.claims.classes import decode_device_class, decode_taint_rule
from fairlead.model.claims import AllocatedDevice, Allocation, ClaimObject, ResourceClaim
from fairlead.model.devices import DeviceNodes, ResourceSlice
from fairlead.model.nodes import GPU
from fairlead.model.pods import NodeTerm
from fairlead.model.selectors import Requirement
from hostile_cluster import Made, Shape, Size, a_pod, encoded, seen
from pods import ZONE, Body

#: As many requests of a claim, alternatives of a request, and constraints as the API allows.
_REQUESTS, _ALTERNATIVES, _CONSTRAINTS = 32, 8, 32
_GPU, _MIG = "gpu.nvidia.com", "mig.nvidia.com"


def _shown(about: ClaimObject) -> Made:
    return partial(ClaimObjectSeen, about)


def _claim(name: str, *requests: Body, **more: Any) -> Made:
    raw = encoded(_claim_body(name, *requests, **more))
    return lambda: ClaimObjectSeen(decode_claim(raw))


def _claim_body(name: str, *requests: Body, **more: Any) -> Body:
    return {
        "metadata": {"name": name, "namespace": "team-0", "uid": name, "resourceVersion": "1"},
        "spec": {"devices": {"requests": list(requests), **more}},
    }


def _exactly(name: str, device_class: str = _GPU, **more: Any) -> Body:
    return {"name": name, "exactly": {"deviceClassName": device_class, **more}}


def _selecting(expression: str) -> Body:
    return {"cel": {"expression": expression}}


def _user(name: str, *claims: str, **more: Any) -> Made:
    entries = [{"name": f"e{at}", "resourceClaimName": claim} for at, claim in enumerate(claims)]
    return seen(a_pod(name, resourceClaims=entries, **more))


def _classes() -> Iterator[Made]:
    for known in CLASSES.values():
        yield _shown(known)


def _gpus(size: Size) -> Iterator[Made]:
    yield from _classes()
    for number in range(size.nodes):
        yield _shown(whole_gpus(size.node(number)))


def selector_of_each_device(size: Size) -> Iterator[Made]:
    """It reads an attribute that is different for each device."""
    yield from _gpus(size)
    for number in range(2):
        unknown = f"device.attributes['{DRIVER}'].uuid != 'GPU-{number}'"
        yield _claim(f"c{number}", _exactly("r", selectors=[_selecting(unknown)], count=8))
        yield _user(f"h{number}", f"c{number}")


def expensive_selector(size: Size) -> Iterator[Made]:
    """As much as one may cost on every device; another one as much as CEL allows."""
    yield from _gpus(size)
    words = " && ".join(f"device.attributes['{DRIVER}'].uuid != '{at}'" for at in range(20))
    much = (
        "[1,2,3,4,5,6,7,8,9].all(a, [1,2,3,4,5,6,7,8,9].all(b, [1,2,3,4,5,6,7,8,9].all(c, a > 0)))"
    )
    for number, text in enumerate((words, f"{much} || device.driver == 'x'")):
        yield _claim(f"c{number}", _exactly("r", selectors=[_selecting(text)]))
        yield _user(f"h{number}", f"c{number}")


def many_alternatives(size: Size) -> Iterator[Made]:
    """Each alternative of each request tolerates something else."""
    yield from _gpus(size)
    requests = []
    for at in range(_REQUESTS):
        needs = [
            {"name": f"s{number}", "deviceClassName": _GPU,
             "tolerations": [{"key": f"k{at}-{number}", "operator": "Exists"}]}
            for number in range(_ALTERNATIVES)
        ]  # fmt: skip
        requests.append({"name": f"r{at}", "firstAvailable": needs})
    yield _claim("c", *requests)
    yield _claim("d", *(_exactly(f"r{at}", tolerations=[{"key": f"k{at}", "operator": "Exists"}])
                        for at in range(_REQUESTS)))  # fmt: skip
    yield _claim("e", requests[0])
    for name in "cde":
        yield _user(f"h-{name}", name)


def many_constraints(size: Size) -> Iterator[Made]:
    yield from _gpus(size)
    for name, kind in (("c", "matchAttribute"), ("d", "distinctAttribute")):
        constraints = [{kind: f"{DRIVER}/a{number}"} for number in range(_CONSTRAINTS - 1)]
        constraints.append({kind: "resource.kubernetes.io/pcieRoot"})
        yield _claim(name, _exactly("r", count=4), constraints=constraints)
        yield _user(f"h-{name}", name)


def many_claims(size: Size) -> Iterator[Made]:
    """Of one pod; and each of many pods has a claim that asks for something else."""
    yield from _gpus(size)
    names = [f"c{number}" for number in range(size.rules // 4)]
    for name in names:
        text = f"device.attributes['{DRIVER}'].type != '{name}'"
        yield _claim(name, _exactly("r", selectors=[_selecting(text)]))
    yield _user("h", *names)
    for number, name in enumerate(names):
        yield _user(f"w{number}", name)


def dynamic_mig(size: Size) -> Iterator[Made]:
    """GPUs of a fifth of the nodes may be divided; then each node has one device in use."""
    yield from _classes()
    nodes = size.nodes // 5
    for number in range(nodes):
        for part in mig_slices(size.node(number)):
            yield _shown(part)
    yield _claim("one", _exactly("r", _MIG))
    yield _user("h-one", "one")
    for number in range(nodes):
        yield _shown(_allocated(f"held-{number}", size.node(number), "gpu-0-mig-1g10gb-19-0"))
    text = f"device.attributes['{DRIVER}'].profile == '1g.10gb'"
    yield _claim("other", _exactly("r", _MIG, selectors=[_selecting(text)]))
    yield _user("h-other", "other")
    yield _claim("two", _exactly("r", _MIG, count=2))
    yield _user("h-two", "two")
    yield _claim("never", _exactly("r", _MIG, count=8), _exactly("s", _GPU, count=8))
    yield _user("h-never", "never")


def _allocated(name: str, node: str, device: str) -> ResourceClaim:
    result = AllocatedDevice("r", DRIVER, node, device)
    return ResourceClaim("team-1", name, name, version="1", allocation=Allocation((result,)))


def claim_of_many(size: Size) -> Iterator[Made]:
    """All pods that wait name one claim: it comes, changes and goes."""
    for number in range(size.pods):
        yield _user(f"w{number}", "c")
    raw = encoded(_claim_body("c", _exactly("r", "no-class")))
    yield lambda: ClaimObjectSeen(decode_claim(raw))
    yield lambda: ClaimObjectSeen(replace(decode_claim(raw), version="2", deleting=True))
    yield lambda: ClaimObjectGone(decode_claim(raw))


def one_pool(size: Size) -> Iterator[Made]:
    """Slices of all nodes say that they are of one pool."""
    yield from _classes()
    for number in range(size.nodes):
        yield _shown(replace(whole_gpus(size.node(number)), pool="all", slice_count=size.nodes))
    yield _claim("c", _exactly("r"))
    yield _user("h", "c")
    yield _shown(
        replace(whole_gpus(size.node(0)), pool="all", slice_count=size.nodes, generation=2)
    )


def taint_rule(size: Size) -> Iterator[Made]:
    """It is about all devices, and comes, changes and goes."""
    yield from _gpus(size)
    yield _claim("c", _exactly("r", count=8))
    yield _claim("d", _exactly("r", count=9))
    yield _user("h", "c")
    yield _user("i", "d")
    for value in ("1", "2"):
        taint = {"key": "k", "value": value, "effect": "NoSchedule"}
        raw = encoded({"metadata": {"name": "t", "uid": "t"},
                       "spec": {"deviceSelector": {"driver": DRIVER}, "taint": taint}})  # fmt: skip
        yield lambda raw=raw: ClaimObjectSeen(decode_taint_rule(raw))
    yield lambda: ClaimObjectGone(decode_taint_rule(raw))


def changed_class(size: Size) -> Iterator[Made]:
    """Many pods wait, each for a claim of its own kind, when their class changes."""
    yield from _gpus(size)
    for number in range(size.many // 20):
        yield _claim(f"c{number}", _exactly("r", count=9 + number))
        yield _user(f"w{number}", f"c{number}")
    text = f"device.driver == '{DRIVER}' && device.attributes['{DRIVER}'].uuid != 'x'"
    raw = encoded({"metadata": {"name": _GPU}, "spec": {"selectors": [_selecting(text)]}})
    yield lambda: ClaimObjectSeen(decode_device_class(raw))


def _class_with_resource() -> Made:
    spec = {"extendedResourceName": GPU, "selectors": [_selecting(f"device.driver == '{DRIVER}'")]}
    raw = encoded({"metadata": {"name": "plain"}, "spec": spec})
    return lambda: ClaimObjectSeen(decode_device_class(raw))


def class_for_plain_pods(size: Size) -> Iterator[Made]:
    """Many pods wait for GPUs when a class comes that has them."""
    yield from _gpus(size)
    for number in range(size.many):
        yield seen(a_pod(f"w{number}", gpus=9))
    yield _class_with_resource()


def unknown_resources(size: Size) -> Iterator[Made]:
    """A pod asks for GPUs of a class, and for many resources that no node has."""
    yield from _gpus(size)
    yield _class_with_resource()
    asked = {GPU: "9"} | {f"example.com/r{number}": "1" for number in range(60)}
    container = {"name": "main", "resources": {"requests": asked}}
    yield seen(a_pod("h", containers=[container]))


def driver_restarted(size: Size) -> Iterator[Made]:
    """Every slice is published again with another attribute, while pods wait."""
    yield from _gpus(size)
    yield _claim("c", _exactly("r", count=9))
    yield _user("h", "c")
    for number in range(size.nodes):
        part = whole_gpus(size.node(number))
        yield _shown(_upgraded(part))
    yield _user("i", "c")


def _upgraded(part: ResourceSlice) -> ResourceSlice:
    devices = (replace(each, attributes=(*each.attributes, ("zz", "new"))) for each in part.devices)
    return replace(part, devices=tuple(devices), generation=2)


def shared_pools(size: Size, where: str) -> Iterator[Made]:
    """As many devices of no single node as are used: for all nodes, by label, or each for some."""
    yield from _classes()
    count = size.each * 128 // 10_000
    for number in range(count):
        yield _shown(shared_slice(size, number, count, where))
    text = f"device.attributes['{DRIVER}'].uuid != 'GPU-1'"
    yield _claim("one", _exactly("r"))
    yield _claim("all", _exactly("r", allocationMode="All"))
    yield _claim("cel", _exactly("r", selectors=[_selecting(text)], count=8))
    yield _claim("many", *(_exactly(f"r{at}") for at in range(_REQUESTS)))
    for name in ("one", "all", "cel", "many"):
        yield _user(f"h-{name}", name)
    yield seen(a_pod("plain", gpus=1))
    yield _shown(replace(shared_slice(size, 0, count, where), generation=2))
    yield _shown(shared_slice(size, 0, count, where))
    yield _user("again", "one")


def shared_slice(size: Size, number: int, count: int, where: str) -> ResourceSlice:
    """With as many devices as a slice may have."""
    devices = tuple(
        replace(
            device,
            form=replace(device.form, name=f"gpu-{_group(number, where)}-{at}-{device.form.name}"),
        )
        for at in range(16)
        for device in whole_gpus(f"x{number}-{at}").devices
    )
    zone = NodeTerm((Requirement(ZONE, "In", (f"zone-{number % 10}",)),))
    nodes = DeviceNodes(all_nodes=True) if where in ("all", "twice") else DeviceNodes(terms=(zone,))
    pool, pools = "all", 1
    if where == "zone":
        pool, pools = f"zone-{number % 10}", 10
        count = len(range(number % 10, count, pools))
    part = ResourceSlice(f"s{number}", DRIVER, pool, 1, count, nodes, devices=devices)
    return part if where != "each" else _per_device(size, part, number)


def _group(number: int, where: str) -> int:
    return 0 if where == "twice" else number


def _per_device(size: Size, part: ResourceSlice, number: int) -> ResourceSlice:
    devices = tuple(
        replace(
            device,
            form=replace(device.form, nodes=DeviceNodes(size.node(16 * number + at // 8))),
        )
        for at, device in enumerate(part.devices)
    )
    return replace(part, nodes=DeviceNodes(), per_device=True, devices=devices)


CLAIM_SHAPES: dict[str, Shape] = {
    "claim, selector of each device": selector_of_each_device,
    "claim, expensive selector": expensive_selector,
    "claim, many alternatives": many_alternatives,
    "claim, many constraints": many_constraints,
    "claims, many": many_claims,
    "claims, dynamic MIG": dynamic_mig,
    "claim of many pods": claim_of_many,
    "slices of one pool": one_pool,
    "devices of all nodes": partial(shared_pools, where="all"),
    "devices of all nodes, twice": partial(shared_pools, where="twice"),
    "devices of zones": partial(shared_pools, where="zone"),
    "devices with nodes of their own": partial(shared_pools, where="each"),
    "taint rule for all devices": taint_rule,
    "class that changes": changed_class,
    "class for plain pods": class_for_plain_pods,
    "class and unknown resources": unknown_resources,
    "slices published again": driver_restarted,
}
