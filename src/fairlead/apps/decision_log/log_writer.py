"""Writes decision logs to files, in a thread: a slow or full disk never holds the event loop.

What waits to be written is bounded. When it does not fit, or cannot be written, the log has a gap:
what is written so far ends there, and nothing follows before a new run begins.
"""

import queue
import threading
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

import msgspec

from fairlead.apps.decision_log.frames import MAGIC, SUFFIX, LogHeader, create_file, packed_frame
from fairlead.model.errors import ConfigError
from fairlead.model.lazy_dataclass import dataclass

#: How much is compressed and written at once, and how much may wait for that.
CHUNK_BYTES = 256 << 10
_WAITING = 64
#: Files of one run, roughly, before it has half of all the space.
_FILES = 4


@dataclass(frozen=True, slots=True)
class LogPlan:
    """Where a decision log goes, and how large it may be in all."""

    directory: Path
    most_bytes: int


class LogWriter:
    """Takes chunks from the event loop, and never lets it wait."""

    def __init__(self, plan: LogPlan) -> None:
        self._plan = plan
        self._work: queue.Queue[LogHeader | bytes | None] = queue.Queue(_WAITING)
        self._file: BinaryIO | None = None
        self._header: LogHeader | None = None
        self._file_bytes = 0
        self._checksum = 0
        #: Why nothing is written until the next run; empty while all is well.
        self.problem = ""
        #: Of the run, and of all files that this process wrote.
        self.run_bytes = 0
        self.written_bytes = 0
        self._thread = threading.Thread(target=self._run, name="decision log", daemon=True)

    @property
    def is_half_full(self) -> bool:
        """The next run should begin, so that this one stays whole."""
        return self.run_bytes > self._plan.most_bytes // 2

    def begin(self, header: LogHeader) -> None:
        """Begins a run. The first one raises ConfigError if the directory cannot be used."""
        if not self._thread.is_alive():
            self._make_directory()
            self._thread.start()
        self.problem = ""
        self.run_bytes = 0
        self.put(header)

    def _make_directory(self) -> None:
        try:
            self._plan.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(
                f"the decision log cannot be kept in {self._plan.directory}: {error.strerror}"
            ) from error

    def put(self, chunk: LogHeader | bytes) -> None:
        """Hands it over; without room for it, the run ends."""
        if self.problem:
            return
        try:
            self._work.put_nowait(chunk)
        except queue.Full:
            self.problem = "the disk is too slow"

    def close(self, wait_s: float) -> None:
        """Writes what there is, if that can be done in time."""
        if not self._thread.is_alive():
            return
        with suppress(queue.Full):
            self._work.put(None, timeout=wait_s)
        self._thread.join(wait_s)

    # -- in the thread -----------------------------------------------------------------------

    def _run(self) -> None:
        while (item := self._work.get()) is not None:
            try:
                self._write(item)
            except OSError as error:
                self.problem = f"it cannot be written: {error.strerror or error}"
                self._close_file()
        self._close_file()

    def _write(self, item: LogHeader | bytes) -> None:
        if isinstance(item, LogHeader):
            self._close_file()
            self._header, self._checksum, self.run_bytes = item, 0, 0
            self._open(item)
        elif self._file is not None and self._header is not None and not self.problem:
            if self._file_bytes > self._plan.most_bytes // (2 * _FILES):
                self._next_file(self._header)
            self._append(item)

    def _next_file(self, header: LogHeader) -> None:
        self._close_file()
        self._header = msgspec.structs.replace(
            header, number=header.number + 1, previous=self._checksum
        )
        self._open(self._header)

    def _open(self, header: LogHeader) -> None:
        self._file = create_file(self._plan.directory, header.run, header.number)
        self._file_bytes = 0
        self._put_bytes(MAGIC)
        self._append(msgspec.msgpack.encode(header))

    def _append(self, data: bytes) -> None:
        packed, checksum = packed_frame(data, self._checksum)
        if not self._make_room(len(packed)):
            self.problem = "it has reached its size while binds were under way"
            self._close_file()
            return
        self._put_bytes(packed)
        self._checksum = checksum

    def _put_bytes(self, data: bytes) -> None:
        assert self._file is not None
        written = 0
        while written < len(data):
            written += self._file.write(data[written:])
        self._file_bytes += len(data)
        self.run_bytes += len(data)
        self.written_bytes += len(data)

    def _make_room(self, more: int) -> bool:
        """Deletes the oldest files of other runs; False if that is not enough."""
        files = sorted(self._plan.directory.glob(f"*{SUFFIX}"))
        sizes = {file: file.stat().st_size for file in files}
        total = sum(sizes.values()) + more
        for file in files:
            if total <= self._plan.most_bytes:
                break
            if self._header is None or not file.name.startswith(f"{self._header.run}-"):
                file.unlink()
                total -= sizes[file]
        return total <= self._plan.most_bytes

    def _close_file(self) -> None:
        if self._file is not None:
            with suppress(OSError):
                self._file.close()
        self._file = None
