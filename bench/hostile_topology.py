"""HyperNodes that contain as many nodes as they can, and nodes that as many pods name as can be."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from fairlead.engine.events import Event, GangSeen, HyperNodeSeen, NodeGone, PodGone, PodSeen
from fairlead.kube.codec import decode_pod
from fairlead.kube.gangs.topology_objects import (
    MOST_LINES,
    MOST_PATTERNS,
    MOST_SELECTORS,
    VOLCANO,
    decode_topology,
)
from fairlead.model.gangs import GangSpec, TopologyRule
from fairlead.model.hyper_nodes import HyperNode
from fairlead.model.topology import TIER
from hostile_cluster import Made, Shape, Size, a_node, a_pod, encoded, node_seen, seen
from pods import HOST, Body

_LATE = "late-node"
_TIERS = 20
_HYPER_NODES = 100


def patterns(size: Size) -> Iterator[Made]:
    """HyperNodes with patterns of which each needs as many states as it may."""
    letters = "abcdefghijklmnopqrstuvwxyz0123456789"
    for number in range(3):
        texts = [
            "".join(letters[(7 * at + kind + number) % 36] for at in range(120)) + f"|.*q{kind}$"
            for kind in range(MOST_PATTERNS)
        ]
        yield _seen(number, [{"regexMatch": {"pattern": text}} for text in texts])
    yield from _gang()
    yield node_seen(a_node(size, 1, labels={"changed": "yes"}))


def selectors(size: Size) -> Iterator[Made]:
    """HyperNodes with label selectors of many values that match nearly all nodes."""
    for number in range(3):
        values = [f"v{at}" for at in range(size.each // MOST_LINES)]
        lines = [{"key": HOST, "operator": "NotIn", "values": values}]
        lines *= MOST_LINES // MOST_SELECTORS
        yield _seen(number, [{"labelMatch": {"matchExpressions": lines}}] * MOST_SELECTORS)
    yield from _gang()
    yield node_seen(a_node(size, 1, labels={"changed": "yes"}))


def of_all_nodes(size: Size) -> Iterator[Made]:
    """Many HyperNodes name all nodes; one of them changes, and a node comes."""
    names = frozenset(map(size.node, range(size.nodes)))
    for number in range(_HYPER_NODES):
        yield _put(HyperNode(f"h{number}", 1 + number % _TIERS, nodes=names))
    yield from _gang()
    yield _put(HyperNode("h1", 2, nodes=names - {size.node(1)}))
    yield node_seen(a_node(Size(size.nodes + 1), size.nodes))


def of_each_other(size: Size) -> Iterator[Made]:
    """Many HyperNodes name many others, which contain the same nodes."""
    names = frozenset(map(size.node, range(size.nodes // 10)))
    inner = tuple(f"h{number}" for number in range(size.each // 50))  # as many as are used
    for number in range(_HYPER_NODES):
        tier = 1 + number * _TIERS // _HYPER_NODES
        yield _put(HyperNode(f"h{number}", tier, nodes=names, hyper_nodes=inner))
    yield from _gang()
    yield _put(HyperNode("h1", 1, nodes=names))


def pods_before_node(size: Size) -> Iterator[Made]:
    """Pods name a node that is not there; then it comes, changes, goes and comes again."""
    kind = decode_pod(encoded(a_pod("there", cpu="1m")))
    for number in range(size.pods):
        uid = f"early-{number}"
        yield partial(PodSeen, replace(kind, name=uid, uid=uid, node=_LATE))
    node = a_node(size, 0)
    node["metadata"] |= {"name": _LATE, "uid": _LATE}
    yield node_seen(node)
    node["metadata"]["labels"] = {HOST: _LATE, "changed": "yes"}
    yield node_seen(node)
    yield partial(NodeGone, _LATE)
    yield node_seen(node)


def terms_before_node(size: Size) -> Iterator[Made]:
    """The same with pods that have as many terms as they may, and then leave."""
    line = {"key": "app", "operator": "Exists"}
    term = {"topologyKey": HOST, "labelSelector": {"matchExpressions": [line]}}
    terms = [{**term, "namespaces": [f"team-{at}"]} for at in range(size.rules)]
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    body = a_pod("there", cpu="1m", affinity={"podAntiAffinity": {required: terms}})
    kind = decode_pod(encoded(body))
    pods = [replace(kind, name=f"t{at}", uid=f"t{at}", node=_LATE) for at in range(size.many // 10)]
    for pod in pods:
        yield partial(PodSeen, pod)
    node = a_node(size, 0)
    node["metadata"] |= {"name": _LATE, "uid": _LATE}
    yield node_seen(node)
    for pod in pods:
        yield partial(PodGone, pod)


def _seen(number: int, members: list[Body]) -> Made:
    each = [{"type": "Node", "selector": member} for member in members]
    name = f"h{number}"
    raw = encoded({"metadata": {"name": name}, "spec": {"tier": 1 + number, "members": each}})

    def made() -> Event:
        found = decode_topology(VOLCANO, raw).described
        assert isinstance(found, HyperNode)
        return HyperNodeSeen(name, found)

    return made


def _put(hyper_node: HyperNode) -> Made:
    return partial(HyperNodeSeen, hyper_node.name, hyper_node)


def _gang() -> Iterator[Made]:
    """Its pods must be in one HyperNode of a tier, and do not fit."""
    rule = TopologyRule(f"{TIER}3")
    yield partial(GangSeen, GangSpec("volcano/team-0/g", 2, topology=(rule,)))
    for number in range(2):
        body = a_pod(f"g-{number}", gpus=9)
        body["metadata"]["annotations"] = {"scheduling.k8s.io/group-name": "g"}
        yield seen(body)


TOPOLOGY_SHAPES: dict[str, Shape] = {
    "HyperNodes with patterns": patterns,
    "HyperNodes with selectors": selectors,
    "HyperNodes of all nodes": of_all_nodes,
    "HyperNodes of each other": of_each_other,
    "pods before their node": pods_before_node,
    "terms before their node": terms_before_node,
}
