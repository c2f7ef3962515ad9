"""Pods and nodes as JSON, in every dialect."""

import json
from typing import Any

from fairlead.kube import dialects
from fairlead.kube.codec import decode_node, decode_pod
from fairlead.model.gpus import GpuRequest
from fairlead.model.nodes import Node
from fairlead.model.pods import Pod

A, B, C = ("GPU-aaaa", "GPU-bbbb", "GPU-cccc")
NOW_NS = 1_767_225_600_000_000_123  # 2026-01-01T00:00:00Z

Json = dict[str, Any]


def pod_json(*containers: Json, annotations: Json | None = None, **more: Any) -> Json:
    """Each container: its name, and amounts by resource; `init` and `sidecar` say what it is."""
    spec: Json = {"containers": [], "initContainers": [], "nodeName": more.pop("node", "")}
    for number, given in enumerate(containers):
        amounts = dict(given)
        kind, name = amounts.pop("kind", ""), amounts.pop("name", f"c{number}")
        container = {"name": name, "resources": {"requests": _texts(amounts)}}
        if kind == "sidecar":
            container["restartPolicy"] = "Always"
        spec["initContainers" if kind else "containers"].append(container)
    meta = {"name": "p", "namespace": "ns", "uid": "uid-p", "annotations": annotations or {}}
    return {"metadata": {**meta, "labels": more.pop("labels", {})}, "spec": spec, "status": more}


def _texts(amounts: Json) -> Json:
    return {name: str(amount) for name, amount in amounts.items()}


def a_pod(*containers: Json, **more: Any) -> Pod:
    return decode_pod(json.dumps(pod_json(*containers, **more)).encode())


def ask_of(*containers: Json, annotations: Json | None = None) -> GpuRequest | None:
    pod = a_pod(*containers, annotations=annotations)
    assert not pod.problem, pod.problem
    return pod.request.gpu_request


def problem_of(*containers: Json, annotations: Json | None = None) -> str:
    return a_pod(*containers, annotations=annotations).problem


def node_json(annotations: Json | None = None, **more: Any) -> Json:
    conditions = [{"type": name, "status": "True"} for name in more.pop("conditions", ())]
    meta = {"name": "n1", "annotations": annotations or {}, "labels": more.pop("labels", {})}
    status = {"allocatable": _texts(more), "conditions": conditions}
    return {"metadata": meta, "status": status}


def a_node(annotations: Json | None = None, **more: Any) -> Node:
    return decode_node(json.dumps(node_json(annotations, **more)).encode())


def told(pod: Pod, grant: Any, node: Node) -> dict[str, str]:
    return dialects.annotations_for(
        dialects.Assignment(pod, node.name, grant, node.inventory, NOW_NS)
    )


def lock_of(pod: Pod, grant: Any, node: Node) -> tuple[str, str] | None:
    return dialects.lock(dialects.Assignment(pod, node.name, grant, node.inventory, NOW_NS))


HAMI_GPUS = [
    {"id": A, "index": 0, "count": 10, "devmem": 16000, "devcore": 100,
     "type": "NVIDIA-Tesla V100", "numa": 0, "mode": "hami-core", "health": True},
    {"id": B, "index": 1, "count": 10, "devmem": 16000, "devcore": 100,
     "type": "NVIDIA-A100", "numa": 1, "mode": "hami-core", "health": True},
]  # fmt: skip


def hami_node(**more: Any) -> Node:
    return a_node({"hami.io/node-nvidia-register": json.dumps(HAMI_GPUS)}, **more)


def volcano_node() -> Node:
    gpus = f"{A},10,16000,NVIDIA-V100,true,hami-core:{B},10,16000,NVIDIA-A100,true,hami-core:"
    return a_node({"volcano.sh/node-vgpu-register": gpus})


def gpushare_node(gib: int = 32, gpus: int = 2) -> Node:
    return a_node(**{"aliyun.com/gpu-mem": gib, "aliyun.com/gpu-count": gpus})


def alnair_node(uuids: str = f"{B},{A}", chunks: str = "16,16", key: str = "vitual") -> Node:
    return a_node({
        "ai.centaurus.io/physical-gpu-uuids": uuids,
        f"ai.centaurus.io/{key}-gpu-count": chunks,
    })  # fmt: skip


def fractions_node() -> Node:
    labels = {
        "nvidia.com/gpu.count": "2",
        "nvidia.com/gpu.memory": "16384",
        "nvidia.com/gpu.product": "NVIDIA-H100",
    }
    return a_node(labels=labels, conditions=["gpu-fractioning.nvidia.com/Ready"])


def our_list(*gpus: Json) -> str:
    """What our agent writes; GPUs differ from a plain one as given."""
    plain = {"uuid": A, "index": 0, "model": "H100", "memoryMib": 16384}
    return json.dumps({"version": 2, "gpus": [{**plain, **gpu} for gpu in gpus]})


def our_node() -> Node:
    return a_node({"fairlead.dev/inventory": our_list({}, {"uuid": B, "index": 1})})
