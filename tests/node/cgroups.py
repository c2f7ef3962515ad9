"""The cgroups of one run, below a name of its own in each hierarchy of the host.

python tests/node/cgroups.py NAME     # waits for the end of its input, then removes them
"""

import contextlib
import os
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
PREFIX = "fairlead-node-"
#: A killed process leaves its cgroup a moment later.
_TIMEOUT_S, _PAUSE_S = 20.0, 0.1


def new_name(within: str | None) -> str:
    """For a run of this process, which may be in another run."""
    if within:
        return f"{within}-{os.getpid()}"
    return f"{PREFIX}{os.getpid()}-{_started(os.getpid())}"


def create(name: str) -> None:
    """A cgroup of that name for a kubelet to work in."""
    for hierarchy in _hierarchies():
        folder = hierarchy / name
        folder.mkdir()
        if (hierarchy / "cpuset.cpus").exists() and not unified():
            for file in ("cpuset.cpus", "cpuset.mems"):  # new ones are empty, and admit no process
                (folder / file).write_text((hierarchy / file).read_text())


def remove(name: str) -> None:
    """Remove all cgroups of that run, and of runs in it, once their processes have ended."""
    deadline = time.monotonic() + _TIMEOUT_S
    while folders := list(_existing(name)):
        for folder in folders:
            with contextlib.suppress(OSError):
                folder.rmdir()
        if time.monotonic() > deadline:
            print(f"test-node: these cgroups stay: {folders}", file=sys.stderr)
            return
        time.sleep(_PAUSE_S)


def remove_left_over() -> None:
    """Those of runs that ended without removing theirs. Not for a process in a namespace."""
    names = {path.name for hierarchy in _hierarchies() for path in hierarchy.glob(f"{PREFIX}*")}
    for name in names:
        pid, started, *_ = name.removeprefix(PREFIX).split("-")
        if _started(int(pid)) != started:
            remove(name)


def unified() -> bool:
    """Whether the host has cgroup v2 alone."""
    return (ROOT / "cgroup.controllers").exists()


def _hierarchies() -> Iterator[Path]:
    if unified():
        yield ROOT
        return
    # Hybrid hosts have a hierarchy of v2 beside those of v1: runc puts containers there, too.
    yield from (each for each in ROOT.iterdir() if each.is_dir() and not each.is_symlink())


def _existing(name: str) -> Iterator[Path]:
    """The deepest first."""
    for hierarchy in _hierarchies():
        for top in hierarchy.glob(f"{name}*"):
            for folder, _, _ in os.walk(top, topdown=False):
                yield Path(folder)


def _started(pid: int) -> str:
    """When that process was started, by the kernel's clock: ids are used again."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    return stat.rpartition(")")[2].split()[19]


if __name__ == "__main__":
    said = sys.stdin.read()
    remove(sys.argv[1])
    if said != "keep":
        shutil.rmtree(sys.argv[2])
