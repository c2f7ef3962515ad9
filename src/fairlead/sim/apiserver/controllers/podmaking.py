"""Pods made from templates: what every controller that makes them shares."""

import copy
import hashlib
from typing import Any

import msgspec

from fairlead.sim.apiserver.api import ApiState
from fairlead.sim.apiserver.bodies import typed
from fairlead.sim.apiserver.call import Call
from fairlead.sim.apiserver.creating import create
from fairlead.sim.apiserver.deleting import delete
from fairlead.sim.apiserver.status import ApiStatusError
from fairlead.sim.apiserver.store import StoredObject
from fairlead.sim.apiserver.updating import modify

Object = dict[str, Any]
_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"


def call_for(
    api: ApiState, resource: str, namespace: str, name: str = "", subresource: str = ""
) -> Call:
    """A call of our own; webhooks can distinguish it from the calls of clients."""
    kind = api.kinds.plural(resource)
    return Call(kind, namespace, name, subresource, user="system:kube-controller-manager")


def owner_reference(owner: Object, api_version: str, kind: str) -> Object:
    metadata = owner["metadata"]
    return {
        "apiVersion": api_version, "kind": kind, "name": metadata["name"], "uid": metadata["uid"],
        "controller": True, "blockOwnerDeletion": True,
    }  # fmt: skip


def pod_from(template: Object, owner: Object, api_version: str, kind: str) -> Object:
    """A pod as the template says, owned by `owner`; its name is left to the caller."""
    metadata = {
        name: copy.deepcopy(value)
        for name, value in template.get("metadata", {}).items()
        if name in ("labels", "annotations", "finalizers")
    }
    metadata["ownerReferences"] = [owner_reference(owner, api_version, kind)]
    return {"metadata": metadata, "spec": copy.deepcopy(template["spec"])}


async def make(api: ApiState, resource: str, namespace: str, obj: Object) -> StoredObject:
    """Creates an object as a client would."""
    call = call_for(api, resource, namespace)
    return await create(api, call, typed(obj, call.kind))


async def remove(api: ApiState, resource: str, namespace: str, name: str, **options: Any) -> None:
    """Deletes an object; one that is gone already is fine."""
    try:
        await delete(api, call_for(api, resource, namespace, name), options)
    except ApiStatusError as error:
        if error.code != 404:
            raise


async def set_status(api: ApiState, resource: str, obj: Object, status: Object) -> None:
    """Writes a status; nothing happens when it is as it was."""
    if obj.get("status") == status:
        return
    metadata = obj["metadata"]
    namespace = metadata.get("namespace", "")
    call = call_for(api, resource, namespace, metadata["name"], "status")
    try:
        await modify(api, call, lambda old: {**old, "status": status})
    except ApiStatusError as error:
        if error.code != 404:
            raise


def is_active(pod: Object) -> bool:
    """Neither ended nor on its way out."""
    ended = pod.get("status", {}).get("phase") in ("Succeeded", "Failed")
    return not ended and not pod["metadata"].get("deletionTimestamp")


def is_ready(pod: Object) -> bool:
    conditions = pod.get("status", {}).get("conditions") or []
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def least_needed(pods: list[Object]) -> list[Object]:
    """Pods in the order in which to delete them: unassigned, not ready, youngest first."""

    def rank(pod: Object) -> tuple[bool, bool]:
        return bool(pod["spec"].get("nodeName")), is_ready(pod)

    youngest = sorted(pods, key=lambda pod: str(pod["metadata"]["creationTimestamp"]), reverse=True)
    return sorted(youngest, key=rank)


def fingerprint(template: Object) -> str:
    """A short text that differs between templates, fit for names and labels."""
    digest = hashlib.sha256(msgspec.json.encode(template, order="sorted")).digest()
    return "".join(_ALPHABET[byte % len(_ALPHABET)] for byte in digest[:10])


def condition(
    obj: Object, type_: str, status: str, reason: str, message: str, moment: str
) -> Object:
    """A condition; its transition time stays while its status does."""
    for old in obj.get("status", {}).get("conditions") or []:
        if old["type"] == type_ and old["status"] == status:
            return {**old, "reason": reason, "message": message}
    return {
        "type": type_, "status": status, "lastUpdateTime": moment, "lastTransitionTime": moment,
        "reason": reason, "message": message,
    }  # fmt: skip


def absolute(value: int | str | None, total: int, round_up: bool) -> int:
    """A number or a percentage of `total`."""
    if value is None:
        return 0
    if isinstance(value, int):
        return value
    percent = int(str(value).rstrip("%"))
    return -(-total * percent // 100) if round_up else total * percent // 100
