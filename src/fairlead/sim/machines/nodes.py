"""A machine as the Node object that its kubelet, device plugin and feature discovery register."""

from collections.abc import Mapping
from typing import Any

from fairlead.base.node_inventory import KEY, write
from fairlead.model.nodes import GPU
from fairlead.sim.machines import Machine, inventory

Object = dict[str, Any]

READY = ("Ready", "True", "KubeletReady", "kubelet is posting ready status")
_CONDITIONS = (
    ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory"),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID"),
    READY,
)
_KUBELET = "v1.36.4"
#: What the system keeps for itself.
_RESERVED_CPUS = 1
_RESERVED_GIB = 8


def node_object(machine: Machine, now: str) -> Object:
    """A Ready node without taints; `now` is when it says it became so."""
    listed = {KEY: write(inventory(machine))} if machine.driver != "example" else {}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": machine.name,
            "labels": labels(machine),
            "annotations": listed,
        },
        "spec": {},
        "status": {
            "capacity": _resources(machine),
            "allocatable": _resources(machine, _RESERVED_CPUS, _RESERVED_GIB),
            "conditions": [condition(*each, now=now) for each in _CONDITIONS],
            "addresses": [
                {"type": "InternalIP", "address": address(machine)},
                {"type": "Hostname", "address": machine.name},
            ],
            "nodeInfo": _node_info(machine),
            "phase": "Running",
        },
    }


def labels(machine: Machine) -> Mapping[str, str]:
    """What the kubelet and GPU feature discovery would put there."""
    shape = machine.shape
    return {
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        "kubernetes.io/hostname": machine.name,
        "node.kubernetes.io/instance-type": shape.kind,
        "topology.kubernetes.io/region": "region-1",
        "topology.kubernetes.io/zone": machine.zone,
        "nvidia.com/gpu.present": "true",
        # Labels may hold no spaces: feature discovery writes dashes.
        "nvidia.com/gpu.product": shape.gpu.model.replace(" ", "-"),
        "nvidia.com/gpu.family": shape.gpu.family,
        "nvidia.com/gpu.memory": str(shape.gpu.memory_mib),
        "nvidia.com/gpu.count": str(shape.gpus),
        "nvidia.com/gpu.replicas": "1",
        "nvidia.com/mig.capable": "true" if shape.gpu.mig else "false",
    }


def condition(kind: str, status: str, reason: str, message: str, *, now: str) -> Object:
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastHeartbeatTime": now,
        "lastTransitionTime": now,
    }


def address(machine: Machine) -> str:
    high, low = divmod(machine.number, 250)
    return f"10.0.{high}.{low + 1}"


def _resources(machine: Machine, less_cpus: int = 0, less_gib: int = 0) -> dict[str, str]:
    shape = machine.shape
    counted = {GPU: str(shape.gpus)} if machine.driver == "plugin" else {}
    return {
        "cpu": str(shape.cpus - less_cpus),
        "memory": f"{shape.memory_gib - less_gib}Gi",
        "ephemeral-storage": "3500Gi",
        "pods": "110",
        **counted,
    }


def _node_info(machine: Machine) -> dict[str, str]:
    return {
        "architecture": "amd64",
        "operatingSystem": "linux",
        "osImage": "Simulated GPU node",
        "kernelVersion": "6.8.0",
        "containerRuntimeVersion": "containerd://2.1.4",
        "kubeletVersion": _KUBELET,
        "kubeProxyVersion": "",
        "machineID": machine.name,
        "systemUUID": machine.name,
        "bootID": machine.name,
    }
