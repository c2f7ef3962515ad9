"""The first process in the namespaces: makes them a machine for one node, and runs the command.

    python tests/node/machine.py COMMAND…      # only in namespaces of its own: see enclosure.py

What a kubelet and a container runtime write anywhere on a host lies in memory here.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import cgroups

#: In the environment: the name of the run's cgroup.
INSIDE = "FAIRLEAD_NODE_CGROUP"
NODE_ADDRESS = "192.168.77.1"
#: Of the Service `kubernetes`: there is no kube-proxy, so the machine has this address itself.
SERVICE_ADDRESS = "10.96.0.1"
#: In memory, for everything that is not to outlast the run.
SCRATCH = Path("/run/fairlead")
#: A kubelet sets these for the whole host where they differ. It finds them here as it needs them.
_SYSCTLS = {
    "vm/overcommit_memory": "1",
    "vm/panic_on_oom": "0",
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
    "kernel/keys/root_maxkeys": "1000000",
    "kernel/keys/root_maxbytes": "25000000",
}
_OVERLAID = ("/etc", "/opt")


def prepare(cgroup: str) -> None:
    """File systems, network and cgroups of a node."""
    _mount("--make-rprivate", "/")
    for folder in ("/run", "/var/lib"):
        _mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", folder)
    for folder in _OVERLAID:
        _overlay(folder)
    for key, value in _SYSCTLS.items():
        _pretend(key, value)
    _network()
    cgroups.create(cgroup)
    # Volumes that a kubelet mounts must reach containers.
    _mount("--make-rshared", "/")


def run(command: Sequence[str]) -> int:
    """Run it as the only child that counts, and reap the orphans of all others."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    home = SCRATCH / "home"
    home.mkdir()
    env = {**os.environ, "HOME": str(home), "TMPDIR": str(SCRATCH)}
    child = subprocess.Popen(command, env=env)
    while True:
        pid, status = os.wait()
        if pid == child.pid:
            return os.waitstatus_to_exitcode(status)


def _overlay(folder: str) -> None:
    parts = {part: SCRATCH / f"{part}{folder}" for part in ("upper", "work")}
    for path in parts.values():
        path.mkdir(parents=True)
    options = f"lowerdir={folder},upperdir={parts['upper']},workdir={parts['work']}"
    _mount("-t", "overlay", "-o", options, "overlay", folder)


def _pretend(key: str, value: str) -> None:
    target = Path("/proc/sys", key)
    if target.exists():
        file = SCRATCH / "sysctl" / key
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{value}\n")
        _mount("--bind", str(file), str(target))


def _network() -> None:
    _ip("link", "set", "lo", "up")
    _ip("address", "add", f"{SERVICE_ADDRESS}/32", "dev", "lo")
    # A kubelet refuses a loopback address as that of its node.
    _ip("link", "add", "node0", "type", "bridge")
    _ip("address", "add", f"{NODE_ADDRESS}/24", "dev", "node0")
    _ip("link", "set", "node0", "up")
    _ip("route", "add", "default", "dev", "node0")


def _mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True)


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True)


if __name__ == "__main__":
    prepare(os.environ[INSIDE])
    sys.exit(run(sys.argv[1:]))
