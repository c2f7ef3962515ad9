"""Kueue's published scenarios of preemption and fair sharing, as far as queues here mean the same.

A ClusterQueue is a queue, its nominal quota the guarantee, its cohort the parent.
"""

from dataclasses import dataclass

import pytest

from builders import a_node, a_pod, an_engine
from fairlead.engine.events import QueueSeen
from fairlead.model.pods import Pod
from fairlead.model.queues import GPUS, QueueSpec, Victims
from gang_world import GangWorld

COHORT = "fairlead/cohort"


def cq(name: str, nominal: int, **more: object) -> QueueSpec:
    amounts = ((GPUS, 1000 * nominal),) if nominal else ()
    return QueueSpec(f"fairlead/{name}", COHORT, amounts, **more)  # type: ignore[arg-type]


def workload(name: str, gpus: int = 1, priority: int = 0, started: int = 0) -> Pod:
    """In the queue that its name begins with."""
    queue = f"fairlead/{name.partition('-')[0]}"
    at = f"1970-01-01T00:00:{started:02d}Z"
    return a_pod(name, uid=name, gpus=gpus, queue=queue, priority=priority, started=at)


@dataclass(frozen=True)
class Scene:
    queues: list[QueueSpec]
    running: list[Pod]
    arrives: Pod
    #: Names, in any order; or how many of any name.
    victims: list[str] | int
    gpus: int = 12


LOW = Victims.LOWER_PRIORITY
BORROWER = [workload(f"b-{n}", 3) for n in range(4)]

SCENES = {
    "reclaim what is nominal from a queue that borrows": Scene(
        [cq("a", 6), cq("b", 6)], BORROWER, workload("a-1", 3), 1
    ),
    "reclaim the whole nominal quota": Scene(
        [cq("a", 6), cq("b", 6)], BORROWER, workload("a-1", 6), 2
    ),
    "nothing from a queue within its nominal quota": Scene(
        [cq("a", 6), cq("b", 12)], BORROWER, workload("a-1", 3), 0
    ),
    "nothing if even all that is borrowed is not enough": Scene(
        [cq("a", 6), cq("b", 9)], BORROWER, workload("a-1", 6), 0
    ),
    "reclaimWithinCohort Never": Scene(
        [cq("a", 6, reclaims=Victims.NEVER), cq("b", 6)], BORROWER, workload("a-1", 3), 0
    ),
    "reclaimWithinCohort LowerPriority: only lower ones": Scene(
        [cq("a", 6, reclaims=LOW), cq("b", 0)],
        [workload("b-high", 6, priority=9), workload("b-low", 6, priority=1)],
        workload("a-1", 3, priority=5),
        ["b-low"],
    ),
    "reclaimWithinCohort Any: the lowest priority first": Scene(
        [cq("a", 6), cq("b", 0)],
        [workload("b-high", 6, priority=9), workload("b-low", 6, priority=7)],
        workload("a-1", 3, priority=0),
        ["b-low"],
    ),
    "withinClusterQueue Never": Scene(
        [cq("a", 12, within=Victims.NEVER)],
        [workload(f"a-{n}", 3) for n in range(4)],
        workload("a-new", 3, priority=9),
        0,
    ),
    "withinClusterQueue LowerPriority": Scene(
        [cq("a", 12)],
        [workload("a-0", 6, priority=1), workload("a-1", 6, priority=9)],
        workload("a-new", 3, priority=5),
        ["a-0"],
    ),
    "withinClusterQueue LowerPriority: not for an equal priority": Scene(
        [cq("a", 12)],
        [workload(f"a-{n}", 3, priority=5) for n in range(4)],
        workload("a-new", 3, priority=5),
        0,
    ),
    "what is not needed comes back": Scene(
        [cq("a", 6), cq("b", 0)],
        [workload("b-small", 2), workload("b-large", 6), workload("b-other", 4, priority=9)],
        workload("a-1", 6),
        ["b-large"],
    ),
    "most recently admitted first among equals": Scene(
        [cq("a", 6), cq("b", 0)],
        [workload("b-old", 6), workload("b-new", 6, started=50)],
        workload("a-1", 6),
        ["b-new"],
    ),
    "fair sharing: from the queue that is furthest above its share": Scene(
        [cq("a", 0), cq("b", 0), cq("c", 0)],
        [workload("b-0", 1), *(workload(f"c-{n}", 1) for n in range(11))],
        workload("a-1", 1),
        1,
    ),
    "fair sharing: weights": Scene(
        [cq("a", 0, weight=1.0), cq("b", 0, weight=3.0)],
        [workload(f"b-{n}", 3) for n in range(4)],
        workload("a-1", 3),
        1,
    ),
    "fair sharing: not beyond the share of the weight": Scene(
        [cq("a", 0, weight=1.0), cq("b", 0, weight=3.0)],
        [workload(f"b-{n}", 3) for n in range(4)],
        workload("a-1", 6),
        0,
    ),
    "fair sharing: weight 0 evicts nothing": Scene(
        [cq("a", 0, weight=0.0), cq("b", 0)], BORROWER, workload("a-1", 3), 0
    ),
    "fair sharing: weight 0 that borrows loses first": Scene(
        [cq("a", 6), cq("b", 6), cq("c", 0, weight=0.0)],
        [workload("b-0", 6), workload("c-0", 6)],
        workload("a-1", 6),
        ["c-0"],
    ),
    "nested cohorts: within the nearer one first": Scene(
        [cq("a", 3), cq("b", 0), QueueSpec("fairlead/other", guaranteed=((GPUS, 6000),))],
        [workload("b-0", 6), workload("other-0", 6)],
        workload("a-1", 3),
        ["b-0"],
    ),
}


@pytest.mark.parametrize("name", SCENES)
def test_who_is_evicted(name: str) -> None:
    scene = SCENES[name]
    world = GangWorld(an_engine(a_node("n1", gpus=scene.gpus)))
    for spec in (QueueSpec(COHORT), *scene.queues):
        world.tell(QueueSeen(spec))
    world.create(*scene.running)
    world.decide_all()
    world.answer_all()
    assert all(pod.node for pod in world.pods.values()), "the scene is as it is meant"
    world.now = 100.0
    world.create(scene.arrives)
    world.decide_all()
    found = sorted(victim.name for evict in world.evictions for victim in evict.victims)
    expected = scene.victims
    assert (len(found) if isinstance(expected, int) else found) == expected
    world.evict_all()
    world.settle(3)
    started = bool(next(p for p in world.pods.values() if p.name == scene.arrives.name).node)
    assert started is bool(expected), "it has the room for which others went"


def test_the_furthest_above_its_share_loses() -> None:
    """Of queues that are all above, one after another gives until shares are equal."""
    world = GangWorld(an_engine(a_node("n1", gpus=12)))
    for spec in (QueueSpec(COHORT), cq("a", 0), cq("b", 0), cq("c", 0)):
        world.tell(QueueSeen(spec))
    world.create(*(workload(f"b-{n}") for n in range(4)), *(workload(f"c-{n}") for n in range(8)))
    world.decide_all()
    world.answer_all()
    world.now = 100.0
    world.create(*(workload(f"a-{n}") for n in range(6)))
    world.decide_all()
    found = [victim.name[0] for evict in world.evictions for victim in evict.victims]
    assert found == ["c"] * 4
