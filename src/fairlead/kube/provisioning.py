"""ProvisioningRequests of Cluster Autoscaler: nodes for the pods of a gang, all or none.

A request names PodTemplates, which are made of the pods. They have what a simulation of
kube-scheduler reads, and nothing else: no environment, no commands, no volumes with content.
"""

import hashlib
from collections.abc import Sequence
from typing import Any

import msgspec

from fairlead.engine.node_requests import NodeRequest
from fairlead.kube.object_kinds import ObjectKind
from fairlead.kube.share_templates import pods_per_gpu, with_whole_gpus
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.node_requests import RequestTerms
from fairlead.model.pods import Pod

Json = dict[str, Any]
REQUESTS = ObjectKind(
    "autoscaling.x-k8s.io", ("v1", "v1beta1"), "provisioningrequests", "ProvisioningRequest"
)
#: On a request: the key of the gang that it is for.
REQUESTED_FOR = "fairlead.dev/requested-for"
_PREFIX = "fairlead-"
_LONGEST_MESSAGE = 200
_AGAIN = "nodes will be requested again."
#: Conditions that end a request, and what they mean.
_ENDS = {"Failed": "failed", "CapacityRevoked": "was revoked", "BookingExpired": "has expired"}
_POD_FIELDS = (
    "nodeSelector", "affinity", "tolerations", "topologySpreadConstraints", "priority",
    "priorityClassName", "preemptionPolicy", "schedulerName", "runtimeClassName", "overhead",
    "resourceClaims", "resources", "hostNetwork",
)  # fmt: skip
_CONTAINER_FIELDS = ("name", "image", "resources", "ports", "restartPolicy")
#: Volumes that can keep a pod from a node.
_VOLUME_FIELDS = ("name", "persistentVolumeClaim", "ephemeral")


class _Meta(msgspec.Struct, rename="camel", gc=False):
    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    annotations: dict[str, str] | None = None
    deletion_timestamp: str | None = None


class _Reference(msgspec.Struct, gc=False):
    name: str = ""


class _PodSet(msgspec.Struct, rename="camel", gc=False):
    pod_template_ref: _Reference = msgspec.field(default_factory=_Reference)


class _Spec(msgspec.Struct, rename="camel", gc=False):
    pod_sets: list[_PodSet] | None = None


class _Condition(msgspec.Struct, gc=False):
    type: str = ""
    status: str = ""
    message: str = ""


class _Status(msgspec.Struct, gc=False):
    conditions: list[_Condition] | None = None


class _Wire(msgspec.Struct, gc=False):
    metadata: _Meta
    spec: _Spec | None = None
    status: _Status | None = None


_objects = msgspec.json.Decoder(_Wire)


@dataclass(frozen=True, slots=True)
class RequestObject:
    """A request as it was last seen."""

    namespace: str
    name: str
    uid: str
    version: str
    #: The gang that it is for; empty: it is not one of ours.
    gang: str
    templates: tuple[str, ...]
    #: What became of it, in a sentence, and whether nothing more will.
    sentence: str
    has_ended: bool
    is_leaving: bool

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"


def decode_request(raw: bytes | msgspec.Raw) -> RequestObject:
    wire = _objects.decode(raw)
    meta = wire.metadata
    gang = (meta.annotations or {}).get(REQUESTED_FOR, "")
    # What is written in one namespace concerns no gang of another one.
    is_ours = gang.split("/")[1:2] == [meta.namespace] and meta.name.startswith(_PREFIX)
    sets = wire.spec.pod_sets if wire.spec else None
    sentence, has_ended = _outcome(meta.name, (wire.status and wire.status.conditions) or ())
    return RequestObject(
        meta.namespace,
        meta.name,
        meta.uid,
        meta.resource_version,
        gang if is_ours else "",
        tuple(each.pod_template_ref.name for each in sets or ()) if is_ours else (),
        sentence,
        has_ended,
        meta.deletion_timestamp is not None,
    )


def _outcome(name: str, conditions: Sequence[_Condition]) -> tuple[str, bool]:
    said = {each.type: each.message for each in conditions if each.status == "True"}
    about = f"ProvisioningRequest {name}"
    for kind, what in _ENDS.items():
        if kind in said:
            return f"{about} {what}: {_short(said[kind])}; {_AGAIN}", True
    if "Provisioned" in said:
        return f"{about} is provisioned; its nodes are awaited.", False
    if "Accepted" not in said:
        return f"{about} is not accepted yet.", False
    missing = [e.message for e in conditions if e.type == "Provisioned" and e.message]
    more = f": {_short(missing[0])}" if missing else ""
    return f"{about} is accepted{more}.", False


def _short(message: str) -> str:
    words = " ".join(message.split()).rstrip(".")
    return words[:_LONGEST_MESSAGE] or "no reason was given"


def request_name(request: NodeRequest) -> str:
    """The same for the same pods, so that one which is there already is found."""
    about = [request.gang, *(f"{pod.uid} {count}" for pod, count in request.pods)]
    return f"{_PREFIX}{hashlib.sha256(repr(about).encode()).hexdigest()[:20]}"


def request_body(request: NodeRequest, version: str, terms: RequestTerms) -> Json:
    name = request_name(request)
    sets = [
        {
            "podTemplateRef": {"name": template_name(name, number)},
            "count": -(-count // (pods_per_gpu(pod) or 1)),
        }
        for number, (pod, count) in enumerate(request.pods)
    ]
    meta = _meta(request, name) | {"annotations": {REQUESTED_FOR: request.gang}}
    spec: Json = {"provisioningClassName": terms.class_name, "podSets": sets}
    if terms.parameters:
        spec["parameters"] = dict(terms.parameters)
    kind = {"apiVersion": f"{REQUESTS.group}/{version}", "kind": REQUESTS.kind}
    return {**kind, "metadata": meta, "spec": spec}


def template_name(request: str, number: int) -> str:
    return f"{request}-{number}"


def template_body(request: NodeRequest, number: int, pod: Json) -> Json:
    """The PodTemplate for pods like this one, as the API server has it."""
    spec = _picked(pod.get("spec", {}), _POD_FIELDS)
    for key in ("containers", "initContainers"):
        found = [_picked(each, _CONTAINER_FIELDS) for each in pod["spec"].get(key, ())]
        spec |= {key: found} if found else {}
    volumes = [_picked(each, _VOLUME_FIELDS) for each in pod["spec"].get("volumes", ())]
    if kept := [each for each in volumes if len(each) > 1]:
        spec["volumes"] = kept
    spec = with_whole_gpus(spec, request.pods[number][0])
    return {
        "apiVersion": "v1",
        "kind": "PodTemplate",
        "metadata": _meta(request, template_name(request_name(request), number)),
        "template": {"metadata": {"labels": pod["metadata"].get("labels", {})}, "spec": spec},
    }


def _picked(found: Json, fields: Sequence[str]) -> Json:
    return {key: found[key] for key in fields if key in found}


def _meta(request: NodeRequest, name: str) -> Json:
    """What is written for a gang goes with its pods, should no one delete it before."""
    return {
        "name": name,
        "namespace": request.pods[0][0].namespace,
        "ownerReferences": [_owner(pod) for pod, _ in request.pods],
    }


def _owner(pod: Pod) -> Json:
    return {"apiVersion": "v1", "kind": "Pod", "name": pod.name, "uid": pod.uid}
