"""The ledger of cards: what is taken, by whom, and what is left."""

import pytest

from builders import a_node, a_pod
from fairlead.cluster.cluster import Cluster
from fairlead.model.gpus import Card, CardUse, GpuAsk, Grant, Inventory, MigProfile

ONE, TWO, THREE = (
    MigProfile("1g.10gb", 1, (0, 1, 2, 3, 4, 5, 6)),
    MigProfile("2g.20gb", 2, (0, 2, 4)),
    MigProfile("3g.40gb", 4, (0, 4)),
)


def cards(count: int, **more) -> Inventory:
    found = tuple(Card(f"GPU-{n}", n, "H100", 80_000, **more) for n in range(count))
    return Inventory(found, dialects=frozenset({"fairlead"}))


def cluster_of(inventory: Inventory) -> Cluster:
    cluster = Cluster()
    cluster.put_node(a_node("n1", gpus=0, gpus_listed=inventory))
    return cluster


def share(milli: int = 500, mib: int = 0, count: int = 1, **more) -> GpuAsk:
    return GpuAsk(count, False, milli, mib, dialect="fairlead", **more)


def enough(cluster: Cluster, ask: GpuAsk) -> bool:
    return bool(cluster.nodes.enough_cards(ask)[0])


def give(cluster: Cluster, uid: str, *uses: CardUse) -> None:
    pod = a_pod(uid, uid=uid, node="n1", grant=Grant(uses, "fairlead"))
    cluster.confirm(pod)


def test_a_whole_card_is_nobody_elses() -> None:
    cluster = cluster_of(cards(2))
    give(cluster, "a", CardUse("GPU-0"))
    assert enough(cluster, GpuAsk(1))
    assert not enough(cluster, GpuAsk(2))
    assert enough(cluster, share(1000))
    give(cluster, "b", CardUse("GPU-1", False, 100))
    assert not enough(cluster, GpuAsk(1))
    assert not enough(cluster, share(901))
    assert enough(cluster, share(900))


def test_shares_add_up_on_each_card_and_not_across_cards() -> None:
    cluster = cluster_of(cards(2))
    give(cluster, "a", CardUse("GPU-0", False, 700, 60_000))
    give(cluster, "b", CardUse("GPU-1", False, 700, 60_000))
    assert not enough(cluster, share(400))
    assert not enough(cluster, share(100, 30_000))
    assert enough(cluster, share(300, 20_000, count=2))


def test_what_a_pod_held_is_free_when_it_is_gone() -> None:
    cluster = cluster_of(cards(1))
    give(cluster, "a", CardUse("GPU-0", False, 700, 60_000))
    cluster.remove("a")
    assert enough(cluster, GpuAsk(1))
    assert cluster.columns.devices.memory_free[0, 0] == 80_000


def test_cards_of_pods_that_nobody_told_us_about_are_counted() -> None:
    """A pod of another scheduler has one of the two cards: which, only its kubelet knows."""
    cluster = cluster_of(cards(2))
    cluster.confirm(a_pod("b", uid="b", node="n1", request_gpus=GpuAsk(1)))
    assert enough(cluster, GpuAsk(1))
    assert not enough(cluster, GpuAsk(2))
    give(cluster, "a", CardUse("GPU-0", False, 500))
    assert enough(cluster, share(500))
    assert not enough(cluster, share(600)), "the other card may be the one that is taken"


def test_a_claim_on_a_card_that_is_not_there_counts_as_one_that_is() -> None:
    cluster = cluster_of(cards(2))
    give(cluster, "a", CardUse("GPU-of-another-node"))
    assert not enough(cluster, GpuAsk(2))
    assert enough(cluster, GpuAsk(1))


def test_two_claims_on_one_card_close_it_until_both_are_gone() -> None:
    cluster = cluster_of(cards(1))
    give(cluster, "a", CardUse("GPU-0"))
    give(cluster, "b", CardUse("GPU-0"))
    cluster.remove("a")
    assert not enough(cluster, share(1))
    cluster.remove("b")
    assert enough(cluster, GpuAsk(1))


def test_a_lost_card_is_not_given_and_comes_back_with_its_pods() -> None:
    cluster = cluster_of(cards(2))
    give(cluster, "a", CardUse("GPU-0", False, 700))
    sick = Inventory((Card("GPU-0", 0, "H100", 80_000, healthy=False), Card("GPU-1", 1)))
    cluster.put_node(a_node("n1", gpus=0, gpus_listed=sick))
    assert not enough(cluster, GpuAsk(2))
    reordered = Inventory(tuple(reversed(cards(2).cards)), dialects=frozenset({"fairlead"}))
    cluster.put_node(a_node("n1", gpus=0, gpus_listed=reordered))
    assert not enough(cluster, GpuAsk(2))
    assert cluster.columns.devices.milli_free[0].tolist()[:2] == [1000, 300]


def test_a_node_that_comes_back_knows_its_pods() -> None:
    cluster = cluster_of(cards(1))
    give(cluster, "a", CardUse("GPU-0"))
    cluster.remove_node("n1")
    cluster.put_node(a_node("n1", gpus=0, gpus_listed=cards(1)))
    assert not enough(cluster, GpuAsk(1))


def test_slices_have_places() -> None:
    cluster = cluster_of(cards(1, mig=(ONE, TWO, THREE)))
    ask = GpuAsk(1, False, 0, profile="3g.40gb", dialect="fairlead")
    give(cluster, "a", CardUse("GPU-0", False, 0, 0, "1g.10gb", 1, 1))
    assert enough(cluster, ask)
    give(cluster, "b", CardUse("GPU-0", False, 0, 0, "1g.10gb", 5, 1))
    assert not enough(cluster, ask)
    ones = GpuAsk(5, False, 0, profile="1g.10gb", dialect="fairlead")
    assert enough(cluster, ones)
    cluster.remove("a")
    assert enough(cluster, ask)
    assert not enough(cluster, share(100)), "a card that is cut has no shares"


@pytest.mark.parametrize("dialect", ["hami", "alnair"])
def test_an_ask_that_the_node_does_not_understand(dialect: str) -> None:
    cluster = cluster_of(cards(1))
    assert not enough(cluster, GpuAsk(1, False, 100, dialect=dialect))


def test_whole_cards_are_only_counted_where_cards_are_not_listed() -> None:
    cluster = Cluster()
    cluster.put_node(a_node("n1", gpus=4))
    assert enough(cluster, GpuAsk(4))
    assert not enough(cluster, share(500))


def test_models() -> None:
    cluster = cluster_of(cards(2))
    assert enough(cluster, GpuAsk(2, models=frozenset({"H100", "H200"})))
    assert not enough(cluster, GpuAsk(1, models=frozenset({"A100"})))
