"""What every plugin promises, as checks that plugin authors can run on their own.

from contract import check_plugin
check_plugin(MyPlugin())
"""

import random

import numpy as np

from builders import a_node, a_pod, a_request, a_taint, near, selects
from fairlead.cluster.aspects import Aspect
from fairlead.cluster.cluster import Cluster
from fairlead.cluster.nodes import Nodes
from fairlead.model.gpus import Card, GpuAsk, Inventory
from fairlead.model.nodes import Node
from fairlead.model.pods import HostPort, NodeTerm, PodRequest, Toleration
from fairlead.model.prices import Prices, Shape
from fairlead.model.selectors import Requirement, SpreadRule
from fairlead.plugins.api import Filter, LooksAround, Picker, Plugin, Score, reasons_of

REQUESTS = (
    a_request(),
    a_request(gpus=1),
    a_request(gpus=3, cpu=2000, scored=(2000, 1 << 30)),
    a_request(cpu=10**9),
    a_request(node_selector=(("zone", "a"),)),
    a_request(node_terms=(NodeTerm((Requirement("rank", "Gt", ("3",)),)),)),
    a_request(tolerations=(Toleration("dedicated", "Exists"),)),
    a_request(host_ports=(HostPort(80),)),
    a_request(node_name="n3"),
    a_request(cpu=2000, asks=GpuAsk(1, False, 300, dialect="fairlead")),
    a_request(cpu=2000, asks=GpuAsk(2, models=frozenset({"H100"}), dialect="fairlead")),
    a_request(namespace="default", near=(near("zone", app="a"),)),
    a_request(namespace="default", apart=(near("zone", app="a"),)),
    a_request(namespace="default", spread=(SpreadRule("zone", 1, selects(app="a")),)),
)


def check_plugin(plugin: Plugin) -> None:
    """Raises AssertionError if the plugin breaks a promise of `fairlead.plugins.api`."""
    for seed in range(12):
        dice = random.Random(seed)
        nodes = [random_node(dice, f"n{number}") for number in range(dice.randint(1, 12))]
        pods = [random_pod(dice, number) for number in range(30)]
        for request in REQUESTS:
            _check_one(plugin, request, nodes, pods, dice)


#: Gaps of more than half a card are worth something, and somebody insists on an H100.
PRICES = Prices(
    pods=100,
    values=tuple(float(max(0, free - 50)) for free in range(101)),
    cpu_milli_per_card=4000.0,
    memory_bytes_per_card=float(1 << 34),
    blocks=((2, 0.1),),
    pressure=(("H100", 0.5),),
    typical=((Shape(1000, 0, 1, 500), 0.6), (Shape(2000, 0, 2, 1000), 0.3), (Shape(500), 0.1)),
)


def _check_one(plugin: Plugin, request: PodRequest, nodes, pods, dice) -> None:
    cluster = a_cluster(nodes, pods)
    before = _fingerprint(cluster)
    whole = answer(plugin, request, cluster.nodes)
    _check_form(plugin, whole, len(nodes))
    _check_rows_stand_alone(plugin, request, cluster, whole, dice)
    if not isinstance(plugin, Picker):
        _check_order_does_not_matter(plugin, request, nodes, pods, whole, dice)
        _check_reads(plugin, request, nodes, pods, whole)
    if isinstance(plugin, Filter):
        _check_reasons(plugin, request, cluster, whole)
    assert _fingerprint(cluster) == before, f"{plugin.name} changed the cluster"


def answer(plugin: Plugin, request: PodRequest, nodes: Nodes):
    if isinstance(plugin, Filter):
        return plugin.allows(request, nodes)
    if isinstance(plugin, Score):
        return plugin.rate(request, nodes)
    return plugin.pick(request, nodes, np.zeros(len(nodes)))


def _check_form(plugin: Plugin, found, rows: int) -> None:
    if isinstance(plugin, Picker):
        assert -1 <= int(found) < rows, f"{plugin.name} picked a row that is not there"
        return
    assert found.shape == (rows,), f"{plugin.name} must answer for every node"
    if isinstance(plugin, Filter):
        assert found.dtype == np.bool_, f"{plugin.name} must answer with booleans"
    else:
        assert found.dtype == np.float64, f"{plugin.name} must answer with floats"
        assert ((found >= 0) & (found <= 100)).all(), f"{plugin.name} must score from 0 to 100"


def _check_rows_stand_alone(plugin, request, cluster, whole, dice) -> None:
    """Asked about some nodes, it says what it says about them among all."""
    if isinstance(plugin, Picker | LooksAround):
        return
    rows = np.array(sorted(dice.sample(range(len(whole)), dice.randint(1, len(whole)))))
    some = answer(plugin, request, Nodes(cluster.columns, rows))
    assert (some == whole[rows]).all(), f"{plugin.name} looks at other nodes than its own"
    row = int(rows[0])
    one = answer(plugin, request, Nodes(cluster.columns, slice(row, row + 1)))
    assert (one == whole[row]).all(), f"{plugin.name} looks at other nodes than its own"


def _check_order_does_not_matter(plugin, request, nodes, pods, whole, dice) -> None:
    shuffled = list(nodes)
    dice.shuffle(shuffled)
    again = answer(plugin, request, a_cluster(shuffled, pods).nodes)
    told = dict(zip([node.name for node in nodes], whole.tolist(), strict=True))
    assert again.tolist() == [told[node.name] for node in shuffled], f"{plugin.name} minds order"


def _check_reads(plugin, request, nodes, pods, whole) -> None:
    """What it does not declare to read does not change its mind."""
    changes = {
        Aspect.LABELS: lambda n: _with(n, labels={"zone": "b", "rank": "1"}),
        Aspect.ANNOTATIONS: lambda n: _with(n, annotations={"note": "x"}),
        Aspect.TAINTS: lambda n: _with(n, taints=(a_taint("other"),), unschedulable=True),
        Aspect.ALLOCATABLE: lambda n: a_node(
            n.name, gpus=2, labels=n.labels, annotations=n.annotations, taints=n.taints,
            unschedulable=n.unschedulable, gpus_listed=n.gpus,
        ),
        Aspect.DEVICES: lambda n: _with(n, gpus=None),
    }  # fmt: skip
    for aspect, change in changes.items():
        if not plugin.reads & aspect:
            again = answer(plugin, request, a_cluster([change(n) for n in nodes], pods).nodes)
            assert (again == whole).all(), f"{plugin.name} reads {aspect.name} and must say so"
    if not plugin.reads & (Aspect.USAGE | Aspect.PORTS | Aspect.PODS):
        again = answer(plugin, request, a_cluster(nodes, []).nodes)
        assert (again == whole).all(), f"{plugin.name} reads USAGE, PORTS or PODS and must say so"


def _check_reasons(plugin, request, cluster, allowed) -> None:
    explained = cluster.nodes.none()
    for reason in reasons_of(plugin, request, cluster.nodes):
        explained |= reason.where
        assert not (reason.curable & ~reason.where).any(), f"{plugin.name}: cure without ill"
    assert (explained == ~allowed).all(), f"{plugin.name} must explain exactly what it refuses"


def a_cluster(nodes, pods) -> Cluster:
    cluster = Cluster()
    for node in nodes:
        cluster.put_node(node)
    for pod in pods:
        cluster.confirm(pod)
    if len(nodes) % 2:
        cluster.put_prices(PRICES)
    return cluster


def random_node(dice: random.Random, name: str) -> Node:
    labels = {"zone": dice.choice("ab"), "rank": str(dice.randint(0, 6))}
    gpus = dice.choice([0, 4, 8])
    cards = tuple(Card(f"GPU-{name}-{n}", n, dice.choice(["H100", "T4"])) for n in range(gpus))
    return a_node(
        name,
        gpus=gpus,
        gpus_listed=Inventory(cards, dialects=frozenset({"fairlead"})) if name < "n5" else None,
        labels=labels if dice.random() < 0.8 else {},
        taints=(a_taint(),) if dice.random() < 0.3 else (),
        unschedulable=dice.random() < 0.2,
    )


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
        apart=(near("zone", app="b"),) if dice.random() < 0.1 else (),
    )


def _with(node: Node, **changes) -> Node:
    kept = {
        key: getattr(node, key)
        for key in ("allocatable", "labels", "annotations", "taints", "unschedulable", "gpus")
    }
    return Node(node.name, **{**kept, **changes})


def _fingerprint(cluster: Cluster) -> bytes:
    columns = cluster.columns
    return b"".join(
        array.tobytes()
        for array in (columns.allocatable, columns.requested, columns.cordoned, columns.present)
    )
