"""Writes types.yaml from the OpenAPI v2 document of a Kubernetes release.

    python -m fairlead.sim.apiserver.schema.extract swagger.json > types.yaml

Only names and shapes of fields are taken, no descriptions: what validation, patches and
`kubectl explain` need. One line a type; `types.py` explains the notation.
"""

import json
import sys
from pathlib import Path
from typing import Any

from fairlead.sim.apiserver.kinds import BUILT_IN

_PREFIXES = (
    ("io.k8s.api.", ""),
    ("io.k8s.apimachinery.pkg.apis.", ""),
    ("io.k8s.apiextensions-apiserver.pkg.apis.", ""),
)
_SCALARS = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": "quantity",
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": "intstr",
    "io.k8s.apimachinery.pkg.apis.meta.v1.Time": "time",
    "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime": "microtime",
    "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1": "any",
    "io.k8s.apimachinery.pkg.runtime.RawExtension": "any",
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSON": "any",
}
_EXTRA_ROOTS = (
    "io.k8s.api.autoscaling.v1.Scale",
    "io.k8s.api.core.v1.Binding",
    "io.k8s.api.policy.v1.Eviction",
    "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions",
)


def short(name: str) -> str:
    """`io.k8s.api.core.v1.Pod` as `core.v1.Pod`."""
    for prefix, replacement in _PREFIXES:
        if name.startswith(prefix):
            return replacement + name.removeprefix(prefix)
    return name


def extract(swagger: dict[str, Any]) -> dict[str, str]:
    """One line for every type that a served kind reaches."""
    definitions = swagger["definitions"]
    waiting, lines = _roots(definitions), {}
    while waiting:
        name = waiting.pop()
        if short(name) in lines or name in _SCALARS or _is_any(name):
            continue
        lines[short(name)] = _line(definitions[name])
        waiting += _references(definitions[name])
    return dict(sorted(lines.items()))


def _roots(definitions: dict[str, Any]) -> list[str]:
    served = {(kind.group, kind.version, kind.kind) for kind in BUILT_IN}
    roots = [name for name in _EXTRA_ROOTS if name in definitions]
    for name, definition in definitions.items():
        described = definition.get("x-kubernetes-group-version-kind", [])
        if any((each["group"], each["version"], each["kind"]) in served for each in described):
            roots.append(name)
    return roots


def _references(node: Any) -> list[str]:
    if isinstance(node, list):
        return [name for item in node for name in _references(item)]
    if not isinstance(node, dict):
        return []
    own = [node["$ref"].rpartition("/")[2]] if isinstance(node.get("$ref"), str) else []
    return own + [name for value in node.values() for name in _references(value)]


def _line(definition: dict[str, Any]) -> str:
    required = set(definition.get("required", []))
    fields = sorted(definition.get("properties", {}).items())
    return " ".join(_field(name, spec, name in required) for name, spec in fields)


def _field(name: str, spec: dict[str, Any], required: bool) -> str:
    strategy = spec.get("x-kubernetes-patch-strategy", "")
    text = f"{name}{'!' if required else ''}:{_type(spec)}"
    if "merge" in strategy:
        text += "@" + spec.get("x-kubernetes-patch-merge-key", "")
    if "retainKeys" in strategy:
        text += "~"
    if spec.get("x-kubernetes-list-type") == "map":
        text += "#" + ",".join(spec["x-kubernetes-list-map-keys"])
    if spec.get("x-kubernetes-list-type") == "set":
        text += "#"
    return text


def _type(spec: dict[str, Any]) -> str:
    if "$ref" in spec:
        return _named(spec["$ref"].rpartition("/")[2])
    kind = spec.get("type", "any")
    if kind == "array":
        return f"[{_type(spec['items'])}]"
    if kind == "object" and "additionalProperties" in spec:
        return f"{{{_type(spec['additionalProperties'])}}}"
    short_names = {"string": "str", "integer": "int", "number": "num", "boolean": "bool"}
    if spec.get("format") == "byte":
        return "bytes"
    return short_names.get(kind, "any")


def _is_any(name: str) -> bool:
    return name.rpartition(".")[2].startswith(("JSONSchemaPropsOr", "CustomResourceSubresourceSt"))


def _named(name: str) -> str:
    return _SCALARS.get(name) or ("any" if _is_any(name) else short(name))


def main() -> None:
    swagger = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    print("# Fields of the served kinds, from the OpenAPI document of Kubernetes (Apache-2.0),")
    print(f"# {swagger['info']['version']}; written by extract.py, notation in types.py.")
    for name, line in extract(swagger).items():
        print(f'{name}: "{line}"')


if __name__ == "__main__":
    main()
