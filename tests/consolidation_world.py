"""Clusters for consolidation: running pods that may be moved, and a pod that waits."""

from builders import SCHEDULER, a_node, a_pod, an_engine, see
from fairlead.apps.config.profiles import built_in
from fairlead.engine.consolidation.plans import ConsolidationPlan, NoConsolidation
from fairlead.engine.engine import Engine
from fairlead.engine.events import NodeSeen
from fairlead.model.consolidation import ConsolidationTerms, MoveLimits
from fairlead.model.pods import Pod
from gang_world import GangWorld

#: 2026-01-01 12:00 UTC, when every test looks; running pods began 20 minutes before.
NOW_S = 1_767_268_800.0
BEGAN = "2026-01-01T11:40:00Z"


def running(name: str, gpus: int, node: str, **more: object) -> Pod:
    """A pod of a ReplicaSet that has run for 20 minutes."""
    fields = {"controller": f"ReplicaSet/{name}", "started": BEGAN, **more}
    return a_pod(name, uid=name, gpus=gpus, node=node, **fields)


def drawn_engine(*rows: str, **pod_fields: object) -> Engine:
    """`n1 aabb.c..` is a node of eight GPUs: pods with two, two and one of them, three free.

    Adjacent equal letters are one pod; it is named by node and letter.
    """
    engine = an_engine()
    for row in rows:
        name, _, drawing = row.partition(" ")
        see_node(engine, name, len(drawing))
        for letter in sorted(set(drawing) - {"."}):
            see(engine, running(f"{name}-{letter}", drawing.count(letter), name, **pod_fields))
    return engine


def a_world(*rows: str, **terms: object) -> GangWorld:
    """Nodes and running pods as in `drawn_engine`; time begins at 0, which is `NOW_S`."""
    values = {"enabled": True, "limits": MoveLimits(least_run_s=0.0), **terms}
    engine = Engine({SCHEDULER: built_in(SCHEDULER)}, consolidation=ConsolidationTerms(**values))
    engine.wall_offset_s = NOW_S
    world = GangWorld(engine)
    for row in rows:
        name, _, drawing = row.partition(" ")
        world.tell(NodeSeen(a_node(name, gpus=len(drawing))))
        for letter in sorted(set(drawing) - {"."}):
            world.create(running(f"{name}-{letter}", drawing.count(letter), name))
    return world


def see_node(engine: Engine, name: str, gpus: int) -> None:
    engine.handle(NodeSeen(a_node(name, gpus=gpus)), now=0.0)


def plan_for(
    engine: Engine, *pods: Pod, limits: MoveLimits | None = None
) -> ConsolidationPlan | NoConsolidation:
    """A plan for the unit of these pods, which wait."""
    see(engine, *pods)
    entry = engine.queue.get(pods[0].uid)
    assert entry is not None
    return engine.planning.plan(entry, limits or MoveLimits(), NOW_S)


def a_plan(engine: Engine, *pods: Pod, limits: MoveLimits | None = None) -> ConsolidationPlan:
    found = plan_for(engine, *pods, limits=limits)
    assert isinstance(found, ConsolidationPlan), found
    return found


def why_none(engine: Engine, *pods: Pod, limits: MoveLimits | None = None) -> str:
    found = plan_for(engine, *pods, limits=limits)
    assert isinstance(found, NoConsolidation), found
    return found.why
