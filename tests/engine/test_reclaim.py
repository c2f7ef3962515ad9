"""Reclaim between queues: who is above its share gives back, and nothing goes to and fro."""

from dataclasses import replace

import pytest

from builders import a_node, a_pod, an_engine
from fairlead.engine.events import EvictionEnded, PodSeen, QueueSeen
from fairlead.model.pods import Pod
from fairlead.model.queues import GPUS, QueueSpec, Victims
from gang_world import GangWorld, a_gang


def a_world(*queues: QueueSpec, nodes: int = 2, gpus: int = 4) -> GangWorld:
    world = GangWorld(an_engine(*(a_node(f"n{n}", gpus=gpus) for n in range(nodes))))
    for spec in queues:
        world.tell(QueueSeen(spec))
    return world


def queue(name: str, guaranteed: int = 0, **more: object) -> QueueSpec:
    amounts = ((GPUS, 1000 * guaranteed),) if guaranteed else ()
    return QueueSpec(f"fairlead/{name}", guaranteed=amounts, **more)  # type: ignore[arg-type]


def of(name: str, pods: list[Pod]) -> list[Pod]:
    return [replace(pod, queue=f"fairlead/{name}") for pod in pods]


def singles(name: str, count: int, gpus: int = 1, **more: object) -> list[Pod]:
    pods = [a_pod(f"{name}-{n}", uid=f"{name}-{n}", gpus=gpus, **more) for n in range(count)]
    return of(name.split("-", maxsplit=1)[0], pods)


def run(world: GangWorld, *pods: Pod) -> None:
    world.create(*pods)
    world.decide_all()
    world.answer_all()
    world.check()


def victims(world: GangWorld) -> list[str]:
    return sorted(victim.name for evict in world.evictions for victim in evict.victims)


def held(world: GangWorld, name: str) -> int:
    """GPUs that pods of the queue have."""
    pods = (p for p in world.pods.values() if p.node and p.queue == f"fairlead/{name}")
    return sum(pod.request.amount("nvidia.com/gpu") for pod in pods)


def test_a_queue_below_its_share_reclaims_from_one_above() -> None:
    world = a_world(queue("a"), queue("b"))
    run(world, *singles("a", 8))
    assert held(world, "a") == 8
    run(world, *singles("b", 6))
    assert len(victims(world)) == 4, "up to the share of each, and no further"
    world.evict_all()
    world.settle(3)
    assert (held(world, "a"), held(world, "b")) == (4, 4)
    assert not world.evictions


def test_a_gang_reclaims_whole_units() -> None:
    world = a_world(queue("a"), queue("b"))
    run(world, *of("a", a_gang("x", 4)), *of("a", a_gang("y", 4)))
    run(world, *of("b", a_gang("z", 4)))
    assert len(victims(world)) == 4
    assert len({name[0] for name in victims(world)}) == 1
    world.evict_all()
    world.settle(3)
    assert held(world, "b") == 4


def test_the_room_is_held_against_a_higher_priority_of_the_other_queue() -> None:
    world = a_world(queue("a"), queue("b"))
    run(world, *singles("a", 8, priority=5))
    run(world, *singles("b", 1))
    (evict,) = world.evictions
    (victim,) = evict.victims
    world.evictions.clear()
    world.pods[victim.uid] = replace(victim, deleting=True)
    world.tell(PodSeen(world.pods[victim.uid]))
    world.tell(EvictionEnded(evict.pod.uid))
    world.replace(victim.uid)  # the replacement has priority 5, and may not have the room
    world.now += 20.0
    run(world)
    assert held(world, "b") == 1
    assert not world.evictions


@pytest.mark.parametrize(
    "other",
    [
        queue("a", reclaimable=False),
        queue("a", min_run_reclaim_s=600.0),
        queue("a", guaranteed=8),
    ],
)
def test_what_protects_a_queue(other: QueueSpec) -> None:
    world = a_world(other, queue("b"))
    run(world, *singles("a", 8, started="1970-01-01T00:00:00Z"))
    run(world, *singles("b", 1))
    assert not world.evictions


def test_after_its_least_time_a_unit_may_go() -> None:
    world = a_world(queue("a", min_run_reclaim_s=600.0), queue("b"))
    run(world, *singles("a", 8, started="1970-01-01T00:00:00Z"))
    world.now = 700.0
    run(world, *singles("b", 1))
    assert len(victims(world)) == 1


def test_a_guarantee_is_worth_more_than_a_share() -> None:
    world = a_world(queue("a", weight=9.0), queue("b", guaranteed=4, weight=0.0))
    run(world, *singles("a", 8))
    run(world, *singles("b", 6))
    assert len(victims(world)) == 4


def test_weight_0_never_evicts() -> None:
    world = a_world(queue("a"), queue("b", weight=0.0))
    run(world, *singles("a", 8))
    run(world, *singles("b", 4))
    assert not world.evictions


def test_a_queue_that_may_not_reclaim_or_only_from_lower_priority() -> None:
    for reclaims, priority, count in ((Victims.NEVER, 0, 0), (Victims.LOWER_PRIORITY, 5, 0),
                                      (Victims.LOWER_PRIORITY, -5, 1)):  # fmt: skip
        world = a_world(queue("a"), queue("b", reclaims=reclaims))
        run(world, *singles("a", 8, priority=priority))
        run(world, *singles("b", 1))
        assert len(victims(world)) == count, (reclaims, priority)


def test_within_a_queue_by_priority() -> None:
    world = a_world(queue("a"), queue("b", within=Victims.NEVER))
    run(world, *singles("a", 4), *singles("b", 4))
    run(world, *singles("b-high", 1, priority=5))
    assert not world.evictions
    run(world, *singles("a-high", 1, priority=5))
    assert victims(world)[0].startswith("a-")


def test_queues_are_compared_where_their_paths_differ() -> None:
    """b1 and b2 share what b has: b2 takes from b1, not from a, which has its share."""
    world = a_world(
        queue("a"), queue("b"), queue("b1", parent="fairlead/b"), queue("b2", parent="fairlead/b")
    )
    run(world, *singles("a", 4), *singles("b1", 4))
    run(world, *singles("b2", 2))
    assert len(victims(world)) == 2
    assert {name[:2] for name in victims(world)} == {"b1"}


def test_nothing_goes_to_and_fro() -> None:
    """E7, with gangs of unequal sizes around the share."""
    world = a_world(queue("a"), queue("b", weight=3.0), queue("c", weight=0.0), nodes=4)
    arrivals = 0
    evicted = 0
    for number, (name, size) in enumerate(
        [("a", 5), ("c", 3), ("a", 3), ("b", 4), ("b", 7), ("c", 2), ("a", 2), ("b", 3)]
    ):
        arrivals += 1
        run(world, *of(name, a_gang(f"{name}{number}", size)))
        for _ in range(4):
            evicted += len({v.gang.gang for e in world.evictions for v in e.victims if v.gang})
            world.evict_all()
            world.now += 20.0
            run(world)
    assert evicted <= arrivals
    before = {pod.uid for pod in world.pods.values() if pod.node}
    world.settle(6)
    assert {pod.uid for pod in world.pods.values() if pod.node} == before, "a fixed point"
