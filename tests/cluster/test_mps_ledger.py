"""Shares that MPS isolates: where they go, how many, and what they are never mixed with."""

from dataclasses import replace

import pytest

from builders import a_node, a_pod, a_request
from fairlead.cluster.checking import wrong_nodes
from fairlead.cluster.cluster import Cluster
from fairlead.cluster.nodes import Nodes
from fairlead.model.gpus import Gpu, GpuRequest, GpuUse, Grant, Inventory, Isolation
from fairlead.placement.gpus import GpuPolicy, choose
from fairlead.plugins.gpu_fit import MIXED, NO_CLIENT, NO_MPS, NOT_INJECTED, ONLY_MPS, GpuFit

HALF = GpuRequest(
    1, False, 500, memory_milli=500, dialect="fairlead", isolation=Isolation.MPS, mps_injected=True
)
SLIVER = replace(HALF, milli=10, memory_milli=10)
ADVISORY = replace(SLIVER, isolation=None)
WHOLE = GpuRequest(1)


def gpus(*clients: int) -> Inventory:
    found = (Gpu(f"GPU-{n}", n, "H200", 100_000, mps=most) for n, most in enumerate(clients))
    return Inventory(tuple(found), dialects=frozenset({"fairlead", "kai"}))


def cluster_of(inventory: Inventory) -> Cluster:
    cluster = Cluster()
    cluster.put_node(a_node("n1", gpus=0, inventory=inventory))
    return cluster


def place(cluster: Cluster, ask: GpuRequest, uid: str = "") -> Grant | None:
    """As a placement does it: the node is asked, then GPUs are chosen and held."""
    grant = None
    if cluster.nodes.gpus.enough(ask)[0]:
        grant = choose(ask, cluster.columns.devices, 0, GpuPolicy.PACK)
        uid = uid or f"u{len(cluster.holdings)}"
        cluster.confirm(a_pod(uid, uid=uid, node="n1", gpus=0, gpu_request=ask, grant=grant))
    assert wrong_nodes(cluster, ["n1"]) == []
    return grant


def refusal(cluster: Cluster, ask: GpuRequest) -> tuple[str, bool, str]:
    """Why not, whether evicting pods could help, and the sentence for `explain`."""
    request = replace(a_request(gpus=0), gpu_request=ask)
    nodes, rule = Nodes(cluster.columns), GpuFit()
    assert not rule.allows(request, nodes)[0]
    given = [r for r in rule.reasons(request, nodes) if r.where[0]]
    assert len(given) == 1
    return given[0].text, bool(given[0].resolvable[0]), rule.detail(request, nodes)


def test_a_share_is_a_client_of_the_gpu_that_serves_mps() -> None:
    cluster = cluster_of(gpus(0, 2))

    grant = place(cluster, HALF)

    use = GpuUse("GPU-1", False, 500, 50_000)
    assert grant == Grant((use,), "fairlead", isolation=Isolation.MPS)


def test_there_are_never_more_clients_than_the_daemon_serves() -> None:
    cluster = cluster_of(gpus(3))

    assert all(place(cluster, SLIVER) for _ in range(3))

    assert place(cluster, SLIVER) is None
    words = NO_CLIENT, True, "all MPS clients of 1 GPUs are in use"
    assert refusal(cluster, SLIVER) == words
    cluster.remove("u1")
    assert place(cluster, SLIVER, "u9")


@pytest.mark.parametrize("dialect", ["fairlead", "kai"])
def test_a_gpu_that_offers_mps_has_no_other_shares(dialect: str) -> None:
    ask = replace(ADVISORY, dialect=dialect)
    cluster = cluster_of(gpus(9, 9))

    detail = "its GPUs serve shares with MPS only; request fairlead.dev/gpu-isolation: mps"
    assert refusal(cluster, ask) == (ONLY_MPS, False, detail)
    cluster.put_node(a_node("n1", gpus=0, inventory=gpus(9, 0)))
    grant = place(cluster, ask)
    assert grant is not None
    assert grant.uses[0].uuid == "GPU-1"


def test_a_client_does_not_join_a_share_that_was_there_before() -> None:
    cluster = cluster_of(gpus(0))
    assert place(cluster, ADVISORY)
    cluster.put_node(a_node("n1", gpus=0, inventory=gpus(9)))

    detail = "all 1 shared GPUs have shares without MPS, which are not mixed"
    assert refusal(cluster, HALF) == (MIXED, True, detail)
    cluster.remove("u0")
    assert place(cluster, HALF)


def test_equal_shares_go_to_one_gpu() -> None:
    """The daemon limits what a client sets itself to the largest share of the GPU."""
    cluster = cluster_of(gpus(9, 9))
    other = replace(SLIVER, milli=500)

    found = [place(cluster, ask) for ask in (HALF, SLIVER, HALF, SLIVER, other)]

    where = [grant and grant.uses[0].uuid for grant in found]
    assert where == ["GPU-0", "GPU-1", "GPU-0", "GPU-1", "GPU-1"], "where there is room, after all"


def test_a_whole_gpu_is_no_neighbour_of_a_client() -> None:
    cluster = cluster_of(gpus(9))
    assert place(cluster, SLIVER)
    assert place(cluster, WHOLE) is None
    cluster.remove("u0")
    assert place(cluster, WHOLE)
    assert place(cluster, SLIVER) is None


def test_an_unhealthy_daemon_moves_nothing_and_gets_nothing_new() -> None:
    cluster = cluster_of(gpus(9))
    held = place(cluster, HALF)

    cluster.put_node(a_node("n1", gpus=0, inventory=gpus(0)))

    detail = "no GPU has a healthy MPS daemon; the Fairlead agent runs them"
    assert refusal(cluster, HALF) == (NO_MPS, False, detail)
    # What runs there is a client still, so nothing else comes.
    assert cluster.holdings["u0"].grant == held
    assert refusal(cluster, ADVISORY)[0] == MIXED
    cluster.put_node(a_node("n1", gpus=0, inventory=gpus(9)))
    assert place(cluster, HALF)


def test_a_pod_that_admission_did_not_see_is_no_client() -> None:
    cluster = cluster_of(gpus(9))

    text, resolvable, detail = refusal(cluster, replace(HALF, mps_injected=False))

    assert (text, resolvable) == (NOT_INJECTED, False)
    assert detail.startswith("the pod has no MPS variables: ")


def test_what_is_missing_is_said_of_every_gpu() -> None:
    cluster = cluster_of(gpus(0, 0, 0, 9))
    place(cluster, replace(ADVISORY, milli=600))
    cluster.put_node(a_node("n1", gpus=0, inventory=gpus(9, 1, 0, 9)))
    place(cluster, SLIVER)
    place(cluster, WHOLE)
    place(cluster, WHOLE)
    request = replace(a_request(gpus=0), gpu_request=HALF)

    missing = [gpu.missing for gpu in GpuFit().gpus(request, Nodes(cluster.columns))]

    assert missing == [
        "has shares without MPS, which are not mixed",
        "1 MPS clients, the maximum",
        "assigned whole",
        "assigned whole",
    ]
