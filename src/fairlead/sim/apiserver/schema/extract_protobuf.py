"""Writes protobuf.yaml from the .proto files of k8s.io/api and k8s.io/apimachinery.

    python -m fairlead.sim.apiserver.schema.extract_protobuf FOLDER... > protobuf.yaml

One line a message: `1=name:string 2=+core.v1.VolumeSource`; `+` marks a struct whose fields
stand, in JSON, beside those of the message that holds it.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from fairlead.sim.apiserver.schema.types import fields_of, type_names

_PACKAGE = re.compile(r"^package ([\w.]+);", re.MULTILINE)
_MESSAGE = re.compile(r"^message (\w+) \{(.*?)^\}", re.MULTILINE | re.DOTALL)
_FIELD = re.compile(
    r"^  (?:optional |repeated |(?=map))(map<string, ?[\w.]+>|[\w.]+) (\w+) = (\d+);", re.MULTILINE
)
_WELL_KNOWN = {
    "api.resource.Quantity": "quantity", "util.intstr.IntOrString": "intstr",
    "meta.v1.Time": "time", "meta.v1.MicroTime": "microtime", "runtime.RawExtension": "raw",
    "meta.v1.FieldsV1": "raw",
}  # fmt: skip
_SCALARS = frozenset({"string", "bool", "int32", "int64", "bytes", "double"})


def _short(package: str) -> str:
    name = package.removeprefix("k8s.io.api.").removeprefix("k8s.io.apimachinery.pkg.")
    return name.removeprefix("apis.")


def _messages(folder: Path) -> Iterator[tuple[str, str, str]]:
    """(package, name, body) of every message."""
    for path in sorted(folder.rglob("generated.proto")):
        text = path.read_text(encoding="utf-8")
        package = _PACKAGE.search(text)
        if package:
            for match in _MESSAGE.finditer(text):
                yield _short(package[1]), match[1], match[2]


def _type(shown: str, package: str) -> str:
    if shown.startswith("map<"):
        return "{" + _type(shown.partition(",")[2].strip(" >"), package) + "}"
    if shown in _SCALARS:
        return shown
    name = _short(shown.lstrip("."))
    name = name if "." in name else f"{package}.{name}"
    return _WELL_KNOWN.get(name, name)


def _line(package: str, name: str, body: str) -> str:
    known = fields_of(f"{package}.{name}")
    parts = []
    for match in _FIELD.finditer(body):
        type_ = _type(match[1], package)
        if match[0].startswith("  repeated"):
            type_ = f"[{type_}]"
        # A few messages write `Webhooks` where JSON has `webhooks`.
        by_case = {field.lower(): field for field in known or ()}
        shown = by_case.get(match[2].lower(), match[2])
        is_message = "." in type_ and type_[0] not in "[{"
        inline = is_message and (known is not None and shown not in known)
        parts.append(f"{match[3]}=+{type_}" if inline else f"{match[3]}={shown}:{type_}")
    return " ".join(parts)


def main() -> None:
    lines = {}
    for folder in sys.argv[1:]:
        for package, name, body in _messages(Path(folder)):
            lines[f"{package}.{name}"] = _line(package, name, body)
    wanted, found = list(type_names()), set()
    while wanted:
        name = wanted.pop()
        if name in lines and name not in found:
            found.add(name)
            wanted += re.findall(r"[\w.]+\.[A-Z]\w+", lines[name])
    print("# Field numbers of the served kinds, from the .proto files of Kubernetes (Apache-2.0);")
    print("# written by extract_protobuf.py, which explains the notation.")
    for name in sorted(found):
        print(f'{name}: "{lines[name]}"')


if __name__ == "__main__":
    main()
