"""Which manager applied which fields: paths, their form in managedFields, and merging by them.

A path is a tuple of steps: a field name, or `k:{"name":"x"}` for an item of a keyed list.
"""

from typing import Any

import msgspec

from fairlead.sim.apiserver.clock import now_text
from fairlead.sim.apiserver.schema.types import Field, fields_of

Object = dict[str, Any]
Path = tuple[str, ...]
Paths = set[Path]


def applied_paths(value: Any, type_name: str, at: Path = ()) -> Paths:
    """Paths of every leaf that an applied configuration sets."""
    if not isinstance(value, dict) or not value:
        return {at} if at else set()
    fields = fields_of(type_name) or {}
    found: Paths = set()
    for name, item in value.items():
        field = fields.get(name)
        if field is not None and field.shape == "list" and field.list_keys:
            for each in item or []:
                step = (*at, name, _step(each, field))
                found |= applied_paths(each, field.element, step)
        else:
            found |= applied_paths(item, field.element if field else "", (*at, name))
    return found


def _step(item: Object, field: Field) -> str:
    keys = {key: item[key] for key in field.list_keys or () if key in item}
    return "k:" + msgspec.json.encode(keys, order="sorted").decode()


def merge_applied(old: Any, new: Any, type_name: str) -> Any:
    """`old` with everything that `new` sets; keyed lists merge item by item."""
    if not isinstance(old, dict) or not isinstance(new, dict):
        return new
    fields, result = fields_of(type_name) or {}, dict(old)
    for name, item in new.items():
        field = fields.get(name)
        if field is not None and field.shape == "list" and field.list_keys is not None:
            result[name] = _merge_list(old.get(name) or [], item or [], field)
        else:
            result[name] = merge_applied(old.get(name), item, field.element if field else "")
    return result


def _merge_list(old: list[Any], new: list[Any], field: Field) -> list[Any]:
    if not field.list_keys:
        return [*old, *(value for value in new if value not in old)]
    merged = {_step(each, field): each for each in old}
    for each in new:
        step = _step_among(each, field, merged)
        merged[step] = merge_applied(merged.get(step), each, field.element)
    return list(merged.values())


def _step_among(item: Object, field: Field, known: dict[str, Any]) -> str:
    """The key of an item; a key that the client left to its default still finds its item."""
    step = _step(item, field)
    if step in known or all(key in item for key in field.list_keys or ()):
        return step
    stated = [(key, item[key]) for key in field.list_keys or () if key in item]
    for candidate, value in known.items():
        if all(value.get(key) == wanted for key, wanted in stated):
            return candidate
    return step


def value_at(obj: Any, path: Path) -> Any:
    """What stands at a path; None when nothing does."""
    for step in path:
        if step.startswith("k:") and isinstance(obj, list):
            keys = msgspec.json.decode(step[2:])
            obj = next((each for each in obj if _has(each, keys)), None)
        elif isinstance(obj, dict):
            obj = obj.get(step)
        else:
            return None
    return obj


def _has(item: Any, keys: Object) -> bool:
    return isinstance(item, dict) and all(item.get(key) == value for key, value in keys.items())


def _entries(obj: Object) -> list[Object]:
    entries: list[Object] = obj.get("metadata", {}).get("managedFields") or []
    return entries


def applied_by_others(obj: Object, manager: str) -> dict[str, Paths]:
    return {
        each["manager"]: _read(each.get("fieldsV1") or {})
        for each in _entries(obj)
        if each.get("manager") != manager
    }


def remove_paths(
    new: Object, old: Object, manager: str, paths: Paths, others: dict[str, Paths]
) -> None:
    """Removes what this manager applied before, leaves out now, and shares with no other."""
    before: Paths = set()
    for each in _entries(old):
        if each.get("manager") == manager:
            before |= _read(each.get("fieldsV1") or {})
    shared: Paths = set().union(*others.values()) if others else set()
    for path in sorted(before - paths - shared, key=len, reverse=True):
        _remove(new, path, paths)


def _remove(obj: Any, path: Path, kept: Paths) -> None:
    # An item of a keyed list goes whole when nothing of it is applied any more.
    for length, step in enumerate(path):
        if step.startswith("k:") and not any(
            each[: length + 1] == path[: length + 1] for each in kept
        ):
            items = value_at(obj, path[:length])
            item = value_at(obj, path[: length + 1])
            if isinstance(items, list) and item in items:
                items.remove(item)
            return
    parent = value_at(obj, path[:-1])
    if isinstance(parent, dict):
        parent.pop(path[-1], None)


def record(obj: Object, manager: str, subresource: str, paths: Paths) -> None:
    """Notes in managedFields what a manager has applied."""
    entry: Object = {
        "manager": manager, "operation": "Apply", "apiVersion": obj.get("apiVersion", "v1"),
        "time": now_text(), "fieldsType": "FieldsV1", "fieldsV1": _written(paths),
    }  # fmt: skip
    if subresource:
        entry["subresource"] = subresource
    others = [each for each in _entries(obj) if each.get("manager") != manager]
    same = [each for each in _entries(obj) if each.get("manager") == manager]
    if same and same[0].get("fieldsV1") == entry["fieldsV1"]:
        entry["time"] = same[0].get("time")
    obj["metadata"]["managedFields"] = [*others, entry]


def _written(paths: Paths) -> Object:
    tree: Object = {}
    for path in sorted(paths):
        node = tree
        for step in path:
            node = node.setdefault(step if step.startswith("k:") else f"f:{step}", {})
    return tree


def _read(tree: Object, at: Path = ()) -> Paths:
    if not tree:
        return {at} if at else set()
    found: Paths = set()
    for step, below in tree.items():
        if step != ".":
            name = step if step.startswith("k:") else step.removeprefix("f:")
            found |= _read(below, (*at, name))
    return found
