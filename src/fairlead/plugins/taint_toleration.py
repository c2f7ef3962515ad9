"""Every hard taint of a node must be tolerated."""

from dataclasses import dataclass
from typing import ClassVar

from fairlead.cluster.arrays import NodeMask
from fairlead.cluster.aspects import Aspect
from fairlead.cluster.nodes import Nodes
from fairlead.model.pods import Effect, PodRequest, Taint

_HARD = (Effect.NO_SCHEDULE, Effect.NO_EXECUTE)


@dataclass(frozen=True, slots=True)
class TaintToleration:
    name: ClassVar[str] = "TaintToleration"
    reads: ClassVar[Aspect] = Aspect.TAINTS
    refusal: ClassVar[str] = "node(s) had untolerated taint(s)"
    curable: ClassVar[bool] = False

    def allows(self, request: PodRequest, nodes: Nodes) -> NodeMask:
        return nodes.taints_pass(lambda taints: not untolerated(request, taints))

    def detail(self, request: PodRequest, node: Nodes) -> str:
        (found,) = node.objects()
        left = untolerated(request, found.taints if found else ())
        return "not tolerated: " + ", ".join(f"{t.key}={t.value}:{t.effect}" for t in left)


def untolerated(request: PodRequest, taints: tuple[Taint, ...]) -> list[Taint]:
    return [
        taint
        for taint in taints
        if taint.effect in _HARD
        and not any(toleration.tolerates(taint) for toleration in request.tolerations)
    ]
