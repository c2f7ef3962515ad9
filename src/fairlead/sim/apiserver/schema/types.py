"""The fields of built-in types: their names, shapes, and how lists of them are merged.

`types.yaml` holds one line a type; a field reads `name!:type@key~#keys`:
`!` required; `[T]` a list, `{T}` a map; `@key` a strategic merge patch merges the list by that
key (`@` alone: a list of scalars); `~` a patch says which keys stay; `#keys` what server-side
apply merges by (`#` alone: a set).
"""

import re
from functools import cache
from importlib import resources
from typing import Any

import yaml

from fairlead.model.lazy_dataclass import dataclass
from fairlead.sim.apiserver.kinds import BUILT_IN, Kind

Fields = dict[str, "Field"]

_FIELD = re.compile(r"([^!:]+)(!?):([^@~#]+)(@[^~#]*)?(~?)(#.*)?$")
_GROUP_PACKAGES = {
    "": "core",
    "rbac.authorization.k8s.io": "rbac",
    "apiextensions.k8s.io": "apiextensions",
}


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a type. `element` is the type of what a list or map holds."""

    name: str
    shape: str  # "one", "list" or "map"
    element: str
    required: bool
    merge_key: str | None
    retains_keys: bool
    list_keys: tuple[str, ...] | None
    is_struct: bool


@cache
def _lines() -> dict[str, str]:
    text = resources.files(__package__).joinpath("types.yaml").read_text(encoding="utf-8")
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    lines: dict[str, str] = yaml.load(text, loader)  # noqa: S506
    return lines


def type_names() -> list[str]:
    return list(_lines())


@cache
def fields_of(type_name: str) -> Fields | None:
    """The fields of a type; None when the type is not described and anything goes."""
    line = _lines().get(type_name)
    if line is None:
        return None
    parsed = (_parse(text) for text in line.split())
    return {field.name: field for field in parsed}


def _parse(text: str) -> Field:
    match = _FIELD.match(text)
    if match is None:
        raise ValueError(f"types.yaml: cannot read field {text!r}")
    name, required, shown, merge, retains, keys = match.groups()
    shape = {"[": "list", "{": "map"}.get(shown[0], "one")
    element = shown if shape == "one" else shown[1:-1]
    list_keys = tuple(key for key in keys[1:].split(",") if key) if keys else None
    merge_key = merge[1:] if merge else None
    is_struct = "." in element and not element.startswith("[")
    return Field(
        name, shape, element, bool(required), merge_key, bool(retains), list_keys, is_struct
    )


@cache
def _type_by_kind() -> dict[tuple[str, str], str]:
    known = {}
    for kind in BUILT_IN:
        package = _GROUP_PACKAGES.get(kind.group, kind.group.partition(".")[0])
        name = f"{package}.{kind.version}.{kind.kind}"
        if name in _lines():
            known[kind.api_version, kind.kind] = name
    known["autoscaling/v1", "Scale"] = "autoscaling.v1.Scale"
    known["policy/v1", "Eviction"] = "policy.v1.Eviction"
    for group in {kind.api_version for kind in BUILT_IN}:
        # Clients put the options of a delete into whatever group they delete from.
        known[group, "DeleteOptions"] = "meta.v1.DeleteOptions"
    return known


def type_of(kind: Kind) -> str:
    """The type that describes a kind; "" for custom resources."""
    return "" if kind.custom else type_named(kind.api_version, kind.kind)


def type_named(api_version: str, kind: str) -> str:
    return _type_by_kind().get((api_version, kind), "")


def unknown_fields(value: Any, type_name: str, path: str = "") -> list[str]:
    """Paths of fields that the type does not have, in the order they stand."""
    fields = fields_of(type_name)
    if fields is None or not isinstance(value, dict):
        return []
    found: list[str] = []
    for name, item in value.items():
        here = f"{path}.{name}" if path else name
        field = fields.get(name)
        if field is None:
            found.append(here)
        elif field.is_struct:
            found += _unknown_inside(item, field, here)
    return found


def _unknown_inside(item: Any, field: Field, path: str) -> list[str]:
    if field.shape == "one":
        return unknown_fields(item, field.element, path)
    if field.shape == "list" and isinstance(item, list):
        pairs = [(f"{path}[{index}]", value) for index, value in enumerate(item)]
    elif field.shape == "map" and isinstance(item, dict):
        pairs = [(f"{path}.{key}", value) for key, value in item.items()]
    else:
        return []
    return [name for here, value in pairs for name in unknown_fields(value, field.element, here)]
