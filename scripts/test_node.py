#!/usr/bin/env python3
"""The tests of tests/node: real containers on a real kubelet, on this machine.

    make test-node                  # root, Linux
    make test-node ARGS="-k shares" # arguments go to pytest

Builds the programs and the image into the cache, then runs the tests in namespaces of their own.
When a test fails, the logs of all parts are kept, and their folder is named.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path += [str(ROOT / "tests" / "node"), str(ROOT / "controlplane")]

from cgroups import remove_left_over  # noqa: E402
from enclosure import run  # noqa: E402
from parts import NODE_PARTS  # noqa: E402

_CONTROL_PLANE = ("kube-apiserver", "etcd", "kube-scheduler", "kube-controller-manager", "kubectl")
_WANTED = (*_CONTROL_PLANE, "helm", *NODE_PARTS, "runc")
_TOOLS = ("unshare", "mount", "ip")
#: Tried in a network of their own, which goes again.
_DEVICES = (
    "ip link add fairlead0 type bridge && ip link add fairlead1 type veth peer name fairlead2"
)


def main(arguments: Sequence[str]) -> int:
    if reason := _why_not():
        print(f"test-node: skipped, because {reason}.")
        return 0
    began = time.monotonic()
    programs, image = _built("build.py", *_WANTED), _built("image.py")
    if not programs or not image:
        return 1
    print(f"test-node: programs and image are there, after {time.monotonic() - began:.0f} s")
    remove_left_over()
    return _tests(programs, image, arguments)


def _why_not() -> str:
    """Why this machine cannot run a node, or nothing."""
    if sys.platform != "linux":
        return "a node needs Linux"
    if os.geteuid():
        return "a node needs root"
    if missing := [tool for tool in _TOOLS if not shutil.which(tool)]:
        return f"this machine has no {', '.join(missing)}"
    if "overlay" not in Path("/proc/filesystems").read_text() and not _works("modprobe overlay"):
        return "the kernel has no overlay file system"
    if not _works(f"unshare --mount --pid --fork --net sh -c '{_DEVICES}'"):
        return "namespaces, bridges or veth devices cannot be created here"
    if not os.access("/sys/fs/cgroup", os.W_OK):
        return "/sys/fs/cgroup cannot be written"
    return ""


def _works(command: str) -> bool:
    return subprocess.run(["sh", "-c", command], capture_output=True, check=False).returncode == 0


def _built(script: str, *arguments: str) -> str:
    command = [sys.executable, str(ROOT / "controlplane" / script), *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    return done.stdout.splitlines()[-1] if done.returncode == 0 else ""


def _tests(programs: str, image: str, arguments: Sequence[str]) -> int:
    logs = tempfile.mkdtemp(prefix="fairlead-node-")
    os.environ |= {
        "FAIRLEAD_NODE_PROGRAMS": programs,
        "FAIRLEAD_NODE_IMAGE": image,
        "FAIRLEAD_NODE_LOGS": logs,
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    pytest = [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider"]
    status = run([*pytest, str(ROOT / "tests" / "node"), *arguments], Path(logs))
    if status:
        print(f"test-node: the logs are in {logs}")
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
