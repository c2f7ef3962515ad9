"""Clusters drawn by Hypothesis: GPUs whole, shared and cut, ports, volumes, maps, affinity."""

from dataclasses import dataclass, replace

from hypothesis import strategies as st

from builders import a_node, a_pod, a_taint, pod_term
from fairlead.cluster.cluster import Cluster
from fairlead.model.gpus import Gpu, GpuRequest, GpuUse, Grant, Inventory, MigProfile
from fairlead.model.map_slots import MapSlot, Member
from fairlead.model.nodes import Node
from fairlead.model.pods import HostPort, Pod, Toleration
from fairlead.model.scheduling_map import Line
from fairlead.model.storage import CsiNode, StorageClass, StorageObject, Volume, VolumeClaim
from fairlead.model.volumes import CsiVolume, Disk, PodVolumes, VolumeClaimUse

NODES = [f"n{number}" for number in range(6)]
_CUT = (MigProfile("1g.10gb", 1, (0, 1, 2, 3)), MigProfile("2g.20gb", 2, (0, 2)))
_MAP = MapSlot("default/web", tuple(Line(i, NODES[i % 3], "0") for i in range(4)))
_ASKS = [
    None,
    GpuRequest(1),
    GpuRequest(2, together=2),
    GpuRequest(1, False, 300, memory_milli=300, dialect="fairlead"),
    GpuRequest(1, False, 500, 9000, dialect="fairlead"),
    GpuRequest(1, profile="1g.10gb"),
    GpuRequest(1, map_slot=_MAP),
]
_VOLUMES = [
    PodVolumes((VolumeClaimUse("default/c0"),)),
    PodVolumes((VolumeClaimUse("default/c1"), VolumeClaimUse("default/c2"))),
    PodVolumes(disks=(Disk("d0"),)),
    PodVolumes(inline=(CsiVolume("csi.example.com", "h0"),)),
]


@dataclass(frozen=True)
class World:
    """Objects to make a cluster of, as often as needed."""

    nodes: tuple[Node, ...]
    bound: tuple[Pod, ...]
    nominated: tuple[Pod, ...]
    storage: tuple[StorageObject, ...]
    #: Pods that ask for a node.
    pending: tuple[Pod, ...]

    def cluster(self) -> Cluster:
        cluster = Cluster()
        for observed in self.storage:
            cluster.put_storage(observed)
        for node in self.nodes:
            cluster.put_node(node)
        for pod in self.bound:
            cluster.confirm(pod)
        for pod in self.nominated:
            cluster.nominations.put(pod, pod.nominated)
        cluster.count_tenants(_app)
        return cluster


def _app(pod: Pod) -> str:
    return pod.labels["app"]


@st.composite
def nodes(draw: st.DrawFn, name: str) -> Node:
    gpus = draw(st.integers(1, 4))
    kind = draw(st.sampled_from(["counted", "listed", "listed", "cut"]))
    cut = _CUT if kind == "cut" else ()
    listed = tuple(Gpu(f"GPU-{name}-{n}", n, "NVIDIA A100", 40_000, mig=cut) for n in range(gpus))
    inventory = Inventory(listed, dialects=frozenset({"fairlead"})) if kind != "counted" else None
    labels = {"zone": draw(st.sampled_from("ab")), "host": name}
    taints = draw(
        st.sampled_from([(), (), (a_taint("x"),), (a_taint("y", effect="PreferNoSchedule"),)])
    )
    return a_node(name, gpus=gpus, labels=labels, taints=taints, inventory=inventory)


@st.composite
def pods(draw: st.DrawFn, uid: str, *, node: str = "", affine: bool = True) -> Pod:
    """Without `affine`, nothing about the pod depends on nodes other than its own."""
    special = draw(st.sampled_from(["", "", "ports", "volumes", "near", "apart", "likes"]))
    app = draw(st.sampled_from("xy"))
    term = pod_term(draw(st.sampled_from(["zone", "host"])), app=draw(st.sampled_from("xy")))
    more = {
        "ports": {"host_ports": (HostPort(80),)},
        "volumes": {"volumes": draw(st.sampled_from(_VOLUMES))},
        "near": {"required_affinity": (term,)} if affine else {},
        "apart": {"anti_affinity": (term,)} if affine else {},
        "likes": {"preferred_affinity": ((term, 7),)} if affine else {},
    }.get(special, {})
    return a_pod(
        uid, uid=uid, node=node, priority=draw(st.integers(0, 2)), labels={"app": app},
        cpu=draw(st.sampled_from([0, 1000, 30_000])), started=draw(st.sampled_from(["", "1", "2"])),
        tolerations=(Toleration("x", "Exists"),) if draw(st.booleans()) else (),
        gpu_request=draw(st.sampled_from(_ASKS)), **more,
    )  # fmt: skip


@st.composite
def worlds(draw: st.DrawFn, *, affine: bool = True) -> World:
    names = NODES[: draw(st.integers(2, len(NODES)))]
    bound = [
        _given(
            draw(pods(f"b{n}", node=draw(st.sampled_from(names)), affine=affine)),
            draw(st.integers(0, 3)),
        )
        for n in range(draw(st.integers(0, 6)))
    ]
    pending = [draw(pods(f"p{n}", affine=affine)) for n in range(draw(st.integers(1, 5)))]
    nominated = [_nominated(pod, draw(st.sampled_from(names))) for pod in pending[::3]]
    return World(
        tuple(draw(nodes(name)) for name in names),
        tuple(bound),
        tuple(nominated) if draw(st.booleans()) else (),
        tuple(draw(_storage())),
        tuple(pending),
    )


def _nominated(pod: Pod, node: str) -> Pod:
    return replace(pod, nominated=node)


def _given(pod: Pod, slot: int) -> Pod:
    """What an assignment on the pod says that it has: a part of one GPU, if it asks for GPUs."""
    ask, uuid = pod.request.gpu_request, f"GPU-{pod.node}-{slot}"
    if ask is None:
        return pod
    use = GpuUse(uuid, memory_mib=40_000)
    if ask.profile:
        use = GpuUse(uuid, False, 0, 0, ask.profile, slot, 1)
    elif not ask.whole:
        use = GpuUse(uuid, False, ask.milli, 9000)
    member = Member("default/web", slot) if ask.map_slot else None
    return replace(pod, grant=Grant((use,), ask.dialect, member=member))


@st.composite
def _storage(draw: st.DrawFn) -> list[StorageObject]:
    size = st.sampled_from([1 << 30, 2 << 30])
    claims = [
        VolumeClaim("default", f"c{n}", f"uid-c{n}", storage_class="waits", size_bytes=draw(size))
        for n in range(3)
    ]
    volumes = [
        Volume(
            f"v{n}", storage_class="waits", capacity_bytes=2 << 30, phase="Available",
            claim=draw(st.sampled_from(["", "", "default/c0"])),
        )
        for n in range(draw(st.integers(0, 4)))
    ]  # fmt: skip
    provisioner = draw(st.sampled_from(["csi.example.com", "kubernetes.io/no-provisioner"]))
    made_by = StorageClass("waits", provisioner=provisioner, waits=True)
    limits = CsiNode("n0", limits=(("csi.example.com", 1),), drivers=("csi.example.com",))
    return [made_by, limits, *volumes, *claims]
