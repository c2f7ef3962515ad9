"""What was learned about run times as bytes, to be kept across restarts.

Names are not in it, only hashes of them. What cannot be read is refused as a whole.
"""

import math
import struct

from fairlead.engine.run_history import MOST_KINDS, RunHistory
from fairlead.engine.run_record import LARGEST, MOST_TIMES, WIDEST, RunRecord
from fairlead.engine.sealed_dumps import SEAL_BYTES, reading, unsealed, with_seal

_MAGIC = b"fairlead run times 1\n"
#: A namespace and how many kinds follow; a kind, its record and how many values follow.
_SPACE, _KIND = struct.Struct("<8sH"), struct.Struct("<8s5dB")
#: A namespace has at least one kind.
LARGEST_DUMP = len(_MAGIC) + MOST_KINDS * (_SPACE.size + _KIND.size + MOST_TIMES * 4) + SEAL_BYTES


def dump(history: RunHistory) -> bytes:
    """At most `LARGEST_DUMP` bytes."""
    parts = [_MAGIC]
    for space, records in history.spaces():
        kinds = list(records)
        parts.append(_SPACE.pack(space, len(kinds)))
        for key, record in kinds:
            parts.append(_packed(key, record))
            parts.append(struct.pack(f"<{len(record)}f", *record.times))
    return with_seal(parts)


def load(data: bytes) -> RunHistory:
    """Raises ValueError if the bytes are not those of a dump."""
    body = unsealed(data, _MAGIC, LARGEST_DUMP)
    with reading():
        return _read(memoryview(body))


def _packed(key: bytes, record: RunRecord) -> bytes:
    numbers = (record.forecasts, record.error, record.judged, record.held, record.width)
    return _KIND.pack(key, *numbers, len(record))


def _read(body: memoryview) -> RunHistory:
    history, at = RunHistory(), len(_MAGIC)
    while at < len(body):
        space, kinds = _SPACE.unpack_from(body, at)
        at += _SPACE.size
        for _ in range(kinds):
            at = _read_kind(history, space, body, at)
    return history


def _read_kind(history: RunHistory, space: bytes, body: memoryview, at: int) -> int:
    key, *numbers, count = _KIND.unpack_from(body, at)
    at += _KIND.size
    values: tuple[float, ...] = struct.unpack_from(f"<{count}f", body, at)
    if count > MOST_TIMES or not _is_sound(numbers, values):
        raise ValueError("a record is not sound")
    record = history.record(space, key)
    record.forecasts, record.error, record.judged, record.held, record.width = numbers
    for value in values:
        record.add(value)
    return at + 4 * len(values)


def _is_sound(numbers: list[float], values: tuple[float, ...]) -> bool:
    return (
        all(0.0 <= number <= LARGEST for number in numbers)
        and all(0.0 < value < math.inf for value in values)
        and numbers[-1] <= WIDEST
    )
