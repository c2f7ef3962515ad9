"""Mutated Topologies and HyperNodes, and gangs with rules about them: each ends only itself."""

from collections.abc import Iterable
from random import Random

import pytest

from fairlead.apps.run.topology_watches import topology_watches
from fairlead.kube.gangs.topology_objects import KINDS
from fuzz.gangs import drawn_object, drawn_pod, show_object
from fuzz.mutations import mutated
from fuzz.objects import Json, node
from fuzz.searching import batches
from fuzz.target import Target
from fuzz.topologies import TOPOLOGIES
from fuzz.watched import Watched

CASES, STEPS = 40, 40


def _show(rng: Random, kinds: list[Watched], number: int) -> None:
    watched = rng.choice(kinds)
    dialect = watched.watch.name.removeprefix("topology ")
    roll = rng.random()
    if roll < 0.05:
        watched.is_removed()
        return
    change = "DELETED" if roll < 0.2 else "ADDED"
    watched.show(mutated(rng, TOPOLOGIES[dialect]), rng.choice("abc"), change=change)


def _a_node(rng: Random, number: int) -> Json:
    """The labels and the name by which objects may select it."""
    labels = {key: rng.choice("ab") for key in ("zone", "rack") if rng.random() < 0.8}
    name = f"gpus-{number % 5 + 1}"
    labels["kubernetes.io/hostname"] = name
    return {**node(), "metadata": {"name": name, "uid": name, "labels": labels}}


def _try(seed: int) -> None:
    rng = Random(seed)
    target = Target(rng)
    kinds = [Watched(target, each) for each in topology_watches(target.feed, KINDS)]
    assert len(kinds) == len(TOPOLOGIES)
    for number in range(STEPS):
        roll = rng.random()
        if roll < 0.4:
            _show(rng, kinds, number)
        elif roll < 0.5:
            target.show(_a_node(rng, number), "MODIFIED")
        elif roll < 0.6:
            show_object(target, *drawn_object(rng, ("volcano", "kai")), number)
        else:
            pod = drawn_pod(rng, rng.randint(0, number))
            target.show(pod, "DELETED" if rng.random() < 0.1 else "ADDED")
        target.decide(rng.choice((0, 1, 3)))
        target.engine.tend(now=target._now)
    for watched in kinds:
        watched.is_removed()
    target.check()


@pytest.mark.parametrize("seeds", batches(CASES))
def test_no_topology_ends_anything_but_itself(seeds: Iterable[int]) -> None:
    for seed in seeds:
        _try(seed)


@pytest.mark.parametrize("dialect", TOPOLOGIES)
def test_the_objects_that_are_mutated_describe_a_topology(dialect: str) -> None:
    target = Target(Random(0))
    watch = next(each for each in topology_watches(target.feed, [dialect]))
    watched = Watched(target, watch)
    watched.show(TOPOLOGIES[dialect], "a")
    (found,) = watched.objects.values()
    assert found.described is not None, found.problem
