"""Kubelets with the device plugins of other systems, as far as their published contracts go.

A kubelet admits pods in any order and does not say which one it is asking for: the plugin must find
out, each in its own way. `Kubelet` fails when a plugin finds another pod than was meant, or gives
more of a GPU than there is.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any, Protocol

from fairlead.sim.controlplane import ControlPlane

Json = dict[str, Any]
#: A GPU, and what was given of it.
Given = list[tuple[str, int]]

MERGE = "application/merge-patch+json"


class Plugin(Protocol):
    resource: str
    #: What a GPU has, in the unit of `Given`.
    capacity: int

    def allocate(self, amount: int, pods: list[Json]) -> tuple[str, Given]:
        """The pod that it believes to serve, and its GPUs."""
        ...


class Cluster:
    """What plugins read and write."""

    def __init__(self, plane: ControlPlane, namespace: str, node: str) -> None:
        self.plane, self.node = plane, node
        self.path = f"/api/v1/namespaces/{namespace}/pods"

    def pods(self) -> list[Json]:
        _, found = self.plane.api("GET", self.path)
        return [pod for pod in found["items"] if pod["spec"].get("nodeName") == self.node]

    def annotate(self, pod: Json, **annotations: Any) -> None:
        self._patch(f"{self.path}/{pod['metadata']['name']}", annotations)

    def node_annotations(self) -> Json:
        _, node = self.plane.api("GET", f"/api/v1/nodes/{self.node}")
        return node["metadata"].get("annotations", {})

    def unlock(self, key: str) -> None:
        self._patch(f"/api/v1/nodes/{self.node}", {key: None})

    def run(self, pod: Json) -> None:
        path = f"{self.path}/{pod['metadata']['name']}/status"
        status = {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"}
        code, answer = self.plane.api("PATCH", path, {"status": status}, content_type=MERGE)
        assert code == 200, answer

    def _patch(self, path: str, annotations: Json) -> None:
        body = {"metadata": {"annotations": annotations}}
        code, answer = self.plane.api("PATCH", path, body, content_type=MERGE)
        assert code == 200, answer


class Kubelet:
    def __init__(self, cluster: Cluster, plugin: Plugin) -> None:
        self.cluster, self.plugin = cluster, plugin
        self.given: dict[str, Given] = {}

    def admit(self) -> set[str]:
        """Admits what has arrived, last come first; returns all that are here."""
        here = self.cluster.pods()
        self.given = {name: gpus for name, gpus in self.given.items() if name in names(here)}
        for pod in reversed([pod for pod in here if pod["metadata"]["name"] not in self.given]):
            self._admit(pod, here)
        return set(self.given)

    def used(self) -> Counter[str]:
        return sum((Counter(dict(gpus)) for gpus in self.given.values()), Counter())

    def _admit(self, pod: Json, here: list[Json]) -> None:
        name = pod["metadata"]["name"]
        gpus: Given = []
        for amount in _amounts(pod, self.plugin.resource):
            believed, found = self.plugin.allocate(amount, self.cluster.pods())
            assert believed == name, f"the plugin gave the GPUs of {believed} to {name}"
            gpus += found
        self.given[name] = gpus
        self.cluster.run(pod)
        over = {c: n for c, n in self.used().items() if n > self.plugin.capacity}
        assert not over, f"sold twice: {over} of {self.plugin.capacity}, by {self.given}"


def names(pods: Iterable[Json]) -> set[str]:
    return {pod["metadata"]["name"] for pod in pods}


def _amounts(pod: Json, resource: str) -> list[int]:
    limits = [c["resources"].get("limits", {}) for c in pod["spec"]["containers"]]
    return [int(limit[resource]) for limit in limits if resource in limit]


def _said(pod: Json, key: str) -> str:
    return pod["metadata"].get("annotations", {}).get(key, "")


class Vgpu:
    """The brothers: they give what is next in `to_allocate` of the pod that they believe in."""

    capacity = 16000
    prefix, to_allocate, lock = "", "", ""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    def believed(self, pods: list[Json]) -> Json:
        raise NotImplementedError

    def allocate(self, amount: int, pods: list[Json]) -> tuple[str, Given]:
        pod = self.believed(pods)
        sections = _said(pod, self.to_allocate).split(";")
        at = next(n for n, section in enumerate(sections) if section)
        gpus = [gpu.split(",") for gpu in sections[at].split(":") if gpu]
        assert len(gpus) == amount, f"{amount} devices were asked for: {gpus}"
        assert len({gpu[0] for gpu in gpus}) == amount, f"one GPU twice: {gpus}"
        sections[at] = ""
        left = ";".join(sections)
        self.cluster.annotate(pod, **{self.to_allocate: left})
        if "GPU" not in left:
            self.cluster.annotate(pod, **{self.prefix + "bind-phase": "success"})
            self.cluster.unlock(self.lock)
        return pod["metadata"]["name"], [(uuid, int(mib)) for uuid, _, mib, _ in gpus]


class Hami(Vgpu):
    resource, prefix, lock = "nvidia.com/gpu", "hami.io/", "hami.io/mutex.lock"
    to_allocate = "hami.io/vgpu-devices-to-allocate"

    def believed(self, pods: list[Json]) -> Json:
        """The pod in the lock."""
        _, _, name = self.cluster.node_annotations()[self.lock].split(",")
        (pod,) = (pod for pod in pods if pod["metadata"]["name"] == name)
        assert _said(pod, "hami.io/vgpu-node") == self.cluster.node
        assert _said(pod, "hami.io/bind-phase") == "allocating"
        assert _said(pod, "hami.io/bind-time").isdigit()
        return pod


class Volcano(Vgpu):
    resource, prefix, lock = "volcano.sh/vgpu-number", "volcano.sh/", "hamivgpu"
    to_allocate = "volcano.sh/devices-to-allocate"
    _served = str(2**64 - 1)

    def believed(self, pods: list[Json]) -> Json:
        """The one with the smallest time; a served one gets the largest."""
        times = defaultdict(list)
        for pod in pods:
            if _said(pod, "volcano.sh/vgpu-node") == self.cluster.node:
                times[int(_said(pod, "volcano.sh/vgpu-time"))].append(pod)
        (pod,) = times[min(times)]
        self.cluster.annotate(pod, **{"volcano.sh/vgpu-time": self._served})
        return pod


class Gpushare:
    resource, capacity = "aliyun.com/gpu-mem", 16

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    def allocate(self, amount: int, pods: list[Json]) -> tuple[str, Given]:
        """The first by time of those that are not assigned and ask for just as much."""
        alike = [
            pod
            for pod in pods
            if _said(pod, "ALIYUN_COM_GPU_MEM_ASSIGNED") == "false"
            and sum(_amounts(pod, self.resource)) == amount
        ]
        (pod,) = alike  # more of them could be mixed up
        assert len(_said(pod, "ALIYUN_COM_GPU_MEM_ASSUME_TIME")) == 19
        assert _said(pod, "ALIYUN_COM_GPU_MEM_POD") == str(amount)
        assert _said(pod, "ALIYUN_COM_GPU_MEM_DEV") == str(self.capacity)
        self.cluster.annotate(pod, ALIYUN_COM_GPU_MEM_ASSIGNED="true")
        return pod["metadata"]["name"], [(_said(pod, "ALIYUN_COM_GPU_MEM_IDX"), amount)]


class Alnair:
    """It picks the chunks itself, in the order of their names."""

    resource, capacity = "alnair/vgpu-memory", 16
    uuids = ("GPU-bbbb", "GPU-aaaa")

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    def allocate(self, amount: int, pods: list[Json]) -> tuple[str, Given]:
        taken = {c for pod in pods for c in _said(pod, self._id).split(",")}
        every = sorted(f"{uuid}_{n}" for uuid in self.uuids for n in range(self.capacity))
        free = [chunk for chunk in every if chunk not in taken]
        runs = (free[at : at + amount] for at in range(len(free) - amount + 1))
        chunks = next(run for run in runs if len({chunk.split("_")[0] for chunk in run}) == 1)
        pod = self._believed(amount, pods)
        self.cluster.annotate(pod, **{self._id: ",".join(chunks)})
        uuid = chunks[0].split("_")[0]
        foreseen = _said(pod, "fairlead.dev/gpus")
        assert foreseen == uuid, f"the book says {foreseen}"
        return pod["metadata"]["name"], [(uuid, amount)]

    def _believed(self, amount: int, pods: list[Json]) -> Json:
        pending = [pod for pod in pods if pod["status"]["phase"] == "Pending"]
        if len(pending) == 1:
            return pending[0]
        alike = [
            pod
            for pod in pending
            if not _said(pod, self._id) and sum(_amounts(pod, self.resource)) == amount
        ]
        return min(alike, key=lambda pod: _said(pod, "ai.centaurus.io/scheduler-timestamp"))

    _id = "ai.centaurus.io/alnair-gpu-id"
