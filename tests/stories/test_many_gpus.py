"""64 GPUs in one Binding, in every dialect that has them: bound, and still open to updates."""

import json
from typing import Any

import pytest

from fairlead.sim.controlplane.client import MERGE_PATCH
from fairleads import Running, eventually

MIB = 81_920
GPU, VGPU = "nvidia.com/gpu", "volcano.sh/vgpu-number"
UUIDS = [f"GPU-{n:08d}-1a2b-3c4d-5e6f-0123456789ab" for n in range(64)]
CUT = {"slices": [{"name": "1g.18gb", "size": 1, "starts": [0]}], "cut": "free", "slots": 8}


def listed(**more: Any) -> dict[str, Any]:
    gpus = [
        {"uuid": uuid, "index": n, "model": "H100", "memoryMib": MIB, **more}
        for n, uuid in enumerate(UUIDS)
    ]
    text = json.dumps({"version": 2, "gpus": gpus})
    return {"annotations": {"fairlead.dev/inventory": text}, "allocatable": {GPU: "64"}}


HAMI = [{"id": uuid, "index": n, "count": 10, "devmem": MIB, "type": "H100", "health": True}
        for n, uuid in enumerate(UUIDS)]  # fmt: skip
OF_HAMI = {
    "annotations": {"hami.io/node-nvidia-register": json.dumps(HAMI)},
    "allocatable": {GPU: "640"},
}
OF_VOLCANO = {
    "annotations": {
        "volcano.sh/node-vgpu-register": "".join(f"{u},10,{MIB},H100,true,x:" for u in UUIDS)
    },
    "allocatable": {VGPU: "640", "volcano.sh/vgpu-memory": str(64 * MIB)},
}
#: Node, annotations and requests.
CASES: dict[str, tuple[dict[str, Any], dict[str, str], dict[str, str]]] = {
    "share": (listed(), {"fairlead.dev/gpu-share": "0.5", "fairlead.dev/gpu-count": "64"}, {}),
    "slice": (
        listed(**CUT), {"fairlead.dev/gpu-slice": "1g.18gb", "fairlead.dev/gpu-count": "64"}, {},
    ),
    "whole": (listed(), {}, {GPU: "64"}),
    "map": (listed(), {"gpu-scheduling-map": "0=map:" + ",".join(map(str, range(64)))}, {}),
    "kai": (listed(), {"gpu-fraction": "0.5", "gpu-fraction-num-devices": "64"}, {}),
    "hami": (OF_HAMI, {}, {GPU: "64", "nvidia.com/gpumem": "4000"}),
    "volcano": (OF_VOLCANO, {}, {VGPU: "64", "volcano.sh/vgpu-memory": "4000"}),
}  # fmt: skip


@pytest.mark.real  # it limits annotations
def test_64_gpus_are_bound_at_once_in_every_dialect(create_nodes, pods, running: Running) -> None:
    for case, (node, asks, requests) in CASES.items():
        create_nodes([case], labels={"kubernetes.io/hostname": case}, **node)
        limits = {"resources": {"limits": requests}}
        pods.create(
            f"{case}-0", metadata={"annotations": asks}, container=limits,
            nodeSelector={"kubernetes.io/hostname": case},
        )  # fmt: skip
    pods.wait_bound(*(f"{case}-0" for case in CASES))
    for case in CASES:
        said = pods.get(f"{case}-0")["metadata"]["annotations"]
        assert len(json.loads(said["fairlead.dev/assignment"])["devices"]) == 64, case
        path, body = f"{pods.path}/{case}-0", {"metadata": {"labels": {"seen": "yes"}}}
        status, answer = pods.plane.api("PATCH", path, body, content_type=MERGE_PATCH)
        assert status == 200, answer


def test_a_pod_without_room_for_more_annotations_is_told_so(
    create_nodes, pods, running: Running
) -> None:
    """Bound, it could never be updated again; its kubelet could not report a status."""
    create_nodes(["roomy"], **listed())
    said = {"note": "x" * 240_000, "fairlead.dev/gpu-share": "0.5", "fairlead.dev/gpu-count": "64"}
    pods.create("stuffed", metadata={"annotations": said})

    told = "Kubernetes allows 262144 on a pod"
    eventually(lambda: told in pods.condition("stuffed").get("message", ""), what=told)
