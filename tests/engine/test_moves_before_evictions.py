"""Where moves let a unit start, nothing is evicted for it for good."""

from dataclasses import replace

import pytest

from builders import a_pod
from consolidation_world import a_world, running
from fairlead.engine.events import QueueKindSeen, QueueSeen
from fairlead.model.pods import Pod
from fairlead.model.queues import GPUS, QueueSpec
from gang_world import GangWorld, a_gang

OWNER, BORROWER = "fairlead/owner", "fairlead/borrower"


def queued_world(*rows: str, borrowed: dict[str, int], **terms: object) -> GangWorld:
    """Pods of the borrower run on the nodes, by name such as `n1-a`; four GPUs are the owner's."""
    world = a_world(*rows, **terms)
    world.tell(QueueKindSeen("fairlead", is_served=True))
    world.tell(QueueSeen(QueueSpec(OWNER, guaranteed=((GPUS, 4000),))))
    world.tell(QueueSeen(QueueSpec(BORROWER)))
    for name, gpus in borrowed.items():
        world.create(
            running(name, gpus, name.partition("-")[0], queue=BORROWER, charged_queue=BORROWER)
        )
    return world


def waiting(gang: bool) -> list[Pod]:
    if gang:
        return [replace(pod, queue=OWNER) for pod in a_gang("train", 2, gpus=2)]
    return [a_pod("train", gpus=4, queue=OWNER)]


def start(world: GangWorld, pods: list[Pod]) -> None:
    world.create(*pods)
    world.decide_all()


@pytest.mark.parametrize(
    ("gang", "rows", "borrowed"),
    [
        (False, ("n1 ....", "n2 ...."), {"n1-a": 2, "n2-a": 2}),
        (True, ("n1 ..", "n2 ..", "n3 .."), {"n1-a": 1, "n2-a": 1}),
    ],
)
def test_a_borrower_that_fits_elsewhere_is_moved(
    gang: bool, rows: tuple[str, ...], borrowed: dict[str, int]
) -> None:
    world = queued_world(*rows, borrowed=borrowed)
    start(world, waiting(gang))
    [evict] = world.evictions
    assert evict.moves
    assert len(evict.victims) == 1
    world.evict_all()
    world.decide_all()
    world.answer_all()
    assert all(pod.node for pod in world.pods.values())
    world.check()


def test_a_borrower_that_fits_nowhere_else_is_evicted_at_once() -> None:
    world = queued_world("n1 ....", "n2 ....", borrowed={"n1-a": 2, "n2-a": 4})
    start(world, waiting(gang=False))
    [evict] = world.evictions
    assert not evict.moves
    assert evict.within_budgets


def test_without_consolidation_borrowers_are_evicted() -> None:
    world = queued_world("n1 ....", "n2 ....", borrowed={"n1-a": 2, "n2-a": 2}, enabled=False)
    start(world, waiting(gang=False))
    [evict] = world.evictions
    assert not evict.moves


def test_what_may_not_be_moved_any_more_in_this_hour_is_evicted() -> None:
    world = queued_world("n1 ....", "n2 ....", borrowed={"n1-a": 2, "n2-a": 2}, moves_per_hour=0)
    start(world, waiting(gang=False))
    [evict] = world.evictions
    assert not evict.moves


def test_a_unit_for_which_moves_failed_evicts_others() -> None:
    world = queued_world("n1 ....", "n2 ....", borrowed={"n1-a": 2, "n2-a": 2})
    start(world, waiting(gang=False))
    assert world.evictions[0].moves
    world.evict_all(well=False)
    world.now += 60.0
    world.create(a_pod("other", gpus=4, queue=OWNER))
    world.decide_all()
    assert [evict.moves for evict in world.evictions] == [False]


def test_a_gang_of_higher_priority_moves_others_too() -> None:
    world = a_world("n1 a.", "n2 a.", "n3 ..")
    world.create(*a_gang("urgent", 2, gpus=2, priority=5))
    world.decide_all()
    [evict] = world.evictions
    assert evict.moves
    assert len(evict.victims) == 1
