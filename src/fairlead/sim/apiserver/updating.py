"""Update and everything that ends in one: conflict detection, status, the last finalizer."""

from collections.abc import Callable
from typing import Any

from fairlead.sim.apiserver import admission
from fairlead.sim.apiserver.api import ApiState
from fairlead.sim.apiserver.bodies import typed
from fairlead.sim.apiserver.call import Call
from fairlead.sim.apiserver.creating import check_namespace, create
from fairlead.sim.apiserver.kinds import Kind
from fairlead.sim.apiserver.status import (
    MODIFIED,
    ApiStatusError,
    Cause,
    bad_request,
    conflict,
    invalid,
    invalid_object,
    not_found,
)
from fairlead.sim.apiserver.store import StoredObject, encode_as
from fairlead.sim.apiserver.strategy import strategy_for
from fairlead.sim.apiserver.strategy.metadata import validate_metadata_update

Object = dict[str, Any]
Change = Callable[[Object], Object]
_KEPT = ("creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds",
         "namespace", "selfLink")  # fmt: skip


async def replace(api: ApiState, call: Call, obj: Object) -> tuple[StoredObject, bool]:
    """PUT: the stored object becomes this one. Says whether it had to be created."""
    metadata = obj["metadata"]
    _check_name(call, metadata)
    check_namespace(call, metadata)
    strategy = strategy_for(call.kind)
    if api.store.get(call.kind.store_name, call.key) is None:
        return await _create_absent(api, call, obj)
    version = metadata.get("resourceVersion", "")
    if not version and not strategy.allows_blind_update:
        raise _version_missing(call.kind, call.name)
    call.replaces = True
    entry = await _update(api, call, lambda _: obj, _version_number(version))
    return entry, False


async def modify(api: ApiState, call: Call, change: Change) -> StoredObject:
    """PATCH: the stored object becomes what `change` makes of it, with the same checks."""

    def typed_change(old: Object) -> Object:
        changed = change(old)
        _check_name(call, changed.get("metadata") or {})
        if call.subresource not in ("", "status"):
            return changed
        return typed(changed, call.kind)

    return await _update(api, call, typed_change, None)


async def _create_absent(api: ApiState, call: Call, obj: Object) -> tuple[StoredObject, bool]:
    if not strategy_for(call.kind).creates_on_update or call.subresource:
        raise not_found(call.kind, call.name)
    if obj["metadata"].get("uid"):
        raise _wrong_uid(call, obj["metadata"]["uid"], "")
    if obj["metadata"].get("resourceVersion"):
        raise not_found(call.kind, call.name)
    return await create(api, call, obj), True


def _check_name(call: Call, metadata: Object) -> None:
    stated = metadata.get("name")
    if stated != call.name:
        if not stated:
            raise bad_request(
                "the name of the object ( based on URL) was undeterminable: name must be provided"
            )
        raise bad_request(
            f"the name of the object ({stated}) does not match the name on the URL ({call.name})"
        )


def _version_missing(kind: Kind, name: str) -> ApiStatusError:
    cause = invalid("metadata.resourceVersion", 0, "must be specified for an update")
    error = invalid_object(kind, name, [cause])
    # Here, and only here, the real server names the resource and not the kind.
    message = f'{kind.group_resource} "{name}" is invalid: {cause.text}'
    return ApiStatusError(422, "Invalid", message, {**(error.details or {}), "kind": kind.plural})


def _version_number(version: str) -> int | None:
    if not version:
        return None
    if not version.isdigit():
        raise ApiStatusError(500, "", f'strconv.ParseUint: parsing "{version}": invalid syntax')
    return int(version)


async def _update(api: ApiState, call: Call, change: Change, version: int | None) -> StoredObject:
    """Retries until there was no other write in between; only webhooks make that possible."""
    while True:
        current = api.entry(call.kind, call.key)
        old = current.object()
        new = change(current.object())
        _check_versions(call, new, old, version)
        new = _carry(call, new, old)
        new = await admission.on_update(api, call, new, old)
        _validate(call, new, old)
        await admission.validate(api, call, "UPDATE", new, old)
        if api.store.get(call.kind.store_name, call.key) is current:
            return commit(api, call, new, old, current)
        if version is not None:
            raise conflict(call.kind, call.name, MODIFIED)


def _check_versions(call: Call, new: Object, old: Object, version: int | None) -> None:
    metadata = new.get("metadata")
    if not isinstance(metadata, dict):
        raise bad_request("metadata must be an object")
    uid = metadata.get("uid")
    if uid and uid != old["metadata"]["uid"] and call.replaces:
        raise _wrong_uid(call, uid, old["metadata"]["uid"])
    stated = str(version) if version is not None else metadata.get("resourceVersion", "")
    if stated and stated not in ("0", old["metadata"]["resourceVersion"]):
        raise conflict(call.kind, call.name, MODIFIED)


def _wrong_uid(call: Call, wanted: str, found: str) -> ApiStatusError:
    why = (
        "StorageError: invalid object, Code: 4, Key: /registry/"
        f"{_registry_path(call)}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: "
        f"UID in precondition: {wanted}, UID in object meta: {found}"
    )
    return conflict(call.kind, call.name, why)


def _registry_path(call: Call) -> str:
    resource = {"nodes": "minions", "leases.coordination.k8s.io": "leases"}
    return f"{resource.get(call.kind.group_resource, call.kind.plural)}/{call.key}"


def _carry(call: Call, new: Object, old: Object) -> Object:
    """Puts back what an update cannot touch."""
    metadata, before = new["metadata"], old["metadata"]
    for name in _KEPT:
        _keep(metadata, before, name)
    metadata.setdefault("uid", before["uid"])
    if not call.applies:
        _keep(metadata, before, "managedFields")
    metadata["resourceVersion"] = before["resourceVersion"]
    strategy = strategy_for(call.kind)
    if call.subresource == "status":
        strategy.prepare_status(new, old)
    else:
        strategy.prepare_update(new, old)
        if "generation" in before and not strategy.counts_generations:
            metadata["generation"] = before["generation"]
    return new


def _keep(metadata: Object, before: Object, name: str) -> None:
    if name in before:
        metadata[name] = before[name]
    else:
        metadata.pop(name, None)


def _validate(call: Call, new: Object, old: Object) -> None:
    strategy = strategy_for(call.kind)
    causes = _metadata_causes(call, new) if call.subresource == "status" else strategy.validate(new)
    # The real server checks the metadata in two places, and complains in both.
    causes += 2 * validate_metadata_update(new["metadata"], old["metadata"])
    if call.subresource == "status":
        causes += strategy.validate_status(new, old)
    else:
        causes += strategy.validate_update(new, old)
    if causes:
        raise invalid_object(call.kind, call.name, causes)
    call.warnings += strategy.warnings(new)


def _metadata_causes(call: Call, new: Object) -> list[Cause]:
    causes = strategy_for(call.kind).validate_meta(new)
    return 3 * causes if call.kind.store_name == "pods" else causes


def commit(
    api: ApiState, call: Call, new: Object, old: Object, current: StoredObject
) -> StoredObject:
    """Writes the new state; nothing when nothing changed; removes what was only held back."""
    kind = call.kind
    if {**old, "kind": 0, "apiVersion": 0} == {**new, "kind": 0, "apiVersion": 0}:
        return current
    if call.dry_run:
        return StoredObject(call.key, current.version, encode_as(kind, new), {}, {})
    if _released(kind, new):
        api.store.remove(kind, call.key)
        return StoredObject(call.key, current.version, encode_as(kind, new), {}, {})
    return api.store.put(kind, call.key, new)


def _released(kind: Kind, obj: Object) -> bool:
    metadata = obj["metadata"]
    if not metadata.get("deletionTimestamp") or metadata.get("finalizers"):
        return False
    if kind.store_name == "namespaces":
        return not obj.get("spec", {}).get("finalizers")
    return not metadata.get("deletionGracePeriodSeconds")
