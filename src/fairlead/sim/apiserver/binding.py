"""`pods/binding`: node, annotations and the PodScheduled condition in one write."""

from typing import Any

from fairlead.sim.apiserver import admission
from fairlead.sim.apiserver.api import ApiState
from fairlead.sim.apiserver.bodies import read_document
from fairlead.sim.apiserver.call import Call
from fairlead.sim.apiserver.clock import now_text
from fairlead.sim.apiserver.status import ApiStatusError, bad_request, conflict, not_found, success

Object = dict[str, Any]
_TOPOLOGY = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")


async def bind(api: ApiState, call: Call, body: bytes, content_type: str) -> Object:
    """Assigns the pod to a node. Nothing of the Binding is validated but its target's form."""
    binding = read_document(body, content_type)
    if not isinstance(binding, dict):
        raise bad_request("not a Binding object")
    binding = await admission.on_document(api, call, binding)
    metadata = _metadata(call, binding)
    _check_target(binding)
    entry = api.store.get("pods", call.key)
    if entry is None:
        raise not_found(call.kind, call.name)
    pod = entry.object()
    _check_preconditions(call, metadata, pod["metadata"])
    _check_bindable(call, pod)
    _assign(api, pod, binding)
    if not call.dry_run:
        api.store.put(call.kind, call.key, pod)
    return success(201)


def _metadata(call: Call, binding: Object) -> Object:
    metadata: Object = binding.get("metadata") or {}
    if metadata.get("namespace") not in (None, "", call.namespace):
        raise bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    if metadata.get("name") != call.name:
        raise bad_request("name in URL does not match name in Binding object")
    return metadata


def _check_target(binding: Object) -> None:
    target = binding.get("target") or {}
    problems = []
    if target.get("kind", "") not in ("", "Node"):
        supported = '"Node", "<empty>"'
        problems.append(
            f'target.kind: Unsupported value: "{target["kind"]}": supported values: {supported}'
        )
    if not target.get("name"):
        problems.append("target.name: Required value")
    if problems:
        text = problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]"
        raise ApiStatusError(500, "", text)


def _check_preconditions(call: Call, wanted: Object, found: Object) -> None:
    for name, shown in (("uid", "UID"), ("resourceVersion", "ResourceVersion")):
        if wanted.get(name) and wanted[name] != found[name]:
            why = (
                f"StorageError: invalid object, Code: 4, Key: /registry/pods/{call.key}, "
                "ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: "
                f"{shown} in precondition: {wanted[name]}, {shown} in object meta: {found[name]}"
            )
            raise conflict(call.kind, call.name, why)


def _check_bindable(call: Call, pod: Object) -> None:
    why = ""
    if pod["metadata"].get("deletionTimestamp"):
        why = f"pod {call.name} is being deleted, cannot be assigned to a host"
    elif pod["spec"].get("nodeName"):
        why = f'pod {call.name} is already assigned to node "{pod["spec"]["nodeName"]}"'
    elif pod["spec"].get("schedulingGates"):
        why = f"pod {call.name} has non-empty .spec.schedulingGates"
    if why:
        raise conflict(call.kind, call.name, why, "pods/binding")


def _assign(api: ApiState, pod: Object, binding: Object) -> None:
    node, metadata = binding["target"]["name"], binding.get("metadata") or {}
    pod["spec"]["nodeName"] = node
    pod["status"].pop("nominatedNodeName", None)
    annotations = metadata.get("annotations")
    if annotations:
        pod["metadata"].setdefault("annotations", {}).update(annotations)
    labels = dict(metadata.get("labels") or {})
    if binding["target"].get("kind") == "Node":
        labels |= _topology(api, node)
    if labels:
        pod["metadata"].setdefault("labels", {}).update(labels)
    pod["status"]["conditions"] = _scheduled(pod["status"].get("conditions") or [])


def _topology(api: ApiState, node: str) -> dict[str, str]:
    entry = api.store.get("nodes", node)
    labels = entry.labels if entry else {}
    return {name: labels[name] for name in _TOPOLOGY if name in labels}


def _scheduled(conditions: list[Object]) -> list[Object]:
    """PodScheduled=True in its place; the time moves only when the status changes."""
    new = {
        "type": "PodScheduled", "status": "True", "lastProbeTime": None,
        "lastTransitionTime": now_text(),
    }  # fmt: skip
    for index, condition in enumerate(conditions):
        if condition.get("type") == "PodScheduled":
            if condition.get("status") == "True":
                new["lastTransitionTime"] = condition.get("lastTransitionTime")
            return [*conditions[:index], new, *conditions[index + 1 :]]
    return [*conditions, new]
