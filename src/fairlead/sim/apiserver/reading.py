"""Get and list: selectors, pages, and how fresh or how old the answer may be."""

import base64
import binascii
from collections.abc import Callable
from typing import Any

import msgspec

from fairlead.sim.apiserver import forms
from fairlead.sim.apiserver.api import ApiState
from fairlead.sim.apiserver.call import Call
from fairlead.sim.apiserver.fields import known_fields
from fairlead.sim.apiserver.forms import Form
from fairlead.sim.apiserver.selectors import parse_fields, parse_labels
from fairlead.sim.apiserver.status import ApiStatusError, bad_request, expired, too_large_version
from fairlead.sim.apiserver.store import Collection, StoredObject

Object = dict[str, Any]
Chooses = Callable[[StoredObject], bool]

TOO_OLD_CONTINUE = (
    "The provided continue parameter is too old to display a consistent list result. You can "
    "start a new list without the continue parameter, or use the continue token in this response "
    "to retrieve the remainder of the results. Continuing with the provided token results in an "
    "inconsistent list - objects that were created, modified, or deleted between the time the "
    "first chunk was returned and now may show up in the list."
)


def get(api: ApiState, call: Call, form: Form) -> bytes:
    version = parse_version(call.query.get("resourceVersion", ""))
    if version > api.store.version:
        raise too_large_version(version, api.store.version)
    return forms.one(api.entry(call.kind, call.key).raw, call.shown, form)


def list_(api: ApiState, call: Call, form: Form) -> bytes:
    """One page, or all, of what the selectors choose."""
    collection = api.store.collection(call.kind.store_name)
    page = _Page.of(api, call, collection)
    chosen = selection(call)
    entries = _ordered(collection, page.version, api.store.version)
    entries = _in_namespace(entries, call.namespace)
    if page.start:
        entries = [entry for entry in entries if entry.key >= page.start]
    matching = [entry for entry in entries if chosen(entry)] if chosen else entries
    metadata: Object = {"resourceVersion": str(page.version)}
    if page.limit and len(matching) > page.limit:
        rest = len(matching) - page.limit
        matching = matching[: page.limit]
        metadata["continue"] = _token(page.version, matching[-1].key + "\0")
        if chosen is None:
            metadata["remainingItemCount"] = rest
    elif call.kind.custom:
        metadata["continue"] = ""
    return forms.many(matching, call.shown, form, metadata)


class _Page:
    """Where a list begins, at which version, and how long it may be."""

    def __init__(self, version: int, start: str, limit: int) -> None:
        self.version, self.start, self.limit = version, start, limit

    @classmethod
    def of(cls, api: ApiState, call: Call, collection: Collection) -> "_Page":
        query = call.query
        limit, token = _limit(query.get("limit", "")), query.get("continue", "")
        version_text = query.get("resourceVersion", "")
        _check_match(query)
        if token:
            return cls._continued(api, collection, token, limit, version_text)
        version = _list_version(version_text)
        if version > api.store.version:
            raise too_large_version(version, api.store.version)
        if query.get("resourceVersionMatch") == "Exact" and version < api.store.version:
            if version < collection.floor:
                raise expired("The resourceVersion for the provided list is too old.")
            return cls(version, "", limit)
        return cls(api.store.version, "", limit)

    @classmethod
    def _continued(
        cls, api: ApiState, collection: Collection, token: str, limit: int, version_text: str
    ) -> "_Page":
        if version_text not in ("", "0"):
            raise bad_request("specifying resource version is not allowed when using continue")
        version, start = _read_token(token)
        if version < 0:
            return cls(api.store.version, start, limit)
        if version < collection.floor:
            error = expired(TOO_OLD_CONTINUE)
            raise _with_token(error, _token(-1, start))
        return cls(version, start, limit)


def _with_token(error: ApiStatusError, token: str) -> ApiStatusError:
    error.list_metadata = {"continue": token}
    return error


def _check_match(query: Any) -> None:
    match, version = query.get("resourceVersionMatch", ""), query.get("resourceVersion", "")
    if query.get("sendInitialEvents") is not None and query.get("watch") not in ("true", "1"):
        raise _bad_list("sendInitialEvents", "sendInitialEvents is forbidden for list")
    if not match:
        return
    if not version:
        why = "resourceVersionMatch is forbidden unless resourceVersion is provided"
        raise _bad_list("resourceVersionMatch", why)
    if query.get("continue"):
        why = "resourceVersionMatch is forbidden when continue is provided"
        raise _bad_list("resourceVersionMatch", why)
    if match not in ("Exact", "NotOlderThan"):
        supported = '"Exact", "NotOlderThan", ""'
        message = f'Unsupported value: "{match}": supported values: {supported}'
        raise list_options_error("resourceVersionMatch", "FieldValueNotSupported", message)
    if match == "Exact" and version == "0":
        why = 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
        raise _bad_list("resourceVersionMatch", why)


def _bad_list(field: str, why: str) -> ApiStatusError:
    return list_options_error(field, "FieldValueForbidden", f"Forbidden: {why}")


def list_options_error(field: str, reason: str, message: str) -> ApiStatusError:
    causes = [{"reason": reason, "message": message, "field": field}]
    details: Object = {"group": "meta.k8s.io", "kind": "ListOptions", "causes": causes}
    text = f'ListOptions.meta.k8s.io "" is invalid: {field}: {message}'
    return ApiStatusError(422, "Invalid", text, details)


def parse_version(text: str) -> int:
    """A resourceVersion of a request; 0 for any."""
    if not text:
        return 0
    if not text.isdigit():
        why = f'strconv.ParseUint: parsing "{text}": invalid syntax'
        message = f'Invalid value: "{text}": {why}'
        raise ApiStatusError(500, "", f"resourceVersion: {message}")
    return int(text)


def _list_version(text: str) -> int:
    try:
        return parse_version(text)
    except ApiStatusError as error:
        raise bad_request(f"invalid resource version: {error.message}") from error


def _limit(text: str) -> int:
    try:
        return max(int(text), 0) if text else 0
    except ValueError:
        raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax') from None


def _token(version: int, start: str) -> str:
    document = {"v": "meta.k8s.io/v1", "rv": version, "start": start}
    return base64.urlsafe_b64encode(msgspec.json.encode(document)).decode().rstrip("=")


def _read_token(token: str) -> tuple[int, str]:
    try:
        document = msgspec.json.decode(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
        return int(document["rv"]), str(document["start"])
    except (binascii.Error, msgspec.DecodeError, KeyError, TypeError, ValueError):
        raise bad_request("continue key is not valid: illegal base64 data") from None


def _in_namespace(entries: list[StoredObject], namespace: str) -> list[StoredObject]:
    if not namespace:
        return entries
    prefix = namespace + "/"
    return [entry for entry in entries if entry.key.startswith(prefix)]


def _ordered(collection: Collection, version: int, current: int) -> list[StoredObject]:
    """Entries as they stood at a version, in key order."""
    if version >= current:
        entries = collection.entries
        return [entries[key] for key in collection.sorted_keys()]
    past = dict(collection.entries)
    for change in reversed(list(collection.since(version))):
        if change.previous is None:
            past.pop(change.entry.key, None)
        else:
            past[change.entry.key] = change.previous
    return [past[key] for key in sorted(past)]


def selection(call: Call) -> Chooses | None:
    """The test that the label and field selectors of a call make; None when there are none."""
    labels = parse_labels(call.query.get("labelSelector", ""))
    terms = parse_fields(call.query.get("fieldSelector", ""))
    _check_terms(call, terms)
    if call.name:
        terms.append(("metadata.name", True, call.name))
    if labels is None and not terms:
        return None

    def chooses(entry: StoredObject) -> bool:
        if labels is not None and not labels(entry.labels):
            return False
        return all((entry.fields.get(name, "") == value) == equal for name, equal, value in terms)

    return chooses


def _check_terms(call: Call, terms: list[tuple[str, bool, str]]) -> None:
    if not terms:
        return
    kind = call.shown
    known = known_fields(kind.store_name, kind.namespaced, legacy=kind.store == "")
    for name, _, _ in terms:
        if name not in known and not _selectable(kind.custom, name):
            raise bad_request(_unknown_field(call, name))


def _selectable(custom: Object | None, name: str) -> bool:
    fields = (custom or {}).get("selectableFields") or []
    return any(each.get("jsonPath", "").strip(".") == name for each in fields)


def _unknown_field(call: Call, name: str) -> str:
    if call.kind.store_name == "pods":
        return f"field label not supported: {name}"
    return f'"{name}" is not a known field selector: only "metadata.name", "metadata.namespace"'
