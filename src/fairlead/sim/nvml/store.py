"""Where a driver's knowledge lies: in this process, or in a file that outlives it."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from fairlead.sim.nvml.machine import Machine

_decode = msgspec.json.Decoder(Machine).decode
_encode = msgspec.json.Encoder().encode


class Memory:
    """For one program, which may call itself dead and begin anew."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine

    @contextmanager
    def open(self) -> Iterator[Machine]:
        yield self.machine


class File:
    """For several programs at once: whoever opens it is alone with it."""

    def __init__(self, path: Path, machine: Machine | None = None) -> None:
        self._path = path
        if machine is not None:
            path.write_bytes(_encode(machine))

    @contextmanager
    def open(self) -> Iterator[Machine]:
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


Store = Memory | File
