"""What Cluster Autoscaler may buy on its KWOK provider, and what it has bought."""

import json
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from fairlead.sim.controlplane import ControlPlane
from fairlead.sim.nvml import FileStore, machine_of
from fairleads import eventually, fairlead
from peer_controllers import Peers, free_port, post

Json = dict[str, Any]
GPU, MILLI, MIB = "nvidia.com/gpu", "fairlead.dev/gpu-milli", "fairlead.dev/gpu-mib"
POOL, KIND, MODEL = "example.com/pool", "example.com/kind", "example.com/accelerator"
#: Each test has a pool of its own: node groups are read once, when the autoscaler starts.
POOLS = tuple(f"pool-{n}" for n in range(24))
NOT_READY = "fairlead.dev/agent-not-ready"
_GROUP = "cluster-autoscaler.kwok.nodegroup/name"
_WHERE = "kube-system"
#: Groups of a pool: nodes without GPUs, with eight GPUs of a device plugin, and with two GPUs that
#: an agent serves.
_KINDS: Mapping[str, Json] = {
    "cpu": {},
    "gpu": {GPU: "8"},
    "agent": {MILLI: "2000", MIB: "160000"},
}


def _template(pool: str, kind: str) -> Json:
    amounts = {"cpu": "64", "memory": "512Gi", "pods": "110", **_KINDS[kind]}
    labels = {POOL: pool, KIND: kind, **({MODEL: "h100"} if kind == "gpu" else {})}
    taint = {"key": NOT_READY, "effect": "NoSchedule"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": f"{pool}-{kind}",
            "labels": {"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64", **labels},
            "annotations": {_GROUP: f"{pool}-{kind}"},
        },
        "spec": {"taints": [taint]} if kind == "agent" else {},
        "status": {"capacity": amounts, "allocatable": amounts},
    }


def _configure(plane: ControlPlane) -> None:
    config = {
        "apiVersion": "v1alpha1",
        "readNodesFrom": "configmap",
        "nodegroups": {"fromNodeLabelKey": KIND},
        "nodes": {
            "skipTaint": True,
            "gpuConfig": {"gpuLabelKey": MODEL, "availableGPUTypes": {"h100": {}}},
        },
        "configmap": {"name": "kwok-provider-templates"},
    }
    templates = [_template(pool, kind) for pool in POOLS for kind in _KINDS]
    maps = {
        "kwok-provider-config": {"config": yaml.safe_dump(config)},
        "kwok-provider-templates": {"templates": yaml.safe_dump_all(templates)},
    }
    for name, data in maps.items():
        body = {"metadata": {"name": name}, "data": data}
        post(plane, f"/api/v1/namespaces/{_WHERE}/configmaps", body)


class Autoscaler:
    """Cluster Autoscaler as it runs."""

    def __init__(self, port: int) -> None:
        self._port = port

    def scans(self) -> int:
        """How often it has looked at all pods and nodes."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._port}/metrics") as answer:
                lines = answer.read().decode().splitlines()
        except OSError:
            return 0
        name = 'cluster_autoscaler_function_duration_seconds_count{function="main"}'
        return next((int(float(line.split()[-1])) for line in lines if line.startswith(name)), 0)

    def wait_for_scans(self) -> None:
        """It has looked at what is there now: each scan buys for one node group at most."""
        before = self.scans()
        eventually(lambda: self.scans() >= before + 4, what="scans of the autoscaler")


@contextmanager
def autoscaler(plane: ControlPlane, peers: Peers) -> Iterator[Autoscaler]:
    """Until the block ends. Idle nodes are removed after seconds, not minutes."""
    _configure(plane)
    port = free_port()
    flags = [
        "--cloud-provider=kwok", f"--namespace={_WHERE}", "--leader-elect=false",
        f"--address=127.0.0.1:{port}", "--scan-interval=1s", "--write-status-configmap=false",
        "--enable-provisioning-requests=true", "--provisioning-request-initial-backoff-time=1s",
        f"--startup-taint={NOT_READY}", "--scale-down-delay-after-add=3s",
        "--scale-down-unneeded-time=4s", "--scale-down-delay-after-delete=0s",
        "--unremovable-node-recheck-timeout=1s", "--node-delete-delay-after-taint=0s",
        "--max-total-unready-percentage=100", "--v=4",
        # Two scans at once: the KWOK provider does not know yet what the first one bought.
        "--frequent-loops-enabled=false",
    ]  # fmt: skip
    env = {"KWOK_PROVIDER_MODE": "local", "POD_NAMESPACE": _WHERE}
    with peers.running(
        "cluster-autoscaler",
        lambda kubeconfig: [f"--kubeconfig={kubeconfig}", *flags],
        kubeconfig_variable=True,
        env=env,
    ):
        running = Autoscaler(port)
        eventually(lambda: running.scans() > 0, what="the first scan")
        yield running


class Purchases:
    """Nodes of a pool that were added from now on, those that are gone among them."""

    def __init__(self, plane: ControlPlane, pool: str) -> None:
        self._plane, self._pool = plane, pool
        self._since = plane.api("GET", "/api/v1/nodes")[1]["metadata"]["resourceVersion"]

    def kinds(self) -> list[str]:
        """The kind of each node that was bought."""
        query = f"watch=1&resourceVersion={self._since}&timeoutSeconds=1"
        events = map(json.loads, self._plane.text(f"/api/v1/nodes?{query}").splitlines())
        added = [each["object"] for each in events if each["type"] == "ADDED"]
        return sorted(each["metadata"]["labels"][KIND] for each in added if self._is_mine(each))

    def live(self) -> list[str]:
        found = self._plane.api("GET", "/api/v1/nodes")[1]["items"]
        return sorted(each["metadata"]["name"] for each in found if self._is_mine(each))

    def _is_mine(self, node: Json) -> bool:
        return bool(node["metadata"].get("labels", {}).get(POOL) == self._pool)


@contextmanager
def replicas(plane: ControlPlane, namespace: str, name: str, pod: Json) -> Iterator[None]:
    """One pod of a ReplicaSet: autoscalers do not evict pods that nothing creates again."""
    labels = {"app": name}
    meta = {**pod.pop("metadata", {}), "labels": labels}
    spec = {
        "replicas": 1,
        "selector": {"matchLabels": labels},
        "template": {"metadata": meta, "spec": pod},
    }
    path = f"/apis/apps/v1/namespaces/{namespace}/replicasets"
    post(plane, path, {"metadata": {"name": name}, "spec": spec})
    yield
    plane.api("DELETE", f"{path}/{name}")
    plane.api("DELETE", f"/api/v1/namespaces/{namespace}/pods?labelSelector=app%3D{name}")


def pods_of(plane: ControlPlane, namespace: str, name: str) -> Sequence[Json]:
    path = f"/api/v1/namespaces/{namespace}/pods?labelSelector=app%3D{name}"
    return list(plane.api("GET", path)[1]["items"])


def node_of(plane: ControlPlane, namespace: str, name: str) -> str:
    """Where the pod of a ReplicaSet runs; empty while it has no node."""
    placed = [each["spec"].get("nodeName", "") for each in pods_of(plane, namespace, name)]
    return placed[0] if len(placed) == 1 else ""


@contextmanager
def emptied(plane: ControlPlane, bought: Purchases) -> Iterator[Purchases]:
    """What was bought goes with the test."""
    try:
        yield bought
    finally:
        for name in bought.live():
            plane.api("DELETE", f"/api/v1/nodes/{name}")
        eventually(partial(_is_empty, bought), what="the nodes of the pool are gone")


def _is_empty(bought: Purchases) -> bool:
    return not bought.live()


@contextmanager
def agent_on(plane: ControlPlane, node: str, folder: Path) -> Iterator[None]:
    """The agent of a node with two GPUs that do not exist."""
    file, proc = folder / f"{node}.json", folder / node
    proc.mkdir()
    store = FileStore(file, machine_of(2))
    with store.open() as machine:
        for number, gpu in enumerate(machine.gpus):
            gpu.uuid = f"GPU-{node}-{number}"
    with fairlead(
        plane, "--node", node, "--address", "127.0.0.1", "--interval", "500ms", "--proc", str(proc),
        "--nvml", "fairlead.sim.nvml.shared:library", "--gpu-resources", "parts",
        program="agent", kubeconfig=plane.kubeconfig_for(), env={"FAIRLEAD_NVML_FILE": str(file)},
    ):  # fmt: skip
        yield
