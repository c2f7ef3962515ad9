"""As much of Protocol Buffers as the kubelet's small interfaces take."""

from collections.abc import Iterable
from typing import TypeAlias

Value: TypeAlias = "int | bool | str | bytes"


def message(*fields: tuple[int, Value]) -> bytes:
    """The fields by number, in order; what is empty may be left out."""
    return b"".join(_field(number, value) for number, value in fields)


def mapping(number: int, values: dict[str, str]) -> list[tuple[int, Value]]:
    return [(number, message((1, key), (2, value))) for key, value in values.items()]


def read(data: bytes) -> dict[int, list[bytes | int]]:
    """All values by number; a text or message is bytes."""
    found: dict[int, list[bytes | int]] = {}
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        value: bytes | int
        if tag & 7 == 0:
            value, at = _varint(data, at)
        else:
            assert tag & 7 == 2, "no other kinds are used here"
            size, at = _varint(data, at)
            value, at = data[at : at + size], at + size
        found.setdefault(tag >> 3, []).append(value)
    return found


def texts(values: Iterable[bytes | int]) -> list[str]:
    return [value.decode() for value in values if isinstance(value, bytes)]


def _field(number: int, value: Value) -> bytes:
    if isinstance(value, int):
        return _number(number << 3) + _number(int(value))
    data = value.encode() if isinstance(value, str) else value
    return _number(number << 3 | 2) + _number(len(data)) + data


def _number(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte, at = data[at], at + 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
