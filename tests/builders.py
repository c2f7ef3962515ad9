"""Pods, nodes and clusters in as few words as a test needs."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

from fairlead.apps.config.profiles import built_in
from fairlead.cluster.cluster import Cluster
from fairlead.engine.engine import Engine
from fairlead.engine.events import NodeSeen, PodSeen
from fairlead.engine.instructions import Instruction
from fairlead.model.nodes import GPU, Node
from fairlead.model.pods import Pod, PodRequest, Taint
from fairlead.model.selectors import LabelSelector, PodTerm, Requirement

SCHEDULER = "gpu-scheduler"
_uids = count()


def a_request(gpus: int = 0, cpu: int = 0, **more: Any) -> PodRequest:
    more["gpu_request"] = more.pop("asks", None)
    amounts = {"cpu": cpu, GPU: gpus, **more.pop("resources", {})}
    resources = tuple(sorted((name, amount) for name, amount in amounts.items() if amount))
    return PodRequest(resources=resources, **more)


def pod_term(topology_key: str, namespace: str = "default", **labels: str) -> PodTerm:
    """Pods with these labels, in the sense of a topology key."""
    return PodTerm(topology_key, selects(**labels), (namespace,))


def selects(**labels: str) -> LabelSelector:
    return LabelSelector(tuple(Requirement(k, "In", (v,)) for k, v in sorted(labels.items())))


def a_pod(name: str = "p", **more: Any) -> Pod:
    """`gpus`, `cpu` and whatever a PodRequest takes go into the request, the rest into the pod."""
    asks = {key: more.pop(key) for key in list(more) if key in _REQUEST_KEYS}
    request = a_request(**asks)
    if "request_gpus" in more:
        request = replace(request, gpu_request=more.pop("request_gpus"))
    defaults = {"uid": f"uid-{name}-{next(_uids)}", "scheduler": SCHEDULER}
    usage = more.pop("usage", request.resources)
    return Pod("default", name, **{**defaults, **more}, request=request, usage=usage)


_REQUEST_KEYS = {
    "gpus", "cpu", "resources", "scored", "node_name", "node_selector", "node_terms",
    "tolerations", "host_ports", "required_affinity", "anti_affinity", "spread", "namespace",
    "preferred", "soft_spread", "preferred_affinity", "features", "volumes",
}  # fmt: skip


def a_node(name: str = "n1", gpus: int = 8, **more: Any) -> Node:
    amounts: Mapping[str, int] = {
        "cpu": 64_000, "memory": 1 << 40, "pods": 110, GPU: gpus, **more.pop("resources", {}),
    }  # fmt: skip
    allocatable = tuple(sorted((key, amount) for key, amount in amounts.items() if amount))
    listed = more.pop("gpus_listed", None)
    return Node(name, **{"allocatable": allocatable, "inventory": listed, **more})


def a_taint(key: str = "dedicated", value: str = "", effect: str = "NoSchedule") -> Taint:
    return Taint(key, value, effect)


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


def an_engine(*nodes: Node, profile: str = SCHEDULER) -> Engine:
    engine = Engine({SCHEDULER: built_in(profile)})
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
