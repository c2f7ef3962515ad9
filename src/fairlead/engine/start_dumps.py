"""The record of start forecasts as bytes, to be kept across restarts.

Times of forecasts that are not judged yet are those of day. What cannot be read is refused as a
whole.
"""

import struct

from fairlead.engine.run_record import LARGEST, MOST_TIMES, WIDEST
from fairlead.engine.sealed_dumps import SEAL_BYTES, reading, unsealed, with_seal
from fairlead.engine.start_record import CLASSES, MOST_OPEN, OpenForecast, StartRecord

_MAGIC = b"fairlead start forecasts 1\n"
#: A class and how many ratios follow; how many forecasts are open; a unit, a class, its forecast.
_CLASS, _COUNT, _OPEN = struct.Struct("<3dB"), struct.Struct("<H"), struct.Struct("<8sB4d?")
LARGEST_DUMP = (
    len(_MAGIC)
    + len(CLASSES) * (_CLASS.size + 4 * MOST_TIMES)
    + _COUNT.size
    + MOST_OPEN * len(CLASSES) * _OPEN.size
    + SEAL_BYTES
)


def dump(record: StartRecord, wall_offset_s: float) -> bytes:
    """At most `LARGEST_DUMP` bytes. The offset is the time of day minus the engine's."""
    parts = [_MAGIC]
    for kind in CLASSES:
        each = record.classes[kind]
        parts.append(_CLASS.pack(each.judged, each.held, each.width, len(each)))
        parts.append(struct.pack(f"<{len(each)}f", *each.times))
    waiting = [
        (digest, CLASSES.index(kind), forecast)
        for digest, forecasts in record.open()
        for kind, forecast in forecasts.items()
    ]
    parts.append(_COUNT.pack(len(waiting)))
    for digest, kind_number, forecast in waiting:
        times = (at_s + wall_offset_s for at_s in _times(forecast))
        parts.append(_OPEN.pack(digest, kind_number, *times, forecast.missed))
    return with_seal(parts)


def load(data: bytes, wall_offset_s: float = 0.0) -> StartRecord:
    """Raises ValueError if the bytes are not those of a dump."""
    body = unsealed(data, _MAGIC, LARGEST_DUMP)
    with reading():
        return _read(memoryview(body), wall_offset_s)


def _times(forecast: OpenForecast) -> tuple[float, float, float, float]:
    return forecast.made_s, forecast.earliest_s, forecast.expected_s, forecast.latest_s


def _read(body: memoryview, wall_offset_s: float) -> StartRecord:
    record, at = StartRecord(), len(_MAGIC)
    for kind in CLASSES:
        judged, held, width, count = _CLASS.unpack_from(body, at)
        at += _CLASS.size
        ratios: tuple[float, ...] = struct.unpack_from(f"<{count}f", body, at)
        at += 4 * count
        sound = count <= MOST_TIMES and width <= WIDEST
        _check((judged, held, width, *ratios), at_least_s=0.0, sound=sound)
        each = record.classes[kind]
        each.judged, each.held, each.width = judged, held, width
        for ratio in ratios:
            each.add(ratio)
    (count,) = _COUNT.unpack_from(body, at)
    at += _COUNT.size
    for _ in range(count):
        digest, number, *times, missed = _OPEN.unpack_from(body, at)
        at += _OPEN.size
        _check(times, at_least_s=-LARGEST, sound=number < len(CLASSES))
        made_s, earliest_s, expected_s, latest_s = (at_s - wall_offset_s for at_s in times)
        forecast = OpenForecast(made_s, earliest_s, expected_s, latest_s, missed)
        record.reopen(digest, CLASSES[number], forecast)
    return record


def _check(numbers: tuple[float, ...] | list[float], *, at_least_s: float, sound: bool) -> None:
    if not sound or not all(at_least_s <= each <= LARGEST for each in numbers):
        raise ValueError("a record is not sound")
