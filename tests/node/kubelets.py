"""A real kubelet: its configuration and its start."""

import http.client
from pathlib import Path
from typing import Self

import yaml

import cgroups
from fairlead.sim.controlplane import ChildProcess, ControlPlane
from fairlead.sim.controlplane.process import wait_until
from machine import NODE_ADDRESS, SCRATCH
from runtime import SOCKET

_START_TIMEOUT_S = 60.0
_HEALTH_PORT = 10248
_STATIC_PODS = Path("/etc/kubernetes/manifests")


class Kubelet:
    """The kubelet of the one node. Pods outlive it, as on every node."""

    def __init__(self, plane: ControlPlane, programs: Path, name: str, cgroup: str) -> None:
        self.name = name
        self._logs = plane.logs
        kubeconfig = plane.kubeconfig_for(f"system:node:{name}", ("system:nodes",))
        _STATIC_PODS.mkdir(parents=True, exist_ok=True)
        config = SCRATCH / "kubelet.yaml"
        config.write_text(
            yaml.safe_dump(_configuration(plane.ca_file, cgroup, plane.logs.resolve()))
        )
        self._command = [
            str(programs / "kubelet"),
            f"--config={config}",
            f"--kubeconfig={kubeconfig}",
            f"--hostname-override={name}",
            f"--node-ip={NODE_ADDRESS}",
        ]

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.process.stop()

    def start(self) -> None:
        """Start it, also again; returns when it is healthy."""
        self.process = ChildProcess("kubelet", self._command, self._logs / "kubelet.log")
        wait_until(_healthy, self.process, "starting", _START_TIMEOUT_S)


def _configuration(authority: Path, cgroup: str, logs: Path) -> dict[str, object]:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "containerRuntimeEndpoint": f"unix://{SOCKET}",
        "staticPodPath": str(_STATIC_PODS),
        "podLogsDir": str(logs / "pods"),
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(authority)},
        },
        "authorization": {"mode": "Webhook"},
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{cgroup}",
        "failCgroupV1": False,
        "failSwapOn": False,
        "makeIPTablesUtilChains": False,
        # By default in parts of the disk, which is the host's.
        "evictionHard": {"memory.available": "100Mi", "nodefs.available": "10Mi"},
        "imageGCHighThresholdPercent": 100,
        "healthzPort": _HEALTH_PORT,
        # Tests wait for what a kubelet reports.
        "nodeStatusUpdateFrequency": "1s",
        "syncFrequency": "5s",
        "fileCheckFrequency": "1s",
        "shutdownGracePeriod": "0s",
        "serializeImagePulls": False,
        "enableControllerAttachDetach": False,
        **({} if cgroups.unified() else {"cgroupsPerQOS": True}),
    }


def _healthy() -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", _HEALTH_PORT, timeout=5)
    try:
        connection.request("GET", "/healthz")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()
