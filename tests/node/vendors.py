"""Device plugins that follow the published contracts of NVIDIA, HAMi, Volcano, gpushare, Alnair.

How each finds the pod that it serves is in tests/e2e/device_plugins.py; here are the devices that
they announce to a kubelet, and the variables that they answer it with.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from clusters import MERGE, NODE, RealCluster
from device_plugins import Alnair, Cluster, Gpushare, Hami, Volcano
from plugin_servers import Answer, DevicePlugin
from test_device_plugins import HALF

#: As in the lists of GPUs that the nodes of test_device_plugins have.
GPUS = ("GPU-aaaa", "GPU-bbbb")
#: How many devices share one GPU in the plugins of HAMi and Volcano.
_SHARERS = 10

Given = list[tuple[str, int]]
Variables = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Vendor:
    """One system: its plugin, how it names devices, and the variables that it gives."""

    plugin: Callable[[Cluster], Any]
    devices: Sequence[str]
    variables: Callable[[Given], Variables]
    #: What it writes on its node, and the resources that are not devices of the plugin.
    annotations: Mapping[str, str]
    allocatable: Mapping[str, str]
    #: A part that fits on a GPU twice.
    half: Mapping[str, str]


def nvidia(*uuids: str) -> DevicePlugin:
    """Whole GPUs; the kubelet picks them, and the variable says which."""
    return DevicePlugin(
        "nvidia.com/gpu", uuids, lambda ids: {"NVIDIA_VISIBLE_DEVICES": ",".join(sorted(ids))}
    )


@contextmanager
def served(cluster: RealCluster, namespace: str, vendor: Vendor) -> Iterator[DevicePlugin]:
    """The node as that system leaves it, with its plugin at work."""
    with cluster.plane.connect(cluster.plugin_account()) as client:
        plugin = vendor.plugin(Cluster(client, namespace, NODE))  # type: ignore[arg-type]
        server = DevicePlugin(plugin.resource, vendor.devices, _answer(plugin, vendor.variables))
        cluster.annotate_node(vendor.annotations)
        others = {key: n for key, n in vendor.allocatable.items() if key != plugin.resource}
        _set_allocatable(cluster, others)
        try:
            with cluster.serving(server):
                yield server
        finally:
            cluster.annotate_node(dict.fromkeys(vendor.annotations))
            _set_allocatable(cluster, dict.fromkeys(others))


def _set_allocatable(cluster: RealCluster, amounts: Mapping[str, str | None]) -> None:
    body = {"status": {"capacity": dict(amounts), "allocatable": dict(amounts)}}
    path = f"/api/v1/nodes/{NODE}/status"
    status, answer = cluster.plane.api("PATCH", path, body, content_type=MERGE)
    assert status == 200, answer


def _answer(plugin: Any, variables: Callable[[Given], Variables]) -> Answer:
    """The ids do not matter: these plugins look for the pod, and give what its annotations say."""

    def answer(ids: Sequence[str]) -> Variables:
        _, given = plugin.allocate(len(ids), plugin.cluster.pods())
        return variables(given)

    return answer


def _vgpu(given: Given) -> Variables:
    limits = {f"CUDA_DEVICE_MEMORY_LIMIT_{n}": f"{mib}m" for n, (_, mib) in enumerate(given)}
    return {"NVIDIA_VISIBLE_DEVICES": ",".join(uuid for uuid, _ in given), **limits}


def _gpushare(given: Given) -> Variables:
    ((index, gib),) = given
    return {"NVIDIA_VISIBLE_DEVICES": index, "ALIYUN_COM_GPU_MEM_CONTAINER": str(gib)}


def _alnair(given: Given) -> Variables:
    ((uuid, gib),) = given
    return {"NVIDIA_VISIBLE_DEVICES": uuid, "ALNAIR_VGPU_MEMORY": str(gib)}


def _vendor(name: str, devices: Sequence[str], variables: Callable[[Given], Variables]) -> Vendor:
    plugin, node, half = HALF[name]
    texts = {key: str(value) for key, value in half.items()}
    annotations: Mapping[str, str] = node.get("annotations", {})
    return Vendor(plugin, devices, variables, annotations, node["allocatable"], texts)


_SHARED = [f"{uuid}-{n}" for uuid in GPUS for n in range(_SHARERS)]
VENDORS = {
    "hami": _vendor("hami", _SHARED, _vgpu),
    "volcano": _vendor("volcano", _SHARED, _vgpu),
    "gpushare": _vendor(
        "gpushare", [f"{uuid}-_-{n}" for uuid in GPUS for n in range(Gpushare.capacity)], _gpushare
    ),
    "alnair": _vendor(
        "alnair", [f"{uuid}_{n}" for uuid in Alnair.uuids for n in range(Alnair.capacity)], _alnair
    ),
}
assert {Hami, Volcano, Gpushare, Alnair} == {vendor.plugin for vendor in VENDORS.values()}
