"""A claim as protobuf: what is not changed is returned to the API server byte for byte.

In JSON the API server shows parameters of drivers without spaces, and then refuses them as changed.
Only the few fields that are needed are read here; the rest is copied.
"""

from collections.abc import Iterator

from fairlead.model.claims import ResourceClaim
from fairlead.model.lazy_dataclass import dataclass

PROTOBUF = "application/vnd.kubernetes.protobuf"

_MAGIC = b"k8s\x00"
#: Numbers of fields: of the envelope, of a claim, and of its metadata.
_RAW, _METADATA = 2, 1
_UID, _RESOURCE_VERSION, _FINALIZERS = 5, 6, 14
_VARINT, _EIGHT, _BYTES, _FOUR = 0, 1, 2, 5
_LENGTHS = {_EIGHT: 8, _FOUR: 4}


@dataclass(frozen=True, slots=True)
class _Field:
    number: int
    #: Where it begins and ends, and where its value begins.
    start: int
    value: int
    end: int


def with_finalizer(body: bytes, claim: ResourceClaim, finalizer: str) -> bytes | None:
    """The claim of the reply with one finalizer more; None if it has another version.

    Raises ValueError if it cannot be read.
    """
    if not body.startswith(_MAGIC):
        raise ValueError("it is not protobuf of Kubernetes")
    envelope = body[len(_MAGIC) :]
    raw = _value(envelope, _RAW)
    metadata = _value(raw, _METADATA)
    seen = (_value(metadata, _UID), _value(metadata, _RESOURCE_VERSION))
    if seen != (claim.uid.encode(), claim.version.encode()):
        return None
    longer = metadata + _encoded(_FINALIZERS, finalizer.encode())
    return _MAGIC + _with(envelope, _RAW, _with(raw, _METADATA, longer))


def _with(data: bytes, number: int, value: bytes) -> bytes:
    field = _field(data, number)
    return data[: field.start] + _encoded(number, value) + data[field.end :]


def _value(data: bytes, number: int) -> bytes:
    field = _field(data, number)
    return data[field.value : field.end]


def _field(data: bytes, number: int) -> _Field:
    found = next((each for each in _fields(data) if each.number == number), None)
    if found is None:
        raise ValueError(f"it has no field {number}")
    return found


def _fields(data: bytes) -> Iterator[_Field]:
    at = 0
    while at < len(data):
        start = at
        key, at = _varint(data, at)
        kind, value = key & 7, at
        if kind == _VARINT:
            _, at = _varint(data, at)
        elif kind == _BYTES:
            length, value = _varint(data, at)
            at = value + length
        elif kind in _LENGTHS:
            at += _LENGTHS[kind]
        else:
            raise ValueError(f"there is no wire type {kind}")
        if at > len(data):
            raise ValueError("it is cut off")
        yield _Field(key >> 3, start, value, at)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    found = shift = 0
    while at < len(data) and shift < 64:
        byte = data[at]
        found |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return found, at
    raise ValueError("it is cut off")


def _encoded(number: int, value: bytes) -> bytes:
    return _as_varint(number << 3 | _BYTES) + _as_varint(len(value)) + value


def _as_varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)
