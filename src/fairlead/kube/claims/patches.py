"""What is written to claims. All of it requires the version that was read.

JSON patches leave the rest of the object as it is, byte for byte. Parameters of drivers must not
change in any byte; other kinds of patches sort their keys. The first allocation is written as a
whole status: the API server takes everything else from the object that it has, and has less to do.
"""

from collections.abc import Mapping, Sized
from datetime import UTC, datetime
from typing import Any

import msgspec

from fairlead.kube.claims.claims import FINALIZER
from fairlead.model.claims import (
    AllocatedConfig,
    AllocatedDevice,
    Allocation,
    ClaimUser,
    ResourceClaim,
)
from fairlead.model.devices import DeviceToleration, Exact
from fairlead.model.pods import NodeTerm
from fairlead.model.quantities import spelled
from fairlead.model.selectors import Requirement

Json = dict[str, Any]
JsonPatch = list[Json]


def finalizer_patch(claim: ResourceClaim) -> JsonPatch:
    return [*_decided_on(claim), _added("/metadata/finalizers", claim.finalizers, FINALIZER)]


def unprotect_patch(claim: ResourceClaim) -> JsonPatch:
    """Without the finalizer."""
    path = f"/metadata/finalizers/{claim.finalizers.index(FINALIZER)}"
    return [*_decided_on(claim), {"op": "remove", "path": path}]


def allocated(claim: ResourceClaim, user: ClaimUser | None, allocation: Allocation) -> Json:
    """The claim with an allocation, to replace its status, which is empty without one."""
    names = {"namespace": claim.namespace, "name": claim.name}
    if claim.generate_name:  # the one thing beside the status that the API server would lose
        names["generateName"] = claim.generate_name
    users = [_user(user)] if user is not None else None
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {**names, "uid": claim.uid, "resourceVersion": claim.version},
        "status": {"allocation": allocation_json(allocation), **_given({"reservedFor": users})},
    }


def reserve_patch(claim: ResourceClaim, user: ClaimUser) -> JsonPatch:
    """One more pod or PodGroup uses an allocated claim."""
    path = "/status/reservedFor"
    return [*_decided_on(claim), _added(path, claim.reserved_for, _user(user))]


def unreserve_patch(claim: ResourceClaim, uid: str) -> JsonPatch:
    """The pod with this uid does not use it any more. The allocation stays."""
    index = next(at for at, user in enumerate(claim.reserved_for) if user.uid == uid)
    return [*_decided_on(claim), {"op": "remove", "path": f"/status/reservedFor/{index}"}]


def free_patch(claim: ResourceClaim) -> JsonPatch:
    """Nothing is allocated any more."""
    return [*_decided_on(claim), {"op": "add", "path": "/status", "value": {}}]


def _decided_on(claim: ResourceClaim) -> JsonPatch:
    """Of another object, or another version, nothing is changed: the answer is a conflict."""
    fields = {"uid": claim.uid, "resourceVersion": claim.version}
    return [{"op": "replace", "path": f"/metadata/{name}", "value": value}
            for name, value in fields.items()]  # fmt: skip


def _added(path: str, before: Sized, value: object) -> Json:
    """At the end of a list, which is not there while it is empty."""
    if len(before):
        return {"op": "add", "path": f"{path}/-", "value": value}
    return {"op": "add", "path": path, "value": [value]}


def _user(user: ClaimUser) -> Json:
    group = _given({"apiGroup": user.api_group or None})
    return {**group, "resource": user.resource, "name": user.name, "uid": user.uid}


# -- allocations -------------------------------------------------------------------------------


def allocation_json(allocation: Allocation) -> Json:
    devices = {
        "results": [_result(each) for each in allocation.devices],
        "config": [_config(each) for each in allocation.configs],
    }
    terms, at_s = allocation.node_terms, allocation.allocated_at
    return {
        "devices": {name: value for name, value in devices.items() if value},
        **({} if terms is None else {"nodeSelector": _selector(terms)}),
        **({} if at_s is None else {"allocationTimestamp": _time(at_s)}),
    }


def _time(at_s: float) -> str:
    return datetime.fromtimestamp(int(at_s), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _result(result: AllocatedDevice) -> Json:
    maybe = {
        "adminAccess": result.admin_access or None,
        "tolerations": [_toleration(each) for each in result.tolerations] or None,
        "bindingConditions": list(result.binding_conditions or ()) or None,
        "bindingFailureConditions": list(result.binding_failure_conditions or ()) or None,
        "shareID": result.share_id or None,
        "consumedCapacity": _amounts(result.consumed_capacity),
    }
    return {
        "request": result.request,
        "driver": result.driver,
        "pool": result.pool,
        "device": result.device,
        **_given(maybe),
    }


def _amounts(found: tuple[tuple[str, Exact], ...] | None) -> dict[str, str] | None:
    return None if found is None else {name: spelled(value) for name, value in found}


def _toleration(found: DeviceToleration) -> Json:
    fields = {
        "key": found.key or None,
        "operator": found.operator or None,
        "value": found.value or None,
        "effect": found.effect or None,
        "tolerationSeconds": found.seconds,
    }
    return _given(fields)


def _config(found: AllocatedConfig) -> Json:
    parameters = msgspec.Raw(_as_the_server_writes(found.config.parameters))
    opaque = {"driver": found.config.driver, "parameters": parameters}
    requests = list(found.config.requests) or None
    return {"source": found.source, **_given({"requests": requests}), "opaque": opaque}


def _as_the_server_writes(text: str) -> bytes:
    """Without spaces, and some characters escaped: else it could not be written again unchanged."""
    compact = msgspec.json.format(text, indent=-1)
    for character in "<>&\u2028\u2029":
        compact = compact.replace(character, f"\\u{ord(character):04x}")
    return compact.encode()


def _selector(terms: tuple[NodeTerm, ...]) -> Json:
    return {"nodeSelectorTerms": [_term(each) for each in terms]}


def _term(term: NodeTerm) -> Json:
    lines = {
        "matchExpressions": [_requirement(each) for each in term.labels] or None,
        "matchFields": [_requirement(each) for each in term.fields] or None,
    }
    return _given(lines)


def _requirement(found: Requirement) -> Json:
    values = _given({"values": list(found.values) or None})
    return {"key": found.key, "operator": found.operator, **values}


def _given(fields: Mapping[str, Any]) -> Json:
    return {name: value for name, value in fields.items() if value is not None}
