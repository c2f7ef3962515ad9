"""Pods, nodes, clusters and engines in as few words as a test needs."""

from collections.abc import Sequence

from fairlead.apps.config.profiles import built_in
from fairlead.cluster.cluster import Cluster
from fairlead.engine.bind_data import BindEncoder, without_annotations
from fairlead.engine.engine import Engine
from fairlead.engine.events import NodeSeen, PodSeen
from fairlead.engine.instructions import Instruction
from fairlead.model.nodes import GPU, Node
from fairlead.model.pods import Pod
from fairlead.testing.builders import (
    SCHEDULER,
    a_node,
    a_pod,
    a_request,
    a_taint,
    pod_term,
    selects,
)

__all__ = [
    "SCHEDULER",
    "a_node",
    "a_pod",
    "a_request",
    "a_taint",
    "an_engine",
    "decide",
    "decide_once",
    "drawing",
    "drawn",
    "pod_term",
    "see",
    "selects",
]


def drawn(*rows: str) -> Cluster:
    """A cluster drawn as text, a line a node: `n1 ##..` is a node with two of four GPUs taken."""
    cluster = Cluster()
    for row in rows:
        name, _, gpus = row.partition(" ")
        cluster.put_node(a_node(name, gpus=len(gpus)))
        for number in range(gpus.count("#")):
            cluster.confirm(a_pod(f"on-{name}-{number}", gpus=1, node=name))
    return cluster


def drawing(cluster: Cluster) -> list[str]:
    """The same the other way round."""
    nodes = cluster.nodes
    free, total = nodes.free(GPU), nodes.allocatable(GPU)
    return [
        f"{name} {'#' * int(total[row] - free[row])}{'.' * int(free[row])}"
        for name, row in sorted(cluster.row_of.items())
    ]


def an_engine(
    *nodes: Node, profile: str = SCHEDULER, encode: BindEncoder = without_annotations
) -> Engine:
    engine = Engine({SCHEDULER: built_in(profile)}, encode=encode)
    for node in nodes:
        engine.handle(NodeSeen(node), now=0.0)
    return engine


def see(engine: Engine, *pods: Pod, now: float = 0.0) -> list[Instruction]:
    return [made for pod in pods for made in engine.handle(PodSeen(pod), now=now)]


def decide_once(engine: Engine, *, now: float = 0.0) -> Sequence[Instruction]:
    """What comes of the next attempt; nothing if no pod is due."""
    attempt = engine.decide(now=now)
    return attempt.instructions if attempt else ()


def decide(engine: Engine, *, now: float = 0.0, times: int = 100) -> list[Instruction]:
    """Everything the engine decides until it has nothing more to do."""
    made: list[Instruction] = []
    for _ in range(times):
        attempt = engine.decide(now=now)
        if attempt is None:
            break
        made += attempt.instructions
    return made
