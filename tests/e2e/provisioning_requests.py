"""ProvisioningRequests by the rules of their definition; tests write what the autoscaler would."""

from collections.abc import Sequence
from typing import Any

import definitions
from fairlead.kube.provisioning import REQUESTS
from fairlead.sim.controlplane import ControlPlane
from fairleads import eventually

Json = dict[str, Any]
_NAME = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
_IMMUTABLE = [{"rule": "self == oldSelf", "message": "Value is immutable"}]
_WORD = {"type": "string", "pattern": _NAME, "maxLength": 253}
_POD_SET = {
    "type": "object",
    "required": ["count", "podTemplateRef"],
    "properties": {
        "count": {"type": "integer", "minimum": 1},
        "podTemplateRef": {"type": "object", "properties": {"name": _WORD}},
    },
}
_SPEC = {
    "type": "object",
    "required": ["podSets", "provisioningClassName"],
    "properties": {
        "provisioningClassName": {**_WORD, "x-kubernetes-validations": _IMMUTABLE},
        "podSets": {
            "type": "array", "items": _POD_SET, "minItems": 1, "maxItems": 32,
            "x-kubernetes-validations": _IMMUTABLE,
        },
        "parameters": {
            "type": "object", "maxProperties": 100,
            "additionalProperties": {"type": "string", "maxLength": 255},
        },
    },
}  # fmt: skip


KIND = definitions.definition(
    REQUESTS.group, "v1", {"plural": REQUESTS.plural, "kind": REQUESTS.kind}, spec=_SPEC,
    subresources={"status": {}},
)  # fmt: skip


class Requests:
    """The requests of a namespace, and what an autoscaler says of them."""

    def __init__(self, plane: ControlPlane, namespace: str) -> None:
        self._plane = plane
        self._path = f"/apis/{REQUESTS.group}/v1/namespaces/{namespace}/{REQUESTS.plural}"
        self._templates = f"/api/v1/namespaces/{namespace}/podtemplates"

    def all(self) -> list[Json]:
        return list(self._plane.api("GET", self._path)[1]["items"])

    def templates(self) -> dict[str, Json]:
        found = self._plane.api("GET", self._templates)[1]["items"]
        return {each["metadata"]["name"]: each for each in found}

    def create(self, name: str, gang: str) -> Json:
        """One that a user wrote, who says that it is for this gang."""
        said = {"fairlead.dev/requested-for": gang}
        sets = [{"count": 1, "podTemplateRef": {"name": f"{name}-0"}}]
        body = {
            "apiVersion": f"{REQUESTS.group}/v1",
            "kind": REQUESTS.kind,
            "metadata": {"name": name, "annotations": said},
            "spec": {"provisioningClassName": "example.com", "podSets": sets},
        }
        status, made = self._plane.api("POST", self._path, body)
        assert status == 201, made
        return dict(made)

    def wait_for_one(self, other_than: Sequence[str] = ()) -> Json:
        """The only one, once it is there, beside those with these uids."""

        def found() -> Json | None:
            there = [each for each in self.all() if each["metadata"]["uid"] not in other_than]
            return there[0] if len(there) == 1 else None

        return dict(eventually(found, what="one request for nodes"))

    def say(self, request: Json, kind: str, status: str = "True", message: str = "") -> None:
        """Adds a condition, as the autoscaler does."""
        path = f"{self._path}/{request['metadata']['name']}"
        before = self._plane.api("GET", path)[1].get("status", {}).get("conditions", [])
        condition = {
            "type": kind, "status": status, "message": message, "reason": kind,
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }  # fmt: skip
        others = [each for each in before if each["type"] != kind]
        patch = {"status": {"conditions": [*others, condition]}}
        merge = "application/merge-patch+json"
        code, said = self._plane.api("PATCH", f"{path}/status", patch, content_type=merge)
        assert code == 200, said
