"""Decodes Kubernetes protobuf into the JSON form of the same object.

kubectl's typed commands (create namespace, drain, …) send protobuf and do not fall back to JSON,
so it is read here; answers are always JSON, which every client accepts.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cache
from importlib import resources
from typing import Any

import msgspec
import yaml

from fairlead.model.lazy_dataclass import dataclass

Object = dict[str, Any]
MEDIA_TYPE = "application/vnd.kubernetes.protobuf"
_MAGIC = b"k8s\x00"
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


class BadProtobuf(ValueError):
    """Bytes that are no Kubernetes object in protobuf."""


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    type: str
    inline: bool

    @property
    def shape(self) -> str:
        return {"[": "list", "{": "map"}.get(self.type[0], "one")

    @property
    def element(self) -> str:
        return self.type if self.shape == "one" else self.type[1:-1]


@cache
def _lines() -> dict[str, str]:
    text = resources.files(__package__).joinpath("protobuf.yaml").read_text(encoding="utf-8")
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    lines: dict[str, str] = yaml.load(text, loader)  # noqa: S506
    return lines


@cache
def _fields(message: str) -> dict[int, _Field]:
    fields = {}
    for part in _lines().get(message, "").split():
        number, _, rest = part.partition("=")
        name, _, type_ = rest.partition(":")
        inline = rest.startswith("+")
        fields[int(number)] = _Field("" if inline else name, rest[1:] if inline else type_, inline)
    return fields


def decode(body: bytes) -> tuple[Object, bytes]:
    """({apiVersion, kind}, raw message) of an enveloped object."""
    if not body.startswith(_MAGIC):
        raise BadProtobuf(
            "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]"
        )
    meta: Object = {}
    raw = b""
    for number, value in _read(memoryview(body)[4:]):
        if number == 1:
            parts = dict(_read(memoryview(value)))
            meta = {"apiVersion": _text(parts.get(1, b"")), "kind": _text(parts.get(2, b""))}
        elif number == 2:
            raw = bytes(value)
    return meta, raw


def decode_object(body: bytes, type_of: Any) -> Object:
    """The object in the body; `type_of(api_version, kind)` names its message."""
    meta, raw = decode(body)
    message = type_of(meta.get("apiVersion", ""), meta.get("kind", ""))
    if not message:
        raise BadProtobuf(f"no message is known for {meta}")
    return {**meta, **_message(memoryview(raw), message)}


def _message(data: memoryview, message: str) -> Object:
    fields = _fields(message)
    found: Object = {}
    for number, value in _read(data):
        field = fields.get(number)
        if field is None:
            continue
        if field.inline:
            found |= _message(memoryview(value), field.type)
        elif field.shape == "list":
            found.setdefault(field.name, []).append(_value(value, field.element))
        elif field.shape == "map":
            entry = dict(_read(memoryview(value)))
            key = _text(entry.get(1, b""))
            found.setdefault(field.name, {})[key] = _value(entry.get(2, b""), field.element)
        else:
            found[field.name] = _value(value, field.type)
    return found


def _value(value: Any, type_: str) -> Any:
    if type_ == "string":
        return _text(value)
    if type_ == "bool":
        return bool(value)
    if type_ in ("int32", "int64"):
        return value - (1 << 64) if value >= 1 << 63 else value
    if type_ == "bytes":
        import base64

        return base64.b64encode(bytes(value)).decode()
    return _well_known(memoryview(value), type_)


def _well_known(data: memoryview, type_: str) -> Any:
    if type_ in ("time", "microtime"):
        return _time(dict(_read(data)), type_)
    if type_ == "quantity":
        return _text(dict(_read(data)).get(1, b"0"))
    if type_ == "intstr":
        parts = dict(_read(data))
        return _text(parts.get(3, b"")) if parts.get(1) else _value(parts.get(2, 0), "int32")
    if type_ == "raw":
        raw = dict(_read(data)).get(1, b"")
        return msgspec.json.decode(bytes(raw)) if raw else None
    return _message(data, type_)


def _time(parts: dict[int, Any], type_: str) -> str | None:
    seconds, nanos = parts.get(1, 0), parts.get(2, 0)
    # An empty Time is the zero one, which JSON writes as null.
    if not parts or _value(seconds, "int64") == -62135596800:
        return None
    moment = datetime.fromtimestamp(_value(seconds, "int64"), UTC)
    if type_ == "time":
        return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
    return moment.strftime("%Y-%m-%dT%H:%M:%S") + f".{nanos // 1000:06d}Z"


def _text(value: Any) -> str:
    return bytes(value).decode()


def _read(data: memoryview) -> Iterator[tuple[int, Any]]:
    """(field number, value) of every field: an integer, or the bytes it spans."""
    position, end = 0, len(data)
    while position < end:
        tag, position = _varint(data, position)
        number, wire = tag >> 3, tag & 7
        if wire == _VARINT:
            value, position = _varint(data, position)
            yield number, value
        elif wire == _BYTES:
            size, position = _varint(data, position)
            if position + size > end:
                raise BadProtobuf("unexpected EOF")
            yield number, data[position : position + size]
            position += size
        elif wire in (_FIXED64, _FIXED32):
            position += 8 if wire == _FIXED64 else 4
        else:
            raise BadProtobuf(f"proto: illegal wireType {wire}")


def _varint(data: memoryview, position: int) -> tuple[int, int]:
    result = shift = 0
    while True:
        if position >= len(data) or shift > 63:
            raise BadProtobuf("unexpected EOF")
        byte = data[position]
        position += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return result, position
        shift += 7
