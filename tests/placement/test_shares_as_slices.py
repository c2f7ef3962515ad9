"""A share that MIG isolates: the smallest slice that covers it, where an agent divides the GPU."""

from dataclasses import replace

import pytest

from builders import a_node, a_pod, a_request
from fairlead.cluster.checking import wrong_nodes
from fairlead.cluster.cluster import Cluster
from fairlead.cluster.nodes import Nodes
from fairlead.model.gpus import Gpu, GpuRequest, GpuUse, Grant, Inventory, Isolation, MigProfile
from fairlead.placement.gpus import GpuPolicy, choose
from fairlead.plugins.gpu_fit import DIVIDED, NO_SLICE, GpuFit

GIB = 1024


def h200(slots: int = 8) -> tuple[MigProfile, ...]:
    """As the driver lists them: less memory than their part of the GPU."""
    return (
        MigProfile("1g.18gb", 1, (0, 1, 2, 3, 4, 5, 6), 16_384, slots),
        MigProfile("1g.35gb", 2, (0, 2, 4, 6), 33_280, slots),
        MigProfile("2g.35gb", 2, (0, 2, 4), 33_280, slots),
        MigProfile("3g.71gb", 4, (0, 4), 71_424, slots),
        MigProfile("4g.71gb", 4, (0,), 71_424, slots),
        MigProfile("7g.141gb", 8, (0,), 143_360, slots),
    )


A30 = (
    MigProfile("1g.6gb", 1, (0, 1, 2, 3), 5_952, 4),
    MigProfile("2g.12gb", 2, (0, 2), 11_968, 4),
    MigProfile("4g.24gb", 4, (0,), 24_004, 4),
)


def share(milli: int, mib: int = 0, gpus: int = 1) -> GpuRequest:
    """As annotations are read: the memory follows the share unless it is stated."""
    by_share = 0 if mib else milli
    return GpuRequest(
        gpus, False, milli, mib, by_share, dialect="fairlead", isolation=Isolation.MIG
    )  # fmt: skip


@pytest.mark.parametrize(
    ("kinds", "milli", "mib", "profile"),
    [
        (h200(), 100, 0, "1g.18gb"),
        (h200(), 125, 0, "1g.18gb"),
        (h200(), 126, 0, "1g.35gb"),
        (h200(), 143, 0, "2g.35gb"),
        (h200(), 250, 0, "2g.35gb"),
        (h200(), 400, 0, "3g.71gb"),
        (h200(), 500, 0, "4g.71gb"),
        (h200(), 501, 0, "7g.141gb"),
        (h200(), 1000, 0, "7g.141gb"),
        (h200(), 100, 16 * GIB, "1g.18gb"),
        (h200(), 100, 16 * GIB + 1, "1g.35gb"),
        (h200(), 250, 10 * GIB, "2g.35gb"),
        (h200(), 100, 70_000, "3g.71gb"),
        (h200(), 0, 70_000, "3g.71gb"),
        (h200(), 100, 143_361, ""),
        (A30, 250, 0, "1g.6gb"),
        (A30, 251, 0, "2g.12gb"),
        (h200(slots=0), 250, 0, ""),
    ],
)
def test_the_smallest_slice_that_covers_compute_and_memory(
    kinds: tuple[MigProfile, ...], milli: int, mib: int, profile: str
) -> None:
    assert share(milli, mib).profile_of(kinds) == profile


def cluster_of(*gpus: Gpu) -> Cluster:
    cluster = Cluster()
    inventory = Inventory(gpus, dialects=frozenset({"fairlead"}))
    cluster.put_node(a_node("n1", gpus=0, inventory=inventory))
    return cluster


def divided(uuid: str = "GPU-0", index: int = 0) -> Gpu:
    return Gpu(uuid, index, "H200", 143_771, mig=h200(), slots=8)


def place(cluster: Cluster, ask: GpuRequest) -> Grant | None:
    if not cluster.nodes.gpus.enough(ask)[0]:
        return None
    grant = choose(ask, cluster.columns.devices, 0, GpuPolicy.PACK)
    uid = f"u{len(cluster.holdings)}"
    cluster.confirm(a_pod(uid, uid=uid, node="n1", gpus=0, gpu_request=ask, grant=grant))
    assert wrong_nodes(cluster, ["n1"]) == []
    return grant


def test_the_slice_is_booked_and_the_share_is_recorded() -> None:
    cluster = cluster_of(divided())

    grant = place(cluster, share(250, 10 * GIB))

    use = GpuUse("GPU-0", False, 250, 10 * GIB, "2g.35gb", 4, 2)
    assert grant == Grant((use,), "fairlead", isolation=Isolation.MIG)
    assert cluster.columns.devices.slices_used[0, 0] == 0b110000


def test_shares_fill_a_gpu_without_overlap_and_then_wait() -> None:
    cluster = cluster_of(divided())
    placed = [place(cluster, share(250)) for _ in range(4)]

    assert [grant is not None for grant in placed] == [True, True, True, False]
    masks = [grant.uses[0].mask for grant in placed if grant]
    assert sum(masks) == masks[0] | masks[1] | masks[2]
    assert place(cluster, share(100)), "an eighth is left, with its compute"


@pytest.mark.parametrize(
    "gpu",
    [
        Gpu("GPU-0", 0, "H200", 143_771),
        Gpu("GPU-0", 0, "H200", 143_771, mig=h200(slots=0)),
        Gpu("GPU-0", 0, "H200", 143_771, mps=48),
    ],
    ids=["not divided", "divided by an administrator", "with MPS"],
)
def test_only_a_gpu_that_an_agent_divides_will_do(gpu: Gpu) -> None:
    cluster = cluster_of(gpu)
    request = replace(a_request(gpus=0), gpu_request=share(250))
    nodes = Nodes(cluster.columns)

    assert place(cluster, share(250)) is None
    (reason,) = [one for one in GpuFit().reasons(request, nodes) if one.where[0]]
    assert (reason.text, bool(reason.resolvable[0])) == (NO_SLICE, False)
    detail = GpuFit().detail(request, nodes)
    assert detail == "requested 1 slice for 0.25 of a GPU, 0 fit on 1 GPU"


def test_a_profile_that_isolates_by_mig_turns_shares_into_slices() -> None:
    rule = GpuFit(isolation=Isolation.MIG)
    ask = rule.allocates(replace(share(250), isolation=None))

    assert ask == share(250)
    advisory = replace(share(250), isolation=Isolation.ADVISORY)
    assert rule.allocates(advisory) == advisory
    assert rule.allocates(GpuRequest(2)) == GpuRequest(2)


def test_what_a_full_gpu_lacks_is_said() -> None:
    cluster = cluster_of(divided(), divided("GPU-1", 1))
    place(cluster, share(1000))
    place(cluster, share(500))
    request = replace(a_request(gpus=0), gpu_request=share(500))
    missing = [gpu.missing for gpu in GpuFit().gpus(request, Nodes(cluster.columns))]

    assert missing == [
        "no placement for a 4g.71gb; slices 0, 1, 2, 3, 4, 5, 6, 7 are in use",
        "no placement for a 4g.71gb; slices 0, 1, 2, 3 are in use",
    ]
    nearest = GpuFit().nearest(request, Nodes(cluster.columns))
    assert nearest == "No node can fit a slice for 0.5 of a GPU."


def test_an_advisory_share_is_told_of_the_slices() -> None:
    request = replace(a_request(gpus=0), gpu_request=replace(share(250), isolation=None))
    nodes = Nodes(cluster_of(divided()).columns)

    (reason,) = [one for one in GpuFit().reasons(request, nodes) if one.where[0]]

    assert (reason.text, bool(reason.resolvable[0])) == (DIVIDED, False)
    assert GpuFit().detail(request, nodes).endswith("request fairlead.dev/gpu-isolation: mig")
