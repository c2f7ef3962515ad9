"""containerd on the test's machine: its configuration, its start, its images."""

import json
import subprocess
import time
from pathlib import Path
from typing import Self

from fairlead.sim.controlplane import ChildProcess
from fairlead.sim.controlplane.process import wait_until
from images import PAUSE

SOCKET = Path("/run/containerd/containerd.sock")
_CNI = Path("/etc/cni/net.d")
_START_TIMEOUT_S = 60.0

#: restrict_oom_score_adj: without CAP_SYS_RESOURCE no sandbox would start. `nvidia` stands for
#: NVIDIA's container runtime, which the agent's DaemonSet names.
_CONFIG = """
version = 3
[plugins.'io.containerd.cri.v1.images'.pinned_images]
sandbox = '{pause}'
[plugins.'io.containerd.cri.v1.runtime']
restrict_oom_score_adj = true
[plugins.'io.containerd.cri.v1.runtime'.cni]
bin_dirs = ['{programs}']
conf_dir = '{cni}'
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
runtime_type = 'io.containerd.runc.v2'
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
BinaryName = '{programs}/runc'
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.nvidia]
runtime_type = 'io.containerd.runc.v2'
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.nvidia.options]
BinaryName = '{programs}/runc'
"""
_NETWORK = {
    "cniVersion": "1.0.0",
    "name": "pods",
    "plugins": [
        {
            "type": "bridge",
            "bridge": "pods0",
            "isGateway": True,
            "hairpinMode": True,
            "ipam": {
                "type": "host-local",
                "ranges": [[{"subnet": "10.244.0.0/24"}]],
                "routes": [{"dst": "0.0.0.0/0"}],
            },
        }
    ],
}


class Runtime:
    """A running containerd. Containers outlive it, as on every node."""

    def __init__(self, programs: Path, logs: Path) -> None:
        self._programs, self._logs = programs, logs
        _CNI.mkdir(parents=True, exist_ok=True)
        (_CNI / "10-pods.conflist").write_text(json.dumps(_NETWORK))
        config = Path("/etc/containerd/config.toml")
        config.parent.mkdir(exist_ok=True)
        config.write_text(_CONFIG.format(pause=PAUSE, programs=programs, cni=_CNI))

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.process.stop()

    def start(self) -> None:
        """Start it, also again; returns when it serves."""
        # The shim is looked for on PATH, and beside containerd: the link, not what it points to.
        command = [
            "/usr/bin/env",
            f"PATH={self._programs}:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin",
            str(self._programs / "containerd"),
        ]
        self.process = ChildProcess("containerd", command, self._logs / "containerd.log")
        wait_until(self._serves, self.process, "starting", _START_TIMEOUT_S)

    def load(self, archive: Path, *names: str) -> float:
        """Make the images of a docker-archive known to pods; how many seconds it took."""
        began = time.monotonic()
        self._ctr("images", "import", "--local", "--no-unpack=false", str(archive))
        return time.monotonic() - began

    def _serves(self) -> bool:
        return self._try("version").returncode == 0

    def _ctr(self, *arguments: str) -> str:
        done = self._try(*arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def _try(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        command = [str(self._programs / "ctr"), "-n", "k8s.io", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False)
