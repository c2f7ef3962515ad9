"""Runs a command in namespaces of its own, with a network and file systems that go with it.

Processes, mounts and network devices end with the namespaces, whatever ends them. Cgroups and the
folder of the logs do not: a second process waits for the end of this one, killed or not, and
removes them.
"""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from cgroups import new_name
from machine import INSIDE

HERE = Path(__file__).resolve().parent
_NAMESPACES = ("--mount", "--pid", "--net", "--fork", "--kill-child", "--mount-proc")


def run(command: Sequence[str], logs: Path) -> int:
    """Run to the end; returns the exit status. The logs stay if it is not 0."""
    name = new_name(os.environ.get(INSIDE))
    with _removed_afterwards(name, logs) as remover, _ending(_start(name, command)) as process:
        status = process.wait()
        if status:
            os.write(remover, b"keep")
        return status


def _start(name: str, command: Sequence[str]) -> subprocess.Popen[bytes]:
    env = {**os.environ, INSIDE: name}
    within = [sys.executable, str(HERE / "machine.py"), *command]
    with_parent = [sys.executable, str(HERE / "with_parent.py"), str(os.getpid())]
    return subprocess.Popen([*with_parent, "unshare", *_NAMESPACES, "--", *within], env=env)


@contextlib.contextmanager
def _ending(process: subprocess.Popen[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    # A Ctrl-C reaches everything in the terminal: the tests end by themselves, and we wait.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@contextlib.contextmanager
def _removed_afterwards(name: str, logs: Path) -> Iterator[int]:
    """Starts what removes the rest once the pipe ends, as it does when this process is killed."""
    read_end, write_end = os.pipe()
    remover = subprocess.Popen(
        [sys.executable, str(HERE / "cgroups.py"), name, str(logs)],
        stdin=read_end,
        start_new_session=True,
    )
    os.close(read_end)
    try:
        yield write_end
    finally:
        os.close(write_end)
        remover.wait()
