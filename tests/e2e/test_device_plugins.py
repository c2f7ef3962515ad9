"""Pods of every dialect on a real API server, with a stand-in for its device plugin."""

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from device_plugins import Alnair, Cluster, Gpushare, Hami, Kubelet, Plugin, Volcano
from fairlead.sim.controlplane import ControlPlane
from fairleads import Pods, Running, eventually

pytestmark = pytest.mark.server

A, B = "GPU-aaaa", "GPU-bbbb"
HAMI = json.dumps([
    {"id": uuid, "index": n, "count": 10, "devmem": 16000, "devcore": 100, "type": "NVIDIA-V100",
     "numa": 0, "mode": "hami-core", "health": True}
    for n, uuid in enumerate((A, B))
])  # fmt: skip
VOLCANO = f"{A},10,16000,NVIDIA-V100,true,hami-core:{B},10,16000,NVIDIA-V100,true,hami-core:"

HAMI_NODE = {
    "annotations": {"hami.io/node-nvidia-register": HAMI},
    "allocatable": {"nvidia.com/gpu": "20"},
}
VOLCANO_NODE = {
    "annotations": {"volcano.sh/node-vgpu-register": VOLCANO},
    "allocatable": {
        "volcano.sh/vgpu-number": "20", "volcano.sh/vgpu-memory": "32000",
        "volcano.sh/vgpu-cores": "200",
    },
}  # fmt: skip
GPUSHARE_NODE = {"allocatable": {"aliyun.com/gpu-mem": "32", "aliyun.com/gpu-count": "2"}}
ALNAIR_NODE = {
    "annotations": {
        "ai.centaurus.io/physical-gpu-count": "2",
        "ai.centaurus.io/physical-gpu-uuids": ",".join(Alnair.uuids),
        "ai.centaurus.io/vitual-gpu-count": "16,16",
    },
    "allocatable": {"alnair/vgpu-memory": "32", "alnair/vgpu-compute": "200"},
}
#: A part that fits on a GPU twice, on a node with two GPUs; a fifth would fit on no GPU alone.
HALF = {
    "hami": (Hami, HAMI_NODE, {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 6000}),
    "volcano": (
        Volcano, VOLCANO_NODE, {"volcano.sh/vgpu-number": 1, "volcano.sh/vgpu-memory": 6000},
    ),
    "gpushare": (Gpushare, GPUSHARE_NODE, {"aliyun.com/gpu-mem": 6}),
    "alnair": (Alnair, ALNAIR_NODE, {"alnair/vgpu-memory": 6, "alnair/vgpu-compute": 20}),
}  # fmt: skip


@pytest.fixture
def kubelet(control_plane: ControlPlane, namespace: str) -> Callable[..., Kubelet]:
    def start(plugin: Callable[[Cluster], Plugin], node: str) -> Kubelet:
        cluster = Cluster(control_plane, namespace, node)
        return Kubelet(cluster, plugin(cluster))

    return start


def create(pods: Pods, name: str, limits: dict[str, int], **more: Any) -> None:
    texts = {key: str(value) for key, value in limits.items()}
    pods.create(name, container={"resources": {"limits": texts}}, **more)


def admitted(kubelet: Kubelet, *wanted: str) -> Counter[str]:
    eventually(lambda: kubelet.admit() >= set(wanted), what=f"{wanted} admitted")
    return kubelet.used()


@pytest.mark.parametrize("dialect", HALF)
def test_parts_of_gpus_are_given_to_the_very_pods_they_were_meant_for(
    dialect: str, create_nodes, running: Running, pods: Pods, kubelet
) -> None:
    plugin, node, half = HALF[dialect]
    (name,) = create_nodes([f"{dialect}-1"], **node)
    machine = kubelet(plugin, name)
    everybody = [f"p{n}" for n in range(5)]
    for pod in everybody:
        create(pods, pod, half)
    eventually(lambda: len(machine.admit()) == 4, what="four halves admitted")
    unit = next(iter(machine.used().values()))
    assert list(machine.used().values()) == [unit, unit], "two on each GPU"
    (left,) = set(everybody) - machine.admit()
    create(pods, "late", half)
    # At first the answer for the last pod may not be known yet: the node is still assigning.
    eventually(lambda: "1 node(s) had no GPU with enough free memory" in _message(pods, "late"))
    pods.delete("late")
    gone = min(machine.given)
    ((gpu, _),) = machine.given[gone]
    pods.delete(gone)
    admitted(machine, left)
    assert machine.given[left][0][0] == gpu


@pytest.mark.parametrize("dialect", HALF)
def test_two_pods_at_once_wait_for_one_another(
    dialect: str, create_nodes, running: Running, pods: Pods, kubelet
) -> None:
    """Nothing moves until the device plugin has answered: a kubelet may start with either."""
    plugin, node, half = HALF[dialect]
    (name,) = create_nodes([f"{dialect}-2"], **node)
    machine = kubelet(plugin, name)
    create(pods, "one", half)
    create(pods, "two", half)
    waiting = eventually(
        lambda: [pod for pod in ("one", "two") if "assigning" in _message(pods, pod)]
    )
    # The other one is decided on before; its bind may still be under way.
    eventually(lambda: len(machine.cluster.pods()) == 1)
    assert "1 node(s) were still assigning GPUs to another pod" in _message(pods, waiting[0])
    admitted(machine, "one", "two")


def _message(pods: Pods, name: str) -> str:
    return str(pods.condition(name).get("message", ""))


def test_hami_gives_several_gpus_to_several_containers_and_plain_ones_too(
    control_plane: ControlPlane, create_nodes, running: Running, pods: Pods, kubelet
) -> None:
    (name,) = create_nodes(["hami-3"], **HAMI_NODE)
    machine = kubelet(Hami, name)
    one = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "3000", "nvidia.com/gpucores": "30"}
    containers = [
        {"name": "a", "image": "x", "resources": {"limits": one}},
        {"name": "quiet", "image": "x"},
        {"name": "b", "image": "x", "resources": {"limits": one}},
    ]
    pods.create("both", containers=containers)
    admitted(machine, "both")
    assert sorted(machine.given["both"]) == [(A, 3000), (B, 3000)]
    pods.create("whole", gpus=1)
    eventually(lambda: "too few free GPUs" in _message(pods, "whole"))
    pods.delete("both")
    admitted(machine, "whole")
    ((_, mib),) = machine.given["whole"]
    assert mib == 16000
    assert "hami.io/mutex.lock" not in machine.cluster.node_annotations()


@pytest.mark.parametrize(("number", "holder"), [(5, "a b,c d"), (6, "default,../../nodes/x")])
def test_a_lock_that_can_be_of_no_pod_is_passed_over(
    control_plane: ControlPlane, create_nodes, running: Running, pods: Pods, kubelet,
    number: int, holder: str,
) -> None:  # fmt: skip
    (name,) = create_nodes([f"hami-{number}"], **HAMI_NODE)
    machine = kubelet(Hami, name)
    node = control_plane.api("GET", f"/api/v1/nodes/{name}")[1]
    lock = {"hami.io/mutex.lock": f"{node['metadata']['creationTimestamp']},{holder}"}
    machine.cluster._patch(f"/api/v1/nodes/{name}", lock)
    create(pods, "ours", HALF["hami"][2])
    admitted(machine, "ours")


def test_the_lock_of_another_scheduler_is_waited_for(
    control_plane: ControlPlane, create_nodes, running: Running, pods: Pods, kubelet
) -> None:
    (name,) = create_nodes(["hami-4"], **HAMI_NODE)
    machine = kubelet(Hami, name)
    create(pods, "theirs", {"cpu": 1}, scheduler="hami-scheduler")
    now = control_plane.api("GET", f"{pods.path}/theirs")[1]["metadata"]["creationTimestamp"]
    lock = {"hami.io/mutex.lock": f"{now},{pods.namespace},theirs"}
    machine.cluster._patch(f"/api/v1/nodes/{name}", lock)
    create(pods, "ours", HALF["hami"][2])
    eventually(lambda: "is locked by its annotation hami.io/mutex.lock" in _why(running, pods))
    assert machine.cluster.node_annotations()["hami.io/mutex.lock"] == lock["hami.io/mutex.lock"]
    assert not pods.node("ours")
    machine.cluster.unlock("hami.io/mutex.lock")
    admitted(machine, "ours")


def _why(running: Running, pods: Pods) -> str:
    return " ".join([_message(pods, "ours"), *(str(record) for record in running.records)])


def test_a_kai_and_a_fraction_by_container_on_a_node_of_nvfractions(
    control_plane: ControlPlane, create_nodes, running: Running, pods: Pods
) -> None:
    labels = {"nvidia.com/gpu.count": "2", "nvidia.com/gpu.memory": "16384"}
    (name,) = create_nodes(["fractions-1"], labels=labels, allocatable={"nvidia.com/gpu": "2"})
    condition = {"type": "gpu-fractioning.nvidia.com/Ready", "status": "True"}
    code, answer = control_plane.api(
        "PATCH", f"/api/v1/nodes/{name}/status", {"status": {"conditions": [condition]}},
        content_type="application/strategic-merge-patch+json",
    )  # fmt: skip
    assert code == 200, answer
    reserved = {
        "metadata": {
            "annotations": {"run.ai/reserve_for_gpu_index": "0"},
            "labels": {"runai-gpu-group": "g"},
        }
    }
    pods.create("gpu-reservation-x", gpus=1, scheduler="kai-scheduler", nodeName=name, **reserved)
    sharer = {"annotations": {"gpu-fraction": "0.5"}, "labels": {"runai-gpu-group": "g"}}
    pods.create("theirs", scheduler="kai-scheduler", nodeName=name, metadata=sharer)
    pods.create("ours", metadata={"annotations": {"gpu-fraction": "0.5"}})
    memory = {"nvidia.com/container.main.gpu-memory.request": "8Gi"}
    pods.create("memory", metadata={"annotations": memory})
    pods.wait_bound("ours", "memory")
    for pod in ("ours", "memory"):
        said = pods.get(pod)["metadata"]["annotations"]
        assert said["nvidia.com/container.main.gpus.devices"] == "1"
    pods.create("late", metadata={"annotations": memory})
    assert "enough free memory" in pods.wait_refused("late")["message"]


def test_what_no_node_serves_is_refused_with_that_reason(
    create_nodes, running: Running, pods: Pods
) -> None:
    create_nodes(["plain-1"], allocatable={"nvidia.com/gpu": "8"})
    pods.create("fraction", metadata={"annotations": {"gpu-fraction": "0.5"}})
    message = pods.wait_refused("fraction")["message"]
    assert "1 node(s) cannot serve this kind of GPU request" in message
    pods.create("nonsense", metadata={"annotations": {"gpu-fraction": "nan"}})
    assert "gpu-fraction is 'nan'; write a share" in pods.wait_refused("nonsense")["message"]


def test_a_node_with_a_malformed_list_still_gets_whole_gpus(
    create_nodes, running: Running, pods: Pods
) -> None:
    (name,) = create_nodes(
        ["malformed-1"],
        annotations={"hami.io/node-nvidia-register": "[{]"},
        allocatable={"nvidia.com/gpu": "8"},
    )
    pods.create("whole", gpus=2)
    assert pods.wait_bound("whole") == {"whole": name}
    complaints = [r for r in running.records if r["event"] == "GPU list of the node cannot be read"]
    assert [record["node"] for record in complaints] == [name]
