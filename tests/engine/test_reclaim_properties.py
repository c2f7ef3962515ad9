"""Whatever comes to queues of unequal weights, evictions end: no unit goes to and fro."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st
from test_reclaim import a_world, of, queue

from examples import examples
from fairlead.model.queues import QueueSpec
from gang_world import GangWorld, a_gang

WEIGHTS = st.sampled_from([0.0, 1.0, 3.0])
NAMES = ("a", "b", "c")


@st.composite
def trees(draw) -> list[QueueSpec]:
    """Three queues, two of them under one parent or not."""
    nested = draw(st.booleans())
    made = [queue("top", weight=draw(WEIGHTS))] if nested else []
    for name in NAMES:
        parent = "fairlead/top" if nested and name != "a" else ""
        guaranteed = draw(st.sampled_from([0, 0, 4]))
        made.append(queue(name, guaranteed, weight=draw(WEIGHTS), parent=parent))
    return made


gangs = st.tuples(st.sampled_from(NAMES), st.integers(1, 5), st.integers(1, 2))


@st.composite
def arrivals(draw) -> list[tuple[str, int, int]]:
    """One queue has all GPUs, or more, when others begin to ask for some."""
    first = draw(st.sampled_from(NAMES))
    sizes = draw(st.lists(st.integers(1, 5), min_size=5, max_size=7))
    others = draw(st.lists(gangs, min_size=3, max_size=8))
    return [*((first, size, 1) for size in sizes), *others]


def evicted_units(world: GangWorld) -> Counter[str]:
    """Gangs that are evicted now, each counted once for each of its evictions."""
    keys = (
        {victim.gang.gang for victim in evict.victims if victim.gang} for evict in world.evictions
    )
    return Counter(key for found in keys for key in found)


def turn(world: GangWorld) -> Counter[str]:
    """All that is due is decided; victims go and come back as new pods."""
    world.now += 20.0
    world.decide_all()
    world.answer_all()
    found = evicted_units(world)
    world.evict_all()
    world.decide_all()
    world.answer_all()
    world.check()
    return found + evicted_units(world)


@examples(15)
@given(trees(), arrivals())
def test_evictions_are_no_more_than_arrivals_and_then_all_is_still(
    specs: list[QueueSpec], coming: list[tuple[str, int, int]]
) -> None:
    world = a_world(*specs, nodes=4)
    evicted: Counter[str] = Counter()
    for number, (name, size, gpus) in enumerate(coming):
        world.create(*of(name, a_gang(f"{name}{number}", size, gpus=gpus)))
        for _ in range(2):
            evicted += turn(world)
    for _ in range(2):  # two rounds later at the latest
        turn(world)
    before = {pod.uid for pod in world.pods.values() if pod.node}
    for _ in range(4):
        assert not turn(world), "an eviction though nothing came"
    assert {pod.uid for pod in world.pods.values() if pod.node} >= before
    assert evicted.total() <= len(coming)
    weight_0 = {spec.key for spec in specs if not spec.weight and not spec.guaranteed}
    for evict in world.evictions:
        assert evict.pod.queue not in weight_0
