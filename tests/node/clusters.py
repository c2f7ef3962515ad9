"""A cluster of real parts with one real node."""

import os
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fairlead.sim.controlplane import ControlPlane, service_account
from fairleads import eventually
from images import write_pause
from kubelets import Kubelet
from machine import INSIDE, NODE_ADDRESS, SCRATCH, SERVICE_ADDRESS
from manifests import NAMESPACE
from plugin_servers import DevicePlugin
from runtime import Runtime

#: In the environment: the folder of the programs, the archive of our image, where logs go.
PROGRAMS, IMAGE, LOGS = "FAIRLEAD_NODE_PROGRAMS", "FAIRLEAD_NODE_IMAGE", "FAIRLEAD_NODE_LOGS"
NODE = "node-1"
RBAC = "rbac.authorization.k8s.io"
MERGE = "application/merge-patch+json"

Object = dict[str, Any]


class RealCluster:
    """The parts by name, and what is asked of the cluster as its administrator."""

    def __init__(self, plane: ControlPlane, runtime: Runtime, kubelet: Kubelet) -> None:
        self.plane, self.runtime, self.kubelet = plane, runtime, kubelet

    @classmethod
    @contextmanager
    def start(cls) -> Iterator["RealCluster"]:
        """Returns when the node is Ready; everything ends with the namespaces."""
        programs, logs = Path(os.environ[PROGRAMS]), Path(os.environ[LOGS])
        folder = SCRATCH / "plane"
        folder.mkdir()
        (folder / "logs").symlink_to(logs)
        with Runtime(programs, logs) as runtime, ThreadPoolExecutor(1) as meanwhile:
            loaded = meanwhile.submit(_load_images, runtime, programs)
            with _control_plane(programs, folder) as plane:
                plane.start_controller_manager(("*",))
                plane.start_kube_scheduler()
                # Before a kubelet looks for them: it would wait long before it looked again.
                loaded.result()
                with Kubelet(plane, programs, NODE, os.environ[INSIDE]) as kubelet:
                    started = cls(plane, runtime, kubelet)
                    eventually(started.node_ready, what="the node is Ready")
                    yield started

    def node(self) -> Object:
        status, node = self.plane.api("GET", f"/api/v1/nodes/{NODE}")
        return node if status == 200 else {}

    def annotation(self, key: str) -> str:
        """Of the node."""
        return str(self.node()["metadata"].get("annotations", {}).get(key, ""))

    def remove_namespace(self, name: str) -> None:
        """Delete a namespace; returns when it is gone with all in it."""
        path = f"/api/v1/namespaces/{name}"
        self.plane.api("DELETE", path)
        eventually(lambda: self.plane.api("GET", path)[0] == 404, what=f"{name} is gone")

    def annotate_node(self, annotations: Mapping[str, str | None]) -> None:
        """Annotate the node; None removes an annotation."""
        body = {"metadata": {"annotations": dict(annotations)}}
        status, answer = self.plane.api("PATCH", f"/api/v1/nodes/{NODE}", body, content_type=MERGE)
        assert status == 200, answer

    def allocatable(self, resource: str) -> int:
        """What the kubelet says that the node has of it."""
        return int(self.node()["status"]["allocatable"].get(resource, "0"))

    @contextmanager
    def serving(self, plugin: DevicePlugin) -> Iterator[DevicePlugin]:
        """A device plugin at work on the node, which announces its devices meanwhile."""
        with plugin:
            eventually(lambda: self.allocatable(plugin.resource) == len(plugin.devices))
            yield plugin
        eventually(lambda: not self.allocatable(plugin.resource))

    def plugin_account(self) -> str:
        """The identity of a device plugin: one that may say which GPUs a pod got."""
        account = service_account("kube-system", "device-plugin")
        subject = {"kind": "User", "name": account, "apiGroup": RBAC}
        role = {"kind": "ClusterRole", "name": "cluster-admin", "apiGroup": RBAC}
        body = {"metadata": {"name": "device-plugin"}, "roleRef": role, "subjects": [subject]}
        status, answer = self.plane.api("POST", f"/apis/{RBAC}/v1/clusterrolebindings", body)
        assert status in (201, 409), answer
        return account

    def available(self, deployment: str, namespace: str = NAMESPACE) -> bool:
        """Whether all replicas of the newest template, and no others, are available."""
        path = f"/apis/apps/v1/namespaces/{namespace}/deployments/{deployment}"
        status, found = self.plane.api("GET", path)
        if (
            status != 200
            or found["status"].get("observedGeneration") != found["metadata"]["generation"]
        ):
            return False
        counts = [
            found["status"].get(key, 0)
            for key in ("replicas", "updatedReplicas", "availableReplicas")
        ]
        return counts == [found["spec"]["replicas"]] * 3

    def node_ready(self) -> bool:
        conditions = self.node().get("status", {}).get("conditions", [])
        return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def _load_images(runtime: Runtime, programs: Path) -> None:
    pause = SCRATCH / "pause.tar"
    write_pause(programs / "pause", pause)
    for archive in (pause, Path(os.environ[IMAGE])):
        runtime.load(archive)


def _control_plane(programs: Path, folder: Path) -> ControlPlane:
    return ControlPlane.start(
        programs,
        folder,
        disable_admission=(),
        # Without kube-proxy, webhooks are called at the addresses of their pods.
        apiserver_flags=("--bind-address=0.0.0.0", "--enable-aggregator-routing=true"),
        addresses=(SERVICE_ADDRESS, NODE_ADDRESS),
        port=443,
    )
