"""Resource claims: what schedulers, controllers and drivers write, and what is refused."""

# A table: a case reads best on few lines.
# ruff: noqa: E501

from typing import Any

from fidelity.script import Step, case, delete, get, hidden, json_patch, merge, post, put, strategic

_CLAIMS = "resource.k8s.io/v1:resourceclaims"
_TEMPLATES = "resource.k8s.io/v1:resourceclaimtemplates"
_SLICES = "/apis/resource.k8s.io/v1/resourceslices"
_CLASSES = "/apis/resource.k8s.io/v1/deviceclasses"
_VERSION = {"rv": "metadata.resourceVersion", "uid": "metadata.uid"}
_FINALIZER = "resource.kubernetes.io/delete-protection"
_REFUSED = ("code", "reason", "message", "details.causes")
_STATUS = ("status", "spec", "metadata.finalizers", "metadata.labels", "code", "message")


def _claim(*requests: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"metadata": {"name": "c"}, "spec": {"devices": {"requests": list(requests), **more}}}


def _exactly(name: str = "gpu", **more: Any) -> dict[str, Any]:
    return {"name": name, "exactly": {"deviceClassName": "gpu.example.com", **more}}


def _result(device: str = "gpu-0", request: str = "gpu") -> dict[str, Any]:
    return {"request": request, "driver": "gpu.example.com", "pool": "n", "device": device}


def _allocation(*devices: str) -> dict[str, Any]:
    field = {"key": "metadata.name", "operator": "In", "values": ["n"]}
    return {
        "devices": {"results": [_result(each) for each in devices]},
        "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [field]}]},
        "allocationTimestamp": "2026-01-01T00:00:00Z",
    }


def _users(*numbers: int) -> list[dict[str, str]]:
    return [{"resource": "pods", "name": f"p{each}", "uid": f"u{each}"} for each in numbers]


def _whole(**status: Any) -> dict[str, Any]:
    """As Fairlead writes it: the names, the version and the status."""
    meta = {"name": "c", "namespace": "<ns>", "uid": "<uid>", "resourceVersion": "<rv>"}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": meta,
        "status": status,
    }


_ONE = _claim(_exactly())
_MADE = hidden(post(_CLAIMS, _ONE, save=_VERSION))
_ALLOCATED = hidden(put(f"{_CLAIMS}/c/status", _whole(allocation=_allocation("gpu-0"), reservedFor=_users(0)), save=_VERSION))  # fmt: skip
_PROTECTED = hidden(json_patch(f"{_CLAIMS}/c", {"op": "add", "path": "/metadata/finalizers", "value": [_FINALIZER]}, save=_VERSION))  # fmt: skip
_UNPROTECTED = hidden(merge(f"{_CLAIMS}/c", {"metadata": {"finalizers": None}}))


def _patched(path: str, value: Any, **more: Any) -> Step:
    return json_patch(f"{_CLAIMS}/c/status", {"op": "add", "path": path, "value": value}, **more)


CASES = [
    case("a resource claim gets its defaults", post(_CLAIMS, _claim(
        _exactly(), _exactly("all", allocationMode="All"), {"name": "some", "firstAvailable": [
            {"name": "a", "deviceClassName": "gpu.example.com"}, {"name": "b", "deviceClassName": "gpu.example.com", "count": 2}]}))),
    case("a resource claim has no status of its author", post(_CLAIMS, {**_ONE, "status": {"allocation": _allocation("gpu-0")}}, only=_STATUS)),
    case("the spec of a resource claim stays", _MADE, merge(f"{_CLAIMS}/c", {"spec": {"devices": {"requests": []}}}, only=("code", "reason"))),
    case("a resource claim is protected", _MADE,
         json_patch(f"{_CLAIMS}/c", {"op": "replace", "path": "/metadata/uid", "value": "<uid>"}, {"op": "replace", "path": "/metadata/resourceVersion", "value": "<rv>"},
                    {"op": "add", "path": "/metadata/finalizers", "value": [_FINALIZER]}, only=_STATUS), _UNPROTECTED),
    case("a status of a resource claim is put without its spec", _MADE, _PROTECTED,
         put(f"{_CLAIMS}/c/status", _whole(allocation=_allocation("gpu-0"), reservedFor=_users(0)), only=_STATUS), get(f"{_CLAIMS}/c", only=_STATUS), _UNPROTECTED),
    case("generateName is part of the status", hidden(post(_CLAIMS, {**_ONE, "metadata": {"name": "c", "generateName": "made-from-"}}, save=_VERSION)),
         put(f"{_CLAIMS}/c/status", _whole(allocation=_allocation("gpu-0")), only=("metadata.generateName",))),
    case("a status of an older resource claim is not put", _MADE, _PROTECTED, hidden(merge(f"{_CLAIMS}/c", {"metadata": {"labels": {"a": "b"}}})),
         put(f"{_CLAIMS}/c/status", _whole(allocation=_allocation("gpu-0")), only=_REFUSED), _UNPROTECTED),
    case("a status of another resource claim is not put", _MADE,
         put(f"{_CLAIMS}/c/status", {**_whole(allocation=_allocation("gpu-0")), "metadata": {"name": "c", "namespace": "<ns>", "uid": "11111111-1111-1111-1111-111111111111",
                                     "resourceVersion": "<rv>"}}, only=("code", "reason"))),
    case("labels and finalizers are not part of the status", _MADE,
         merge(f"{_CLAIMS}/c/status", {"metadata": {"labels": {"a": "b"}, "finalizers": [_FINALIZER]}, "status": {"allocation": _allocation("gpu-0")}}, only=_STATUS)),
    case("an allocation does not become another one", _MADE, _ALLOCATED, _patched("/status/allocation", _allocation("gpu-1"), only=("code", "reason"))),
    case("an allocation goes", _MADE, _ALLOCATED, json_patch(f"{_CLAIMS}/c/status", {"op": "add", "path": "/status", "value": {}}, only=_STATUS)),
    case("an allocation goes while it is reserved", _MADE, _ALLOCATED, json_patch(f"{_CLAIMS}/c/status", {"op": "remove", "path": "/status/allocation"}, only=_REFUSED)),
    case("a reservation without an allocation", _MADE, merge(f"{_CLAIMS}/c/status", {"status": {"reservedFor": _users(0)}}, only=_REFUSED)),
    case("one more reservation", _MADE, _ALLOCATED, _patched("/status/reservedFor/-", _users(1)[0], only=("status.reservedFor",))),
    case("a reservation goes", _MADE, _ALLOCATED, strategic(f"{_CLAIMS}/c/status", {"metadata": {"uid": "<uid>"}, "status": {"reservedFor": [{"$patch": "delete", "uid": "u0"}]}},
                                                            only=("status.reservedFor",))),
    case("two reservations of one user", _MADE, _ALLOCATED, _patched("/status/reservedFor/-", _users(0)[0], only=_REFUSED)),
    case("a reservation without a name", _MADE, _ALLOCATED, _patched("/status/reservedFor/-", {"resource": "pods", "uid": "u9"}, only=_REFUSED)),
    case("256 reservations, and one more", _MADE, hidden(put(f"{_CLAIMS}/c/status", _whole(allocation=_allocation("gpu-0"), reservedFor=_users(*range(256))))),
         _patched("/status/reservedFor/-", _users(256)[0], only=("code", "reason", "message"))),
    case("no new reservation of what is being deleted", _MADE, _ALLOCATED, _PROTECTED, hidden(delete(f"{_CLAIMS}/c")),
         _patched("/status/reservedFor/-", _users(1)[0], only=_REFUSED), _UNPROTECTED),
    case("a reservation goes while it is being deleted", _MADE, _ALLOCATED, _PROTECTED, hidden(delete(f"{_CLAIMS}/c")),
         json_patch(f"{_CLAIMS}/c/status", {"op": "remove", "path": "/status/reservedFor"}, only=("status.reservedFor", "code")), _UNPROTECTED),
    case("a result for no request of the claim", _MADE, merge(f"{_CLAIMS}/c/status", {"status": {"allocation": {"devices": {"results": [_result(request="other")]}}}}, only=_REFUSED)),
    case("33 results", _MADE, merge(f"{_CLAIMS}/c/status", {"status": {"allocation": _allocation(*(f"gpu-{each}" for each in range(33)))}}, only=("code", "reason", "message"))),
    case("a device reports its conditions", _MADE, _ALLOCATED,
         merge(f"{_CLAIMS}/c/status", {"status": {"devices": [{"driver": "gpu.example.com", "pool": "n", "device": "gpu-0", "data": {"a": 1}}]}}, only=("status.devices", "code", "message"))),
    case("a report of a device that is not allocated", _MADE, _ALLOCATED,
         merge(f"{_CLAIMS}/c/status", {"status": {"devices": [{"driver": "gpu.example.com", "pool": "n", "device": "gpu-9"}]}}, only=_REFUSED)),
    case("reports of devices go with the allocation", _MADE, _ALLOCATED,
         hidden(merge(f"{_CLAIMS}/c/status", {"status": {"devices": [{"driver": "gpu.example.com", "pool": "n", "device": "gpu-0"}]}})),
         merge(f"{_CLAIMS}/c/status", {"status": {"allocation": None, "reservedFor": None}}, only=_STATUS)),
    case("a resource claim without requests", post(_CLAIMS, _claim(), only=("code", "spec", "status"))),
    case("two requests of one name", post(_CLAIMS, _claim(_exactly(), _exactly()), only=_REFUSED)),
    case("a request for nothing", post(_CLAIMS, _claim({"name": "gpu"}), only=_REFUSED)),
    case("a request without a class", post(_CLAIMS, _claim({"name": "gpu", "exactly": {}}), only=_REFUSED)),
    case("33 requests", post(_CLAIMS, _claim(*(_exactly(f"r{each}") for each in range(33))), only=("code", "reason", "message"))),
    case("all devices and a count", post(_CLAIMS, _claim(_exactly(allocationMode="All", count=2)), only=_REFUSED)),
    case("a count below one", post(_CLAIMS, _claim(_exactly(count=-1)), only=_REFUSED)),
    case("a mode that does not exist", post(_CLAIMS, _claim(_exactly(allocationMode="Some")), only=_REFUSED)),
    case("a constraint for a request that is not there", post(_CLAIMS, _claim(_exactly(), constraints=[{"requests": ["other"], "matchAttribute": "gpu.example.com/a"}]), only=_REFUSED)),
    case("a constraint without an attribute", post(_CLAIMS, _claim(_exactly(), constraints=[{"requests": ["gpu"]}]), only=_REFUSED)),
    case("admin access in a namespace without the label", post(_CLAIMS, _claim(_exactly(adminAccess=True)), only=_REFUSED)),
    case("a template of resource claims", post(_TEMPLATES, {"metadata": {"name": "t"}, "spec": {"spec": _ONE["spec"]}})),
    case("the spec of a template stays", hidden(post(_TEMPLATES, {"metadata": {"name": "t"}, "spec": {"spec": _ONE["spec"]}})),
         merge(f"{_TEMPLATES}/t", {"spec": {"spec": {"devices": {"requests": []}}}}, only=("code", "reason"))),
    case("a slice of devices", post(_SLICES, {"metadata": {"name": "<ns>"}, "spec": {"driver": "gpu.example.com", "nodeName": "n", "pool": {"name": "n", "generation": 1, "resourceSliceCount": 1},
         "devices": [{"name": "gpu-0", "attributes": {"model": {"string": "H100"}}, "capacity": {"memory": {"value": "80Gi"}}}]}}), hidden(delete(f"{_SLICES}/<ns>"))),
    case("a slice for no node", post(_SLICES, {"metadata": {"name": "<ns>"}, "spec": {"driver": "gpu.example.com", "pool": {"name": "n", "generation": 1, "resourceSliceCount": 1}}}, only=_REFUSED)),
    case("a slice stays with its node", hidden(post(_SLICES, {"metadata": {"name": "<ns>"}, "spec": {"driver": "gpu.example.com", "nodeName": "n", "pool": {"name": "n", "generation": 1, "resourceSliceCount": 1}}})),
         merge(f"{_SLICES}/<ns>", {"spec": {"nodeName": "m"}}, only=_REFUSED), hidden(delete(f"{_SLICES}/<ns>"))),
    case("two devices of one name", post(_SLICES, {"metadata": {"name": "<ns>"}, "spec": {"driver": "gpu.example.com", "nodeName": "n", "pool": {"name": "n", "generation": 1, "resourceSliceCount": 1},
         "devices": [{"name": "gpu-0"}, {"name": "gpu-0"}]}}, only=_REFUSED)),
    case("a class of devices", post(_CLASSES, {"metadata": {"name": "<ns>"}, "spec": {"selectors": [{"cel": {"expression": "device.driver == 'gpu.example.com'"}}]}}), hidden(delete(f"{_CLASSES}/<ns>"))),
]  # fmt: skip
