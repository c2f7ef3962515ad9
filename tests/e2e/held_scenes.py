"""Every way to ask for GPUs by annotation: a pod that fills its node, and one that leaves room."""

import json
from dataclasses import dataclass, field
from typing import Any

GIB = 16
MIB = GIB * 1024
OURS, KAI, CONTAINER = "fairlead.dev/gpu-", "gpu-fraction", "nvidia.com/container.main."
SHARE, MEMORY, COUNT, SLICE = OURS + "share", OURS + "memory", OURS + "count", OURS + "slice"
ISOLATION, MAP = OURS + "isolation", "gpu-scheduling-map"
GPU, GPUMEM = "nvidia.com/gpu", "nvidia.com/gpumem"
VGPU, VMEM = "volcano.sh/vgpu-number", "volcano.sh/vgpu-memory"
CUT = {"slices": [{"name": "1g.18gb", "size": 1, "starts": [*range(7)]}], "cut": "free", "slots": 8}
LOCKS = ("hami.io/mutex.lock", "hamivgpu")

Texts = dict[str, str]


@dataclass(frozen=True)
class Scene:
    """A node, a pod on it, and a pod that must (`fits`) or must not get a place beside it."""

    name: str
    word: str
    kind: str
    fits: bool
    asks: Texts
    requests: Texts = field(default_factory=dict)
    gpus: int = 1

    @property
    def node(self) -> dict[str, Any]:
        uuids = [f"GPU-{self.name}-{n}" for n in range(self.gpus)]
        return NODES[self.kind](uuids)

    @property
    def probe(self) -> tuple[Texts, Texts]:
        """Annotations and requests of a pod that needs nearly all, or next to nothing."""
        return PROBES[self.kind][self.fits]

    def edited(self, edit: str) -> Texts:
        said, word = dict(self.asks), self.word
        if edit == "remove":
            said.pop(word, None)
        elif edit == "remove all":
            said.clear()
        elif edit == "spoil":
            said[word or SHARE] = "bogus"
        elif edit == "double":
            said |= {SHARE: "0.1", KAI: "0.1", MAP: f"0={self.name}:0"}
        elif edit == "raise":
            said |= {COUNT: "64", "gpu-fraction-num-devices": "64"}
            said[word or SHARE] = HIGH.get(word, "64").replace("NODE", self.name)
        else:
            said[word or SHARE] = LOW.get(word, "x").replace("NODE", self.name)
        return said


def _listed(uuids: list[str], **more: Any) -> dict[str, Any]:
    gpus = [
        {"uuid": uuid, "index": n, "model": "H100", "memoryMib": MIB, **more}
        for n, uuid in enumerate(uuids)
    ]
    inventory = json.dumps({"version": 2, "gpus": gpus})
    return {
        "annotations": {"fairlead.dev/inventory": inventory},
        "allocatable": {GPU: str(len(uuids))},
    }


def _of_hami(uuids: list[str]) -> dict[str, Any]:
    gpus = [
        {"id": uuid, "index": n, "count": 10, "devmem": MIB, "devcore": 100, "type": "NVIDIA-H100",
         "numa": 0, "mode": "hami-core", "health": True}
        for n, uuid in enumerate(uuids)
    ]  # fmt: skip
    annotations = {"hami.io/node-nvidia-register": json.dumps(gpus)}
    return {"annotations": annotations, "allocatable": {GPU: "10"}}


def _of_volcano(uuids: list[str]) -> dict[str, Any]:
    gpus = "".join(f"{uuid},10,{MIB},NVIDIA-H100,true,hami-core:" for uuid in uuids)
    return {
        "annotations": {"volcano.sh/node-vgpu-register": gpus},
        "allocatable": {VGPU: "10", VMEM: str(MIB), "volcano.sh/vgpu-cores": "100"},
    }


def _of_gpushare(uuids: list[str]) -> dict[str, Any]:
    count = len(uuids)
    gib = {"aliyun.com/gpu-mem": str(GIB * count), "aliyun.com/gpu-count": str(count)}
    return {"allocatable": gib}


def _of_alnair(uuids: list[str]) -> dict[str, Any]:
    annotations = {
        "ai.centaurus.io/physical-gpu-uuids": ",".join(uuids),
        "ai.centaurus.io/vitual-gpu-count": ",".join(str(GIB) for _ in uuids),
    }
    amounts = {"alnair/vgpu-memory": str(GIB * len(uuids)), "alnair/vgpu-compute": "100"}
    return {"annotations": annotations, "allocatable": amounts}


NODES = {
    "fairlead": _listed,
    "two": _listed,
    "slices": lambda uuids: _listed(uuids, **CUT),
    "hami": _of_hami,
    "volcano": _of_volcano,
    "gpushare": _of_gpushare,
    "alnair": _of_alnair,
}
#: By kind of node: what must not fit where it is full, and what must fit where there is room.
PROBES: dict[str, tuple[tuple[Texts, Texts], tuple[Texts, Texts]]] = {
    "fairlead": (({SHARE: "0.001"}, {}), ({SHARE: "0.9"}, {})),
    "two": (({SHARE: "0.001"}, {}), ({SHARE: "1"}, {})),
    "slices": (({SLICE: "1g.18gb"}, {}), ({SLICE: "1g.18gb", COUNT: "6"}, {})),
    "hami": (({}, {GPU: "1", GPUMEM: "1"}), ({}, {GPU: "1", GPUMEM: "14000"})),
    "volcano": (({}, {VGPU: "1", VMEM: "1"}), ({}, {VGPU: "1", VMEM: "14000"})),
    "gpushare": (({}, {"aliyun.com/gpu-mem": "1"}), ({}, {"aliyun.com/gpu-mem": "14"})),
    "alnair": (({}, {"alnair/vgpu-memory": "1"}), ({}, {"alnair/vgpu-memory": "14"})),
}
HIGH = {
    SHARE: "1", MEMORY: f"{GIB}Gi", SLICE: "7g.141gb", KAI: "1", "gpu-memory": str(MIB),
    MAP: "0=NODE:0,1", ISOLATION: "mig", CONTAINER + "gpu-memory.request": f"{GIB}Gi",
    CONTAINER + "gpu-memory.limit": f"{GIB}Gi",
}  # fmt: skip
LOW = {
    SHARE: "0.001", MEMORY: "1Mi", SLICE: "1g.5gb", KAI: "0.001", "gpu-memory": "1", COUNT: "1",
    "gpu-fraction-num-devices": "1", MAP: "0=NODE:", CONTAINER + "gpu-memory.request": "1Mi",
    ISOLATION: "mps",
    CONTAINER + "gpu-memory.limit": "1Mi",
}  # fmt: skip


def scenes() -> list[Scene]:
    return [
        Scene(f"held-{number}-{'room' if fits else 'full'}", word, kind, fits, *given)
        for number, (word, kind, full, room) in enumerate(_SCENES)
        for fits, given in ((False, full), (True, room))
    ]


_FULL_HAMI = {GPU: "1", GPUMEM: str(MIB)}
_FULL_VGPU = {VGPU: "1", VMEM: str(MIB)}
#: The word, the node, and what a pod asks that fills it, and one that leaves room.
_SCENES: list[tuple[str, str, tuple[Any, ...], tuple[Any, ...]]] = [
    (SHARE, "fairlead", ({SHARE: "1"},), ({SHARE: "0.001"},)),
    (MEMORY, "fairlead", ({MEMORY: f"{GIB}Gi"},), ({MEMORY: "1Gi"},)),
    (COUNT, "two", ({SHARE: "1", COUNT: "2"}, {}, 2), ({SHARE: "1", COUNT: "1"}, {}, 2)),
    (SLICE, "slices", ({SLICE: "1g.18gb", COUNT: "7"},), ({SLICE: "1g.18gb"},)),
    (OURS + "model", "two", ({OURS + "model": "H100"}, {GPU: "1"}),
     ({OURS + "model": "H100"}, {GPU: "1"}, 2)),
    (OURS + "links", "two", ({OURS + "links": "nvlink"}, {GPU: "1"}),
     ({OURS + "links": "nvlink"}, {GPU: "1"}, 2)),
    (MAP, "two", ({MAP: "0=held-6-full:0"},), ({MAP: "0=held-6-room:0"}, {}, 2)),
    (KAI, "fairlead", ({KAI: "1"},), ({KAI: "0.001"},)),
    ("gpu-memory", "fairlead", ({"gpu-memory": str(MIB)},), ({"gpu-memory": "1"},)),
    ("gpu-fraction-num-devices", "two", ({KAI: "1", "gpu-fraction-num-devices": "2"}, {}, 2),
     ({KAI: "1", "gpu-fraction-num-devices": "1"}, {}, 2)),
    ("gpu-fraction-container-name", "fairlead",
     ({KAI: "1", "gpu-fraction-container-name": "main"},),
     ({KAI: "0.001", "gpu-fraction-container-name": "main"},)),
    (CONTAINER + "gpu-memory.request", "fairlead",
     ({CONTAINER + "gpu-memory.request": f"{GIB}Gi"},),
     ({CONTAINER + "gpu-memory.request": "1Gi"},)),
    (CONTAINER + "gpu-memory.limit", "fairlead",
     ({CONTAINER + "gpu-memory.limit": f"{GIB}Gi"},), ({CONTAINER + "gpu-memory.limit": "1Gi"},)),
    (CONTAINER + "gpu-compute.mode", "fairlead",
     ({KAI: "1"},), ({KAI: "0.001"},)),
    ("nvidia.com/use-gputype", "hami", ({"nvidia.com/use-gputype": "H100"}, _FULL_HAMI),
     ({"nvidia.com/use-gputype": "H100"}, {GPU: "1", GPUMEM: "1000"})),
    ("nvidia.com/nouse-gputype", "hami", ({"nvidia.com/nouse-gputype": "T4"}, _FULL_HAMI),
     ({"nvidia.com/nouse-gputype": "T4"}, {GPU: "1", GPUMEM: "1000"})),
    ("nvidia.com/use-gpuuuid", "hami", ({"nvidia.com/use-gpuuuid": "GPU-held-16-full-0"},
     _FULL_HAMI), ({"nvidia.com/use-gpuuuid": "GPU-held-16-room-0"}, {GPU: "1", GPUMEM: "1000"})),
    ("nvidia.com/nouse-gpuuuid", "hami", ({"nvidia.com/nouse-gpuuuid": "GPU-x"}, _FULL_HAMI),
     ({"nvidia.com/nouse-gpuuuid": "GPU-x"}, {GPU: "1", GPUMEM: "1000"})),
    ("volcano.sh/vgpu-use-gpuuuid", "volcano",
     ({"volcano.sh/vgpu-use-gpuuuid": "GPU-held-18-full-0"}, _FULL_VGPU),
     ({"volcano.sh/vgpu-use-gpuuuid": "GPU-held-18-room-0"}, {VGPU: "1", VMEM: "1000"})),
    ("volcano.sh/vgpu-nouse-gpuuuid", "volcano",
     ({"volcano.sh/vgpu-nouse-gpuuuid": "GPU-x"}, _FULL_VGPU),
     ({"volcano.sh/vgpu-nouse-gpuuuid": "GPU-x"}, {VGPU: "1", VMEM: "1000"})),
    ("", "gpushare", ({}, {"aliyun.com/gpu-mem": str(GIB)}), ({}, {"aliyun.com/gpu-mem": "1"})),
    ("", "alnair", ({}, {"alnair/vgpu-memory": str(GIB)}), ({}, {"alnair/vgpu-memory": "1"})),
    ("", "two", ({}, {GPU: "1"}), ({}, {GPU: "1"}, 2)),
    (ISOLATION, "fairlead", ({ISOLATION: "advisory", SHARE: "1"},),
     ({ISOLATION: "advisory", SHARE: "0.001"},)),
]  # fmt: skip
