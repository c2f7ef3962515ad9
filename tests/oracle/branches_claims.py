"""Branches of what drivers publish and claims ask for."""

import json
from collections.abc import Callable, Iterator, Mapping

from oracle.branches_beyond import competing
from oracle.case import Object
from oracle.configurations import DEVICES
from oracle.seen import Seen
from oracle.some_nodes import WIDGET

Branches = Mapping[str, Callable[[Seen], object]]


def _claims(seen: Seen) -> list[Object]:
    """Specs of the claims and templates that the probe names."""
    return [_spec(each) for each in _asked(seen)]


def _asked(seen: Seen) -> list[Object]:
    uses = seen.spec.get("resourceClaims", ())
    named = {
        use.get("resourceClaimName") or use.get("resourceClaimTemplateName") for use in uses
    }  # fmt: skip
    kinds = ("ResourceClaim", "ResourceClaimTemplate")
    return [each for each in seen.case.objects
            if each["kind"] in kinds and each["metadata"]["name"] in named]  # fmt: skip


def _spec(asked: Object) -> Object:
    spec: Object = asked["spec"]
    return spec.get("spec", spec)


def _requests(seen: Seen) -> Iterator[Object]:
    for claim in _claims(seen):
        yield from claim["devices"].get("requests", ())


def _needs(seen: Seen) -> Iterator[Object]:
    for request in _requests(seen):
        yield from [request["exactly"]] if "exactly" in request else request["firstAvailable"]


def _written(seen: Seen) -> list[Object]:
    """Allocations of the claims of a probe that was placed."""
    return [json.loads(each)[1] for each in seen.theirs.claims]


def _results(seen: Seen) -> list[Object]:
    return [
        result
        for allocation in _written(seen)
        for result in allocation.get("devices", {}).get("results", ())
    ]


def _devices(seen: Seen) -> list[Object]:
    """The devices that it got, as they are published."""
    slices = seen.case.of_kind("ResourceSlice")
    published = {
        (part["spec"]["driver"], part["spec"]["pool"]["name"], device["name"]): device
        for part in slices
        for device in part["spec"].get("devices", ())
    }
    keys = [(each["driver"], each["pool"], each["device"]) for each in _results(seen)]
    return [published[key] for key in keys if key in published]


def _got(field: str) -> Callable[[Seen], bool]:
    return lambda s: any(device.get(field) for device in _devices(s))


def _constrained(field: str) -> Callable[[Seen], bool]:
    return lambda s: (
        s.placed
        and any(
            field in each
            for claim in _claims(s)
            for each in claim["devices"].get("constraints", ())
        )
    )


def _fails(text: str) -> Callable[[Seen], bool]:
    return lambda s: s.theirs.condition.get("reason") == "SchedulerError" and s.says(text)


def _alternatives(seen: Seen) -> bool:
    """A later one of several alternatives was taken."""
    first = {f"{request['name']}/{request['firstAvailable'][0]['name']}"
             for request in _requests(seen) if "firstAvailable" in request}  # fmt: skip
    return any("/" in each["request"] and each["request"] not in first for each in _results(seen))


def _extended(seen: Seen) -> bool:
    return any(WIDGET in each["resources"].get("limits", {}) for each in seen.containers())


def _ruled(seen: Seen) -> Iterator[tuple[str, str, str]]:
    """Devices that a DeviceTaintRule keeps from requests that do not tolerate it."""
    rules = [rule["spec"] for rule in seen.case.of_kind("DeviceTaintRule")]
    hard = [rule["deviceSelector"] for rule in rules
            if rule["taint"]["effect"] != "None" and "deviceSelector" in rule]  # fmt: skip
    for part in seen.case.of_kind("ResourceSlice"):
        driver, pool = part["spec"]["driver"], part["spec"]["pool"]["name"]
        for device in part["spec"].get("devices", ()):
            key = {"driver": driver, "pool": pool, "device": device["name"]}
            if any(rule.items() <= key.items() for rule in hard):
                yield driver, pool, device["name"]


def _got_ruled(seen: Seen) -> bool:
    ruled = set(_ruled(seen))
    return any((each["driver"], each["pool"], each["device"]) in ruled for each in _results(seen))


def _distinct_within_request(seen: Seen) -> bool:
    """A request got several devices, and a constraint wants all of them different."""
    requests = [each["request"] for each in _results(seen)]
    return len(requests) > len(set(requests)) and any(
        "distinctAttribute" in each and not each.get("requests")
        for claim in _claims(seen)
        for each in claim["devices"].get("constraints", ())
    )


CLAIMS: Branches = {
    "claims: one device": lambda s: len(_results(s)) == 1,
    "claims: several devices": lambda s: len(_results(s)) > 1,
    "claims: several claims": lambda s: s.placed and len(_asked(s)) > 1,
    "claims: of a template": lambda s: s.placed and any(
        each["kind"] == "ResourceClaimTemplate" for each in _asked(s)
    ),
    "claims: allocated before": lambda s: s.placed and any("status" in e for e in _asked(s)),
    "claims: allocated for another node": lambda s: s.says("resourceclaim not available"),
    "claims: cannot be allocated": lambda s: s.says("cannot allocate all claims"),
    "claims: invalid pool": lambda s: s.says("invalid resource pools"),
    "claims: first alternative": lambda s: any("/" in each["request"] for each in _results(s)),
    "claims: later alternative": _alternatives,
    "claims: all devices": lambda s: s.placed and any(
        each.get("allocationMode") == "All" for each in _needs(s)
    ),
    "claims: all devices of an unfinished pool": _fails("asks for all devices"),
    "claims: error of a selector": _fails("no such key"),
    "claims: too many devices": _fails("exceeds the claim limit"),
    "claims: match": _constrained("matchAttribute"),
    "claims: distinct": _constrained("distinctAttribute"),
    "claims: distinct within a request": _distinct_within_request,
    "claims: device with counters": _got("consumesCounters"),
    "claims: device that is shared": lambda s: any("shareID" in each for each in _results(s)),
    "claims: consumed capacity": lambda s: any("consumedCapacity" in e for e in _results(s)),
    "claims: capacity of a whole device": lambda s: any(
        each.get("capacity") for each in _needs(s)
    ) and any("shareID" not in each for each in _results(s)),
    "claims: tolerated taint": lambda s: any(
        taint["effect"] != "None" for each in _devices(s) for taint in each.get("taints", ())
    ),
    "claims: tolerated taint of a rule": _got_ruled,
    "claims: taint of a rule": lambda s: bool(set(_ruled(s))) and s.says("cannot allocate all"),
    "claims: amount below zero": _fails("capacity value is negative"),
    "claims: amount beyond 64 bits": _fails("exceeds MaxInt64"),
    "claims: freed": lambda s: s.says("deallocation of ResourceClaim completed"),
    "claims: administrator": lambda s: any(each.get("adminAccess") for each in _results(s)),
    "claims: binding conditions": lambda s: s.theirs.waits,
    "claims: configuration": lambda s: any(e["devices"].get("config") for e in _written(s)),
    "claims: usable on every node": lambda s: any("nodeSelector" not in e for e in _written(s)),
    "claims: usable on nodes with a label": lambda s: any(
        "matchExpressions" in term
        for each in _written(s)
        for term in each.get("nodeSelector", {}).get("nodeSelectorTerms", ())
    ),
    "claims: devices with nodes of their own": lambda s: any(
        {"nodeName", "nodeSelector", "allNodes"} & device.keys() for device in _devices(s)
    ),
    "claims: extended resource of a class": lambda s: _extended(s) and bool(s.theirs.claims),
    "claims: extended resource of a plugin": lambda s: (
        _extended(s) and s.placed and not s.theirs.claims
    ),
    "claims: scores count devices": lambda s: (
        s.spec["schedulerName"] == DEVICES and _extended(s) and competing(s)
    ),
    "claims: scores of alternatives": lambda s: competing(s) and any(
        "firstAvailable" in each for each in _requests(s)
    ),
}  # fmt: skip

#: The minor version that has the branch; without one here, every version does.
SINCE = {
    "claims: tolerated taint of a rule": 37,
    "claims: taint of a rule": 37,
    "claims: amount below zero": 37,
    "claims: amount beyond 64 bits": 37,
}
