"""GPUs that a device plugin picked: known by name, and counted as before."""

import pytest

from builders import a_node, a_pod
from fairlead.base.node_inventory import MOST_PICKED, GpuEntry, Listing, write
from fairlead.cluster.aspects import Aspect
from fairlead.cluster.checking import wrong_nodes
from fairlead.cluster.cluster import Cluster
from fairlead.cluster.inventories import merged
from fairlead.cluster.picked import named_uses, picked_gpus
from fairlead.kube.dialects import inventory
from fairlead.model.errors import FairleadError
from fairlead.model.gpus import Gpu, GpuRequest, Inventory
from fairlead.model.nodes import GPU, Node

TWO = [GpuEntry(0, "GPU-a"), GpuEntry(1, "GPU-b")]


def node(picked: dict[str, list[str]] | None) -> Node:
    found = inventory.read(write(Listing(TWO, plugin=True, picked=picked)))
    return a_node("n1", gpus=2, inventory=found)


def test_the_scheduler_reads_which_gpus_the_agent_says_were_picked() -> None:
    found = node({"u1": ["GPU-b"], "u2": ["GPU-a", "GPU-of-another-node"]}).inventory
    assert found is not None
    assert found.picked == {"u1": ("GPU-b",), "u2": ("GPU-a",)}
    assert not found.named


def test_none_picked_is_not_the_same_as_not_known() -> None:
    for said in (None, {}):
        found = node(said).inventory
        assert found is not None
        assert found.picked == said


def test_more_pods_than_are_allowed_cannot_be_read() -> None:
    too_many = {f"u{n}": ["GPU-a"] for n in range(MOST_PICKED + 1)}
    with pytest.raises(FairleadError, match="picked"):
        node(too_many)


def test_the_names_stay_where_several_sources_list_the_gpus() -> None:
    counted = Inventory((Gpu("", 0), Gpu("", 1)), named=False)
    ours = node({"u1": ["GPU-a"]}).inventory
    assert ours is not None
    both = merged([counted, ours])
    assert both is not None
    assert both.picked == {"u1": ("GPU-a",)}


def test_a_pod_has_the_gpus_by_name_and_the_ledger_still_counts() -> None:
    cluster = Cluster()
    cluster.put_node(node({}))
    pod = a_pod("p", gpus=1, node="n1", gpu_request=GpuRequest(1))
    cluster.confirm(pod)
    held = cluster.holdings[pod.uid]
    assert [use.uuid for use in named_uses(cluster, held)] == [""]
    before = cluster.nodes.free(GPU).tolist()

    cluster.put_node(node({pod.uid: ["GPU-b"]}))

    assert picked_gpus(cluster, "n1", pod.uid) == ("GPU-b",)
    assert [use.uuid for use in named_uses(cluster, held)] == ["GPU-b"]
    assert cluster.nodes.free(GPU).tolist() == before
    assert not cluster.columns.devices.known[0]
    assert wrong_nodes(cluster, ["n1"]) == []


def test_no_waiting_pod_is_woken_by_a_name() -> None:
    cluster = Cluster()
    cluster.put_node(node({}))
    cluster.improved.drain()
    cluster.put_node(node({"u1": ["GPU-b"]}))
    assert not cluster.improved.drain() & Aspect.DEVICES
