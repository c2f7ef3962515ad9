"""Nodes, devices, claims and probes of cases that we wrote, in as few words as they need."""

from oracle.case import Case, Object
from oracle.configurations import DEFAULT
from oracle.some_devices import STAYS
from oracle.some_nodes import WIDGET

API = "resource.k8s.io/v1"
DRIVER = "gpu.example.com"
NODES = ("n0", "n1", "n2")


def a_node(name: str) -> Object:
    amounts = {"cpu": "32", "memory": "64Gi", "pods": "110"}
    status = {"allocatable": amounts, "capacity": amounts}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name},
        "spec": {},
        "status": status,
    }


def a_slice(node: str, *kinds: str) -> Object:
    """One device of each kind given."""
    devices = [{"name": f"d{number}", "attributes": {"kind": {"string": kind}}}
               for number, kind in enumerate(kinds)]  # fmt: skip
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": devices}
    return {"apiVersion": API, "kind": "ResourceSlice", "metadata": {"name": node}, "spec": spec}


def a_class(name: str, kind: str, **more: str) -> Object:
    selector = {"cel": {"expression": f"device.attributes['{DRIVER}'].kind == '{kind}'"}}
    spec = {"selectors": [selector], **more}
    return {"apiVersion": API, "kind": "DeviceClass", "metadata": {"name": name}, "spec": spec}


def a_claim(name: str, request: Object, node: str = "", device: str = "") -> Object:
    """With a device, it is allocated."""
    metadata = {"name": name, "namespace": "team-a"}
    claim = {"apiVersion": API, "kind": "ResourceClaim", "metadata": metadata}
    spec = {"devices": {"requests": [{"name": "r", **request}]}}
    result = {"request": "r", "driver": DRIVER, "pool": node, "device": device}
    status = {"status": {"allocation": {"devices": {"results": [result]}}}} if device else {}
    return {**claim, "spec": spec, **status}


def a_probe(scheduler: str, amount: str = "", claim: str = "") -> Object:
    resources = {"limits": {WIDGET: amount}, "requests": {WIDGET: amount}} if amount else {}
    container = {"name": "main", "image": "x", "resources": resources}
    spec: Object = {"schedulerName": scheduler, "containers": [container]}
    if claim:
        spec["resourceClaims"] = [{"name": "it", "resourceClaimName": claim}]
    metadata = {"name": "probe", "namespace": "team-a"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


ONE = {"exactly": {"deviceClassName": "wide"}}


def elsewhere() -> Case:
    """A claim is allocated for a node that is gone, and something else uses it."""
    claim = a_claim("c", ONE, "gone", "d0")
    field = {"key": "metadata.name", "operator": "In", "values": ["gone"]}
    claim["status"]["reservedFor"] = [STAYS]
    claim["status"]["allocation"] |= {
        "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [field]}]},
        "allocationTimestamp": "2026-01-01T00:00:00Z",
    }
    objects = [a_class("wide", "wide"), a_slice("n0", "wide"), claim, *map(a_node, NODES)]
    return Case("claim-elsewhere", objects, [a_probe(DEFAULT, claim="c")])
