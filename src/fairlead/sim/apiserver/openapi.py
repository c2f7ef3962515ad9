"""OpenAPI v2 and v3 documents, from the type table: for `kubectl explain`, validation, apply."""

import hashlib
from functools import lru_cache
from typing import Any

import msgspec

from fairlead.sim.apiserver.kinds import Kind
from fairlead.sim.apiserver.registry import KindRegistry
from fairlead.sim.apiserver.schema.types import Field, fields_of, type_of

Object = dict[str, Any]
_SCALARS: dict[str, Object] = {
    "str": {"type": "string"},
    "int": {"type": "integer", "format": "int64"},
    "num": {"type": "number", "format": "double"},
    "bool": {"type": "boolean"},
    "bytes": {"type": "string", "format": "byte"},
    "time": {"type": "string", "format": "date-time"},
    "microtime": {"type": "string", "format": "date-time"},
    "quantity": {"type": "string"},
    "intstr": {"type": "string", "format": "int-or-string"},
    "any": {"type": "object"},
}
_PREFIX = "io.k8s.api."


def index(kinds: KindRegistry) -> Object:
    """/openapi/v3: where the document of each group is."""
    paths = {}
    for group, versions in kinds.groups().items():
        for version in versions:
            name = f"apis/{group}/{version}" if group else f"api/{version}"
            digest = hashlib.sha256(_encoded(document_v3(kinds, group, version))).hexdigest()[:32]
            paths[name] = {"serverRelativeURL": f"/openapi/v3/{name}?hash={digest.upper()}"}
    return {"paths": paths}


def document_v3(kinds: KindRegistry, group: str, version: str) -> Object:
    """The schemas and paths of one group and version."""
    found = kinds.groups().get(group, {}).get(version, [])
    schemas: dict[str, Object] = {}
    paths: Object = {}
    for kind in found:
        _describe(kind, schemas, "#/components/schemas/")
        paths |= _paths(kind)
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "v1.36.4"},
        "paths": paths,
        "components": {"schemas": schemas},
    }


def document_v2(kinds: KindRegistry) -> Object:
    """Every schema in one swagger document."""
    schemas: dict[str, Object] = {}
    for kind in kinds:
        _describe(kind, schemas, "#/definitions/")
    head = {"swagger": "2.0", "info": {"title": "Kubernetes", "version": "v1.36.4"}}
    return {**head, "paths": {}, "definitions": schemas}


def _encoded(document: Object) -> bytes:
    return msgspec.json.encode(document)


def _paths(kind: Kind) -> Object:
    """Enough for kubectl to learn that fieldValidation and dryRun are understood."""
    root = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
    scope = "/namespaces/{namespace}" if kind.namespaced else ""
    gvk = {"group": kind.group, "version": kind.version, "kind": kind.kind}
    options = [
        {"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": True}}
        for name in ("dryRun", "fieldManager", "fieldValidation")
    ]
    base = {"responses": {"200": {"description": "OK"}}, "x-kubernetes-group-version-kind": gvk}
    create = {**base, "parameters": options, "x-kubernetes-action": "post"}
    change = {**base, "parameters": options, "x-kubernetes-action": "patch"}
    update = {**base, "parameters": options, "x-kubernetes-action": "put"}
    return {
        f"{root}{scope}/{kind.plural}": {"post": create},
        f"{root}{scope}/{kind.plural}/{{name}}": {"patch": change, "put": update},
    }


def _describe(kind: Kind, schemas: dict[str, Object], prefix: str) -> None:
    gvk = {"group": kind.group, "version": kind.version, "kind": kind.kind}
    if kind.custom:
        name = f"{'.'.join(reversed(kind.group.split('.')))}.{kind.version}.{kind.kind}"
        schemas[name] = {**_custom(kind, schemas, prefix), "x-kubernetes-group-version-kind": [gvk]}
        return
    type_name = type_of(kind)
    if type_name:
        _add(type_name, schemas, prefix)
        schemas[_PREFIX + type_name]["x-kubernetes-group-version-kind"] = [gvk]


def _custom(kind: Kind, schemas: dict[str, Object], prefix: str) -> Object:
    schema: Object = ((kind.custom or {}).get("schema") or {}).get("openAPIV3Schema") or {}
    _add("meta.v1.ObjectMeta", schemas, prefix)
    properties = {
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        **(schema.get("properties") or {}),
        "metadata": {"$ref": f"{prefix}{_PREFIX}meta.v1.ObjectMeta"},
    }
    return {**schema, "type": "object", "properties": properties}


def _add(type_name: str, schemas: dict[str, Object], prefix: str) -> None:
    name = _PREFIX + type_name
    if name in schemas:
        return
    fields = fields_of(type_name) or {}
    schemas[name] = {}  # named before its fields: types refer to themselves
    schema: Object = {
        "type": "object",
        "properties": {field.name: _property(field, prefix) for field in fields.values()},
    }
    needed = [field.name for field in fields.values() if field.required]
    if needed:
        schema["required"] = needed
    schemas[name] = schema
    for field in fields.values():
        if field.is_struct:
            _add(field.element, schemas, prefix)


def _property(field: Field, prefix: str) -> Object:
    if field.shape == "one":
        return _element(field, prefix)
    if field.shape == "map":
        return {"type": "object", "additionalProperties": _element(field, prefix)}
    listed: Object = {"type": "array", "items": _element(field, prefix)}
    if field.list_keys:
        listed |= {
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": list(field.list_keys),
        }
    elif field.list_keys == ():
        listed["x-kubernetes-list-type"] = "set"
    if field.merge_key is not None:
        strategy = "merge,retainKeys" if field.retains_keys else "merge"
        listed["x-kubernetes-patch-strategy"] = strategy
        if field.merge_key:
            listed["x-kubernetes-patch-merge-key"] = field.merge_key
    return listed


def _element(field: Field, prefix: str) -> Object:
    if field.element.startswith("["):
        return {"type": "array", "items": {"type": "string"}}
    if not field.is_struct:
        return dict(_SCALARS[field.element])
    reference = {"$ref": f"{prefix}{_PREFIX}{field.element}"}
    # A reference beside other keys is ignored by OpenAPI 3.0 readers; kubectl expects allOf.
    return {"allOf": [reference]} if prefix.startswith("#/components") else reference


class Documents:
    """Encoded documents, made once for each set of kinds."""

    def __init__(self, kinds: KindRegistry) -> None:
        self._kinds = kinds
        self._cached = lru_cache(maxsize=64)(self._make)

    def get(self, path: str) -> bytes | None:
        return self._cached(path, self._kinds.revision)

    def _make(self, path: str, revision: int) -> bytes | None:
        if path == "v2":
            return _encoded(document_v2(self._kinds))
        if path == "v3":
            return _encoded(index(self._kinds))
        parts = path.removeprefix("v3/").split("/")
        group, version = ("", parts[1]) if parts[0] == "api" else (parts[1], parts[2])
        if version not in self._kinds.groups().get(group, {}):
            return None
        return _encoded(document_v3(self._kinds, group, version))
