"""Slices, device classes and claims on a real API server, in as few words as a test needs."""

from collections.abc import Sequence
from typing import Any

from fairlead.sim.controlplane import ControlPlane

RESOURCE = "/apis/resource.k8s.io/v1"
DRIVER = "gpu.example.com"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
Object = dict[str, Any]


def device(name: str, **more: Any) -> Object:
    return {"name": name, **more}


def exactly(device_class: str, count: int = 1, name: str = "gpu", **more: Any) -> Object:
    """A request of a claim."""
    asked = {"deviceClassName": device_class, "count": count, **more}
    return {"name": name, "exactly": asked}


def claim_spec(*requests: Object, **more: Any) -> Object:
    return {"devices": {"requests": list(requests), **more}}


def uses(*names: str, template: bool = False) -> list[Object]:
    """`spec.resourceClaims` of a pod."""
    field = "resourceClaimTemplateName" if template else "resourceClaimName"
    return [{"name": name, field: name} for name in names]


class DraObjects:
    """Makes objects, and removes those that belong to no namespace."""

    def __init__(self, plane: ControlPlane, namespace: str) -> None:
        self.plane = plane
        self.namespace = namespace
        self.claims = f"{RESOURCE}/namespaces/{namespace}/resourceclaims"
        self._made: list[str] = []

    def make(self, path: str, body: Object) -> Object:
        status, answer = self.plane.api("POST", path, body)
        assert status == 201, answer
        self._made.append(f"{path}/{answer['metadata']['name']}")
        return answer

    def remove_all(self) -> None:
        for path in reversed(self._made):
            self.plane.api("PATCH", path, {"metadata": {"finalizers": None}}, content_type=MERGE)
            self.plane.api("DELETE", path)

    def a_class(self, name: str, *expressions: str, **more: Any) -> str:
        """All devices of the driver unless expressions say otherwise; its name."""
        found = expressions or (f"device.driver == '{DRIVER}'",)
        selectors = [{"cel": {"expression": each}} for each in found]
        spec = {"selectors": selectors, **more}
        self.make(f"{RESOURCE}/deviceclasses", {"metadata": {"name": name}, "spec": spec})
        return name

    def a_slice(self, node: str, devices: Sequence[Object], **more: Any) -> Object:
        """All devices of a node, in a pool with the name of the node."""
        spec = {
            "driver": DRIVER,
            "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "devices": list(devices) or None,
            **more,
        }
        name = f"{self.namespace}-{node}-{len(self._made)}"[-63:].strip("-")
        return self.make(f"{RESOURCE}/resourceslices", {"metadata": {"name": name}, "spec": spec})

    def a_claim(self, name: str, spec: Object) -> Object:
        return self.make(self.claims, {"metadata": {"name": name}, "spec": spec})

    def a_template(self, name: str, spec: Object) -> Object:
        path = f"{RESOURCE}/namespaces/{self.namespace}/resourceclaimtemplates"
        return self.make(path, {"metadata": {"name": name}, "spec": {"spec": spec}})

    def claim(self, name: str) -> Object:
        status, found = self.plane.api("GET", f"{self.claims}/{name}")
        assert status == 200, found
        return found

    def all_claims(self) -> list[Object]:
        status, found = self.plane.api("GET", self.claims)
        assert status == 200, found
        return list(found["items"])

    def patch(self, name: str, body: Object, subresource: str = "") -> Object:
        path = f"{self.claims}/{name}{subresource}"
        status, answer = self.plane.api("PATCH", path, body, content_type=MERGE)
        assert status == 200, answer
        return answer


def devices_of(claim: Object) -> list[str]:
    """The devices of a claim, such as "pool/device", in order."""
    found = claim.get("status", {}).get("allocation", {}).get("devices", {}).get("results", [])
    return [f"{each['pool']}/{each['device']}" for each in found]


def users_of(claim: Object) -> list[str]:
    """The names of the pods that it is reserved for."""
    return [each["name"] for each in claim.get("status", {}).get("reservedFor", [])]
