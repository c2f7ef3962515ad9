"""JSON Patch (RFC 6902) and JSON Merge Patch (RFC 7386)."""

import copy
from typing import Any

Object = dict[str, Any]


class PatchError(Exception):
    """A patch that cannot be applied; the message is the real server's."""


def apply_merge_patch(target: Any, patch: Any) -> Any:
    """RFC 7386: objects merge, null removes, everything else replaces."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = apply_merge_patch(result.get(name), value)
    return result


def apply_json_patch(document: Any, steps: list[Object]) -> Any:
    """RFC 6902: the document after every step, or PatchError at the first that fails."""
    document = copy.deepcopy(document)
    for step in steps:
        document = _step(document, step)
    return document


def _step(document: Any, step: Object) -> Any:
    operation, path = step.get("op"), _pointer(step.get("path", ""))
    if operation == "test":
        return _test(document, path, step)
    if operation in ("move", "copy"):
        return _transfer(document, step, path)
    if operation not in ("add", "replace", "remove"):
        raise PatchError(f"Unexpected kind: {operation}")
    if not path:
        return step.get("value")
    parent = _find(document, path[:-1], operation, step)
    _change(parent, path[-1], operation, step)
    return document


def _test(document: Any, path: list[str], step: Object) -> Any:
    shown = step.get("path", "")
    try:
        found = _get(document, path)
    except KeyError:
        found = None
        if step.get("value") is not None:
            raise PatchError(f"testing path {shown} failed: {_FAILED}") from None
    if found != step.get("value"):
        raise PatchError(f"testing value {shown} failed: {_FAILED}")
    return document


_FAILED = "test failed"


def _transfer(document: Any, step: Object, path: list[str]) -> Any:
    source = _pointer(step.get("from", ""))
    try:
        value = copy.deepcopy(_get(document, source))
    except KeyError:
        raise PatchError(_missing(str(step["op"]), step.get("from", ""))) from None
    if step["op"] == "move":
        _change(_get(document, source[:-1]), source[-1], "remove", step)
    _change(_find(document, path[:-1], "add", step), path[-1], "add", {**step, "value": value})
    return document


def _change(parent: Any, name: str, operation: str, step: Object) -> None:
    if isinstance(parent, list):
        _change_list(parent, name, operation, step)
        return
    if operation != "add" and name not in parent:
        raise PatchError(_missing(operation, step.get("path", "")))
    if operation == "remove":
        del parent[name]
    else:
        parent[name] = step.get("value")


def _change_list(parent: list[Any], name: str, operation: str, step: Object) -> None:
    if operation == "add":
        index = len(parent) if name == "-" else _index(name, len(parent) + 1, operation, step)
        parent.insert(index, step.get("value"))
        return
    index = _index(name, len(parent), operation, step)
    if operation == "remove":
        del parent[index]
    else:
        parent[index] = step.get("value")


def _index(name: str, limit: int, operation: str, step: Object) -> int:
    if not name.isdigit():
        raise PatchError(f'strconv.Atoi: parsing "{name}": invalid syntax')
    if int(name) >= limit:
        where = (
            f'{operation} operation does not apply: doc is missing path: "{step.get("path", "")}"'
        )
        why = f"Unable to access invalid index: {name}: invalid index referenced"
        raise PatchError(f"{where}: {why}")
    return int(name)


def _find(document: Any, path: list[str], operation: str | None, step: Object) -> Any:
    try:
        found = _get(document, path)
    except KeyError:
        found = None
    if not isinstance(found, dict | list):
        raise PatchError(_missing(str(operation), step.get("path", "")))
    return found


def _missing(operation: str, path: str) -> str:
    if operation in ("replace", "remove"):
        return f"{operation} operation does not apply: doc is missing key: {path}: missing value"
    return f'{operation} operation does not apply: doc is missing path: "{path}": missing value'


def _get(document: Any, path: list[str]) -> Any:
    for name in path:
        if isinstance(document, dict) and name in document:
            document = document[name]
        elif isinstance(document, list) and name.isdigit() and int(name) < len(document):
            document = document[int(name)]
        else:
            raise KeyError(name)
    return document


def _pointer(text: str) -> list[str]:
    return [part.replace("~1", "/").replace("~0", "~") for part in text.split("/")[1:]]
