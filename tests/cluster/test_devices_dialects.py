"""What device plugins of other systems demand of the ledger."""

from dataclasses import replace

import pytest

from builders import a_node, a_pod
from fairlead.cluster.aspects import Aspect
from fairlead.cluster.cluster import Cluster
from fairlead.model.gpus import PLAIN, Gpu, GpuRequest, GpuUse, Grant, Inventory
from fairlead.placement.gpus import GpuPolicy, choose
from fairlead.plugins.gpu_fit import BUSY, NO_MEMORY, GpuFit

SPOKEN = frozenset({"hami"})
BOOK = Inventory(
    tuple(Gpu(f"GPU-{n}", n, model, 16_000) for n, model in enumerate(("V100", "A100-SXM"))),
    dialects=SPOKEN,
    one_at_a_time=SPOKEN | {PLAIN},
)
PICKS = replace(
    BOOK,
    dialects=frozenset({"alnair"}),
    one_at_a_time=frozenset(),
    first_fit=frozenset({"alnair"}),
)


def cluster_of(inventory: Inventory) -> Cluster:
    cluster = Cluster()
    cluster.put_node(a_node("n1", gpus=0, inventory=inventory))
    return cluster


def part(mib: int = 1000, milli: int = 0, dialect: str = "hami", **more) -> GpuRequest:
    return GpuRequest(1, False, milli, mib, dialect=dialect, **more)


def enough(cluster: Cluster, ask: GpuRequest) -> bool:
    return bool(cluster.nodes.gpus.enough(ask)[0])


def gpu_for(cluster: Cluster, ask: GpuRequest) -> str:
    grant = choose(ask, cluster.columns.devices, 0, GpuPolicy.PACK)
    assert grant is not None
    return grant.uses[0].uuid


def give(cluster: Cluster, uid: str, grant: Grant) -> None:
    cluster.confirm(a_pod(uid, uid=uid, node="n1", grant=grant))


def used(uuid: str, mib: int = 1000, milli: int = 0, dialect: str = "hami") -> Grant:
    return Grant((GpuUse(uuid, False, milli, mib),), dialect)


def test_a_device_plugin_that_takes_one_pod_at_a_time_is_left_alone_meanwhile() -> None:
    cluster = cluster_of(BOOK)
    give(cluster, "a", replace(used("GPU-0"), pending=True))
    request = a_pod(gpu_request=part()).request
    for ask in (part(), GpuRequest(1)):
        assert not enough(cluster, ask)
    (reason,) = (r for r in GpuFit().reasons(request, cluster.nodes) if r.where.any())
    assert (reason.text, reason.resolvable.any()) == (BUSY, False)
    large = a_pod(gpu_request=part(16_001)).request
    (reason,) = (r for r in GpuFit().reasons(large, cluster.nodes) if r.where.any())
    assert reason.text == NO_MEMORY, "whoever is busy, it would not fit"
    cluster.improved.drain()
    give(cluster, "a", used("GPU-0"))
    assert cluster.improved.drain() & Aspect.DEVICES, "waiting pods are checked again"
    assert enough(cluster, part())
    assert enough(cluster, GpuRequest(1))


def test_a_pod_under_way_that_goes_leaves_nothing_behind() -> None:
    cluster = cluster_of(BOOK)
    give(cluster, "a", replace(used("GPU-0"), pending=True))
    cluster.put_node(a_node("n1", gpus=0, inventory=replace(BOOK, clique="c")))
    assert not enough(cluster, part()), "it is under way, whatever else is new about the node"
    cluster.remove("a")
    assert enough(cluster, part())


def test_a_grant_says_whether_its_plugin_must_answer_first() -> None:
    for inventory, ask, pending in (
        (BOOK, part(), True),
        (BOOK, GpuRequest(1), True),
        (PICKS, part(dialect="alnair"), False),
    ):
        grant = choose(ask, cluster_of(inventory).columns.devices, 0, GpuPolicy.PACK)
        assert grant is not None
        assert grant.pending is pending


def test_a_gpu_takes_as_many_pods_as_its_plugin_allows() -> None:
    gpus = tuple(replace(gpu, sharers=2) for gpu in BOOK.gpus)
    cluster = cluster_of(replace(BOOK, gpus=gpus[:1]))
    give(cluster, "a", used("GPU-0"))
    assert enough(cluster, part())
    give(cluster, "b", used("GPU-0"))
    assert not enough(cluster, part())


def test_models_may_be_named_in_part() -> None:
    cluster = cluster_of(BOOK)
    assert gpu_for(cluster, part(like=("a100",))) == "GPU-1"
    assert gpu_for(cluster, part(unlike=("v100", "P40"))) == "GPU-1"
    assert not enough(cluster, part(like=("H100",)))
    assert not enough(cluster, part(like=("A100",), unlike=("SXM",)))


def test_gpus_may_be_named_one_by_one() -> None:
    cluster = cluster_of(BOOK)
    assert gpu_for(cluster, part(only=frozenset({"GPU-1"}))) == "GPU-1"
    assert gpu_for(cluster, part(never=frozenset({"GPU-0"}))) == "GPU-1"
    assert not enough(cluster, part(only=frozenset({"GPU-of-another-node"})))


def test_an_index_means_the_gpu_that_is_there() -> None:
    cluster = cluster_of(BOOK)
    give(cluster, "a", used("1", 16_000))
    assert gpu_for(cluster, part()) == "GPU-0"
    assert not enough(cluster, replace(part(), gpus=2))


def test_all_compute_is_the_whole_gpu_but_not_all_of_its_memory() -> None:
    cluster = cluster_of(BOOK)
    assert not enough(cluster, GpuRequest(1, memory_mib=16_001, dialect="hami"))
    grant = choose(GpuRequest(1, memory_mib=4000), cluster.columns.devices, 0, GpuPolicy.PACK)
    assert grant is not None
    assert grant.uses == (GpuUse("GPU-0", memory_mib=4000),)


# -- plugins that pick the GPU themselves


def alnair(mib: int, milli: int = 0) -> GpuRequest:
    return part(mib, milli, "alnair")


def test_the_pick_of_the_plugin_is_foreseen() -> None:
    cluster = cluster_of(PICKS)
    give(cluster, "a", used("GPU-0", 10_000, dialect="alnair"))
    assert gpu_for(cluster, alnair(6000)) == "GPU-0"
    assert gpu_for(cluster, alnair(6001)) == "GPU-1"
    give(cluster, "b", used("GPU-1", 10_000, dialect="alnair"))
    assert not enough(cluster, alnair(6001)), "it would get a piece of each GPU"


@pytest.mark.parametrize("theirs", [GpuUse("GPU-0"), GpuUse("GPU-0", False, 800, 1000)])
def test_a_pick_that_would_sell_a_gpu_twice_rules_the_node_out(theirs: GpuUse) -> None:
    """The plugin does not know what others took of the first GPU, and would take it."""
    cluster = cluster_of(PICKS)
    give(cluster, "a", Grant((theirs,)))
    assert not enough(cluster, alnair(1000, 500))


def test_the_plugin_looks_at_memory_alone() -> None:
    cluster = cluster_of(PICKS)
    give(cluster, "a", used("GPU-0", 1000, 800, "alnair"))
    assert not enough(cluster, alnair(1000, 500)), "the first GPU has the memory, not the compute"
    assert gpu_for(cluster, alnair(16_000, 500)) == "GPU-1"
