"""The claim that a scheduler makes for extended resources of a pod, and what the pod says of it."""

from collections.abc import Iterable
from secrets import choice
from typing import Any

from fairlead.claims.extended import RequestMapping
from fairlead.kube.claims.claims import EXTENDED, FINALIZER
from fairlead.model.claims import EXACT_COUNT, DeviceRequest, ResourceClaim
from fairlead.model.pods import Pod

Json = dict[str, Any]

#: As the API server makes names.
_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_RANDOM = 5
_LONGEST_NAME = 63


def new_name(pod: Pod) -> str:
    """As the API server would make it. It is chosen here, so that no write makes a second claim."""
    base = f"{pod.name}-extended-resources-"[: _LONGEST_NAME - _RANDOM]
    return base + "".join(choice(_LETTERS) for _ in range(_RANDOM))


def special_claim_object(pod: Pod, name: str, requests: Iterable[DeviceRequest]) -> Json:
    owner = {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": pod.name,
        "uid": pod.uid,
        "controller": True,
    }
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {
            "name": name,
            "namespace": pod.namespace,
            "generateName": f"{pod.name}-extended-resources-",
            "annotations": {EXTENDED: "true"},
            "ownerReferences": [owner],
            "finalizers": [FINALIZER],
        },
        "spec": {"devices": {"requests": [_request(each) for each in requests]}},
    }


def _request(request: DeviceRequest) -> Json:
    need = request.exactly
    assert need is not None
    return {
        "name": request.name,
        "exactly": {
            "deviceClassName": need.class_name,
            "allocationMode": EXACT_COUNT,
            "count": need.count,
        },
    }


def pod_status_patch(pod: Pod, claim: ResourceClaim, mappings: Iterable[RequestMapping]) -> Json:
    """Which claim has the devices of which container: a kubelet reads it."""
    said = [
        {"containerName": container, "resourceName": resource, "requestName": request}
        for container, resource, request in mappings
    ]
    status = {"resourceClaimName": claim.name, "requestMappings": said}
    return {"metadata": {"uid": pod.uid}, "status": {"extendedResourceClaimStatus": status}}
