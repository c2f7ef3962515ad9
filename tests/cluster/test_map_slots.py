"""GPUs that pods of one workload share by their map are taken once, whoever comes and goes."""

from hypothesis import given
from hypothesis import strategies as st

from builders import a_node, a_pod
from fairlead.cluster.cluster import Cluster
from fairlead.cluster.devices import Devices
from fairlead.cluster.holdings import Holding
from fairlead.model.gpus import WHOLE, Gpu, GpuUse, Grant, Inventory
from fairlead.model.map_slots import Member

GPUS = 3
NODE = a_node(
    "n1", gpus=0, inventory=Inventory(tuple(Gpu(f"GPU-{n}", n, "", 100) for n in range(GPUS)))
)
#: The workload of a pod ("" without a map), and the GPUs that it has.
PODS = st.tuples(st.sampled_from(["", "ns/a", "ns/b"]), st.sets(st.integers(0, GPUS - 1)))


def hold(cluster: Cluster, number: int, workload: str, gpus: set[int]) -> None:
    cluster.confirm(a_pod(str(number), uid=str(number), node="n1", grant=grant(workload, gpus)))


def grant(workload: str, gpus: set[int]) -> Grant:
    # By index, as a map names them; the ledger knows both names.
    uses = tuple(GpuUse(str(gpu)) for gpu in sorted(gpus))
    return Grant(uses, member=Member(workload, 0) if workload else None)


def taken(devices: Devices) -> list[tuple[int, int, int]]:
    return [
        (int(devices.users[0, n]), int(devices.wholes[0, n]), int(devices.milli_free[0, n]))
        for n in range(GPUS)
    ]


def counted(pods: dict[int, tuple[str, set[int]]]) -> list[tuple[int, int, int]]:
    """The same, from nothing but who has what."""
    found = []
    for gpu in range(GPUS):
        holders = [(workload or str(n)) for n, (workload, gpus) in pods.items() if gpu in gpus]
        takers = len(set(holders))
        found.append((len(holders), takers, WHOLE - WHOLE * takers))
    return found


@given(st.lists(st.tuples(st.integers(0, 5), PODS | st.none()), max_size=25))
def test_the_ledger_agrees_with_a_recount(steps) -> None:
    cluster, pods = Cluster(), {}
    cluster.put_node(NODE)
    for number, pod in steps:
        cluster.remove(str(number))
        pods.pop(number, None)
        if pod is not None:
            pods[number] = pod
            hold(cluster, number, *pod)
        assert taken(cluster.columns.devices) == counted(pods)


@given(st.lists(PODS, max_size=6), PODS)
def test_a_draft_leaves_shared_gpus_as_they_were(there, more) -> None:
    cluster = Cluster()
    cluster.put_node(NODE)
    for number, pod in enumerate(there):
        hold(cluster, number, *pod)
    before = taken(cluster.columns.devices)
    guest = Holding.of(a_pod("guest"), "n1", assumed=True, grant=grant(*more))
    with cluster.draft(0) as draft:
        draft.add(guest)
        for held in cluster.held_on("n1"):
            draft.take(held)
    assert taken(cluster.columns.devices) == before
