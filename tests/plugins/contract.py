"""What every plugin promises, as checks that plugin authors can run on their own.

from contract import check_plugin
check_plugin(MyPlugin())
"""

import random

import numpy as np

from builders import a_node, a_pod, a_request, a_taint, pod_term, selects
from fairlead.cluster.aspects import Aspect
from fairlead.cluster.cluster import Cluster
from fairlead.cluster.nodes import Nodes
from fairlead.model.gpus import Gpu, GpuRequest, Inventory
from fairlead.model.loads import PodLoad
from fairlead.model.map_slots import MapSlot
from fairlead.model.nodes import Image, Node
from fairlead.model.pods import HostPort, NodeTerm, PodRequest, PreferredTerm, Toleration
from fairlead.model.prices import PodShape, Prices
from fairlead.model.readings import GpuReading, NodeReadings
from fairlead.model.scheduling_map import Line
from fairlead.model.selectors import Requirement, SpreadRule
from fairlead.model.storage import CsiNode, StorageClass, Volume, VolumeClaim
from fairlead.model.volumes import CsiVolume, Disk, PodVolumes, VolumeClaimUse
from fairlead.plugins.api import (
    ClusterFilter,
    Filter,
    Picker,
    Plugin,
    RelativeScore,
    Score,
    concerns,
    reasons_of,
)

REQUESTS = (
    a_request(),
    a_request(gpus=1),
    a_request(gpus=3, cpu=2000, scored=(2000, 1 << 30)),
    a_request(cpu=700, scored=(700, 5 << 30), resources={"memory": 5 << 30}),
    a_request(cpu=10**9),
    a_request(node_selector=(("zone", "a"),)),
    a_request(node_terms=(NodeTerm((Requirement("rank", "Gt", ("3",)),)),)),
    a_request(tolerations=(Toleration("dedicated", "Exists"),)),
    a_request(host_ports=(HostPort(80),)),
    a_request(node_name="n3"),
    a_request(cpu=2000, asks=GpuRequest(1, False, 300, dialect="fairlead")),
    a_request(cpu=2000, asks=GpuRequest(2, models=frozenset({"H100"}), dialect="fairlead")),
    a_request(namespace="default", required_affinity=(pod_term("zone", app="a"),)),
    a_request(namespace="default", anti_affinity=(pod_term("zone", app="a"),)),
    a_request(namespace="default", spread=(SpreadRule("zone", 1, selects(app="a")),)),
    a_request(preferred=(PreferredTerm(7, NodeTerm((Requirement("zone", "In", ("a",)),))),)),
    a_request(namespace="default", soft_spread=(SpreadRule("zone", 1, selects(app="a")),)),
    a_request(preferred_affinity=((pod_term("zone", app="a"), 5), (pod_term("rank", app="b"), -3))),
    a_request(namespace="default", labels=(("app", "b"),)),
    a_request(images=("x:1", "y:2"), containers=2),
    a_request(features=("F",)),
    a_request(
        volumes=PodVolumes((VolumeClaimUse("default/bound"), VolumeClaimUse("default/waiting")))
    ),
    a_request(volumes=PodVolumes((VolumeClaimUse("default/alone"),), (Disk("gce/shared"),))),
    a_request(asks=GpuRequest(1, False, 200, dialect="fairlead"), load=PodLoad(0.7, cyclic=True)),
    a_request(asks=GpuRequest(0, map_slot=MapSlot("ns/x", (Line(0, "n3", "1"),), 0))),
    a_request(asks=GpuRequest(0, map_slot=MapSlot("ns/x", (Line(0, "n3", "1"),)))),
)
IN_ZONE_A = (NodeTerm((Requirement("zone", "In", ("a",)),)),)
CSI = CsiVolume("csi", "disk-1")
STORAGE = (
    StorageClass("waits", waits=True),
    VolumeClaim("default", "waiting", storage_class="waits", size_bytes=1),
    Volume("free", storage_class="waits", capacity_bytes=2, phase="Available",
           node_terms=IN_ZONE_A),
    VolumeClaim("default", "bound", volume="taken", bind_completed=True),
    Volume("taken", claim="default/bound", phase="Bound", csi=CSI, labels={"zone": "b"}),
    VolumeClaim("default", "alone", volume="taken", bind_completed=True,
          access_modes=("ReadWriteOncePod",)),
    *(CsiNode(f"n{number}", drivers=("csi",), limits=(("csi", number % 2),))
      for number in range(12)),
)  # fmt: skip


def check_plugin(plugin: Plugin) -> None:
    """Raises AssertionError if the plugin breaks a promise of `fairlead.plugins.api`."""
    for seed in range(12):
        dice = random.Random(seed)
        nodes = [random_node(dice, f"n{number}") for number in range(dice.randint(1, 12))]
        pods = [random_pod(dice, number) for number in range(30)]
        scene = Scene(nodes, pods, dice)
        for request in REQUESTS:
            _check_one(plugin, request, scene, dice)


class Scene:
    """One cluster and its variations, each built once and shared by all requests."""

    def __init__(self, nodes, pods, dice) -> None:
        self.nodes = nodes
        self._pods = pods
        self.cluster = a_cluster(nodes, pods)
        self.shuffled = dice.sample(nodes, len(nodes))
        self._built: dict[object, Cluster] = {}

    def in_another_order(self) -> Nodes:
        return self._made("order", lambda: a_cluster(self.shuffled, self._pods))

    def changed(self, aspect: Aspect) -> Nodes:
        """Every node is another in this respect."""
        change = _CHANGES[aspect]
        return self._made(aspect, lambda: a_cluster([change(n) for n in self.nodes], self._pods))

    def without_storage(self) -> Nodes:
        return self._made("storage", lambda: a_cluster(self.nodes, self._pods, storage=()))

    def without_pods(self) -> Nodes:
        return self._made("pods", lambda: a_cluster(self.nodes, []))

    def with_nothing_measured(self) -> Nodes:
        return self._made("load", lambda: a_cluster(self.nodes, self._pods, measured=False))

    def _made(self, what, make) -> Nodes:
        if what not in self._built:
            self._built[what] = make()
        return self._built[what].nodes


#: Gaps of more than half a GPU are worth something, and somebody insists on an H100.
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


def _check_one(plugin: Plugin, request: PodRequest, scene: Scene, dice) -> None:
    for kind in (Filter, Score, RelativeScore, Picker):
        if isinstance(plugin, kind):
            _check_as(kind, plugin, request, scene, dice)


def _check_as(kind, plugin: Plugin, request: PodRequest, scene: Scene, dice) -> None:
    def answer(of: Nodes):
        return _ASK[kind](plugin, request, of)

    cluster = scene.cluster
    before = _fingerprint(cluster)
    whole = answer(cluster.nodes)
    _check_form(kind, plugin, whole, len(scene.nodes))
    if kind in (Filter, Score) and not concerns(plugin, request):
        unmoved = whole.all() if kind is Filter else not whole.any()
        assert unmoved, f"{plugin.name} has something to say, and must be concerned"
    if kind in (Filter, Score) and not (kind is Filter and isinstance(plugin, ClusterFilter)):
        _check_rows_stand_alone(plugin, answer, cluster, whole, dice)
    if kind is not Picker:
        _check_order_does_not_matter(plugin, answer, scene, whole)
        _check_reads(plugin, answer, scene, whole)
    if kind is Filter:
        _check_reasons(plugin, request, cluster, whole)
    assert _fingerprint(cluster) == before, f"{plugin.name} changed the cluster"


def _ranked(plugin: RelativeScore, request: PodRequest, nodes: Nodes):
    """As a view asks: about some of the nodes, and only if the plugin cares."""
    left = nodes.named([f"n{number}" for number in range(12) if number % 3 != 1])
    left = left if left.any() else nodes.present()
    ranks = plugin.rank(request, nodes, left)
    if plugin.applies_as_score(request, nodes):
        return ranks
    assert len(set(ranks[left])) <= 1, f"{plugin.name} does care, and must say so"
    return np.zeros(len(nodes))


_ASK = {
    Filter: lambda plugin, request, nodes: plugin.allows(request, nodes),
    Score: lambda plugin, request, nodes: plugin.rate(request, nodes),
    RelativeScore: _ranked,
    Picker: lambda plugin, request, nodes: plugin.pick(request, nodes, np.zeros(len(nodes))),
}


def _check_form(kind, plugin: Plugin, found, rows: int) -> None:
    if kind is Picker:
        assert -1 <= int(found) < rows, f"{plugin.name} picked a row that is not there"
        return
    assert found.shape == (rows,), f"{plugin.name} must answer for every node"
    if kind is Filter:
        assert found.dtype == np.bool_, f"{plugin.name} must answer with booleans"
    else:
        assert found.dtype == np.float64, f"{plugin.name} must answer with floats"
        assert ((found >= 0) & (found <= 100)).all(), f"{plugin.name} must score from 0 to 100"


def _check_rows_stand_alone(plugin, answer, cluster, whole, dice) -> None:
    """Asked about some nodes, it says what it says about them among all."""
    rows = np.array(sorted(dice.sample(range(len(whole)), dice.randint(1, len(whole)))))
    some = answer(Nodes(cluster.columns, rows))
    assert (some == whole[rows]).all(), f"{plugin.name} looks at other nodes than its own"
    row = int(rows[0])
    one = answer(Nodes(cluster.columns, slice(row, row + 1)))
    assert (one == whole[row]).all(), f"{plugin.name} looks at other nodes than its own"


def _check_order_does_not_matter(plugin, answer, scene: Scene, whole) -> None:
    again = answer(scene.in_another_order())
    told = dict(zip([node.name for node in scene.nodes], whole.tolist(), strict=True))
    expected = [told[node.name] for node in scene.shuffled]
    assert again.tolist() == expected, f"{plugin.name} minds order"


_CHANGES = {
    Aspect.LABELS: lambda n: _with(n, labels={"zone": "b", "rank": "1"}),
    Aspect.ANNOTATIONS: lambda n: _with(n, annotations={"note": "x"}),
    Aspect.TAINTS: lambda n: _with(n, taints=(a_taint("other"),), unschedulable=True),
    Aspect.ALLOCATABLE: lambda n: a_node(
        n.name, gpus=2, gpus_listed=n.inventory,
        **{key: getattr(n, key) for key in _KEPT if key not in ("allocatable", "inventory")},
    ),
    Aspect.IMAGES: lambda n: _with(n, images=(Image(("y:2",), 500 << 20),)),
    Aspect.FEATURES: lambda n: _with(n, features=("F", "G")),
    Aspect.DEVICES: lambda n: _with(n, inventory=None),
}  # fmt: skip


def _check_reads(plugin, answer, scene: Scene, whole) -> None:
    """What it does not declare to read does not change its mind."""
    for aspect in _CHANGES:
        if not plugin.reads & aspect:
            again = answer(scene.changed(aspect))
            assert (again == whole).all(), f"{plugin.name} reads {aspect.name} and must say so"
    if not plugin.reads & Aspect.VOLUMES:
        again = answer(scene.without_storage())
        assert (again == whole).all(), f"{plugin.name} reads VOLUMES and must say so"
    if not plugin.reads & Aspect.LOAD:
        again = answer(scene.with_nothing_measured())
        assert (again == whole).all(), f"{plugin.name} reads LOAD and must say so"
    if not plugin.reads & (Aspect.USAGE | Aspect.PORTS | Aspect.PODS | Aspect.VOLUMES):
        again = answer(scene.without_pods())
        assert (again == whole).all(), f"{plugin.name} reads USAGE, PORTS or PODS and must say so"


def _check_reasons(plugin, request, cluster, allowed) -> None:
    explained = cluster.nodes.none()
    for reason in reasons_of(plugin, request, cluster.nodes):
        explained |= reason.where
        assert not (reason.resolvable & ~reason.where).any(), f"{plugin.name}: cure without ill"
    assert (explained == ~allowed).all(), f"{plugin.name} must explain exactly what it refuses"


def a_cluster(nodes, pods, storage=STORAGE, *, measured=True) -> Cluster:
    cluster = Cluster()
    for told in storage:
        cluster.put_storage(told)
    for node in nodes:
        cluster.put_node(node)
    for pod in pods:
        cluster.confirm(pod)
    if len(nodes) % 2:
        cluster.put_prices(PRICES)
    if measured:
        cluster.put_readings([_readings(node.name) for node in nodes], now_s=100.0)
    return cluster


def _readings(node: str) -> NodeReadings:
    """Every other GPU, busy by its place and that of its node."""
    number = int(node[1:])
    gpus = {
        str(index): GpuReading((number + index) % 11 / 10, 0.1, 1000.0 * index, cyclic=index == 2)
        for index in range(number % 2, 8, 2)
    }
    return NodeReadings(node, 90.0, gpus)


def random_node(dice: random.Random, name: str) -> Node:
    labels = {"zone": dice.choice("ab"), "rank": str(dice.randint(0, 6))}
    count = dice.choice([0, 4, 8])
    gpus = tuple(Gpu(f"GPU-{name}-{n}", n, dice.choice(["H100", "T4"])) for n in range(count))
    # Small ones, and some that offer no cpu or memory at all: what a pod takes must show.
    small = {"cpu": dice.choice([0, 3000, 8000]), "memory": dice.choice([0, 7, 16]) << 30}
    return a_node(
        name,
        gpus=count,
        resources=small if dice.random() < 0.7 else {},
        gpus_listed=Inventory(gpus, dialects=frozenset({"fairlead"})) if name < "n5" else None,
        labels=labels if dice.random() < 0.8 else {},
        taints=tuple(
            a_taint(effect=effect)
            for effect in ("NoSchedule", "PreferNoSchedule")
            if dice.random() < 0.3
        ),
        images=tuple(Image((name,), dice.randint(1, 900) << 20) for name in dice.choice(_IMAGES)),
        features=("F",) if dice.random() < 0.5 else (),
        unschedulable=dice.random() < 0.2,
    )


_IMAGES = ((), ("x:1",), ("x:1", "y:2"), ("z:3",))


def random_pod(dice: random.Random, number: int):
    return a_pod(
        f"p{number}",
        uid=f"fixed-{number}",
        gpus=dice.randint(0, 2),
        cpu=dice.choice([0, 500]),
        host_ports=(HostPort(80),) if dice.random() < 0.2 else (),
        node=f"n{dice.randint(0, 11)}",
        priority=dice.randint(-1, 1),
        labels={"app": dice.choice("abc")} if dice.random() < 0.7 else {},
        deleting=dice.random() < 0.1,
        anti_affinity=(pod_term("zone", app="b"),) if dice.random() < 0.1 else (),
        required_affinity=(pod_term("rank", app="b"),) if dice.random() < 0.1 else (),
        preferred_affinity=((pod_term("zone", app="b"), dice.randint(-9, 9)),)
        if dice.random() < 0.2
        else (),
        scored=(dice.choice([100, 500]), dice.choice([1, 4]) << 30),
        volumes=PodVolumes(
            (VolumeClaimUse("default/bound"),), (Disk("gce/shared", read_only=True),)
        )
        if dice.random() < 0.1
        else None,
    )


_KEPT = (
    "allocatable", "labels", "annotations", "taints", "unschedulable", "images", "features",
    "inventory",
)  # fmt: skip


def _with(node: Node, **changes) -> Node:
    return Node(node.name, **{**{key: getattr(node, key) for key in _KEPT}, **changes})


def _fingerprint(cluster: Cluster) -> bytes:
    columns = cluster.columns
    return b"".join(
        array.tobytes()
        for array in (columns.allocatable, columns.requested, columns.cordoned, columns.present)
    )
