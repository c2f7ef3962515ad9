"""Server-side apply, in small: create or merge, with a record of what each manager applied.

Only Apply operations are recorded in managedFields. A field that a manager applied before and
leaves out now is removed unless another manager applied it too; a field that another manager
applied and that would change is a conflict, unless forced.
"""

from typing import Any

from fairlead.sim.apiserver.api import ApiState
from fairlead.sim.apiserver.bodies import admit_type
from fairlead.sim.apiserver.call import Call
from fairlead.sim.apiserver.creating import create
from fairlead.sim.apiserver.ownership import (
    Paths,
    applied_by_others,
    applied_paths,
    merge_applied,
    record,
    remove_paths,
    value_at,
)
from fairlead.sim.apiserver.schema.types import type_of
from fairlead.sim.apiserver.status import ApiStatusError, bad_request
from fairlead.sim.apiserver.store import StoredObject
from fairlead.sim.apiserver.updating import modify

Object = dict[str, Any]
_IDENTITY = {("apiVersion",), ("kind",), ("metadata", "name"), ("metadata", "namespace")}


async def apply(api: ApiState, call: Call, document: Any) -> tuple[StoredObject, bool]:
    """The object with the applied fields in it, and whether it had to be created."""
    if not isinstance(document, dict):
        raise bad_request("error decoding YAML: the applied configuration must be an object")
    manager = call.query.get("fieldManager", "")
    if not manager:
        raise _manager_missing()
    call.applies = True
    _check_named(call, document)
    type_name = type_of(call.kind)
    paths = applied_paths(document, type_name) - _IDENTITY
    if api.store.get(call.kind.store_name, call.key) is None and not call.subresource:
        obj = admit_type(call, document, call.kind)
        obj["metadata"]["name"] = call.name
        record(obj, manager, call.subresource, paths)
        return await create(api, call, obj), True

    def change(old: Object) -> Object:
        return _merged(call, old, document, manager, paths)

    return await modify(api, call, change), False


def _merged(call: Call, old: Object, document: Object, manager: str, paths: Paths) -> Object:
    type_name = type_of(call.kind)
    if call.query.get("force") not in ("true", "1"):
        _check_conflicts(call, old, document, manager, paths)
    new: Object = merge_applied(old, document, type_name)
    others = applied_by_others(old, manager)
    remove_paths(new, old, manager, paths, others)
    record(new, manager, call.subresource, paths)
    return new


def _check_conflicts(call: Call, old: Object, document: Object, manager: str, paths: Paths) -> None:
    clashes = [
        (other, path)
        for other, owned in sorted(applied_by_others(old, manager).items())
        for path in sorted(owned & paths, key=str)
        if value_at(old, path) != value_at(document, path)
    ]
    if not clashes:
        return
    listed = [f'conflict with "{other}": {_dotted(path)}' for other, path in clashes]
    plural = "s" if len(clashes) > 1 else ""
    message = f"Apply failed with {len(clashes)} conflict{plural}: {', '.join(listed)}"
    causes = [
        {"reason": "FieldManagerConflict", "message": f'conflict with "{other}"',
         "field": _dotted(path)}
        for other, path in clashes
    ]  # fmt: skip
    raise ApiStatusError(409, "Conflict", message, {"causes": causes})


def _dotted(path: tuple[str, ...]) -> str:
    return "." + ".".join(path)


def _check_named(call: Call, document: Object) -> None:
    if not document.get("kind") or not document.get("apiVersion"):
        raise bad_request("the applied configuration must name its apiVersion and kind")
    name = (document.get("metadata") or {}).get("name")
    if not name:
        raise bad_request(
            f"the name of the object ({call.name} based on URL) was undeterminable: "
            "name must be provided"
        )
    if name != call.name:
        raise bad_request(
            f"the name of the object ({name}) does not match the name on the URL ({call.name})"
        )


def _manager_missing() -> ApiStatusError:
    message = "Required value: is required for apply patch"
    causes = [{"reason": "FieldValueRequired", "message": message, "field": "fieldManager"}]
    details: Object = {"group": "meta.k8s.io", "kind": "PatchOptions", "causes": causes}
    text = f'PatchOptions.meta.k8s.io "" is invalid: fieldManager: {message}'
    return ApiStatusError(422, "Invalid", text, details)
