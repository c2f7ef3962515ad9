"""Fairlead's own account of every node, asked in this process about the objects of a case."""

import json
from collections.abc import Iterable

import numpy as np

from fairlead.cluster.aspects import Aspect
from fairlead.cluster.extended_classes import with_classes
from fairlead.engine.engine import Engine
from fairlead.engine.events import (
    BudgetSeen,
    ClaimObjectGone,
    ClaimObjectSeen,
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
from fairlead.kube.claims.kinds import CLAIM_KINDS
from fairlead.kube.codec import decode_namespace, decode_node, decode_pod
from fairlead.kube.pod_selectors import KINDS as SELECTING_KINDS
from fairlead.kube.pod_selectors import decoder_of
from fairlead.kube.storage_codec import STORAGE_KINDS
from fairlead.model.behaviour import behaviour_of
from fairlead.model.errors import FilterFailed
from fairlead.model.pods import Pod
from fairlead.placement.explain import Explanation, explain
from fairlead.placement.place import Placement
from fairlead.placement.verdicts import Placed, Refused
from oracle.case import Object
from oracle.configurations import DEFAULT, served
from oracle.kinds import KINDS

#: Decoders by kind.
_STORAGE = {
    kind.name: STORAGE_KINDS[path]
    for kind in KINDS
    if (path := f"{kind.group}/{kind.plural}") in STORAGE_KINDS
}
_TEMPLATE = "ResourceClaimTemplate"
_CLAIM_KINDS = {kind.kind: decode for kind, decode in CLAIM_KINDS.items()}


class Judge:
    """Knows the cluster as an API server of that minor version has it."""

    def __init__(self, objects: Iterable[Object], minor: int) -> None:
        self._behaviour = behaviour_of(1, minor)
        self._engine = Engine(served())
        self._engine.handle(ServerKnown(self._behaviour), now=0.0)
        for thing in objects:
            if thing["kind"] == _TEMPLATE:  # for a controller alone
                continue
            self._engine.handle(self._event(thing["kind"], _bytes(thing)), now=0.0)
        self._placements = {
            name: Placement(profile, self._engine.cluster) for name, profile in served().items()
        }

    def explain(self, pod: Object) -> Explanation:
        """What Fairlead says to a pod that is not bound."""
        asked, decoded = self._asked(pod)
        self._engine.handle(PodSeen(decoded), now=0.0)  # it may have been promised a node
        try:
            return explain(asked, self._engine.cluster, decoded)
        finally:
            self._engine.handle(PodGone(decoded), now=0.0)

    def explain_claims(
        self, pod: Object, claims: Iterable[Object]
    ) -> tuple[Explanation, set[str]]:  # fmt: skip
        """The same of a pod that uses these claims, and the errors of all nodes.

        kube-scheduler asks nodes at the same time, and tells the error that it had first.
        """
        seen = [_CLAIM_KINDS["ResourceClaim"](_bytes(claim)) for claim in claims]
        for claim in seen:
            self._engine.handle(ClaimObjectSeen(claim), now=0.0)
        try:
            return self.explain(pod), set()
        except FilterFailed as error:
            return Explanation(_refused(str(error)), ()), self._failures(pod)
        finally:
            for claim in seen:
                self._engine.handle(ClaimObjectGone(claim), now=0.0)

    def _failures(self, pod: Object) -> set[str]:
        """What each node says on which a filter fails."""
        asked, decoded = self._asked(pod)
        view, nodes = asked.view(decoded), self._engine.cluster.nodes
        request = asked.request(decoded)
        return {
            f'running "{rule.name}" filter plugin: {rule.failure(request, nodes.at(row))}'
            for place, rule in asked.profile.failing_filters.items()
            for row in np.argwhere(
                rule.failing(view.request, nodes) & view.allowed[:place].all(axis=0)
            )
        }

    def _asked(self, pod: Object) -> tuple[Placement, Pod]:
        """Who is asked, and the pod with the classes of its extended resources."""
        decoded = decode_pod(_bytes(pod), self._behaviour)
        extended = self._engine.cluster.claims.extended
        return self._placements[pod["spec"].get("schedulerName", DEFAULT)], with_classes(
            decoded, extended
        )

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
        if kind in _CLAIM_KINDS:
            return ClaimObjectSeen(_CLAIM_KINDS[kind](raw))
        return StorageSeen(_STORAGE[kind](raw))


def _refused(message: str) -> Refused:
    return Refused(0, (), (), Aspect(0), pre_filter_message=message)


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
