"""The program `fairlead`, started by a fork of a process that has loaded it already.

To load it takes a second of CPU time, and the tests start it some hundred times. Each start is a
process of its own all the same, with arguments, environment, signals and exit status as of the
file in `bin`. Tests of how the program loads start that file.
"""

import atexit
import ctypes
import functools
import gc
import importlib
import json
import os
import pkgutil
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

FAIRLEAD = Path(sys.executable).with_name("fairlead")
#: What none of the programs loads that are started here.
_LEFT_OUT = ("fairlead.sim", "fairlead.testing", "fairlead.apps.up", "fairlead.apps.simulate")
_NUMBER = struct.Struct("i")
_START_TIMEOUT_S = 180.0


class Program:
    """One that was started: what tests use of `subprocess.Popen`."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        stdout: IO[bytes],
        stderr: IO[bytes],
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> None:
        self.args = command
        self.returncode: int | None = None
        asked = {
            "arguments": [str(word) for word in command],
            "environment": dict(os.environ if env is None else env),
            "folder": str(cwd or Path.cwd()),
        }
        self._watcher = socket.socket(socket.AF_UNIX)
        self._watcher.connect(_server())
        files = [stdout.fileno(), stderr.fileno()]
        socket.send_fds(self._watcher, [f"{json.dumps(asked)}\n".encode()], files)
        self.pid = self._told()

    def poll(self) -> int | None:
        with suppress(subprocess.TimeoutExpired):
            self.wait(0.0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Its exit status, or the number of the signal that ended it, negative."""
        if self.returncode is None:
            self._watcher.settimeout(timeout)
            try:
                self.returncode = self._told()
            except (TimeoutError, BlockingIOError):
                raise subprocess.TimeoutExpired(self.args, timeout or 0.0) from None
            self._watcher.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _told(self) -> int:
        said = self._watcher.recv(_NUMBER.size)
        assert said, f"nothing watches {self.args} any more"
        return int(_NUMBER.unpack(said)[0])


def run(
    command: Sequence[str],
    *,
    check: bool = False,
    timeout: float | None = None,
    **options: Any,
) -> subprocess.CompletedProcess[str]:
    """As `subprocess.run` with `capture_output` and `text`."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        program = Program(command, stdout=out, stderr=err, **options)
        try:
            status = program.wait(timeout)
        finally:
            program.kill()
            program.wait()
        done = subprocess.CompletedProcess(command, status, _text(out), _text(err))
    if check:
        done.check_returncode()
    return done


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode()


@functools.cache
def _server() -> str:
    """Where the process listens that has loaded everything; it ends with this one."""
    from fairlead.sim.controlplane.process import ChildProcess, wait_until

    folder = Path(tempfile.mkdtemp(prefix="fairlead-"))
    atexit.register(shutil.rmtree, folder)
    address = folder / "preloaded.sock"
    command = [sys.executable, __file__, str(address)]
    process = ChildProcess("the preloaded program", command, folder / "log")
    atexit.register(process.stop)
    wait_until(address.exists, process, "starting", _START_TIMEOUT_S)
    return str(address)


# What follows runs in that process.


def _load() -> None:
    from fairlead.apps.quick_start import load_aiohttp, load_structlog

    signal.signal(signal.SIGINT, signal.SIG_DFL)  # as at the first step of the program
    load_structlog()
    load_aiohttp()
    for name in _modules():
        importlib.import_module(name)
    gc.freeze()


def _modules() -> Iterator[str]:
    import fairlead

    for module in pkgutil.walk_packages(fairlead.__path__, "fairlead."):
        if not module.name.startswith(_LEFT_OUT):
            yield module.name


def _serve(address: Path) -> None:
    """Returns in each process that is started, and nowhere else."""
    with socket.socket(socket.AF_UNIX) as listener:
        new = address.with_suffix(".new")
        listener.bind(str(new))
        listener.listen()
        new.rename(address)
        while True:
            connection, _ = listener.accept()
            with connection:
                if os.fork() == 0:
                    listener.close()
                    return _watch(connection)
            _reap()


def _reap() -> None:
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _watch(connection: socket.socket) -> None:
    """Returns in the program; its parent tells how it ended, and ends with it."""
    _end_with_parent()
    line, files, _, _ = socket.recv_fds(connection, 1 << 16, 2)
    while not line.endswith(b"\n"):
        line += connection.recv(1 << 16)
    program = os.fork()
    if program == 0:
        _end_with_parent()
        connection.close()
        return _become(files, **json.loads(line))
    connection.sendall(_NUMBER.pack(program))
    _, status = os.waitpid(program, 0)
    connection.sendall(_NUMBER.pack(os.waitstatus_to_exitcode(status)))
    os._exit(0)


def _end_with_parent() -> None:
    """So that nothing outlives tests that are killed (on Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def _become(
    files: list[int], arguments: list[str], environment: dict[str, str], folder: str
) -> None:
    for number, file in enumerate(files, start=1):
        os.dup2(file, number)
        os.close(file)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    sys.argv = arguments
    more = environment.get("PYTHONPATH", "")
    sys.path[:1] = [str(FAIRLEAD.parent), *filter(None, more.split(os.pathsep))]


if __name__ == "__main__":
    _load()
    _serve(Path(sys.argv[1]))
    from fairlead.apps.entry import main

    sys.exit(main())
