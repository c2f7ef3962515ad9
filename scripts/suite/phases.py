"""A phase: one command, its lines shown as they come, its time and CPU measured.

Whatever a phase starts ends with it: processes that lose their parent come to this process, which
ends them. So Ctrl-C, a failed worker or a killed test leaves none behind.
"""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

#: For fixtures to stop what they started, after an interrupt.
GRACE_S = 30.0
_SET_CHILD_SUBREAPER = 36
#: Python keeps what it has compiled even if the user's environment says not to: else each worker
#: and each process that a test starts compiles all of it again.
COMPILED_ONCE = {"PYTHONDONTWRITEBYTECODE": ""}
#: pytest's status when there was nothing to run.
NOTHING = 5


@dataclass(frozen=True, slots=True)
class Result:
    """How a phase ended; `status` is that of its command."""

    name: str
    status: int
    wall_s: float
    cpu_s: float
    #: Its last line: pytest's closing line, for tests.
    closing: str = ""

    @property
    def ok(self) -> bool:
        return self.status in (0, NOTHING)

    def __str__(self) -> str:
        ended = {0: "ok", NOTHING: "nothing to run"}.get(self.status, f"failed ({self.status})")
        minutes = f"{self.wall_s / 60:.1f} min, CPU {self.cpu_s / 60:.1f} min"
        return f"phase {self.name}: {minutes}, {ended}"


class Phase:
    """A command that may run beside others; `say` is given each of its lines."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        env: Mapping[str, str] | None = None,
        say: Callable[[str], None] = print,
    ) -> None:
        self.name = name
        self._say = say
        self._closing = ""
        self._began = time.monotonic()
        self._process = subprocess.Popen(
            command,
            env={**os.environ, **COMPILED_ONCE, **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        self._result: Result | None = None
        self._reader = threading.Thread(target=self._show, daemon=True)
        self._reader.start()
        _running[self._process.pid] = self

    def wait(self) -> Result:
        """Its result, once it has ended."""
        while self._result is None:
            _await_one()
        return self._result

    def interrupt(self) -> None:
        if self._result is None:
            _signal(self._process.pid, signal.SIGINT)

    def ended(self, status: int, cpu_s: float) -> None:
        """Called once, with what the kernel says of its process."""
        self._process.returncode = os.waitstatus_to_exitcode(status)
        wall_s = time.monotonic() - self._began
        self._reader.join(timeout=5)  # a process that it left may still hold the pipe
        self._result = Result(self.name, self._process.returncode, wall_s, cpu_s, self._closing)

    def _show(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            text = line.rstrip("\n")
            self._say(text)
            if text.strip():
                self._closing = text


#: By process.
_running: dict[int, Phase] = {}


def _await_one() -> None:
    """Wait for any child: a phase, or a process that lost its parent and came to this one."""
    # It must be waited for at once: a test may look whether it is gone.
    pid = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT).si_pid
    # The kernel counts what its own children used, too, if it waited for them.
    _, status, used = os.wait4(pid, 0)
    if phase := _running.pop(pid, None):
        phase.ended(status, used.ru_utime + used.ru_stime)


@contextlib.contextmanager
def leaving_nothing() -> Iterator[None]:
    """What was started inside is gone afterwards, however it ends."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1)
    before = set(_descendants())
    try:
        yield
    finally:
        _end(lambda: [pid for pid in _descendants() if pid not in before])


def _end(left: Callable[[], list[int]]) -> None:
    until = time.monotonic() + GRACE_S
    for pid in left():
        _signal(pid, signal.SIGTERM)
    while left() and time.monotonic() < until:
        _reap()
        time.sleep(0.05)
    for pid in left():
        _signal(pid, signal.SIGKILL)
    _reap()


def _signal(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def _reap() -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _descendants() -> list[int]:
    """All processes below this one that still run."""
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            state, parent = (folder / "stat").read_text().rpartition(")")[2].split()[:2]
            if state != "Z":
                children.setdefault(int(parent), []).append(int(folder.name))
    found, looked = [], [os.getpid()]
    while looked:
        below = children.get(looked.pop(), [])
        found += below
        looked += below
    return found
