"""Delete: grace for pods, finalizers, preconditions, and what becomes of dependents."""

from datetime import datetime, timedelta
from typing import Any

from fairlead.sim.apiserver import admission
from fairlead.sim.apiserver.api import ApiState
from fairlead.sim.apiserver.call import Call
from fairlead.sim.apiserver.clock import as_text, now_text
from fairlead.sim.apiserver.status import ApiStatusError, conflict, success, unsupported
from fairlead.sim.apiserver.store import StoredObject

Object = dict[str, Any]
_RETURNS_OBJECT = frozenset(
    {
        "pods", "services", "serviceaccounts", "namespaces", "persistentvolumes",
        "persistentvolumeclaims", "resourcequotas", "podtemplates",
        "storageclasses.storage.k8s.io", "csinodes.storage.k8s.io", "csidrivers.storage.k8s.io",
        "volumeattachments.storage.k8s.io", "resourceclaims.resource.k8s.io",
        "resourceslices.resource.k8s.io", "deviceclasses.resource.k8s.io",
        "resourceclaimtemplates.resource.k8s.io",
    }
)  # fmt: skip
_POLICIES = ("Foreground", "Background", "Orphan")
_DEPENDENT_FINALIZERS = {"Orphan": "orphan", "Foreground": "foregroundDeletion"}


async def delete(api: ApiState, call: Call, options: Object) -> tuple[Object | bytes, bool]:
    """Deletes one object, or marks it. Returns the answer and whether the object is gone."""
    _check_options(options)
    entry = api.entry(call.kind, call.key)
    obj = entry.object()
    _check_preconditions(call, obj, options)
    await admission.validate(api, call, "DELETE", None, obj)
    entry = api.entry(call.kind, call.key)
    return _delete(api, call, entry, options)


def _check_options(options: Object) -> None:
    policy = options.get("propagationPolicy")
    if policy is not None and policy not in _POLICIES:
        cause = unsupported("propagationPolicy", policy, _POLICIES)
        message = cause.message.replace('"Orphan"', '"Orphan", "nil"')
        listed = [{"reason": cause.reason, "message": message, "field": cause.field}]
        details: Object = {"group": "meta.k8s.io", "kind": "DeleteOptions", "causes": listed}
        text = f'DeleteOptions.meta.k8s.io "" is invalid: propagationPolicy: {message}'
        raise ApiStatusError(422, "Invalid", text, details)


def _check_preconditions(call: Call, obj: Object, options: Object) -> None:
    wanted, metadata = options.get("preconditions") or {}, obj["metadata"]
    words = (("uid", "UID", "deleted and then recreated"),
             ("resourceVersion", "ResourceVersion", "modified"))  # fmt: skip
    for name, shown, what in words:
        if wanted.get(name) is not None and wanted[name] != metadata[name]:
            why = (
                f"the {shown} in the precondition ({wanted[name]}) does not match the {shown} "
                f"in record ({metadata[name]}). The object might have been {what}"
            )
            raise conflict(call.kind, call.name, why, _precondition_resource(call))


def _precondition_resource(call: Call) -> str:
    return f"{call.kind.kind}.{call.kind.group}" if call.kind.group else call.kind.kind


def _delete(
    api: ApiState, call: Call, entry: StoredObject, options: Object
) -> tuple[Object | bytes, bool]:
    obj = entry.object()
    if call.kind.store_name == "namespaces":
        return _delete_namespace(api, call, obj)
    if call.kind.store_name == "pods":
        _mark_pod(obj, options)
    else:
        _mark_plain(obj, options)
    changed = obj != entry.object()
    if call.dry_run:
        return _answer(call, obj, entry.raw), True
    metadata = obj["metadata"]
    stays = metadata.get("finalizers") or metadata.get("deletionGracePeriodSeconds")
    if stays or (changed and call.kind.store_name == "pods"):
        entry = api.store.put(call.kind, call.key, obj) if changed else entry
    if stays:
        return entry.raw, False
    entry = api.store.remove(call.kind, call.key)
    return _answer(call, obj, entry.raw), True


def _answer(call: Call, obj: Object, raw: bytes) -> Object | bytes:
    if call.kind.store_name in _RETURNS_OBJECT:
        return raw
    details: Object = {"name": call.name}
    if call.kind.group:
        details["group"] = call.kind.group
    details |= {"kind": call.kind.plural, "uid": obj["metadata"]["uid"]}
    return success(200, details)


def _mark_plain(obj: Object, options: Object) -> None:
    metadata = obj["metadata"]
    finalizers = _with_policy(metadata.get("finalizers") or [], options)
    if finalizers:
        metadata["finalizers"] = finalizers
        mark_deleting(metadata)
    else:
        metadata.pop("finalizers", None)


def mark_deleting(metadata: Object) -> None:
    """Says that the object only waits for its finalizers."""
    if not metadata.get("deletionTimestamp"):
        if metadata.get("generation"):
            metadata["generation"] += 1
        metadata["deletionTimestamp"] = now_text()
    metadata["deletionGracePeriodSeconds"] = 0


def _with_policy(finalizers: list[str], options: Object) -> list[str]:
    policy = options.get("propagationPolicy")
    if options.get("orphanDependents") is not None:
        policy = "Orphan" if options["orphanDependents"] else "Background"
    if policy is None:
        return finalizers
    kept = [name for name in finalizers if name not in _DEPENDENT_FINALIZERS.values()]
    added = _DEPENDENT_FINALIZERS.get(policy)
    return [*kept, added] if added else kept


def _mark_pod(obj: Object, options: Object) -> None:
    metadata = obj["metadata"]
    asked = options.get("gracePeriodSeconds")
    if asked is not None and asked < 0:
        asked = 1
    if metadata.get("deletionTimestamp"):
        _shorten(metadata, asked)
    else:
        grace = _grace_s(obj, asked)
        metadata["deletionTimestamp"] = now_text(grace)
        metadata["deletionGracePeriodSeconds"] = grace
        metadata["generation"] = metadata.get("generation", 0) + 1
    finalizers = _with_policy(metadata.get("finalizers") or [], options)
    if finalizers:
        metadata["finalizers"] = finalizers
    else:
        metadata.pop("finalizers", None)


def _grace_s(pod: Object, asked: int | None) -> int:
    """A pod that never ran or that has ended needs no kubelet to stop it."""
    if not pod["spec"].get("nodeName"):
        return 0
    if pod.get("status", {}).get("phase") in ("Failed", "Succeeded"):
        return 0
    grace: int = pod["spec"].get("terminationGracePeriodSeconds", 0) if asked is None else asked
    return max(grace, 1) if grace < 0 else grace


def _shorten(metadata: Object, asked: int | None) -> None:
    """A second delete can only bring the end nearer."""
    pending = metadata.get("deletionGracePeriodSeconds") or 0
    if asked is None or asked >= pending:
        return
    end = datetime.fromisoformat(metadata["deletionTimestamp"])
    earlier = end + timedelta(seconds=asked - pending)
    if as_text(earlier) < now_text():
        metadata["deletionTimestamp"] = now_text()
        metadata["deletionGracePeriodSeconds"] = 1 if asked else 0
    else:
        metadata["deletionTimestamp"] = as_text(earlier)
        metadata["deletionGracePeriodSeconds"] = asked


def _delete_namespace(api: ApiState, call: Call, obj: Object) -> tuple[Object | bytes, bool]:
    metadata = obj["metadata"]
    if not metadata.get("deletionTimestamp"):
        metadata["deletionTimestamp"] = now_text()
        obj["status"] = {**obj.get("status", {}), "phase": "Terminating"}
        return api.store.put(call.kind, call.key, obj).raw, False
    return api.entry(call.kind, call.key).raw, False
