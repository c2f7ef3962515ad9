"""Patch: four ways to say what changes."""

from typing import Any

from fairlead.sim.apiserver.api import ApiState
from fairlead.sim.apiserver.applying import apply
from fairlead.sim.apiserver.bodies import read_document
from fairlead.sim.apiserver.call import Call
from fairlead.sim.apiserver.jsonpatch import PatchError, apply_json_patch, apply_merge_patch
from fairlead.sim.apiserver.schema.types import type_of, unknown_fields
from fairlead.sim.apiserver.status import ApiStatusError, bad_request, invalid, unsupported_media
from fairlead.sim.apiserver.store import StoredObject
from fairlead.sim.apiserver.strategic import apply_strategic
from fairlead.sim.apiserver.updating import Change, modify

Object = dict[str, Any]
JSON, MERGE = "application/json-patch+json", "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"


async def patch(
    api: ApiState, call: Call, body: bytes, content_type: str
) -> tuple[StoredObject, bool]:
    """The object after the patch, and whether it was created (only apply creates)."""
    media = content_type.partition(";")[0].strip()
    if media == APPLY:
        return await apply(api, call, read_document(body, media))
    change = change_of(call, body, media)
    return await modify(api, call, change), False


def change_of(call: Call, body: bytes, media: str) -> Change:
    """What a patch does to an object."""
    if media not in (JSON, MERGE, STRATEGIC):
        raise unsupported_media(
            (JSON, MERGE, APPLY) if call.kind.custom else (JSON, MERGE, STRATEGIC, APPLY)
        )
    document = read_document(body, "application/json")
    if media == JSON:
        return _json_change(call, document)
    if not isinstance(document, dict):
        raise bad_request(_not_a_map(document))
    if call.kind.custom and media == STRATEGIC:
        raise unsupported_media((JSON, MERGE, APPLY))
    # What is stored is known; only what the patch brings can be unknown.
    is_suspect = bool(unknown_fields(document, type_of(call.kind)))

    if media == MERGE:
        return lambda old: _checked(call, apply_merge_patch(old, document), is_suspect)
    return lambda old: _checked(call, _strategic(call, old, document), is_suspect)


def _not_a_map(document: Any) -> str:
    shown = {list: "array", str: "string", bool: "bool"}.get(type(document), "number")
    return f"json: cannot unmarshal {shown} into Go value of type map[string]interface {{}}"


def _json_change(call: Call, document: Any) -> Change:
    if not isinstance(document, list):
        raise bad_request(
            "error decoding patch: json: cannot unmarshal object into Go value of type "
            "jsonpatch.Patch"
        )

    def change(old: Object) -> Object:
        try:
            changed: Object = apply_json_patch(old, document)
        except PatchError as error:
            message = "the server rejected our request due to an error in our request"
            raise ApiStatusError(422, "Invalid", message, {}) from error
        return _checked(call, changed)

    return change


def _strategic(call: Call, old: Object, document: Object) -> Object:
    try:
        return apply_strategic(old, document, type_of(call.kind))
    except PatchError as error:
        raise ApiStatusError(500, "", str(error)) from error


def _strict_error(changed: Object, why: str) -> ApiStatusError:
    cause = invalid("patch", changed, why)
    listed = [{"reason": cause.reason, "message": cause.message, "field": cause.field}]
    return ApiStatusError(422, "Invalid", f' "" is invalid: {cause.text}', {"causes": listed})


def _checked(call: Call, changed: Object, is_suspect: bool = True) -> Object:
    """Unknown fields of the result are refused or warned about, as on create."""
    kind = call.kind
    if changed.get("kind", kind.kind) != kind.kind or changed.get("apiVersion") != kind.api_version:
        shown = f"{changed.get('apiVersion', '')}, Kind={changed.get('kind', '')}"
        raise bad_request(f"the patch changes the kind of the object to {shown}")
    if not is_suspect:
        return changed
    level, type_name = call.query.get("fieldValidation", "Warn"), type_of(kind)
    unknown = [f'unknown field "{path}"' for path in unknown_fields(changed, type_name)]
    if unknown and level == "Strict":
        raise _strict_error(changed, f"strict decoding error: {', '.join(unknown)}")
    if level != "Ignore":
        call.warnings += [each for each in unknown if each not in call.warnings]
    return changed
