"""Clusters drawn at random: nodes with and without listed GPUs, whole GPUs and shares on them."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from random import Random
from typing import Any

from fairlead.cluster.cluster import Cluster
from fairlead.model.gpus import Gpu, GpuRequest, GpuUse, Grant, GrantSource, Inventory
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.nodes import GPU, Image, Node
from fairlead.model.pods import HostPort, NodeTerm, Pod
from fairlead.model.prices import PodShape, Prices
from fairlead.model.readings import GpuReading, NodeReadings
from fairlead.model.selectors import Requirement
from fairlead.model.storage import CsiNode, StorageClass, StorageObject, Volume, VolumeClaim
from fairlead.model.volumes import CsiVolume, Disk, PodVolumes, VolumeClaimUse
from fairlead.testing.builders import DIALECT, a_node, a_pod, a_taint, gpu_share, pod_term

_MEMORY_MIB = {"H100": 81_559, "T4": 15_360}
_IMAGES: tuple[tuple[str, ...], ...] = ((), ("x:1",), ("x:1", "y:2"), ("z:3",))
_IN_ZONE_A = (NodeTerm((Requirement("zone", "In", ("a",)),)),)
_CSI = CsiVolume("csi", "disk-1")

STORAGE: tuple[StorageObject, ...] = (
    StorageClass("waits", waits=True),
    VolumeClaim("default", "waiting", storage_class="waits", size_bytes=1),
    Volume("free", storage_class="waits", capacity_bytes=2, phase="Available",
           node_terms=_IN_ZONE_A),
    VolumeClaim("default", "bound", volume="taken", bind_completed=True),
    Volume("taken", claim="default/bound", phase="Bound", csi=_CSI, labels={"zone": "b"}),
    VolumeClaim("default", "alone", volume="taken", bind_completed=True,
                access_modes=("ReadWriteOncePod",)),
    *(CsiNode(f"n{number}", drivers=("csi",), limits=(("csi", number % 2),))
      for number in range(12)),
)  # fmt: skip

#: Gaps of more than half a GPU have a price, and some pods require an H100.
PRICES = Prices(
    pods=100,
    values=tuple(float(max(0, free - 50)) for free in range(101)),
    cpu_milli_per_gpu=4000.0,
    memory_bytes_per_gpu=float(1 << 34),
    blocks=((2, 0.1),),
    pressure=(("H100", 0.5),),
    typical=(
        (PodShape(1000, 0, 1, 500), 0.6),
        (PodShape(2000, 0, 2, 1000), 0.3),
        (PodShape(500), 0.1),
    ),
)


@dataclass(frozen=True, slots=True)
class DrawnCluster:
    """The objects of a cluster. `build` makes a cluster of them, with prices in every other."""

    nodes: Sequence[Node]
    pods: Sequence[Pod]
    storage: Sequence[StorageObject] = STORAGE
    #: Are there readings of its GPUs?
    measured: bool = True

    def build(self) -> Cluster:
        cluster = Cluster()
        for stored in self.storage:
            cluster.put_storage(stored)
        for node in self.nodes:
            cluster.put_node(node)
        for pod in self.pods:
            cluster.confirm(pod)
        if len(self.nodes) % 2:
            cluster.put_prices(PRICES)
        if self.measured:
            cluster.put_readings([_readings(node.name) for node in self.nodes], now_s=100.0)
        return cluster


def draw_cluster(rng: Random) -> DrawnCluster:
    """Up to twelve nodes, `n0` and so on.

    In most of them it is known which GPUs each pod has, and idle GPUs are given to shares.
    """
    nodes = [random_node(rng, f"n{number}") for number in range(rng.randint(1, 12))]
    pods = [random_pod(rng, number) for number in range(30)]
    if rng.random() < 0.25:
        return DrawnCluster(nodes, [_with_unknown_gpus(pod) for pod in pods])
    return DrawnCluster(nodes, [*_assigned(rng, nodes, pods)])


def _assigned(rng: Random, nodes: Sequence[Node], pods: Sequence[Pod]) -> Iterator[Pod]:
    """The pods with the GPUs that they have, without those that do not fit; then shares."""
    idle = {node.name: [*_uuids(rng, node)] for node in nodes if node.inventory}
    for pod in pods:
        gpus = pod.request.amount(GPU)
        if not gpus or pod.node not in idle:
            yield pod
        elif gpus <= len(idle[pod.node]):
            yield _with_gpus(pod, [idle[pod.node].pop() for _ in range(gpus)])
    for node, uuids in idle.items():
        for uuid in uuids:
            yield from _shares(rng, node, uuid)


def _uuids(rng: Random, node: Node) -> list[str]:
    gpus = node.inventory.gpus if node.inventory else ()
    return rng.sample([gpu.uuid for gpu in gpus], len(gpus))


def _with_gpus(pod: Pod, uuids: Sequence[str]) -> Pod:
    request = replace(pod.request, gpu_request=GpuRequest(len(uuids)))
    return replace(pod, request=request, grant=Grant(tuple(map(GpuUse, uuids))))


def _with_unknown_gpus(pod: Pod) -> Pod:
    """As a pod is seen that another scheduler bound: how many GPUs it has, but not which."""
    gpus = pod.request.amount(GPU)
    if not gpus:
        return pod
    grant = Grant((GpuUse(""),) * gpus, source=GrantSource.ASKED)
    return replace(_with_gpus(pod, [""] * gpus), grant=grant)


def _shares(rng: Random, node: str, uuid: str) -> Iterator[Pod]:
    """Up to three pods that share the GPU; together they have less than all of it."""
    for number in range(rng.randint(0, 3)):
        milli, memory_mib = rng.choice([100, 250, 300]), rng.choice([0, 1000, 4000])
        name = f"share-{uuid}-{number}"
        use = GpuUse(uuid, whole=False, milli=milli, memory_mib=memory_mib)
        yield a_pod(
            name,
            uid=f"fixed-{name}",
            node=node,
            cpu=rng.choice([0, 500]),
            priority=rng.randint(-1, 1),
            gpu_request=gpu_share(milli, memory_mib),
            grant=Grant((use,), DIALECT),
        )


def _readings(node: str) -> NodeReadings:
    """Every other GPU, with a utilisation by its position and that of its node."""
    number = int(node[1:])
    gpus = {
        str(index): GpuReading((number + index) % 11 / 10, 0.1, 1000.0 * index, cyclic=index == 2)
        for index in range(number % 2, 8, 2)
    }
    return NodeReadings(node, 90.0, gpus)


def random_node(rng: Random, name: str) -> Node:
    """A node of zone a or b with 0, 4 or 8 GPUs; `n0` to `n4`, `n10` and `n11` list theirs."""
    labels = {"zone": rng.choice("ab"), "rank": str(rng.randint(0, 6))}
    count = rng.choice([0, 4, 8])
    models = [rng.choice(["H100", "T4"]) for _ in range(count)]
    gpus = tuple(
        Gpu(f"GPU-{name}-{index}", index, model, _MEMORY_MIB[model])
        for index, model in enumerate(models)
    )
    # Small nodes, and some without cpu or memory: what a pod takes must make a difference.
    small = {"cpu": rng.choice([0, 3000, 8000]), "memory": rng.choice([0, 7, 16]) << 30}
    return a_node(
        name,
        gpus=count,
        resources=small if rng.random() < 0.7 else {},
        inventory=Inventory(gpus, dialects=frozenset({DIALECT})) if name < "n5" else None,
        labels=labels if rng.random() < 0.8 else {},
        taints=tuple(
            a_taint(effect=effect)
            for effect in ("NoSchedule", "PreferNoSchedule")
            if rng.random() < 0.3
        ),
        images=tuple(Image((image,), rng.randint(1, 900) << 20) for image in rng.choice(_IMAGES)),
        features=("F",) if rng.random() < 0.5 else (),
        unschedulable=rng.random() < 0.2,
    )


def random_pod(rng: Random, number: int) -> Pod:
    """A pod on one of the nodes `n0` to `n11`, with up to two whole GPUs."""
    return a_pod(
        f"p{number}",
        uid=f"fixed-{number}",
        gpus=rng.randint(0, 2),
        cpu=rng.choice([0, 500]),
        host_ports=(HostPort(80),) if rng.random() < 0.2 else (),
        node=f"n{rng.randint(0, 11)}",
        priority=rng.randint(-1, 1),
        labels={"app": rng.choice("abc")} if rng.random() < 0.7 else {},
        deleting=rng.random() < 0.1,
        **_random_terms(rng),
        scored=(rng.choice([100, 500]), rng.choice([1, 4]) << 30),
        volumes=_VOLUMES if rng.random() < 0.1 else None,
    )


_VOLUMES = PodVolumes((VolumeClaimUse("default/bound"),), (Disk("gce/shared", read_only=True),))


def _random_terms(rng: Random) -> dict[str, Any]:
    apart, near = pod_term("zone", app="b"), pod_term("rank", app="b")
    return {
        "anti_affinity": (apart,) if rng.random() < 0.1 else (),
        "required_affinity": (near,) if rng.random() < 0.1 else (),
        "preferred_affinity": ((apart, rng.randint(-9, 9)),) if rng.random() < 0.2 else (),
    }
