"""Fairlead's own account of every node, asked in this process about the objects of a case."""

import json
from collections.abc import Iterable

from fairlead.apps import profiles
from fairlead.engine.engine import Engine
from fairlead.engine.events import BudgetSeen, NamespaceSeen, NodeSeen, PodSeen
from fairlead.kube.budgets import decode_budget
from fairlead.kube.codec import decode_namespace, decode_node, decode_pod
from fairlead.placement.explain import Explanation, explain
from fairlead.placement.place import Placement
from fairlead.placement.verdicts import Placed
from oracle.case import Object

#: The profile that decides as kube-scheduler does; until there is one, only feasibility counts.
PROFILE = "default-scheduler" if "default-scheduler" in profiles.NAMES else "least-allocated"


class Judge:
    """Knows the cluster as the API server has it."""

    def __init__(self, objects: Iterable[Object]) -> None:
        self._engine = Engine({})
        for thing in objects:
            self._see(thing)
        self._placement = Placement(profiles.built_in(PROFILE), self._engine.cluster)

    def explain(self, pod: Object) -> Explanation:
        """What Fairlead says to a pod that is not bound."""
        return explain(self._placement, self._engine.cluster, decode_pod(_bytes(pod)))

    def _see(self, thing: Object) -> None:
        raw = _bytes(thing)
        match thing["kind"]:
            case "Node":
                self._engine.handle(NodeSeen(decode_node(raw)), now=0.0)
            case "Pod":
                self._engine.handle(PodSeen(decode_pod(raw)), now=0.0)
            case "PodDisruptionBudget":
                self._engine.handle(BudgetSeen(decode_budget(raw)), now=0.0)
            case "Namespace":
                found = decode_namespace(raw)
                self._engine.handle(NamespaceSeen(found.name, found.labels), now=0.0)


def best_nodes(found: Explanation) -> set[str]:
    """Nodes that Fairlead finds as good as any."""
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
