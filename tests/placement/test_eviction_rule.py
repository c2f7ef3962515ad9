"""One rule says who may be evicted: the searches, the sums and the nominations follow it."""

import random
from collections.abc import Hashable
from typing import Any

import numpy as np
import pytest

from builders import a_node, a_pod, an_engine, decide, see
from fairlead.apps.config.profiles import built_in
from fairlead.cluster.cluster import Cluster
from fairlead.cluster.eviction_rule import ByPriority, EvictionRule
from fairlead.engine.engine import Engine
from fairlead.engine.events import EvictionEnded, PodGone
from fairlead.engine.instructions import Bind, ClearNomination, Evict
from fairlead.model.pods import Pod
from fairlead.placement.place import Placement
from fairlead.placement.verdicts import Refused
from fairlead.testing.drawn import random_node, random_pod

PROFILE = built_in("gpu-scheduler")


class OneByOne(ByPriority):
    """The same rule without its shortcuts."""

    def priority_limit(self, preemptor: Pod) -> int | None:
        return None


class Borrowed:
    """Whatever the priority: a pod of an owner may evict those that borrow."""

    def may_evict(self, preemptor: Pod, pod: Pod) -> bool:
        return preemptor.labels.get("team") == "owner" and pod.labels.get("team") == "borrower"

    def priority_limit(self, preemptor: Pod) -> int | None:
        return None

    def key(self, preemptor: Pod) -> Hashable:
        return preemptor.labels.get("team")


def cluster_with(rule: EvictionRule, seed: int) -> tuple[Cluster, Pod]:
    dice, cluster = random.Random(seed), Cluster()
    cluster.eviction_rule = rule
    for number in range(dice.randint(1, 8)):
        cluster.put_node(random_node(dice, f"n{number}"))
    for number in range(dice.randint(5, 60)):
        cluster.confirm(random_pod(dice, number))
    for number in range(dice.choice([0, 0, 2])):
        pod = a_pod(f"nominated-{number}", uid=f"n-{number}", gpus=2, priority=dice.randint(0, 3))
        cluster.nominations.put(pod, f"n{dice.randint(0, 7)}")
    gpus, priority = dice.randint(4, 8), dice.randint(0, 3)
    return cluster, a_pod("asks", uid="asks", gpus=gpus, priority=priority, labels={"app": "b"})


@pytest.mark.parametrize("seed", range(40))
def test_a_rule_without_a_limit_gives_what_sums_by_priority_give(seed: int) -> None:
    (fast, pod), (slow, _) = cluster_with(ByPriority(), seed), cluster_with(OneByOne(), seed)
    for asking in (pod, *fast.nominations.on("n0"), *fast.nominations.on("n1")):
        assert np.array_equal(fast.evictable(asking), slow.evictable(asking))
        by_limit = fast.nominations.amounts_against(asking) or (np.array([]), np.array([]))
        summed = slow.nominations.amounts_against(asking) or (np.array([]), np.array([]))
        assert all(map(np.array_equal, by_limit, summed))
    verdicts = [Placement(PROFILE, cluster).place(pod) for cluster in (fast, slow)]
    found = [v.eviction if isinstance(v, Refused) else v for v in verdicts]
    assert found[0] == found[1]


def borrowing_engine() -> Engine:
    engine = an_engine(a_node("n1", gpus=2), a_node("n2", gpus=2))
    engine.cluster.eviction_rule = Borrowed()
    see(engine, a_bound("low", "n1", "owner", 0), a_bound("high", "n2", "borrower", 9))
    return engine


def a_bound(name: str, node: str, team: str, priority: int) -> Pod:
    return of(team, name=name, node=node, uid=name, gpus=2, priority=priority)


def of(team: str, **more: Any) -> Pod:
    return a_pod(**more, labels={"team": team})


def test_another_rule_chooses_victims_and_protects_the_room_they_leave() -> None:
    engine = borrowing_engine()
    owner = of("owner", name="owner", uid="o", gpus=2)
    see(engine, owner)
    (evict,) = [made for made in decide(engine) if isinstance(made, Evict)]
    assert (evict.node, [victim.name for victim in evict.victims]) == ("n2", ["high"])
    # While the victim leaves, more important pods respect the nomination if they may not evict.
    see(engine, of("borrower", name="late", gpus=2, priority=99))
    engine.handle(EvictionEnded("o", ""), now=1.0)
    engine.handle(PodGone(a_bound("high", "n2", "borrower", 9)), now=1.0)
    made = decide(engine, now=20.0)
    assert [(step.pod.name, step.node) for step in made if isinstance(step, Bind)] == [
        ("owner", "n2")
    ]


def test_another_rule_decides_whose_nomination_is_cleared_and_outlives_a_rebuild() -> None:
    engine = borrowing_engine()
    rule = engine.cluster.eviction_rule
    gated = {"gates": ("wait",), "nominated": "n2", "priority": 50}
    see(engine, of("borrower", name="waits", gpus=1, **gated))
    see(engine, of("owner", name="owner", gpus=2))
    made = [step for step in decide(engine) if isinstance(step, Evict | ClearNomination)]
    assert [(type(step), step.pod.name) for step in made] == [
        (ClearNomination, "waits"), (Evict, "owner"),
    ]  # fmt: skip
    engine.forget()
    assert engine.cluster.eviction_rule is rule


def test_without_the_right_to_evict_nothing_is_evicted() -> None:
    engine = borrowing_engine()
    see(engine, of("borrower", name="b", gpus=2, priority=100))
    assert not [made for made in decide(engine) if isinstance(made, Evict)]
