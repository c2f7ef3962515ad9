"""The record of service classes as bytes, to be kept across restarts.

What cannot be read is refused as a whole.
"""

import struct

from fairlead.engine.sealed_dumps import SEAL_BYTES, reading, unsealed, with_seal
from fairlead.engine.service_record import MOST_HOURS, MOST_MISSED, ServiceRecord
from fairlead.model.service_classes import MOST_CLASSES

_MAGIC = b"fairlead service classes 1\n"
#: How many classes follow; the length of a name and how many hours follow; an hour and its counts.
_COUNT, _CLASS, _HOUR = struct.Struct("<H"), struct.Struct("<BH"), struct.Struct("<III")
_DIGEST = 8
_LONGEST_NAME = 63
_MOST = 2**32 - 1
LARGEST_DUMP = (
    len(_MAGIC)
    + _COUNT.size
    + MOST_CLASSES * (_CLASS.size + _LONGEST_NAME + MOST_HOURS * _HOUR.size)
    + _COUNT.size
    + MOST_MISSED * _DIGEST
    + SEAL_BYTES
)


def dump(record: ServiceRecord) -> bytes:
    """At most `LARGEST_DUMP` bytes."""
    parts = [_MAGIC, _COUNT.pack(len(record.hours))]
    for name, hours in record.hours.items():
        word = name.encode()[:_LONGEST_NAME]
        parts += [_CLASS.pack(len(word), len(hours)), word]
        parts += [
            _HOUR.pack(number, min(each.met, _MOST), min(each.missed, _MOST))
            for number, each in hours.items()
        ]
    parts += [_COUNT.pack(len(record.missed)), *record.missed]
    return with_seal(parts)


def load(data: bytes) -> ServiceRecord:
    """Raises ValueError if the bytes are not those of a dump."""
    body = unsealed(data, _MAGIC, LARGEST_DUMP)
    with reading():
        return _read(body)


def _read(body: bytes) -> ServiceRecord:
    record, at = ServiceRecord(), len(_MAGIC)
    (classes,) = _COUNT.unpack_from(body, at)
    at += _COUNT.size
    for _ in range(min(classes, MOST_CLASSES)):
        at = _read_class(record, body, at)
    (missed,) = _COUNT.unpack_from(body, at)
    at += _COUNT.size
    if missed > MOST_MISSED or len(body) != at + missed * _DIGEST:
        raise ValueError("it ends too early")
    for number in range(missed):
        record.miss(body[at + number * _DIGEST : at + (number + 1) * _DIGEST])
    return record


def _read_class(record: ServiceRecord, body: bytes, at: int) -> int:
    length, hours = _CLASS.unpack_from(body, at)
    at += _CLASS.size
    name, at = body[at : at + length].decode(), at + length
    if hours > MOST_HOURS:
        raise ValueError("a class has too many hours")
    for _ in range(hours):
        number, met, missed = _HOUR.unpack_from(body, at)
        at += _HOUR.size
        hour = record.hour(name, number)
        if hour is not None:
            hour.met, hour.missed = met, missed
    return at
