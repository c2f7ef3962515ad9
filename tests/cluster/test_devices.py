"""The ledger of GPUs: what is taken, by whom, and what is left."""

from dataclasses import replace

import numpy as np
import pytest

from builders import a_node, a_pod
from fairlead.cluster.checking import wrong_nodes
from fairlead.cluster.cluster import Cluster
from fairlead.cluster.interned import Interned
from fairlead.cluster.price_tables import PriceTables
from fairlead.model.gpus import (
    PLAIN,
    Gpu,
    GpuRequest,
    GpuUse,
    Grant,
    Inventory,
    Links,
    MigProfile,
)
from fairlead.model.holders import Holder, claim_holder
from fairlead.model.machines import all_joined, links_of
from fairlead.model.prices import PodShape
from fairlead.placement.gpus import GpuPolicy, choose
from fairlead.testing.drawn import PRICES

ONE, TWO, THREE = (
    MigProfile("1g.10gb", 1, (0, 1, 2, 3, 4, 5, 6)),
    MigProfile("2g.20gb", 2, (0, 2, 4)),
    MigProfile("3g.40gb", 4, (0, 4)),
)


def gpus(count: int, **more) -> Inventory:
    found = tuple(Gpu(f"GPU-{n}", n, "H100", 80_000, **more) for n in range(count))
    return Inventory(found, dialects=frozenset({"fairlead"}))


def cluster_of(inventory: Inventory) -> Cluster:
    cluster = Cluster()
    cluster.put_node(a_node("n1", gpus=0, inventory=inventory))
    return cluster


def share(milli: int = 500, mib: int = 0, count: int = 1, **more) -> GpuRequest:
    return GpuRequest(count, False, milli, mib, dialect="fairlead", **more)


def enough(cluster: Cluster, ask: GpuRequest) -> bool:
    return bool(cluster.nodes.gpus.enough(ask)[0])


def give(cluster: Cluster, uid: str, *uses: GpuUse) -> None:
    pod = a_pod(uid, uid=uid, node="n1", grant=Grant(uses, "fairlead"))
    cluster.confirm(pod)


RED = claim_holder("red")


def use_claim(cluster: Cluster, uid: str, *uses: GpuUse, holder: Holder = RED) -> None:
    give(cluster, uid)
    cluster.share(uid, holder, Grant(uses, "fairlead"))


def taken(cluster: Cluster) -> list[int]:
    """How many holders each GPU has; what the audit says is right."""
    assert wrong_nodes(cluster, ["n1"]) == []
    return cluster.columns.devices.users[0, :3].tolist()


@pytest.mark.parametrize("first", ["a", "b"])
def test_what_pods_hold_together_is_held_once_and_until_the_last_is_gone(first: str) -> None:
    cluster = cluster_of(gpus(3))
    use_claim(cluster, "a", GpuUse("GPU-0"))
    use_claim(cluster, "b", GpuUse("GPU-0"))
    use_claim(cluster, "c", GpuUse("GPU-1"), holder=claim_holder("blue"))
    assert taken(cluster) == [1, 1, 0]
    assert cluster.columns.devices.milli_free[0, :3].tolist() == [0, 0, 1000]
    cluster.remove(first)
    assert taken(cluster) == [1, 1, 0]
    mark = cluster.changes.mark
    cluster.remove({"a": "b", "b": "a"}[first])
    assert taken(cluster) == [0, 1, 0]
    assert cluster.changes.mark != mark
    assert not cluster.columns.devices._references


def test_a_holder_keeps_what_it_has_whatever_a_later_reference_says() -> None:
    cluster = cluster_of(gpus(3))
    use_claim(cluster, "a", GpuUse("GPU-0"))
    use_claim(cluster, "b", GpuUse("GPU-1"))
    cluster.share("b", RED, Grant((GpuUse("GPU-2"),)))
    assert taken(cluster) == [1, 0, 0]


def test_a_pod_has_its_own_gpus_beside_those_of_a_claim() -> None:
    cluster = cluster_of(gpus(3))
    give(cluster, "a", GpuUse("GPU-1", False, 500, 100))
    cluster.share("a", RED, Grant((GpuUse("GPU-0"),)))
    assert taken(cluster) == [1, 1, 0]
    give(cluster, "a", GpuUse("GPU-1", False, 500, 100))  # seen again
    assert taken(cluster) == [1, 1, 0]
    cluster.remove("a")
    assert taken(cluster) == [0, 0, 0]


def test_references_come_with_their_node_and_survive_its_return() -> None:
    cluster = Cluster()
    use_claim(cluster, "a", GpuUse("GPU-0"))
    use_claim(cluster, "b", GpuUse("GPU-2"))
    node = a_node("n1", gpus=0, inventory=gpus(3))
    cluster.put_node(node)
    assert taken(cluster) == [1, 0, 0]
    cluster.remove_node("n1")
    cluster.put_node(node)
    cluster.remove("a")
    assert taken(cluster) == [1, 0, 0]
    cluster.remove("b")
    assert taken(cluster) == [0, 0, 0]


def test_a_draft_frees_what_pods_hold_together_with_the_last_of_them() -> None:
    cluster = cluster_of(gpus(1))
    use_claim(cluster, "a", GpuUse("GPU-0"))
    use_claim(cluster, "b", GpuUse("GPU-0"))
    with cluster.draft(0) as draft:
        draft.take(cluster.holdings["a"])
        assert not enough(cluster, GpuRequest(1))
        draft.take(cluster.holdings["b"])
        assert enough(cluster, GpuRequest(1))
    assert taken(cluster)[:1] == [1]


def test_the_audit_finds_a_reference_that_was_not_counted() -> None:
    cluster = cluster_of(gpus(1))
    use_claim(cluster, "a", GpuUse("GPU-0"))
    use_claim(cluster, "b", GpuUse("GPU-0"))
    cluster.columns.devices.release(0, RED)
    assert wrong_nodes(cluster, ["n1"]) == ["n1"]


def test_a_whole_gpu_is_nobody_elses() -> None:
    cluster = cluster_of(gpus(2))
    give(cluster, "a", GpuUse("GPU-0"))
    assert enough(cluster, GpuRequest(1))
    assert not enough(cluster, GpuRequest(2))
    assert enough(cluster, share(1000))
    give(cluster, "b", GpuUse("GPU-1", False, 100))
    assert not enough(cluster, GpuRequest(1))
    assert not enough(cluster, share(901))
    assert enough(cluster, share(900))


def test_shares_add_up_on_each_gpu_and_not_across_gpus() -> None:
    cluster = cluster_of(gpus(2))
    give(cluster, "a", GpuUse("GPU-0", False, 700, 60_000))
    give(cluster, "b", GpuUse("GPU-1", False, 700, 60_000))
    assert not enough(cluster, share(400))
    assert not enough(cluster, share(100, 30_000))
    assert enough(cluster, share(300, 20_000, count=2))


def test_what_a_pod_held_is_free_when_it_is_gone() -> None:
    cluster = cluster_of(gpus(1))
    give(cluster, "a", GpuUse("GPU-0", False, 700, 60_000))
    cluster.remove("a")
    assert enough(cluster, GpuRequest(1))
    assert cluster.columns.devices.memory_free[0, 0] == 80_000


def test_gpus_of_pods_that_nobody_told_us_about_are_counted() -> None:
    """A pod of another scheduler has one of the two GPUs: which, only its kubelet knows."""
    cluster = cluster_of(gpus(2))
    cluster.confirm(a_pod("b", uid="b", node="n1", gpu_request=GpuRequest(1)))
    assert enough(cluster, GpuRequest(1))
    assert not enough(cluster, GpuRequest(2))
    give(cluster, "a", GpuUse("GPU-0", False, 500))
    assert enough(cluster, share(500))
    assert not enough(cluster, share(600)), "the other GPU may be the one that is taken"


def test_a_claim_on_a_gpu_that_is_not_there_counts_as_one_that_is() -> None:
    cluster = cluster_of(gpus(2))
    give(cluster, "a", GpuUse("GPU-of-another-node"))
    assert not enough(cluster, GpuRequest(2))
    assert enough(cluster, GpuRequest(1))


def test_two_claims_on_one_gpu_close_it_until_both_are_gone() -> None:
    cluster = cluster_of(gpus(1))
    give(cluster, "a", GpuUse("GPU-0"))
    give(cluster, "b", GpuUse("GPU-0"))
    cluster.remove("a")
    assert not enough(cluster, share(1))
    cluster.remove("b")
    assert enough(cluster, GpuRequest(1))


def test_a_lost_gpu_is_not_given_and_comes_back_with_its_pods() -> None:
    cluster = cluster_of(gpus(2))
    give(cluster, "a", GpuUse("GPU-0", False, 700))
    sick = Inventory((Gpu("GPU-0", 0, "H100", 80_000, healthy=False), Gpu("GPU-1", 1)))
    cluster.put_node(a_node("n1", gpus=0, inventory=sick))
    assert not enough(cluster, GpuRequest(2))
    reordered = Inventory(tuple(reversed(gpus(2).gpus)), dialects=frozenset({"fairlead"}))
    cluster.put_node(a_node("n1", gpus=0, inventory=reordered))
    assert not enough(cluster, GpuRequest(2))
    assert cluster.columns.devices.milli_free[0].tolist()[:2] == [1000, 300]


def test_a_node_that_comes_back_knows_its_pods() -> None:
    cluster = cluster_of(gpus(1))
    give(cluster, "a", GpuUse("GPU-0"))
    cluster.remove_node("n1")
    cluster.put_node(a_node("n1", gpus=0, inventory=gpus(1)))
    assert not enough(cluster, GpuRequest(1))


def test_slices_have_places() -> None:
    cluster = cluster_of(gpus(1, mig=(ONE, TWO, THREE), slots=8))
    ask = GpuRequest(1, False, 0, profile="3g.40gb", dialect="fairlead")
    give(cluster, "a", GpuUse("GPU-0", False, 0, 0, "1g.10gb", 1, 1))
    assert enough(cluster, ask)
    give(cluster, "b", GpuUse("GPU-0", False, 0, 0, "1g.10gb", 5, 1))
    assert not enough(cluster, ask)
    ones = GpuRequest(5, False, 0, profile="1g.10gb", dialect="fairlead")
    assert enough(cluster, ones)
    cluster.remove("a")
    assert enough(cluster, ask)
    assert not enough(cluster, share(100)), "a GPU that is cut has no shares"


def test_slices_are_cut_by_who_is_told_of_them() -> None:
    ours, plain = (
        GpuRequest(1, False, 0, profile="1g.10gb", dialect=d) for d in ("fairlead", PLAIN)
    )
    freely, fixed = (cluster_of(gpus(1, mig=(ONE,), slots=slots)) for slots in (8, 0))
    assert enough(freely, ours)
    assert not enough(freely, plain), "no device plugin serves what the agent cuts"
    assert enough(fixed, plain)
    assert not enough(fixed, ours), "the agent does not cut what is not its own"


@pytest.mark.parametrize("dialect", ["hami", "alnair"])
def test_an_ask_that_the_node_does_not_understand(dialect: str) -> None:
    cluster = cluster_of(gpus(1))
    assert not enough(cluster, GpuRequest(1, False, 100, dialect=dialect))


def test_whole_gpus_are_only_counted_where_gpus_are_not_listed() -> None:
    cluster = Cluster()
    cluster.put_node(a_node("n1", gpus=4))
    assert enough(cluster, GpuRequest(4))
    assert not enough(cluster, share(500))


def test_models() -> None:
    cluster = cluster_of(gpus(2))
    assert enough(cluster, GpuRequest(2, models=frozenset({"H100", "H200"})))
    assert not enough(cluster, GpuRequest(1, models=frozenset({"A100"})))


@pytest.mark.parametrize(
    ("wish", "fits"), [("H100", True), ("h100-80gb", True), ("H200", False), ("H10", False)]
)
def test_models_are_known_by_some_of_their_words(wish: str, fits: bool) -> None:
    listed = Inventory((Gpu("GPU-0", 0, "NVIDIA H100 80GB HBM3", 81559),))
    assert enough(cluster_of(listed), GpuRequest(1, models=frozenset({wish}))) is fits


# -- GPUs that labels tell of ---------------------------------------------------------------------

CUBE_MESH = links_of("Tesla-V100-SXM2-32GB", 8)


def counted(count: int, model: str = "NVIDIA-H100-80GB-HBM3", links: Links = ()) -> Inventory:
    return Inventory(
        tuple(Gpu("", n, model, 81559) for n in range(count)), links, named=False
    )  # fmt: skip


def test_gpus_that_are_counted_have_a_model_but_are_not_shared() -> None:
    cluster = cluster_of(counted(8))
    assert enough(cluster, GpuRequest(8))
    assert enough(cluster, GpuRequest(2, models=frozenset({"H100"})))
    assert not enough(cluster, GpuRequest(2, models=frozenset({"A100"})))
    assert not enough(cluster, share(500))
    assert not enough(cluster, GpuRequest(1, only=frozenset({"GPU-0"})))
    assert not cluster.columns.devices.known[0]


def test_a_pod_on_counted_gpus_is_told_no_names() -> None:
    cluster = cluster_of(counted(8))
    grant = choose(GpuRequest(2), cluster.columns.devices, 0, GpuPolicy.PACK)
    assert grant == Grant((GpuUse(""), GpuUse("")))
    sliced = GpuRequest(1, False, 0, profile="1g.10gb")
    told = choose(sliced, cluster.columns.devices, 0, GpuPolicy.PACK)
    assert told == Grant((GpuUse("", False, 0, 0, "1g.10gb"),)), "its kubelet has cut slices"


def test_a_model_is_refused_where_nobody_says_what_there_is() -> None:
    cluster = Cluster()
    cluster.put_node(a_node("n1", gpus=8))
    assert enough(cluster, GpuRequest(8))
    assert not enough(cluster, GpuRequest(1, models=frozenset({"H100"})))


def test_gpus_that_are_listed_at_last_know_their_pods() -> None:
    cluster = cluster_of(counted(2))
    cluster.confirm(a_pod("a", uid="a", node="n1", gpu_request=GpuRequest(1)))
    cluster.put_node(a_node("n1", gpus=0, inventory=gpus(2)))
    assert not enough(cluster, GpuRequest(2))
    assert enough(cluster, GpuRequest(1))
    cluster.put_node(a_node("n1", gpus=0, inventory=counted(2)))
    assert not enough(cluster, share(500)), "and the names are gone with the list"


# -- what others left behind, or made up ----------------------------------------------------------


def cut(count: int) -> Inventory:
    return gpus(count, mig=(ONE, TWO, THREE))


def test_a_gpu_that_is_cut_does_not_stand_in_for_one_that_somebody_holds() -> None:
    """Who was given a whole GPU by a device plugin has no GPU that is cut into slices."""
    whole, slices = gpus(1).gpus, (Gpu("GPU-9", 9, "A100", 80_000, mig=(ONE,)),)
    cluster = cluster_of(Inventory(whole + slices, dialects=frozenset({"fairlead"})))
    cluster.confirm(a_pod("b", uid="b", node="n1", gpu_request=GpuRequest(1)))
    assert not enough(cluster, share(100))
    assert not enough(cluster, GpuRequest(1))
    assert enough(cluster, GpuRequest(1, False, 0, profile="1g.10gb"))


def test_gpus_of_the_wanted_kind_beside_others_that_somebody_holds() -> None:
    """Two of four may be anybody's, and two are left for us: the filter and the choice agree."""
    others = tuple(Gpu(f"GPU-t{n}", 8 + n, "T4", 16_000) for n in range(2))
    cluster = cluster_of(Inventory(gpus(2).gpus + others))
    cluster.confirm(a_pod("b", uid="b", node="n1", gpu_request=GpuRequest(2)))
    ask = GpuRequest(2, models=frozenset({"H100"}))
    assert enough(cluster, ask)
    assert choose(ask, cluster.columns.devices, 0, GpuPolicy.PACK) is not None


@pytest.mark.parametrize("left", [GpuUse("GPU-0"), GpuUse("GPU-0", False, 100)])
def test_a_gpu_is_not_cut_under_somebody_who_is_on_it(left: GpuUse) -> None:
    cluster = cluster_of(gpus(1))
    give(cluster, "a", left)
    cluster.put_node(a_node("n1", gpus=0, inventory=cut(1)))
    assert not enough(cluster, GpuRequest(1, False, 0, profile="1g.10gb"))
    cluster.remove("a")
    assert enough(cluster, GpuRequest(1, False, 0, profile="1g.10gb"))


def test_slices_on_a_gpu_that_is_no_longer_cut_keep_it() -> None:
    cluster = cluster_of(cut(1))
    give(cluster, "a", GpuUse("GPU-0", False, 0, 0, "1g.10gb", 6, 1))
    cluster.put_node(a_node("n1", gpus=0, inventory=gpus(1)))
    assert not enough(cluster, share(100))
    assert not enough(cluster, GpuRequest(1))


@pytest.mark.parametrize("name", ["GPU-0", "0"])
def test_slices_stay_taken_when_a_neighbour_goes(name: str) -> None:
    """Whichever way the neighbour names the GPU, and even if both were given the same."""
    cluster = cluster_of(cut(1))
    both = Grant((GpuUse("GPU-0", False, 0, 0, "3g.40gb", 0, 4),))
    for uid in ("a", "b"):
        cluster.confirm(a_pod(uid, uid=uid, node="n1", grant=both))
    give(cluster, "c", GpuUse(name, False, 0, 0, "3g.40gb", 4, 4))
    cluster.remove("a")
    assert cluster.columns.devices.slices_used[0, 0] == 0b1111_1111
    cluster.remove("b")
    assert cluster.columns.devices.slices_used[0, 0] == 0b1111_0000


# -- links -----------------------------------------------------------------------------------------


def linked(count: int) -> GpuRequest:
    return GpuRequest(count, linked=True)


def test_nvlink_between_free_gpus() -> None:
    mesh = Inventory(gpus(8).gpus, CUBE_MESH)
    cluster = cluster_of(mesh)
    assert all(enough(cluster, linked(count)) for count in range(2, 9))
    for taken in (1, 2, 3, 4):  # 0 is joined to none of 5, 6 and 7
        give(cluster, f"p{taken}", GpuUse(f"GPU-{taken}"))
    assert enough(cluster, GpuRequest(4))
    assert enough(cluster, linked(3))
    assert not enough(cluster, linked(4))
    grant = choose(linked(3), cluster.columns.devices, 0, GpuPolicy.PACK)
    assert grant is not None
    assert [use.uuid for use in grant.uses] == ["GPU-5", "GPU-6", "GPU-7"]


@pytest.mark.parametrize(
    ("links", "fit"),
    [
        pytest.param((), [], id="nobody says"),
        pytest.param(links_of("L40S", 8), [], id="PCIe"),
        pytest.param(all_joined(8), [2, 3, 4, 5, 6, 7, 8], id="a switch"),
        pytest.param(CUBE_MESH, [6, 7, 8], id="any six of a cube mesh, but not any five"),
    ],
)
def test_nvlink_between_gpus_that_somebody_else_chooses(links: Links, fit: list[int]) -> None:
    cluster = cluster_of(counted(8, links=links))
    assert [count for count in range(2, 10) if enough(cluster, linked(count))] == fit


def test_thousands_of_models_make_no_larger_tables_of_prices() -> None:
    models = Interned[str]()
    for number in range(3000):
        models.take(f"Model {number}")
    shapes = (
        PodShape(1000, 0, 1, 500),
        PodShape(4000, 0, 1, 1000, frozenset({"Model 7", "Model 8"})),
    )
    tables = PriceTables(replace(PRICES, typical=tuple((shape, 0.5) for shape in shapes)), models)
    assert len(tables.useful()) == 2
    room, rank = np.full((3, 1), 1000), np.array([2, 2, 2])
    asked, other, none = tables.usable_milli(room, np.array([[7], [9], [-1]]), rank).tolist()
    assert (asked, other, none) == (1000.0, 500.0, 500.0)
