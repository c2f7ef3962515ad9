"""Decision logs that were changed by an author who computes the checksums again.

A replay ends in one sentence, in a difference or, where the change makes none, in neither.
"""

import struct
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random

import msgspec
import pytest
from test_decision_log import Logged, busy, reader

from examples import so_many
from fairlead.apps.decision_log.anonymise import anonymise
from fairlead.apps.decision_log.frames import MAGIC, LogProblem, packed_frame, with_length
from fairlead.apps.decision_log.replay import replay

CASES = so_many(40, few=5)
#: Of the story that is logged.
ROUNDS = so_many(3, few=1)
_FRAME, _LENGTH = struct.Struct(">II"), struct.Struct(">I")

Records = list[bytes]
Change = Callable[[Records, Random], Records]


def read(data: bytes) -> tuple[bytes, Records]:
    """The header and all records, as they are written."""
    at, frames = len(MAGIC), []
    while at < len(data):
        length, _ = _FRAME.unpack_from(data, at)
        at += _FRAME.size
        frames.append(zlib.decompress(data[at : at + length]))
        at += length
    header, *others = frames
    joined, found, at = b"".join(others), [], 0
    while at < len(joined):
        (length,) = _LENGTH.unpack_from(joined, at)
        found.append(joined[at + _LENGTH.size : at + _LENGTH.size + length])
        at += _LENGTH.size + length
    return header, found


def written(header: bytes, found: Records) -> bytes:
    """With checksums that are right."""
    first, checksum = packed_frame(header, 0)
    second, _ = packed_frame(b"".join(map(with_length, found)), checksum)
    return MAGIC + first + second


def left_out(found: Records, rng: Random) -> Records:
    at = rng.randrange(len(found))
    return [*found[:at], *found[at + 1 :]]


def repeated(found: Records, rng: Random) -> Records:
    at = rng.randrange(len(found))
    return [*found[:at], found[at], *found[at:]]


def swapped(found: Records, rng: Random) -> Records:
    one, other = rng.randrange(len(found)), rng.randrange(len(found))
    found = list(found)
    found[one], found[other] = found[other], found[one]
    return found


def edited(found: Records, rng: Random) -> Records:
    at = rng.randrange(len(found))
    record = bytearray(found[at])
    record[rng.randrange(len(record))] = rng.randrange(256)
    return [*found[:at], bytes(record), *found[at + 1 :]]


@pytest.mark.parametrize("change", [left_out, repeated, swapped, edited])
def test_a_log_that_was_tampered_with_is_a_difference_or_one_sentence(
    tmp_path: Path, change: Change
) -> None:
    world = Logged(tmp_path)
    busy(world, ROUNDS)
    world.log.close(10)
    (file,) = tmp_path.iterdir()
    header, found = read(file.read_bytes())
    noticed = 0
    for case in range(CASES):
        changed = change(found, Random(case))
        file.write_bytes(written(header, changed))
        noticed += outcome(tmp_path) != "same"
        if case % so_many(4, few=CASES) == 0:  # it is slow
            with suppress(LogProblem):
                anonymise(reader(tmp_path), tmp_path.parent / f"{change.__name__}-{case}.copy")
    assert noticed > so_many(10, few=0)


def outcome(folder: Path) -> str:
    try:
        report = replay(reader(folder))
    except LogProblem:
        return "problem"
    return "same" if report.difference is None else "difference"


def test_a_log_that_was_written_again_is_the_same(tmp_path: Path) -> None:
    world = Logged(tmp_path)
    busy(world)
    world.log.close(10)
    (file,) = tmp_path.iterdir()
    file.write_bytes(written(*read(file.read_bytes())))
    assert outcome(tmp_path) == "same"


@pytest.mark.parametrize("header", [b"", b"\xc1", msgspec.msgpack.encode({"version": 7})])
def test_a_header_that_was_tampered_with_is_one_sentence(tmp_path: Path, header: bytes) -> None:
    world = Logged(tmp_path)
    world.log.close(10)
    (file,) = tmp_path.iterdir()
    _, found = read(file.read_bytes())
    file.write_bytes(written(header, found))
    assert outcome(tmp_path) == "problem"
