"""Whose a process is: `/proc` names its command, and by its cgroup the pod that it runs in."""

import contextlib
import re
from pathlib import Path

from fairlead.model.lazy_dataclass import dataclass

PROC = Path("/proc")
#: kubepods/burstable/pod<uid>/…, kubepods-pod<uid with underscores>.slice/…, and whatever lies
#: around them. Static pods go by a hash of their manifest.
_POD = re.compile(
    r"[/-]pod([0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}|[0-9a-f]{32})(?:\.slice)?(?:[/:]|$)"
)
_LONGEST = 1 << 16
#: The kernel's own number of the first process namespace, the same on every machine.
_HOST = "pid:[4026531836]"


@dataclass(frozen=True, slots=True)
class Owner:
    """The command as the kernel cuts it to 15 letters, and the pods that it runs in.

    There are several uids where a cluster runs inside a pod, the outermost first. A container that
    may make control groups can choose the inner ones, but never the outermost.
    """

    command: str
    pod_uids: tuple[str, ...] = ()


def sees_the_host(proc: Path) -> bool:
    """Whether process ids there are those that the driver speaks of.

    In a container with process ids of its own they belong to other processes, or to none. Who names
    another folder is believed.
    """
    try:
        return proc != PROC or str((proc / "self/ns/pid").readlink()) == _HOST
    except OSError:
        return True


def owner_of(pid: int, proc: Path = PROC) -> Owner | None:
    """None for a process that cannot be seen from here, or has ended."""
    folder = proc / str(pid)
    try:
        groups = _read(folder / "cgroup")
        command = _read(folder / "comm").strip()
    except OSError:
        return None
    return Owner("".join(c if c.isprintable() else "?" for c in command), pod_uids(groups))


def is_running(pid: int, proc: Path = PROC) -> bool:
    """Whether it is there, and does not only wait for its parent to take note of its end."""
    try:
        return _read(proc / str(pid) / "stat").rpartition(")")[2].split()[0] not in ("Z", "X")
    except (OSError, IndexError):
        return False


def started_ticks(pid: int, proc: Path = PROC) -> int:
    """When a process started, in the kernel's own unit; 0 if it is gone."""
    try:
        # The name may contain anything, and is the only part in parentheses.
        return int(_read(proc / str(pid) / "stat").rpartition(")")[2].split()[19])
    except (OSError, IndexError, ValueError):
        return 0


def pod_uids(groups: str) -> tuple[str, ...]:
    """The uids in the lines of a `cgroup` file of version 1 or 2, the outermost first."""
    for line in groups.splitlines():
        if found := _POD.findall(line.partition(":")[2].partition(":")[2]):
            return tuple(str(uid).replace("_", "-") for uid in found)
    return ()


def pods_running(proc: Path = PROC) -> set[str]:
    """The uids of all pods that have a process on this machine, on a GPU or not."""
    found: set[str] = set()
    for pid in all_pids(proc):
        with contextlib.suppress(OSError):  # it has just ended
            found.update(pod_uids(_read(proc / str(pid) / "cgroup")))
    return found


def all_pids(proc: Path = PROC) -> list[int]:
    return [int(folder.name) for folder in proc.iterdir() if folder.name.isdigit()]


def _read(path: Path) -> str:
    with path.open("rb") as file:
        return file.read(_LONGEST).decode(errors="replace")
