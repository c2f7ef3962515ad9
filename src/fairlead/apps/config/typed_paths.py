"""What may stand at a place of a typed file, so that a message can say what to write there.

Places are paths as msgspec writes them: `$.telemetry.sources[...].kind`.
"""

import re
from collections.abc import Iterator
from enum import Enum
from typing import Any, Literal, get_args, get_origin, get_type_hints

import msgspec

_INDEX = re.compile(r"\[[^]]*\]")


def keys_at(root: type[msgspec.Struct], path: str) -> list[str]:
    """The keys that are known there."""
    structs = [kind for kind in _kinds_at(root, path) if _is_struct(kind)]
    return sorted({key for kind in structs for key in kind.__struct_encode_fields__})


def choices_at(root: type[msgspec.Struct], path: str) -> list[str]:
    """The values that are known there; none where any will do."""
    return [choice for kind in _kinds_at(root, path) for choice in _choices(kind)]


def home_of(root: type[msgspec.Struct], key: str) -> str:
    """The path at which a key is known, the shortest if there are several; empty if nowhere."""
    places = [path for path, kind in _structs(root) if key in kind.__struct_encode_fields__]
    return min(places, key=lambda path: path.count("."), default="")


def all_keys(root: type[msgspec.Struct]) -> set[str]:
    """Every key that is known anywhere in such a file."""
    return {key for _, kind in _structs(root) for key in kind.__struct_encode_fields__}


def _structs(
    root: type[msgspec.Struct], path: str = ""
) -> Iterator[tuple[str, type[msgspec.Struct]]]:
    yield path, root
    for name, inners in _fields(root).items():
        for inner in inners:
            if _is_struct(inner):
                yield from _structs(inner, f"{path}.{name}".lstrip("."))


def _kinds_at(root: type[msgspec.Struct], path: str) -> list[Any]:
    found: list[Any] = [root]
    for key in _INDEX.sub("", path).split(".")[1:]:
        found = [
            inner for kind in found if _is_struct(kind) for inner in _fields(kind).get(key, ())
        ]
    return found


def _fields(kind: type[msgspec.Struct]) -> dict[str, list[Any]]:
    hints = get_type_hints(kind)
    names = zip(kind.__struct_fields__, kind.__struct_encode_fields__, strict=True)
    return {encoded: list(_leaves(hints[name])) for name, encoded in names}


def _leaves(hint: Any) -> Iterator[Any]:
    """The types that a hint is made of: those of a union, or of the items of a list."""
    if get_origin(hint) is Literal or not get_args(hint):
        yield hint
        return
    for inner in get_args(hint):
        yield from _leaves(inner)


def _choices(kind: Any) -> list[str]:
    if get_origin(kind) is Literal:
        return [str(value) for value in get_args(kind)]
    return [str(each.value) for each in kind] if _is_a(kind, Enum) else []


def _is_struct(kind: Any) -> bool:
    return _is_a(kind, msgspec.Struct)


def _is_a(kind: Any, parent: type) -> bool:
    return isinstance(kind, type) and issubclass(kind, parent)
