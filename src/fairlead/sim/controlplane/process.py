"""One child process: started with a log of its own, measured, paused, and never left behind."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Self

from fairlead.model.errors import FairleadError

#: Asks the kernel to kill the program when its parent dies, then becomes it. A program of its own
#: rather than a preexec_fn, which may deadlock in a process that has threads. The parent may have
#: died before the kernel was asked: hence the look at getppid.
_BECOME = """
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGKILL)
if os.getppid() != int(sys.argv[1]): sys.exit("the parent is gone")
os.execv(sys.argv[2], sys.argv[2:])
"""

#: The kernel means the parent *thread*: a thread that starts a process and ends would kill it.
_lasting_thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="process-starter")

_POLL_S = 0.05


class ControlPlaneError(FairleadError):
    """A part of the control plane did not start or answer; the message says where its log is."""


class ChildProcess:
    """A running program. It dies with this Python process, even if that is killed (on Linux)."""

    def __init__(self, name: str, command: Sequence[str], log: Path) -> None:
        self.name = name
        self.command = tuple(command)
        self.log = log
        self._paused = False
        self._child = _spawn(self.command, log)

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def alive(self) -> bool:
        return self._child.poll() is None

    def cpu_seconds(self) -> float:
        """User and system time used so far, all threads together."""
        # The name in parentheses may hold spaces; the fields after it do not.
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def rss_bytes(self) -> int:
        """Memory resident now."""
        return self._status_kib("VmRSS") * 1024

    def peak_rss_bytes(self) -> int:
        """The most memory that was ever resident."""
        return self._status_kib("VmHWM") * 1024

    def pause(self) -> None:
        """Freeze it: its connections stay open and nothing answers. Returns when all is still."""
        self._paused = True
        self._child.send_signal(signal.SIGSTOP)
        # Its threads stop one by one. WNOWAIT leaves an exit status for others to read.
        os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def resume(self) -> None:
        """Let it go on after `pause`."""
        self._paused = False
        self._child.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """End it at once, as a crash would; returns when it is gone."""
        self._child.kill()
        self._child.wait()

    def stop(self, grace_s: float = 5.0) -> None:
        """Ask it to end, and kill it after `grace_s`; returns when it is gone."""
        if not self.alive:
            return
        self._child.terminate()
        if self._paused:
            self.resume()  # a stopped process does not hear that it should end
        try:
            self._child.wait(timeout=grace_s)
        except subprocess.TimeoutExpired:
            self.kill()

    def died(self, doing: str) -> ControlPlaneError:
        """The error to raise when it ended or kept silent while `doing` something."""
        ended = self._child.poll()
        what = "did not finish" if ended is None else f"exited with {ended}"
        tail = "\n".join(f"    {line}" for line in self.log_tail())
        return ControlPlaneError(f"{self.name} {what} {doing}. The end of {self.log}:\n{tail}")

    def log_tail(self, lines: int = 15) -> list[str]:
        return self.log.read_text(errors="replace").splitlines()[-lines:]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _status_kib(self, field: str) -> int:
        text = Path(f"/proc/{self.pid}/status").read_text()
        match = re.search(rf"^{field}:\s+(\d+) kB", text, re.MULTILINE)
        if match is None:
            raise ControlPlaneError(f"{self.name} has ended: read its memory before stopping it.")
        return int(match[1])


def wait_until(
    ready: Callable[[], bool], process: ChildProcess, doing: str, timeout_s: float
) -> None:
    """Poll until `ready()`; raises with the end of the log if the process ends or time is up."""
    deadline = time.monotonic() + timeout_s
    while not ready():
        if not process.alive or time.monotonic() > deadline:
            raise process.died(doing)
        time.sleep(_POLL_S)


def _spawn(command: tuple[str, ...], log: Path) -> subprocess.Popen[bytes]:
    if threading.current_thread() is threading.main_thread():
        return _popen(command, log)
    return _lasting_thread.submit(_popen, command, log).result()


def _popen(command: tuple[str, ...], log: Path) -> subprocess.Popen[bytes]:
    if sys.platform == "linux":
        command = (sys.executable, "-I", "-S", "-c", _BECOME, str(os.getpid()), *command)
    # A session of its own: Ctrl-C reaches us only, and we stop it in order.
    with log.open("ab") as output:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
