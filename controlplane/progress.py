"""Runs a command while telling a waiting person that it is alive."""

import ctypes
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

#: Between two lines in a log file; a terminal's one line is rewritten every second.
LINE_EVERY_S = 15.0
#: For Go to end its compilers and clean up after an interrupt.
_GRACE_S = 5.0
_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None


def say(line: str) -> None:
    """One line for people. The standard output is kept for the answer."""
    print(line, file=sys.stderr, flush=True)


def run(label: str, command: Sequence[str], cwd: Path, env: Mapping[str, str], log: Path) -> int:
    """Run to the end with all output in `log`; returns the exit status."""
    started = time.monotonic()
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            cwd=cwd,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            preexec_fn=_die_with_parent,  # noqa: PLW1509 - there are no threads here
        )
        try:
            status = _wait(process, label, log, started)
        finally:
            _end(process)
    _show(f"{label}: {'done' if status == 0 else 'failed'}, {time.monotonic() - started:.0f} s\n")
    return status


def _wait(process: subprocess.Popen[bytes], label: str, log: Path, started: float) -> int:
    step_s = 1.0 if sys.stderr.isatty() else LINE_EVERY_S
    while True:
        try:
            return process.wait(timeout=step_s)
        except subprocess.TimeoutExpired:
            _show(f"{label}: {time.monotonic() - started:.0f} s, {_last_line(log)}")


def _end(process: subprocess.Popen[bytes]) -> None:
    # Go stops its compilers and removes its work folder on an interrupt, not on a kill.
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(timeout=_GRACE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _die_with_parent() -> None:
    # Else a Go whose builder was killed would keep the machine busy for minutes, for nothing.
    if _LIBC is not None:
        _LIBC.prctl(1, signal.SIGKILL)


def _show(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text[:100]}", end="", file=sys.stderr, flush=True)
    else:
        say(text.rstrip("\n"))


def _last_line(log: Path) -> str:
    lines = log.read_bytes()[-2000:].decode(errors="replace").splitlines()
    return lines[-1] if lines else "starting"
