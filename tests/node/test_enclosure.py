"""A run that is killed in the middle leaves nothing behind on its machine."""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cgroups import PREFIX, ROOT
from clusters import LOGS
from fairleads import eventually

HERE = Path(__file__).parent
RUN = """
import sys, pathlib, enclosure
sys.exit(enclosure.run(sys.argv[2:], pathlib.Path(sys.argv[1])))
"""
#: Puts a process into a cgroup of the run, starts a daemon, mounts and listens, and says so.
WORK = """
for tasks in /sys/fs/cgroup/*/$FAIRLEAD_NODE_CGROUP/cgroup.procs; do
    mkdir $(dirname $tasks)/deep; done
echo $$ > $(ls -d /sys/fs/cgroup/*/$FAIRLEAD_NODE_CGROUP | head -n 1)/cgroup.procs
mkdir /var/lib/mounted && mount -t tmpfs tmpfs /var/lib/mounted
ip link add left-over type bridge
setsid sleep 987654 &
echo started > $LOGS/started
"""

Start = Callable[..., "subprocess.Popen[bytes]"]


def machine(logs: Path) -> dict[str, object]:
    """What a run could leave behind."""
    return {
        "cgroups": sorted(ROOT.glob(f"*/{PREFIX}*/deep")) + sorted(ROOT.glob(f"{PREFIX}*/deep")),
        "mounts": sorted(filter(_of_a_run, Path("/proc/self/mountinfo").read_text().splitlines())),
        "devices": "left-over" in Path("/proc/net/dev").read_text(),
        "processes": sorted(_processes()),
        "overcommit": Path("/proc/sys/vm/overcommit_memory").read_text(),
        "files": [*logs.parent.glob("*"), Path("/var/lib/mounted").exists()],
    }


def _of_a_run(mount: str) -> bool:
    """Not one of the pods of other tests."""
    place = mount.split()[4]
    return place in {"/run", "/var/lib", "/etc", "/opt", "/proc"} or "mounted" in place


def _processes() -> Iterator[str]:
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        words = b""
        with contextlib.suppress(OSError):  # it has ended
            words = path.read_bytes()
        if b"987654" in words or b"enclosure" in words:
            yield words.decode()


@pytest.fixture
def logs() -> Iterator[Path]:
    """On the disk: a run has memory of its own in place of ours."""
    with tempfile.TemporaryDirectory(dir=os.environ[LOGS]) as folder:
        yield Path(folder, "logs")


@pytest.fixture
def start(logs: Path) -> Start:
    def begin(script: str) -> "subprocess.Popen[bytes]":
        logs.mkdir()
        env = {**os.environ, "PYTHONPATH": str(HERE), "LOGS": str(logs)}
        command = [sys.executable, "-c", RUN, str(logs), "sh", "-c", script]
        return subprocess.Popen(command, env=env)

    return begin


@pytest.mark.parametrize("by", [signal.SIGKILL, signal.SIGTERM])
def test_a_killed_run_leaves_nothing(start: Start, logs: Path, by: signal.Signals) -> None:
    before = machine(logs)
    process = start(f"{WORK} exec sleep 987654")
    eventually((logs / "started").exists, what="the run has started")
    assert machine(logs) != before

    process.send_signal(by)
    process.wait()

    eventually(lambda: machine(logs) == before, what=f"{before} is all there is")


def test_a_run_that_fails_keeps_its_logs_and_nothing_else(start: Start, logs: Path) -> None:
    before = machine(logs)
    assert start(f"{WORK} exit 3").wait() == 3

    after = machine(logs)
    assert (logs / "started").exists()
    assert {key for key, value in after.items() if value != before[key]} == {"files"}
