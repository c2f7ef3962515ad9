"""What a placement remembers of earlier searches never changes whom it evicts."""

import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from builders import a_node, a_pod, selects
from fairlead.apps.config.profiles import built_in
from fairlead.cluster.cluster import Cluster
from fairlead.model.budgets import Budget
from fairlead.placement import preempt
from fairlead.placement.place import Placement
from fairlead.placement.verdicts import Refused
from fairlead.testing.drawn import random_node, random_pod

PROFILE = built_in("gpu-scheduler")


def full_cluster(nodes: int) -> Cluster:
    """Two pods of two GPUs on every node."""
    cluster = Cluster()
    for number in range(nodes):
        name = f"n{number}"
        cluster.put_node(a_node(name, gpus=4))
        for which in "ab":
            cluster.confirm(a_pod(f"{name}-{which}", gpus=2, node=name, labels={"app": which}))
    return cluster


def nominate(cluster: Cluster, dice: random.Random) -> None:
    pod = a_pod(f"promised-{dice.random()}", gpus=2, priority=dice.randint(0, 12))
    cluster.nominations.put(pod, f"n{dice.randint(0, 7)}")


def drop_nomination(cluster: Cluster, dice: random.Random) -> None:
    nominated = cluster.nominations.on(f"n{dice.randint(0, 7)}")
    if nominated:
        cluster.nominations.drop(nominated[0].uid)


def start(cluster: Cluster, dice: random.Random) -> None:
    uid = dice.choice(list(cluster.holdings))
    pod = replace(cluster.holdings[uid].pod, started=f"2026-01-{dice.randint(10, 28)}T00:00:00Z")
    cluster.confirm(pod)


def end(cluster: Cluster, dice: random.Random) -> None:
    cluster.remove(dice.choice(list(cluster.holdings)))


def arrive(cluster: Cluster, dice: random.Random) -> None:
    cluster.confirm(random_pod(dice, dice.randint(100, 999)))


def grow(cluster: Cluster, dice: random.Random) -> None:
    cluster.put_node(random_node(dice, f"n{dice.randint(0, 7)}"))


def protect(cluster: Cluster, dice: random.Random) -> None:
    selector = selects(app=dice.choice("ab"))
    cluster.budgets["default/b"] = Budget("default", "b", selector, allowed=dice.randint(0, 2))


TURNS: tuple[Callable[[Cluster, random.Random], None], ...] = (
    nominate, nominate, drop_nomination, start, end, arrive, grow, protect,
)  # fmt: skip


@pytest.mark.parametrize("seed", range(40))
def test_whatever_happened_since_the_answer_is_that_of_a_fresh_look(seed: int) -> None:
    dice = random.Random(seed)
    cluster = full_cluster(8)
    lasting = Placement(PROFILE, cluster)
    for number in range(25):
        dice.choice(TURNS)(cluster, dice)
        pod = a_pod(f"asks-{number}", gpus=4, priority=dice.choice((5, 10)))
        assert lasting.place(pod) == Placement(PROFILE, cluster).place(pod)


def test_the_next_pod_of_a_kind_plays_through_only_what_is_new(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = full_cluster(preempt._TRY_ALL + 50)
    placement = Placement(PROFILE, cluster)
    drafts = []
    draft = cluster.draft
    monkeypatch.setattr(cluster, "draft", lambda row: drafts.append(row) or draft(row))
    for number in range(20):
        pod = a_pod(f"asks-{number}", gpus=4, priority=5)
        verdict = placement.place(pod)
        assert isinstance(verdict, Refused)
        assert verdict.eviction is not None
        cluster.nominations.put(pod, verdict.eviction.node)
    assert len(drafts) == len(set(drafts)) == 20 + preempt._NO_BETTER
