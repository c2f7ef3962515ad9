"""Fairlead's own account of every node, asked in this process about the objects of a case."""

import json
from collections.abc import Iterable

from fairlead.engine.engine import Engine
from fairlead.engine.events import (
    BudgetSeen,
    Event,
    NamespaceSeen,
    NodeSeen,
    PodGone,
    PodSeen,
    SelectorSeen,
    ServerKnown,
    StorageSeen,
)
from fairlead.kube.budgets import decode_budget
from fairlead.kube.codec import decode_namespace, decode_node, decode_pod
from fairlead.kube.pod_selectors import KINDS as SELECTING_KINDS
from fairlead.kube.pod_selectors import decoder_of
from fairlead.kube.storage_codec import STORAGE_KINDS
from fairlead.model.behaviour import behaviour_of
from fairlead.placement.explain import Explanation, explain
from fairlead.placement.place import Placement
from fairlead.placement.verdicts import Placed
from oracle.case import Object
from oracle.configurations import DEFAULT, served
from oracle.kinds import KINDS

#: Decoders by kind.
_STORAGE = {
    kind.name: STORAGE_KINDS[path]
    for kind in KINDS
    if (path := f"{kind.group}/{kind.plural}") in STORAGE_KINDS
}


class Judge:
    """Knows the cluster as an API server of that minor version has it."""

    def __init__(self, objects: Iterable[Object], minor: int) -> None:
        self._behaviour = behaviour_of(1, minor)
        self._engine = Engine(served())
        self._engine.handle(ServerKnown(self._behaviour), now=0.0)
        for thing in objects:
            self._engine.handle(self._event(thing["kind"], _bytes(thing)), now=0.0)
        self._placements = {
            name: Placement(profile, self._engine.cluster) for name, profile in served().items()
        }

    def explain(self, pod: Object) -> Explanation:
        """What Fairlead says to a pod that is not bound."""
        asked = self._placements[pod["spec"].get("schedulerName", DEFAULT)]
        decoded = decode_pod(_bytes(pod), self._behaviour)
        self._engine.handle(PodSeen(decoded), now=0.0)  # it may have been promised a node
        found = explain(asked, self._engine.cluster, decoded)
        self._engine.handle(PodGone(decoded), now=0.0)
        return found

    def _event(self, kind: str, raw: bytes) -> Event:
        if kind in SELECTING_KINDS:
            selecting = decoder_of(kind)(raw)
            return SelectorSeen(kind, selecting.namespace, selecting.name, selecting.selector)
        match kind:
            case "Node":
                return NodeSeen(decode_node(raw))
            case "Pod":
                return PodSeen(decode_pod(raw, self._behaviour))
            case "PodDisruptionBudget":
                return BudgetSeen(decode_budget(raw))
            case "Namespace":
                found = decode_namespace(raw)
                return NamespaceSeen(found.name, found.labels)
        return StorageSeen(_STORAGE[kind](raw))


def best_nodes(found: Explanation, nomination: str = "") -> set[str]:
    """Nodes that Fairlead finds as good as any; the one that was promised is best if it will do."""
    if nomination in feasible_nodes(found):
        return {nomination}
    scores = {node.node: node.score for node in found.nodes if node.score is not None}
    best = max(scores.values(), default=0.0)
    return {node for node, score in scores.items() if score >= best - 1e-6}


def feasible_nodes(found: Explanation) -> set[str]:
    return {node.node for node in found.nodes if node.score is not None}


def message(found: Explanation) -> str:
    """Of the refusal; empty when the pod would be placed."""
    return "" if isinstance(found.verdict, Placed) else found.verdict.message


def _bytes(thing: Object) -> bytes:
    return json.dumps(thing).encode()
