"""Reads request bodies: JSON or YAML, checked against the kind that the URL names."""

from typing import Any

import msgspec
import yaml

from fairlead.sim.apiserver.call import Call
from fairlead.sim.apiserver.eventviews import to_core
from fairlead.sim.apiserver.kinds import Kind
from fairlead.sim.apiserver.quantities import BadQuantity
from fairlead.sim.apiserver.schema import protobuf
from fairlead.sim.apiserver.schema.decoding import WrongType, conform
from fairlead.sim.apiserver.schema.types import type_named, type_of, unknown_fields
from fairlead.sim.apiserver.status import ApiStatusError, bad_request, unsupported_media
from fairlead.sim.apiserver.strategy import strategy_for

Object = dict[str, Any]
ACCEPTED = ("application/json", "application/yaml", "application/vnd.kubernetes.protobuf")
_decode = msgspec.json.Decoder().decode


def read_document(body: bytes, content_type: str) -> Any:
    """The decoded body, whatever it is."""
    media = content_type.partition(";")[0].strip() or "application/json"
    if media == "application/json" or media.endswith("+json"):
        return _read_json(body)
    if media in ("application/yaml", "application/apply-patch+yaml"):
        return _read_yaml(body)
    if media == protobuf.MEDIA_TYPE:
        return _read_protobuf(body)
    raise unsupported_media(ACCEPTED)


def _read_json(body: bytes) -> Any:
    try:
        return _decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise bad_request(
            f"the object provided is unrecognized (must be of type Object): {error}"
        ) from error


def _read_protobuf(body: bytes) -> Any:
    try:
        return protobuf.decode_object(body, type_named)
    except ValueError as error:
        raise bad_request(str(error)) from error


def _read_yaml(body: bytes) -> Any:
    if body.lstrip()[:1] in (b"{", b"["):
        return _read_json(body)
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        # Timestamps stay text: JSON has no other form for them.
        return msgspec.json.decode(msgspec.json.encode(yaml.load(body, loader)))  # noqa: S506
    except yaml.YAMLError as error:
        raise bad_request(f"error converting YAML to JSON: {error}") from error


def read_object(call: Call, body: bytes, content_type: str, kind: Kind | None = None) -> Object:
    """The object in the body, typed and defaulted as the call's kind."""
    if not body:
        raise bad_request(
            f"the object provided is unrecognized (must be of type {(kind or call.kind).kind}): "
            "couldn't get version/kind; json parse error: unexpected end of JSON input (<empty>)"
        )
    obj = read_document(body, content_type)
    if not isinstance(obj, dict):
        raise bad_request(_mismatch(call, kind or call.kind))
    return admit_type(call, obj, kind or call.kind)


def admit_type(call: Call, obj: Object, kind: Kind) -> Object:
    """The object as this kind's type holds it. Fails as the real decoder does."""
    _check_kind(obj, kind)
    type_name = type_of(kind) or ("" if kind.custom else type_named(kind.api_version, kind.kind))
    _check_fields(call, obj, kind, type_name)
    obj = typed(obj, kind, type_name)
    if not isinstance(obj.get("metadata"), dict):
        obj["metadata"] = {}
    return obj


def typed(obj: Object, kind: Kind, type_name: str = "") -> Object:
    """Only what the type knows, with the kind's defaults filled in."""
    type_name = type_name or type_of(kind)
    try:
        obj = conform(obj, type_name) if type_name else obj
        obj.setdefault("metadata", {})
        if kind.store == "events":
            obj = to_core(obj)
        strategy_for(kind).default(obj)
    except WrongType as error:
        raise bad_request(f"{_cannot(kind)}: {error}") from error
    except BadQuantity as error:
        raise bad_request(f"{_cannot(kind)}: {error}") from error
    return obj


def _cannot(kind: Kind) -> str:
    return f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}'


def _mismatch(call: Call, kind: Kind) -> str:
    wanted = f"{kind.version}.{kind.kind}"
    return f"{_cannot(kind)}: json: cannot unmarshal array into Go value of type {wanted}"


def _check_kind(obj: Object, kind: Kind) -> None:
    version, name = obj.get("apiVersion"), obj.get("kind")
    if version and version != kind.api_version:
        raise _wrong_version(version, name or kind.kind, kind)
    if name and name != kind.kind:
        raise _wrong_kind(version or "", name, kind)
    if kind.custom and not (version and name):
        raise bad_request("Object 'Kind' is missing in '" + msgspec.json.encode(obj).decode() + "'")


def _wrong_version(version: str, name: str, kind: Kind) -> ApiStatusError:
    if type_named(version, name):
        return bad_request(
            f"the API version in the data ({version}) does not match "
            f"the expected API version ({kind.api_version})"
        )
    known = f'no kind "{name}" is registered for version "{version}"'
    return bad_request(f'{_cannot(kind)}: {known} in scheme "pkg/runtime/scheme.go:111"')


def _wrong_kind(version: str, name: str, kind: Kind) -> ApiStatusError:
    group, _, short = (version or kind.api_version).rpartition("/")
    return bad_request(
        f'{name} in version "{short}" cannot be handled as a {kind.kind}: converting '
        f"({group or 'v1'}.{name}) to ({kind.group or 'core'}.{kind.kind}): unknown conversion"
    )


def _check_fields(call: Call, obj: Object, kind: Kind, type_name: str) -> None:
    level = call.query.get("fieldValidation", "Warn")
    if not type_name or level == "Ignore":
        return
    unknown = [f'unknown field "{path}"' for path in unknown_fields(obj, type_name)]
    if unknown and level == "Strict":
        raise bad_request(f"{_cannot(kind)}: strict decoding error: {', '.join(unknown)}")
    call.warnings += unknown
