"""A probe in its case, with short ways to what a branch of the rules depends on."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from fairlead.kube.codec import decode_pod
from fairlead.model.pods import Pod
from fairlead.model.selectors import PodTerm
from oracle.answers import Answer
from oracle.arena import Probed
from oracle.case import Case, Object, labels_of
from oracle.some_rules import PREFERRED, REQUIRED

NEAR, APART = "podAffinity", "podAntiAffinity"


@dataclass(frozen=True)
class Seen:
    case: Case
    probed: Probed

    @property
    def theirs(self) -> Answer:
        return self.probed.theirs

    @property
    def spec(self) -> Object:
        return self.probed.probe["spec"]

    @property
    def nodes(self) -> list[Object]:
        return self.case.of_kind("Node")

    @property
    def bound(self) -> list[Object]:
        return [pod for pod in self.case.of_kind("Pod") if "nodeName" in pod["spec"]]

    @property
    def placed(self) -> bool:
        return bool(self.theirs.node)

    @cached_property
    def node(self) -> Object:
        """Where kube-scheduler put it."""
        return next(n for n in self.nodes if n["metadata"]["name"] == self.theirs.node)

    @cached_property
    def decoded(self) -> Pod:
        return decode_pod(json.dumps(self.probed.probe).encode())

    def says(self, text: str) -> bool:
        return text in self.theirs.message

    def containers(self) -> Iterator[Object]:
        yield from self.spec["containers"]
        yield from self.spec.get("initContainers", ())

    # -- rules about nodes ---------------------------------------------------------------------

    def node_terms(self) -> list[Object]:
        found = self.spec.get("affinity", {}).get("nodeAffinity", {}).get(REQUIRED, {})
        return found.get("nodeSelectorTerms", [])

    def node_lines(self, operator: str, key: str = "matchExpressions") -> list[Object]:
        lines = (line for term in self.node_terms() for line in term.get(key, ()))
        return [line for line in lines if line["operator"] == operator]

    def preferred_nodes(self) -> list[Object]:
        return self.spec.get("affinity", {}).get("nodeAffinity", {}).get(PREFERRED, [])

    # -- rules about pods ----------------------------------------------------------------------

    def terms(self, *directions: str, of: Object | None = None) -> list[Object]:
        """Required terms of the probe or of another pod."""
        affinity = (of or self.probed.probe)["spec"].get("affinity", {})
        return [t for d in directions for t in affinity.get(d, {}).get(REQUIRED, ())]

    def soft_terms(self, *directions: str, of: Object | None = None) -> list[Object]:
        affinity = (of or self.probed.probe)["spec"].get("affinity", {})
        return [t for d in directions for t in affinity.get(d, {}).get(PREFERRED, ())]

    def spread(self, hard: bool = True) -> list[Object]:
        wanted = "DoNotSchedule" if hard else "ScheduleAnyway"
        rules = self.spec.get("topologySpreadConstraints", ())
        return [rule for rule in rules if rule["whenUnsatisfiable"] == wanted]

    def meant(self, terms: tuple[PodTerm, ...]) -> list[Object]:
        """Bound pods that all of these terms mean."""
        return [pod for pod in self.bound if terms and self._all_mean(terms, pod)]

    def meant_by_spread(self) -> list[Object]:
        own = self.probed.probe["metadata"]["namespace"]
        terms = [PodTerm("", rule.selector, (own,)) for rule in self.decoded.request.spread]
        return [pod for pod in self.bound if any(self._all_mean((t,), pod) for t in terms)]

    def domains(self, key: str) -> set[str]:
        return {labels_of(node)[key] for node in self.nodes if key in labels_of(node)}

    def _all_mean(self, terms: tuple[PodTerm, ...], pod: Object) -> bool:
        namespace = pod["metadata"]["namespace"]
        found = next(
            n for n in self.case.of_kind("Namespace") if n["metadata"]["name"] == namespace
        )
        told = labels_of(found)
        return all(term.means(namespace, labels_of(pod), told) for term in terms)


def leaving(pod: Object) -> bool:
    return "deletionTimestamp" in pod["metadata"]
