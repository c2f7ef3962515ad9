"""Every hard taint of a node must be tolerated, and every soft one better be."""

from dataclasses import dataclass
from typing import ClassVar

from fairlead.cluster.arrays import NodeMask, NodeScores
from fairlead.cluster.aspects import Aspect
from fairlead.cluster.nodes import Nodes
from fairlead.model.pods import Effect, PodRequest, Taint
from fairlead.plugins.normalising import fewest_is_best

_HARD = (Effect.NO_SCHEDULE, Effect.NO_EXECUTE)
_SOFT = (Effect.PREFER_NO_SCHEDULE,)


@dataclass(frozen=True, slots=True)
class TaintToleration:
    name: ClassVar[str] = "TaintToleration"
    reads: ClassVar[Aspect] = Aspect.TAINTS
    refusal: ClassVar[str] = "node(s) had untolerated taint(s)"
    curable: ClassVar[bool] = False

    def allows(self, request: PodRequest, nodes: Nodes) -> NodeMask:
        return nodes.taints_pass(lambda taints: not untolerated(request, taints))

    def cares(self, request: PodRequest, nodes: Nodes) -> bool:
        return not nodes.taints_pass(lambda taints: not untolerated(request, taints, _SOFT)).all()

    def rank(self, request: PodRequest, nodes: Nodes, left: NodeMask) -> NodeScores:
        """By how many PreferNoSchedule taints are not tolerated."""
        counts = nodes.taint_numbers(lambda taints: len(untolerated(request, taints, _SOFT)))
        return fewest_is_best(counts, left)

    def detail(self, request: PodRequest, node: Nodes) -> str:
        (found,) = node.objects()
        left = untolerated(request, found.taints if found else ())
        return "not tolerated: " + ", ".join(f"{t.key}={t.value}:{t.effect}" for t in left)


def untolerated(
    request: PodRequest, taints: tuple[Taint, ...], effects: tuple[Effect, ...] = _HARD
) -> list[Taint]:
    return [
        taint
        for taint in taints
        if taint.effect in effects
        and not any(toleration.tolerates(taint) for toleration in request.tolerations)
    ]
