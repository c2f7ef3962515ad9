"""The state of a driver: in this process, or in a file that outlives it."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from fairlead.sim.nvml.machine import FakeMachine

_decode = msgspec.json.Decoder(FakeMachine).decode
_encode = msgspec.json.Encoder().encode


class MemoryStore:
    """For one program, which may simulate its own restart."""

    def __init__(self, machine: FakeMachine) -> None:
        self.machine = machine

    @contextmanager
    def open(self) -> Iterator[FakeMachine]:
        yield self.machine


class FileStore:
    """For several programs at once: opening it locks it."""

    def __init__(self, path: Path, machine: FakeMachine | None = None) -> None:
        self._path = path
        if machine is not None:
            path.write_bytes(_encode(machine))

    @contextmanager
    def open(self) -> Iterator[FakeMachine]:
        with self._path.open("r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            before = file.read()
            machine = _decode(before)
            try:
                yield machine
            finally:
                after = _encode(machine)
                if after != before:
                    file.seek(0)
                    file.write(after)
                    file.truncate()


MachineStore = MemoryStore | FileStore
