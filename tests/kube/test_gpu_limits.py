"""What pods may write about GPUs, and what is written for them: both have limits."""

import json
from typing import Any

import pytest

from dialect_objects import Json, a_node, a_pod, problem_of, told
from fairlead.cluster.devices import Devices
from fairlead.kube.dialects.sizes import most_bytes
from fairlead.kube.writes.annotations import (
    LARGEST_BYTES,
    problem_with_annotations,
    size_of,
)
from fairlead.model.nodes import Node
from fairlead.placement.gpus import GpuPolicy, choose

GPU, MEM, VGPU = "nvidia.com/gpu", "nvidia.com/gpumem", "volcano.sh/vgpu-number"
SHARE, MEMORY, MODEL = (f"fairlead.dev/gpu-{word}" for word in ("share", "memory", "model"))
COUNT, SLICE = "fairlead.dev/gpu-count", "fairlead.dev/gpu-slice"
MIB = 1 << 23
UUIDS = [f"GPU-{n:064d}" for n in range(64)]


def listed(**more: Any) -> Node:
    gpus = [
        {"uuid": uuid, "index": n, "model": "H100", "memoryMib": MIB, **more}
        for n, uuid in enumerate(UUIDS)
    ]
    return a_node({"fairlead.dev/inventory": json.dumps({"version": 2, "gpus": gpus})})


CUTS = [{"name": "1g.18gb", "size": 1, "starts": [0, 1, 2, 3, 4, 5, 6]}]
HAMI = [{"id": uuid, "index": n, "count": 10, "devmem": MIB, "type": "H100", "health": True}
        for n, uuid in enumerate(UUIDS)]  # fmt: skip
OURS, CUT = listed(), listed(slices=CUTS, cut="free", slots=8)
OF_HAMI = a_node({"hami.io/node-nvidia-register": json.dumps(HAMI)})
OF_VOLCANO = a_node({
    "volcano.sh/node-vgpu-register": "".join(f"{u},10,{MIB},H100,true,x:" for u in UUIDS)
})  # fmt: skip

MANY: dict[str, tuple[tuple[Json, ...], Json, Node]] = {
    "share": (({},), {SHARE: "0.5", COUNT: "64"}, OURS),
    "memory": (({},), {MEMORY: "4Ti", COUNT: "64"}, OURS),
    "slices": (({},), {SLICE: "1g.18gb", COUNT: "64"}, CUT),
    "whole": (({GPU: 64},), {}, OURS),
    "map": (({},), {"gpu-scheduling-map": "0=n1:" + ",".join(map(str, range(64)))}, OURS),
    "KAI": (({},), {"gpu-fraction": "0.5", "gpu-fraction-num-devices": "64"}, OURS),
    "NvFractions": (
        tuple({"name": f"c{n}"} for n in range(64)),
        {f"nvidia.com/container.c{n}.gpu-memory.request": "1Gi" for n in range(64)},
        OURS,
    ),
    "HAMi": (({GPU: 64, MEM: 4000},), {}, OF_HAMI),
    "HAMi, whole": (({GPU: 64},), {}, OF_HAMI),
    "HAMi, with init containers": (
        ({"kind": "init", GPU: 64, MEM: 4000}, {"kind": "init", GPU: 64, MEM: 4000},
         {GPU: 64, MEM: 4000}), {}, OF_HAMI,
    ),
    "HAMi, one for each container": (tuple({GPU: 1, MEM: 4000} for _ in range(64)), {}, OF_HAMI),
    "Volcano": (({VGPU: 64, "volcano.sh/vgpu-memory": 4000},), {}, OF_VOLCANO),
}  # fmt: skip


@pytest.mark.parametrize("case", MANY)
def test_64_gpus_can_be_written_with_the_bind_and_read_back(case: str) -> None:
    containers, said, node = MANY[case]
    labels = {"apps.kubernetes.io/pod-index": "0"}
    pod = a_pod(*containers, annotations=said, labels=labels)
    ask = pod.request.gpu_request
    assert ask is not None, pod.problem
    devices = Devices(1)
    devices.put(0, node.inventory)
    grant = choose(ask, devices, 0, GpuPolicy.PACK)
    assert grant is not None
    written = told(pod, grant, node)

    bound = a_pod(*containers, annotations={**said, **written}, labels=labels, node="n1")

    assert case == "NvFractions" or len(grant.uses) == 64
    assert problem_with_annotations(written) == ""
    assert size_of(written) <= most_bytes(ask) <= LARGEST_BYTES
    assert bound.grant == grant


def test_more_than_can_be_written_is_refused_before_a_node_is_chosen() -> None:
    containers = [{"kind": "init", GPU: 64, MEM: 1} for _ in range(4)]

    assert f"the limit is {LARGEST_BYTES}" in problem_of(*containers, {GPU: 64, MEM: 1})


def test_annotations_that_leave_no_room_are_refused_before_a_node_is_chosen() -> None:
    note = {"note": "x" * 240_000}
    plenty = {**note, SHARE: "0.5", COUNT: "64"}

    assert problem_of({}, annotations={**note, SHARE: "0.5"}) == ""
    assert "Kubernetes allows 262144 on a pod" in problem_of({}, annotations=plenty)
    assert "Kubernetes allows 262144 on a pod" in problem_of({}, annotations={"n": "x" * 262_000})


LISTS = {
    MODEL: ("|", 64, ({GPU: 1},)),
    "nvidia.com/use-gputype": (",", 64, ({GPU: 1, MEM: 1},)),
    "nvidia.com/nouse-gputype": (",", 64, ({GPU: 1, MEM: 1},)),
    "nvidia.com/use-gpuuuid": (",", 512, ({GPU: 1, MEM: 1},)),
    "nvidia.com/nouse-gpuuuid": (",", 512, ({GPU: 1, MEM: 1},)),
    "volcano.sh/vgpu-use-gpuuuid": (",", 512, ({VGPU: 1},)),
    "volcano.sh/vgpu-nouse-gpuuuid": (",", 512, ({VGPU: 1},)),
}


@pytest.mark.parametrize("key", LISTS)
def test_a_list_has_a_limit_and_the_refusal_says_it(key: str) -> None:
    separator, most, containers = LISTS[key]
    names = [f"M{n}" for n in range(most + 1)]

    assert problem_of(*containers, annotations={key: separator.join(names[:most])}) == ""
    many = problem_of(*containers, annotations={key: separator.join(names)})
    assert f"{key} has {most + 1} alternatives; write at most {most}" in many
    assert problem_of(*containers, annotations={key: "x" * 128}) == ""
    long = problem_of(*containers, annotations={key: "x" * 129})
    assert f"{key} has an alternative of 129 characters; write at most 128" in long


@pytest.mark.parametrize("key", [MEMORY, "nvidia.com/container.c0.gpu-memory.request"])
@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("16000", "is '16000', which is 16000 bytes; write the unit, such as 16Gi or 16000Mi"),
        ("1023Ki", "is '1023Ki', which is 1047552 bytes; write the unit"),
        ("17Ti", "is '17Ti', which is more than any GPU has"),
        ("much", "such as 16Gi or 16000Mi"),
        ("9" * 5000, "such as 16Gi or 16000Mi"),
    ],
)
def test_an_amount_of_memory_has_a_unit_and_fits_a_gpu(key: str, text: str, sentence: str) -> None:
    assert sentence in problem_of({}, annotations={key: text})


@pytest.mark.parametrize("text", ["16Gi", "0", "99999999", "1.5", ""])
def test_the_memory_of_kai_is_in_mib_and_the_refusal_says_so(text: str) -> None:
    told = "write a whole number from 1 to 16777216, such as 16000 for 16000 MiB"
    assert told in problem_of({}, annotations={"gpu-memory": text})


@pytest.mark.parametrize("text", ["1Mi", "16000Mi", "16Gi", "16Ti", "1048576"])
def test_any_amount_from_a_mebibyte_up_is_understood(text: str) -> None:
    assert problem_of({}, annotations={MEMORY: text}) == ""


@pytest.mark.parametrize("count", ["0", "65", "0064000", "1" * 5000, "٣", "-1", "1.0", ""])
def test_a_count_of_gpus_is_a_number_up_to_64(count: str) -> None:
    problem = problem_of({}, annotations={SHARE: "0.5", COUNT: count})
    assert "write a number of GPUs from 1 to 64" in problem


def test_a_map_names_at_most_64_gpus() -> None:
    said = {"gpu-scheduling-map": "0=n1:" + ",".join(map(str, range(65)))}
    pod = a_pod({}, annotations=said, labels={"apps.kubernetes.io/pod-index": "0"})
    assert "names 65 GPUs for index 0; write at most 64, or all" in pod.problem
