"""What is booked wrongly is found out, whatever it is."""

from dataclasses import replace

import pytest

from builders import a_node, a_pod
from fairlead.cluster.checking import misplaced, wrong_nodes
from fairlead.cluster.cluster import Cluster
from fairlead.model.gpus import Gpu, GpuUse, Grant, Inventory, MigProfile
from fairlead.model.map_slots import Member
from fairlead.model.pods import Pod

CUT = (MigProfile("1g.10gb", 1, tuple(range(7))),)
GPUS = Inventory((Gpu("GPU-0", 0, "H100", 8000), Gpu("GPU-1", 1, "H100", 8000, mig=CUT)))


def given(uid: str, *uses: GpuUse, node: str = "n1", **more) -> Pod:
    return a_pod(uid, uid=uid, node=node, grant=Grant(uses, **more), cpu=100)


def a_cluster() -> Cluster:
    cluster = Cluster()
    for name in ("n1", "n2"):
        cluster.put_node(a_node(name, inventory=GPUS))
    cluster.confirm(given("a", GpuUse("GPU-0", False, 300, 1000), GpuUse("GPU-lost")))
    cluster.confirm(given("b", GpuUse("1", False, 0, 0, "1g.10gb", 3, 1), pending=True))
    cluster.confirm(a_pod("c", uid="c", cpu=5, resources={"example.com/new": 1}, node="n1"))
    return cluster


COLUMNS = ("users", "wholes", "milli_free", "memory_free", "slices_used")


@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("slot", [0, 5])
def test_a_wrong_number_about_a_gpu(column: str, slot: int) -> None:
    cluster = a_cluster()
    assert wrong_nodes(cluster, ["n1", "n2", "gone"]) == []
    getattr(cluster.columns.devices, column)[1, slot] += 1
    assert wrong_nodes(cluster, ["n1", "n2", "gone"]) == ["n2"]


@pytest.mark.parametrize("column", ["elsewhere", "pending"])
def test_a_wrong_number_about_the_gpus_of_a_node(column: str) -> None:
    cluster = a_cluster()
    getattr(cluster.columns.devices, column)[0] -= 1
    assert wrong_nodes(cluster, cluster.row_of) == ["n1"]


def test_a_wrong_amount() -> None:
    cluster = a_cluster()
    cluster.columns.requested[0, 0] += 1
    assert wrong_nodes(cluster, cluster.row_of) == ["n1"]


def test_a_gpu_that_a_map_shares_is_right() -> None:
    """Two pods of one workload have the GPU; a third workload that claims it overdraws it."""
    cluster = a_cluster()
    for uid, workload in (("d", "ns/a"), ("e", "ns/a"), ("f", "ns/b")):
        cluster.confirm(given(uid, GpuUse("0"), node="n2", member=Member(workload, 3)))
        assert wrong_nodes(cluster, cluster.row_of) == []
    assert cluster.columns.devices.wholes[cluster.row_of["n2"], 0] == 2
    for uid in ("d", "f", "e"):
        cluster.remove(uid)
        assert wrong_nodes(cluster, cluster.row_of) == []


def test_parts_that_members_of_a_map_claim_are_added_up() -> None:
    """Assignments may name any part: what the first took must not be what the last gives back."""
    cluster = a_cluster()
    member = Member("ns/a", 0)
    cluster.confirm(given("d", GpuUse("0", False, 300, 10), node="n2", member=member))
    cluster.confirm(given("e", GpuUse("0", False, 500, 20), node="n2", member=member))
    cluster.remove("d")
    assert wrong_nodes(cluster, cluster.row_of) == []
    cluster.remove("e")
    assert cluster.columns.devices.milli_free[cluster.row_of["n2"], 0] == 1000


def test_pods_that_are_not_booked_as_they_are() -> None:
    cluster = a_cluster()
    bound = {held.pod.uid: held.pod for held in cluster.holdings.values()}
    assert list(misplaced(cluster, bound)) == []
    moved, swapped = replace(bound["a"], node="n2"), given("b", GpuUse("GPU-1"))
    missing = given("d", GpuUse("GPU-1"))
    told = {"a": moved, "b": swapped, "d": missing}
    assert dict(misplaced(cluster, told)) == {"a": moved, "b": swapped, "d": missing, "c": None}


def test_a_pod_on_its_way_is_not_missed_by_the_api_server() -> None:
    cluster = Cluster()
    cluster.put_node(a_node("n1", inventory=GPUS))
    cluster.assume(a_pod("e", uid="e"), "n1", Grant((GpuUse("GPU-0"),)))
    assert list(misplaced(cluster, {})) == []
    assert wrong_nodes(cluster, ["n1"]) == []
