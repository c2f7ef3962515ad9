"""Strategic merge patch: lists of things with names are merged, not replaced.

Knows the directives that kubectl and client-go send: `$patch` (replace, delete, merge),
`$deleteFromPrimitiveList/…`, `$setElementOrder/…` and `$retainKeys`.
"""

from typing import Any

from fairlead.sim.apiserver.jsonpatch import PatchError
from fairlead.sim.apiserver.schema.types import Field, fields_of

Object = dict[str, Any]
_ORDER, _DROP, _RETAIN = "$setElementOrder/", "$deleteFromPrimitiveList/", "$retainKeys"


def apply_strategic(target: Object, patch: Object, type_name: str) -> Object:
    """The object after the patch; lists merge by the keys that its type declares."""
    return _merge_map(target, patch, type_name)


def _merge_map(target: Object, patch: Object, type_name: str) -> Object:
    directive = patch.get("$patch")
    if directive == "replace":
        return {name: value for name, value in patch.items() if name != "$patch"}
    if directive == "delete":
        return {}
    if directive not in (None, "merge"):
        raise PatchError(f"Unknown patch type found: {directive}")
    fields = fields_of(type_name) or {}
    result = _retained(target, patch.get(_RETAIN))
    for name, value in patch.items():
        if not name.startswith("$"):
            _merge_field(result, name, value, fields.get(name), patch)
    _apply_list_directives(result, target, patch, fields)
    return result


def _retained(target: Object, keep: list[str] | None) -> Object:
    if keep is None:
        return dict(target)
    return {name: value for name, value in target.items() if name in keep}


def _merge_field(result: Object, name: str, value: Any, field: Field | None, patch: Object) -> None:
    if value is None:
        result.pop(name, None)
        return
    element = field.element if field else ""
    old = result.get(name)
    if isinstance(value, dict):
        base = old if isinstance(old, dict) else {}
        result[name] = _merge_map(base, value, element)
    elif isinstance(value, list) and field is not None and field.merge_key is not None:
        result[name] = _merge_list(old or [], value, field)
    else:
        result[name] = value


def _merge_list(old: list[Any], patch: list[Any], field: Field) -> list[Any]:
    if not field.merge_key:
        return [*old, *(value for value in patch if value not in old)]
    if any(isinstance(item, dict) and item.get("$patch") == "replace" for item in patch):
        return [item for item in patch if item.get("$patch") != "replace"]
    merged = list(old)
    for item in patch:
        _merge_item(merged, item, field)
    return merged


def _merge_item(merged: list[Any], item: Object, field: Field) -> None:
    key = field.merge_key or ""
    if key not in item:
        raise PatchError(f"map: {item} does not contain declared merge key: {key}")
    position = next(
        (index for index, each in enumerate(merged) if each.get(key) == item[key]), None
    )
    if item.get("$patch") == "delete":
        if position is not None:
            del merged[position]
    elif position is None:
        merged.append(_merge_map({}, item, field.element))
    else:
        merged[position] = _merge_map(merged[position], item, field.element)


def _apply_list_directives(
    result: Object, old: Object, patch: Object, fields: dict[str, Field]
) -> None:
    for name, value in patch.items():
        if name.startswith(_DROP):
            field = name.removeprefix(_DROP)
            if field in result:
                result[field] = [each for each in result[field] if each not in value]
    for name, value in patch.items():
        known = fields.get(name)
        if isinstance(value, list) and known is not None and known.merge_key is not None:
            order = patch.get(_ORDER + name, value)
            if isinstance(result.get(name), list):
                result[name] = _ordered(result[name], old.get(name) or [], order, known)
        elif name.startswith(_ORDER) and name.removeprefix(_ORDER) not in patch:
            listed = name.removeprefix(_ORDER)
            if isinstance(result.get(listed), list):
                before = old.get(listed) or []
                result[listed] = _ordered(result[listed], before, value, fields.get(listed))


def _ordered(
    items: list[Any], before: list[Any], order: list[Any], field: Field | None
) -> list[Any]:
    """Items named in the order stand as it says; the rest keeps its order among them.

    Where the old list does not say which of two comes first, the named one does.
    """
    key = (field.merge_key if field else "") or ""
    rank = {_identity(each, key): index for index, each in enumerate(order)}
    place = {_identity(each, key): index for index, each in enumerate(before)}
    named = [each for each in items if _identity(each, key) in rank]
    named.sort(key=lambda each: rank[_identity(each, key)])
    others = [each for each in items if _identity(each, key) not in rank]
    merged: list[Any] = []
    while named and others:
        left, right = place.get(_identity(others[0], key)), place.get(_identity(named[0], key))
        other_first = left is not None and right is not None and left < right
        merged.append(others.pop(0) if other_first else named.pop(0))
    return [*merged, *named, *others]


def _identity(item: Any, key: str) -> str:
    return str(item.get(key) if key and isinstance(item, dict) else item)
