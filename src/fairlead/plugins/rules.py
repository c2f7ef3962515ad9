"""Rules that administrators and users write as expressions. They only refuse nodes."""

from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from fairlead.cluster.arrays import NodeMask
from fairlead.cluster.aspects import Aspect
from fairlead.cluster.nodes import Nodes
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.pods import PodRequest
from fairlead.model.rules import LABEL_ONLY, NODE_RULE, NodeRule
from fairlead.plugins.api import Reason

if TYPE_CHECKING:
    from fairlead.cel import Program

_OF_POD = f"node(s) didn't match the rule of the pod ({NODE_RULE})"


@dataclass(frozen=True, slots=True)
class NodeRules:
    """`rules` are those of the configuration; `user_rules`: whether pods may have one of theirs."""

    rules: tuple[NodeRule, ...] = ()
    user_rules: bool = False
    name: ClassVar[str] = "NodeRules"
    reads: ClassVar[Aspect] = (
        Aspect.LABELS | Aspect.ANNOTATIONS | Aspect.TAINTS | Aspect.ALLOCATABLE | Aspect.DEVICES
    )
    refusal: ClassVar[str] = "node(s) didn't match a rule"
    resolvable: ClassVar[bool] = False
    #: What pods hold changes no answer.
    depends_on_pods: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.rules:
            from fairlead.plugins.rule_expressions import compiled

            for rule in self.rules:
                compiled(rule.expression)

    @property
    def pod_keys(self) -> tuple[str, ...]:
        """With any of these, requests have the namespace, too."""
        if not self.rules and not self.user_rules:
            return ()
        keys = dict.fromkeys(key for rule in self.rules for key, _ in rule.pod_labels)
        return tuple(LABEL_ONLY + key for key in keys) or (LABEL_ONLY,)

    def concerns(self, request: PodRequest) -> bool:
        return bool(request.node_rule) or any(_is_about(rule, request) for rule in self.rules)

    def pre_filter(self, request: PodRequest, nodes: Nodes) -> str:
        if request.node_rule and not self.user_rules:
            return f"{NODE_RULE} is not enabled; remove it, or set userRules in the configuration"
        return ""

    def allows(self, request: PodRequest, nodes: Nodes) -> NodeMask:
        allowed = nodes.all()
        for _, mask in self._answers(request, nodes):
            allowed &= mask
        return allowed

    def reasons(self, request: PodRequest, nodes: Nodes) -> Iterable[Reason]:
        """A node counts under the first rule that refuses it."""
        left = nodes.all()
        for text, mask in self._answers(request, nodes):
            yield Reason(text, left & ~mask, nodes.none())
            left &= mask

    def detail(self, request: PodRequest, node: Nodes) -> str:
        from fairlead.plugins.rule_expressions import holds, why_not

        values = next(_values(request, node))
        for text, program, most in self._programs(request, node):
            if values is None or not holds(program, values, most):
                error = why_not(program, values, most) if values else ""
                return f"{text}: {program.expression[:200]}" + (f": {error}" if error else "")
        return ""

    def broken(self, request: PodRequest, node: Nodes) -> list[str]:
        """What the rules say against a pod on the single node given."""
        return [text for text, mask in self._answers(request, node) if not mask[0]]

    def _programs(self, request: PodRequest, nodes: Nodes) -> Iterator[tuple[str, "Program", int]]:
        """What is said where each is not true, and what it may cost for one node."""
        from fairlead.plugins.rule_expressions import COST_LIMIT, compiled, user_cost_limit

        for rule in self.rules:
            if _is_about(rule, request):
                yield rule.refusal, compiled(rule.expression), COST_LIMIT
        if request.node_rule and self.user_rules:
            yield _OF_POD, compiled(request.node_rule), user_cost_limit(nodes.all_rows)

    def _answers(self, request: PodRequest, nodes: Nodes) -> Iterator[tuple[str, NodeMask]]:
        programs = list(self._programs(request, nodes))
        if not programs:
            return
        from fairlead.plugins.rule_expressions import holds

        masks = np.zeros((len(programs), len(nodes)), dtype=np.bool_)
        for at, values in enumerate(_values(request, nodes)):
            if values is not None:
                masks[:, at] = [holds(program, values, most) for _, program, most in programs]
        for (text, *_), mask in zip(programs, masks, strict=True):
            yield text, mask


@dataclass(frozen=True, slots=True)
class RulesOfReadings(NodeRules):
    """The same where rules read readings, so that they are asked again when these change."""

    reads: ClassVar[Aspect] = NodeRules.reads | Aspect.READINGS


def _values(request: PodRequest, nodes: Nodes) -> Iterator[tuple[object, ...] | None]:
    """For each node; None where there is none."""
    from fairlead.plugins.rule_expressions import gpu_values, node_value, pod_value

    pod = pod_value(request, nodes.namespace_labels(request.namespace))
    for node, inventory in zip(nodes.objects(), nodes.listed_gpus(), strict=True):
        yield (
            (node_value(node, nodes.seen_readings), gpu_values(inventory, nodes.seen_readings), pod)
            if node is not None
            else None
        )


def _is_about(rule: NodeRule, request: PodRequest) -> bool:
    namespace = request.namespace
    if rule.namespaces and not any(fnmatchcase(namespace, each) for each in rule.namespaces):
        return False
    said = dict(request.pod_keys)
    return all(said.get(LABEL_ONLY + key) == value for key, value in rule.pod_labels)
