"""The file of a decision log: a line that names the format, then frames.

A frame is a length, a checksum and compressed data. The checksum goes on from that of the frame
before, in the same file and in the one before it, so that a frame that is missing, repeated or
changed is found. It protects against accidents and edits, not against an author who computes it.
The first frame of a file is its header; each other one has many records, with a length each.
"""

import os
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

import msgspec

from fairlead.model.errors import FairleadError

MAGIC = b"fairlead decision log 1\n"
SUFFIX = ".decisions"

#: What a decoder raises for bytes that it cannot read.
UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)

_FRAME = struct.Struct(">II")
_LENGTH = struct.Struct(">I")
# No frame is longer, neither in the file nor after it is decompressed: a file is not trusted.
_LONGEST = 64 << 20


class LogProblem(FairleadError):
    """A decision log that cannot be read, in one sentence."""


class LogHeader(msgspec.Struct, frozen=True):
    """What a replay needs to know before the first event."""

    #: The version of Fairlead that wrote it.
    version: str
    #: Files of one run are replayed one after the other.
    run: str = ""
    number: int = 1
    #: The last checksum of the file before.
    previous: int = 0
    #: When the run began, in UTC.
    began: str = ""
    #: The text of the configuration file; empty if there was none.
    config: str = ""
    scheduler_name: str | None = None
    profile: str | None = None
    #: Names of the plugins, by scheduler name.
    profiles: dict[str, list[str]] = {}  # msgspec copies it
    reserves: bool = False
    keeps_records: bool = False
    #: Binds carry the epoch of a leader.
    elects: bool = False
    #: Names were replaced.
    anonymised: bool = False


def with_length(record: bytes) -> bytes:
    return _LENGTH.pack(len(record)) + record


def packed_frame(data: bytes, previous: int) -> tuple[bytes, int]:
    """The frame, and its checksum."""
    packed = zlib.compress(data, 1)
    checksum = zlib.crc32(packed, previous)
    return _FRAME.pack(len(packed), checksum) + packed, checksum


class RecordPlace(NamedTuple):
    """Where a record is."""

    file: Path
    #: Of its frame.
    offset: int
    #: Counted in the whole log.
    number: int


class LogReader:
    """Reads the files of one run, in their order, record by record."""

    def __init__(self, files: list[Path]) -> None:
        if not files:
            raise LogProblem("there is no decision log to read")
        found = [(self._header_of(file), file) for file in files]
        found.sort(key=lambda each: each[0].number)
        self._files = [file for _, file in found]
        self.header = found[0][0]
        self._check_order([header for header, _ in found])

    def _check_order(self, headers: list[LogHeader]) -> None:
        for expected, (header, file) in enumerate(zip(headers, self._files, strict=True), start=1):
            if header.run != self.header.run:
                raise LogProblem(f"{file} is of another run than {self._files[0]}")
            if header.number != expected:
                raise LogProblem(
                    f"{file} is part {header.number} of its log, and part {expected} is missing; "
                    "a replay begins with part 1"
                )

    def _header_of(self, file: Path) -> LogHeader:
        with _open(file) as stream:
            data, _ = _next(stream, file, None) or (b"", 0)
        try:
            return msgspec.msgpack.decode(data, type=LogHeader)
        except UNREADABLE as error:
            raise LogProblem(f"{file}: the header cannot be read: {error}") from error

    def __iter__(self) -> Iterator[tuple[RecordPlace, bytes]]:
        number, previous = 0, 0
        for file in self._files:
            with _open(file) as stream:
                found = _Frames(stream, file, previous)
                for offset, data in found:
                    for record in _records(data, file, offset):
                        number += 1
                        yield RecordPlace(file, offset, number), record
            previous = found.checksum


def _open(file: Path) -> BinaryIO:
    try:
        stream = file.open("rb")
    except OSError as error:
        raise LogProblem(f"{file} cannot be read: {error.strerror}") from error
    if stream.read(len(MAGIC)) != MAGIC:
        stream.close()
        raise LogProblem(f"{file} is not a decision log of this format")
    return stream


class _Frames:
    """Offset and data of each frame after the header."""

    def __init__(self, stream: BinaryIO, file: Path, previous: int) -> None:
        self._stream = stream
        self._file = file
        header = _next(stream, file, previous)
        self.checksum = header[1] if header else previous

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        while True:
            offset = self._stream.tell()
            found = _next(self._stream, self._file, self.checksum)
            if found is None:
                return
            data, self.checksum = found
            yield offset, data


def _next(stream: BinaryIO, file: Path, previous: int | None) -> tuple[bytes, int] | None:
    """The next frame, and its checksum. `previous` None: it is not checked yet."""
    offset = stream.tell()
    head = stream.read(_FRAME.size)
    if not head:
        return None
    if len(head) < _FRAME.size:
        raise LogProblem(f"{file} is cut off at offset {offset}")
    length, checksum = _FRAME.unpack(head)
    if length > _LONGEST:
        raise LogProblem(f"{file} is damaged at offset {offset}: a frame of {length} bytes")
    packed = stream.read(length)
    if len(packed) < length:
        raise LogProblem(f"{file} is cut off at offset {offset}")
    if previous is not None and zlib.crc32(packed, previous) != checksum:
        raise LogProblem(
            f"{file} is damaged at offset {offset}: the checksum does not match; "
            "a frame was changed, left out or repeated"
        )
    return _unpacked(packed, file, offset), checksum


def _unpacked(packed: bytes, file: Path, offset: int) -> bytes:
    opened = zlib.decompressobj()
    try:
        data = opened.decompress(packed, _LONGEST)
    except zlib.error as error:
        raise LogProblem(f"{file} is damaged at offset {offset}: {error}") from error
    if opened.unconsumed_tail or not opened.eof:
        raise LogProblem(f"{file} is damaged at offset {offset}: the frame is too long")
    return data


def _records(data: bytes, file: Path, offset: int) -> Iterator[bytes]:
    at = 0
    while at < len(data):
        end = at + _LENGTH.size
        length = _LENGTH.unpack(data[at:end])[0] if end <= len(data) else len(data)
        if end + length > len(data):
            raise LogProblem(f"{file} is damaged at offset {offset}: a record is cut off")
        yield data[end : end + length]
        at = end + length


def files_in(paths: list[Path]) -> list[Path]:
    """The files themselves, and those of the newest run in each directory that is named."""
    found: list[Path] = []
    for path in paths:
        found += _newest_run(path) if path.is_dir() else [path]
    return found


def _newest_run(directory: Path) -> list[Path]:
    files = sorted(directory.glob(f"*{SUFFIX}"))
    if not files:
        raise LogProblem(f"{directory} has no decision log")
    run = _run_of(files[-1])
    return [file for file in files if _run_of(file) == run]


def _run_of(file: Path) -> str:
    """A file is named by its run and its number."""
    return file.name.removesuffix(SUFFIX).rpartition("-")[0]


def create_file(directory: Path, run: str, number: int) -> BinaryIO:
    """A new file that only its owner can read; never one that is there already."""
    path = directory / f"{run}-{number:05}{SUFFIX}"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    return os.fdopen(descriptor, "wb", buffering=0)
