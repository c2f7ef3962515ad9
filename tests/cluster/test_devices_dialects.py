"""What device plugins of other systems demand of the ledger."""

from dataclasses import replace

import pytest

from builders import a_node, a_pod
from fairlead.cluster.aspects import Aspect
from fairlead.cluster.cluster import Cluster
from fairlead.model.gpus import PLAIN, Card, CardUse, GpuRequest, Grant, Inventory
from fairlead.placement.cards import CardPolicy, choose
from fairlead.plugins.gpu_fit import BUSY, NO_MEMORY, GpuFit

SPOKEN = frozenset({"hami"})
BOOK = Inventory(
    tuple(Card(f"GPU-{n}", n, model, 16_000) for n, model in enumerate(("V100", "A100-SXM"))),
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
    cluster.put_node(a_node("n1", gpus=0, gpus_listed=inventory))
    return cluster


def part(mib: int = 1000, milli: int = 0, dialect: str = "hami", **more) -> GpuRequest:
    return GpuRequest(1, False, milli, mib, dialect=dialect, **more)


def enough(cluster: Cluster, ask: GpuRequest) -> bool:
    return bool(cluster.nodes.cards.enough(ask)[0])


def card_for(cluster: Cluster, ask: GpuRequest) -> str:
    grant = choose(ask, cluster.columns.devices, 0, CardPolicy.PACK)
    assert grant is not None
    return grant.uses[0].uuid


def give(cluster: Cluster, uid: str, grant: Grant) -> Aspect:
    return cluster.confirm(a_pod(uid, uid=uid, node="n1", grant=grant))


def used(uuid: str, mib: int = 1000, milli: int = 0, dialect: str = "hami") -> Grant:
    return Grant((CardUse(uuid, False, milli, mib),), dialect)


def test_a_device_plugin_that_takes_one_pod_at_a_time_is_left_alone_meanwhile() -> None:
    cluster = cluster_of(BOOK)
    give(cluster, "a", replace(used("GPU-0"), pending=True))
    request = a_pod(request_gpus=part()).request
    for ask in (part(), GpuRequest(1)):
        assert not enough(cluster, ask)
    (reason,) = (r for r in GpuFit().reasons(request, cluster.nodes) if r.where.any())
    assert (reason.text, reason.resolvable.any()) == (BUSY, False)
    large = a_pod(request_gpus=part(16_001)).request
    (reason,) = (r for r in GpuFit().reasons(large, cluster.nodes) if r.where.any())
    assert reason.text == NO_MEMORY, "whoever is busy, it would not fit"
    assert give(cluster, "a", used("GPU-0")) & Aspect.DEVICES, "whoever waits must hear of it"
    assert enough(cluster, part())
    assert enough(cluster, GpuRequest(1))


def test_a_pod_under_way_that_goes_leaves_nothing_behind() -> None:
    cluster = cluster_of(BOOK)
    give(cluster, "a", replace(used("GPU-0"), pending=True))
    cluster.put_node(a_node("n1", gpus=0, gpus_listed=replace(BOOK, clique="c")))
    assert not enough(cluster, part()), "it is under way, whatever else is new about the node"
    cluster.remove("a")
    assert enough(cluster, part())


def test_a_grant_says_whether_its_plugin_must_answer_first() -> None:
    for inventory, ask, pending in (
        (BOOK, part(), True),
        (BOOK, GpuRequest(1), True),
        (PICKS, part(dialect="alnair"), False),
    ):
        grant = choose(ask, cluster_of(inventory).columns.devices, 0, CardPolicy.PACK)
        assert grant is not None
        assert grant.pending is pending


def test_a_card_takes_as_many_pods_as_its_plugin_allows() -> None:
    cards = tuple(replace(card, sharers=2) for card in BOOK.cards)
    cluster = cluster_of(replace(BOOK, cards=cards[:1]))
    give(cluster, "a", used("GPU-0"))
    assert enough(cluster, part())
    give(cluster, "b", used("GPU-0"))
    assert not enough(cluster, part())


def test_models_may_be_named_in_part() -> None:
    cluster = cluster_of(BOOK)
    assert card_for(cluster, part(like=("a100",))) == "GPU-1"
    assert card_for(cluster, part(unlike=("v100", "P40"))) == "GPU-1"
    assert not enough(cluster, part(like=("H100",)))
    assert not enough(cluster, part(like=("A100",), unlike=("SXM",)))


def test_cards_may_be_named_one_by_one() -> None:
    cluster = cluster_of(BOOK)
    assert card_for(cluster, part(only=frozenset({"GPU-1"}))) == "GPU-1"
    assert card_for(cluster, part(never=frozenset({"GPU-0"}))) == "GPU-1"
    assert not enough(cluster, part(only=frozenset({"GPU-of-another-node"})))


def test_an_index_means_the_card_that_is_there() -> None:
    cluster = cluster_of(BOOK)
    give(cluster, "a", used("1", 16_000))
    assert card_for(cluster, part()) == "GPU-0"
    assert not enough(cluster, replace(part(), cards=2))


def test_all_compute_is_the_whole_card_but_not_all_of_its_memory() -> None:
    cluster = cluster_of(BOOK)
    assert not enough(cluster, GpuRequest(1, memory_mib=16_001, dialect="hami"))
    grant = choose(GpuRequest(1, memory_mib=4000), cluster.columns.devices, 0, CardPolicy.PACK)
    assert grant is not None
    assert grant.uses == (CardUse("GPU-0", memory_mib=4000),)


# -- plugins that pick the card themselves


def alnair(mib: int, milli: int = 0) -> GpuRequest:
    return part(mib, milli, "alnair")


def test_the_pick_of_the_plugin_is_foreseen() -> None:
    cluster = cluster_of(PICKS)
    give(cluster, "a", used("GPU-0", 10_000, dialect="alnair"))
    assert card_for(cluster, alnair(6000)) == "GPU-0"
    assert card_for(cluster, alnair(6001)) == "GPU-1"
    give(cluster, "b", used("GPU-1", 10_000, dialect="alnair"))
    assert not enough(cluster, alnair(6001)), "it would get a piece of each card"


@pytest.mark.parametrize("theirs", [CardUse("GPU-0"), CardUse("GPU-0", False, 800, 1000)])
def test_a_pick_that_would_sell_a_card_twice_rules_the_node_out(theirs: CardUse) -> None:
    """The plugin does not know what others took of the first card, and would take it."""
    cluster = cluster_of(PICKS)
    give(cluster, "a", Grant((theirs,)))
    assert not enough(cluster, alnair(1000, 500))


def test_the_plugin_looks_at_memory_alone() -> None:
    cluster = cluster_of(PICKS)
    give(cluster, "a", used("GPU-0", 1000, 800, "alnair"))
    assert not enough(cluster, alnair(1000, 500)), "the first card has the memory, not the compute"
    assert card_for(cluster, alnair(16_000, 500)) == "GPU-1"
