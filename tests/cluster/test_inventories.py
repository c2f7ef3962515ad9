"""The GPUs of a node, from several sources: merged by UUID, whatever comes first or goes."""

import pytest

from builders import a_node, a_pod, an_engine, decide, see
from fairlead.cluster.aspects import NOTHING
from fairlead.cluster.checking import wrong_nodes
from fairlead.cluster.cluster import Cluster
from fairlead.engine.events import InventorySeen, NodeGone, NodeSeen
from fairlead.engine.instructions import Bind
from fairlead.model.gpus import Gpu, GpuRequest, GpuUse, Grant, Inventory
from fairlead.model.machines import all_joined
from fairlead.model.nodes import Node

SLICES = "resourceslices/gpu.nvidia.com"
TWO = (Gpu("GPU-a", 0, "H100", 80_000), Gpu("GPU-b", 1, "H100", 80_000))
SICK = (Gpu("GPU-b", 0, "H100", healthy=False, sharers=2), Gpu("GPU-c", 1, "H100"))
OURS = Inventory(TWO, dialects=frozenset({"fairlead"}))
THEIRS = Inventory(SICK, dialects=frozenset({"dra"}))
COUNTED = Inventory(
    tuple(Gpu("", index, "H100", 80_000) for index in range(2)), all_joined(2), "c1", named=False
)


def listing(inventory: Inventory | None) -> Node:
    return a_node("n1", gpus=2, inventory=inventory)


def seen(cluster: Cluster) -> Inventory:
    found = cluster.inventory_of("n1")
    assert found is not None
    assert wrong_nodes(cluster, ["n1"]) == []
    return found


def test_the_node_comes_first_and_others_add_their_doubts() -> None:
    cluster = Cluster()
    cluster.put_node(listing(OURS))
    cluster.put_inventory("n1", SLICES, THEIRS)
    found = seen(cluster)
    assert [(g.uuid, g.healthy, g.sharers) for g in found.gpus] == [
        ("GPU-a", True, 0), ("GPU-b", False, 2),
    ]  # fmt: skip
    assert found.dialects == {"fairlead", "dra"}
    assert not cluster.columns.devices.there[0, 1]


def test_the_order_in_which_sources_come_makes_no_difference() -> None:
    cluster, other = Cluster(), Cluster()
    cluster.put_inventory("n1", SLICES, THEIRS)
    assert cluster.inventory_of("n1") is None
    cluster.put_node(listing(OURS))
    other.put_node(listing(None))
    other.put_inventory("n1", "a", Inventory((Gpu("GPU-a", 0, healthy=False),)))
    other.put_inventory("n1", SLICES, THEIRS)
    other.put_node(listing(OURS))
    other.put_inventory("n1", "a", None)
    assert seen(cluster) == seen(other)


def test_a_source_that_goes_leaves_the_others_and_a_node_that_goes_leaves_its_sources() -> None:
    cluster = Cluster()
    cluster.put_node(listing(OURS))
    cluster.put_inventory("n1", SLICES, THEIRS)
    cluster.remove_node("n1")
    cluster.put_node(listing(None))
    assert [gpu.uuid for gpu in seen(cluster).gpus] == ["GPU-b", "GPU-c"]
    cluster.put_inventory("n1", SLICES, None)
    assert cluster.inventory_of("n1") is None
    cluster.put_node(listing(OURS))
    assert seen(cluster) is OURS
    assert not cluster.columns.inventories._of_node


def test_labels_complete_what_another_source_lists() -> None:
    """They know links by index, whatever the order of the list."""
    cluster = Cluster()
    cluster.put_node(listing(COUNTED))
    backwards = Inventory((Gpu("GPU-b", 1), Gpu("GPU-a", 0)))
    cluster.put_inventory("n1", SLICES, backwards)
    found = seen(cluster)
    assert found.named
    assert [gpu.uuid for gpu in found.gpus] == ["GPU-b", "GPU-a"]
    assert (found.links, found.clique) == (all_joined(2), "c1")
    cluster.put_inventory("n1", SLICES, Inventory((Gpu("GPU-b", 1),)))
    assert not seen(cluster).links, "links of other GPUs"


def test_gpus_by_uuid_are_believed_before_gpus_by_index() -> None:
    cluster = Cluster()
    cluster.put_node(listing(Inventory((Gpu("0", 0, sharers=1), Gpu("1", 1)))))
    cluster.put_inventory("n1", SLICES, OURS)
    assert [(gpu.uuid, gpu.sharers) for gpu in seen(cluster).gpus] == [("GPU-a", 1), ("GPU-b", 0)]


def test_nothing_is_computed_or_announced_when_nothing_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Cluster()
    cluster.put_node(listing(OURS))
    cluster.put_inventory("n1", SLICES, THEIRS)
    cluster.improved.drain()
    mark = cluster.changes.mark
    cluster.put_inventory("n1", SLICES, THEIRS)
    monkeypatch.setattr(cluster.columns, "put_gpus", None)  # a heartbeat does not come this far
    cluster.put_node(listing(OURS))
    assert cluster.changes.mark == mark
    assert cluster.improved.drain() == NOTHING


def test_what_pods_hold_is_held_of_the_merged_gpus() -> None:
    cluster = Cluster()
    cluster.put_node(listing(None))
    cluster.confirm(a_pod(node="n1", uid="u", grant=Grant((GpuUse("GPU-c"),))))
    cluster.put_inventory("n1", SLICES, THEIRS)
    assert cluster.columns.devices.users[0, :2].tolist() == [0, 1]
    cluster.put_inventory("n1", SLICES, None)
    assert cluster.columns.devices.elsewhere[0] == 1
    assert wrong_nodes(cluster, ["n1"]) == []


def test_a_pod_that_waits_for_gpus_is_placed_when_another_source_lists_them() -> None:
    engine = an_engine(listing(None))
    share = GpuRequest(1, whole=False, milli=500, dialect="fairlead")
    see(engine, a_pod("p", gpu_request=share))
    assert not [made for made in decide(engine) if isinstance(made, Bind)]
    engine.handle(InventorySeen("n1", SLICES, OURS), now=1.0)
    (bind,) = decide(engine, now=30.0)
    assert isinstance(bind, Bind)
    assert bind.grant is not None
    engine.handle(NodeGone("n1"), now=31.0)
    engine.handle(NodeSeen(listing(None)), now=32.0)
    assert engine.cluster.inventory_of("n1") == OURS
