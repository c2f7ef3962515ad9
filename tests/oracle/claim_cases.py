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
    """A claim is allocated for a node that is gone: something else uses it, or nothing does."""
    claims = [a_claim(f"c{n}", ONE, "gone", f"d{n}") for n in range(2)]
    field = {"key": "metadata.name", "operator": "In", "values": ["gone"]}
    for claim in claims:
        claim["status"]["allocation"] |= {
            "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [field]}]},
            "allocationTimestamp": "2026-01-01T00:00:00Z",
        }
    claims[0]["status"]["reservedFor"] = [STAYS]
    return _case("claim-elsewhere", [a_slice("n0", "wide")], claims)


def odd_amounts() -> Case:
    """Amounts of capacity below zero, beyond 64 bits, and of a device without the capacity."""
    part = a_slice("n0", "wide", "wide")
    steps = {"default": "1Gi", "validRange": {"min": "1Gi", "step": "1Gi"}}
    part["spec"]["devices"][0] |= {
        "allowMultipleAllocations": True,
        "capacity": {"memory": {"value": "8Gi", "requestPolicy": steps}, "slots": {"value": "4"}},
    }
    asked = (
        {"slots": "-1"}, {"memory": "-1Gi", "slots": "1"}, {"memory": "10E"}, {"memory": "9E"},
        {"memory": "9223372036854775807"}, {"slots": "1500m", "memory": "1G"}, {"cores": "-1"},
    )  # fmt: skip
    needs = [{"exactly": {**ONE["exactly"], "capacity": {"requests": each}}} for each in asked]
    claims = [a_claim(f"c{number}", need) for number, need in enumerate(needs)]
    return _case("odd-amounts", [part], claims)


def tainted_by_rules() -> Case:
    """On n0 and n1 a rule taints one device of two, on n2 both, and two rules mean none."""
    selectors: list[Object] = [
        {"driver": DRIVER, "pool": "n0", "device": "d0"}, {"pool": "n1", "device": "d1"},
        {"pool": "n2"}, {"driver": "other.example.com"},
    ]  # fmt: skip
    rules = [_rule(f"rule-{number}", {"deviceSelector": selector})
             for number, selector in enumerate(selectors)]  # fmt: skip
    rules.append(_rule("without-selector", {}))
    needs = [
        {"count": 1}, {"count": 2}, {"count": 2, "tolerations": [{"operator": "Exists"}]},
        {"allocationMode": "All"},
        {"count": 2, "tolerations": [{"key": "sick", "value": "b", "operator": "Equal"}]},
    ]  # fmt: skip
    claims = [a_claim(f"c{number}", {"exactly": {**ONE["exactly"], **need}})
              for number, need in enumerate(needs)]  # fmt: skip
    return _case("rules", [*(a_slice(node, "wide", "wide") for node in NODES), *rules], claims)


def _rule(name: str, selected: Object) -> Object:
    spec = {**selected, "taint": {"key": "sick", "value": "a", "effect": "NoExecute"}}
    return {"apiVersion": API, "kind": "DeviceTaintRule", "metadata": {"name": name}, "spec": spec}


def _case(name: str, published: list[Object], claims: list[Object]) -> Case:
    """One probe for each claim."""
    objects = [a_class("wide", "wide"), *published, *claims, *map(a_node, NODES)]
    probes = [a_probe(DEFAULT, claim=claim["metadata"]["name"]) for claim in claims]
    return Case(name, objects, probes)
