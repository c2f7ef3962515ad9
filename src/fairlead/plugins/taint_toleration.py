"""Every hard taint of a node must be tolerated, and every soft one better be."""

from collections.abc import Callable, Iterable
from typing import ClassVar

from fairlead.cluster.arrays import NodeMask, NodeScores
from fairlead.cluster.aspects import Aspect
from fairlead.cluster.nodes import Nodes
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.pods import Effect, PodRequest, Taint, Toleration
from fairlead.plugins.normalising import fewest_is_best

_HARD = (Effect.NO_SCHEDULE, Effect.NO_EXECUTE)
_SOFT = (Effect.PREFER_NO_SCHEDULE,)
# Up to this many tolerations are simply tried one after the other.
_FEW = 8
_ANY = ""


@dataclass(frozen=True, slots=True)
class TaintToleration:
    name: ClassVar[str] = "TaintToleration"
    reads: ClassVar[Aspect] = Aspect.TAINTS
    refusal: ClassVar[str] = "node(s) had untolerated taint(s)"
    resolvable: ClassVar[bool] = False

    def allows(self, request: PodRequest, nodes: Nodes) -> NodeMask:
        tolerations_of = _tolerations_by_key(request)
        return nodes.taints_pass(lambda taints: not _untolerated(tolerations_of, taints, _HARD))

    def applies_as_score(self, request: PodRequest, nodes: Nodes) -> bool:
        tolerations_of = _tolerations_by_key(request)

        def are_untolerated(taints: tuple[Taint, ...]) -> bool:
            return bool(_untolerated(tolerations_of, taints, _SOFT))

        # Most clusters have no such taints: then no node is looked at.
        return nodes.may_have_taints(are_untolerated) and bool(
            nodes.taints_pass(are_untolerated).any()
        )

    def rank(self, request: PodRequest, nodes: Nodes, left: NodeMask) -> NodeScores:
        """By how many PreferNoSchedule taints are not tolerated."""
        tolerations_of = _tolerations_by_key(request)
        counts = nodes.taint_numbers(
            lambda taints: len(_untolerated(tolerations_of, taints, _SOFT))
        )
        return fewest_is_best(counts, left)

    def detail(self, request: PodRequest, node: Nodes) -> str:
        (found,) = node.objects()
        left = untolerated(request, found.taints if found else ())
        return "not tolerated: " + ", ".join(f"{t.key}={t.value}:{t.effect}" for t in left)


def untolerated(request: PodRequest, taints: tuple[Taint, ...]) -> list[Taint]:
    return _untolerated(_tolerations_by_key(request), taints, _HARD)


def _untolerated(
    tolerations_of: "_TolerationsByKey", taints: tuple[Taint, ...], effects: tuple[Effect, ...]
) -> list[Taint]:
    return [
        taint
        for taint in taints
        if taint.effect in effects
        and not any(toleration.tolerates(taint) for toleration in tolerations_of(taint.key))
    ]


#: The tolerations that may concern a key.
_TolerationsByKey = Callable[[str], Iterable[Toleration]]


def _tolerations_by_key(request: PodRequest) -> _TolerationsByKey:
    """Thousands may be written into a pod, and thousands of taints onto a node."""
    tolerations = request.tolerations
    if len(tolerations) <= _FEW:
        return lambda _: tolerations
    found: dict[str, list[Toleration]] = {}
    for toleration in tolerations:
        found.setdefault(toleration.key, []).append(toleration)
    return lambda key: (*found.get(key, ()), *found.get(_ANY, ()))
