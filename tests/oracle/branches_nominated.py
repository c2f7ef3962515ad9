"""Branches of nominations: pods that wait for a node count there, though they are nowhere."""

from collections.abc import Callable, Mapping

from fairlead.placement.explain import NodeAnswer
from oracle.case import FOREIGN, Object, nominated
from oracle.judge import feasible_nodes
from oracle.seen import Seen

Branches = Mapping[str, Callable[[Seen], object]]


def _nominated(seen: Seen) -> list[Object]:
    return [pod for pod in seen.case.of_kind("Pod") if nominated(pod)]


def _importance(pod: Object) -> int:
    return int(pod["spec"].get("priority", 0))


def _respected(seen: Seen) -> list[Object]:
    """Pods whose nomination the probe has to respect."""
    own = seen.spec.get("priority", 0)
    return [
        pod
        for pod in _nominated(seen)
        if _importance(pod) >= own and pod["spec"]["schedulerName"] != FOREIGN
    ]


def _kept_free(seen: Seen, *rules: str) -> list[NodeAnswer]:
    """Nodes that would do, were it not for a nomination; of those that these rules keep free."""
    answers = seen.probed.judged.nodes
    return [a for a in answers if a.kept_for and (not rules or a.rule in rules)]


def _refused_for(*rules: str) -> Callable[[Seen], object]:
    return lambda s: _kept_free(s, *rules)


def _in_spite_of_lesser(seen: Seen) -> bool:
    """Placed where a pod of lower priority is nominated."""
    own = seen.spec.get("priority", 0)
    there = [pod for pod in _nominated(seen) if nominated(pod) == seen.theirs.node]
    return any(_importance(pod) < own for pod in there)


def _beside(seen: Seen) -> bool:
    """Placed where there is room for both."""
    return seen.placed and any(nominated(pod) == seen.theirs.node for pod in _respected(seen))


NOMINATIONS: Branches = {
    "nomination: kept free of a probe": _kept_free,
    "nomination: of resources": _refused_for("NodeResourcesFit"),
    "nomination: of ports": _refused_for("NodePorts"),
    "nomination: among pods that must not be near": _refused_for("InterPodAffinity"),
    "nomination: of pods that are spread": _refused_for("PodTopologySpread"),
    "nomination: sends a probe elsewhere": lambda s: (
        s.placed and _kept_free(s) and feasible_nodes(s.probed.judged)
    ),
    "nomination: refuses a probe": lambda s: not s.placed and _kept_free(s),
    "nomination: of equal importance": lambda s: any(
        _importance(pod) == s.spec.get("priority", 0) for pod in _respected(s)
    ),
    "nomination: to somebody less important": _in_spite_of_lesser,
    "nomination: room for both": _beside,
    "nomination: while gated": lambda s: any(
        "schedulingGates" in pod["spec"] for pod in _respected(s)
    ),
    "nomination: by another scheduler": lambda s: any(
        pod["spec"]["schedulerName"] == FOREIGN for pod in _nominated(s)
    ),
    "nomination: of a node that is gone": lambda s: any(
        nominated(pod) == "gone" for pod in _nominated(s)
    ),
    "nomination: to the probe, and kept": lambda s: (
        s.placed and nominated(s.probed.probe) == s.theirs.node
    ),
    "nomination: to the probe, and not kept": lambda s: (
        s.placed and nominated(s.probed.probe) not in ("", s.theirs.node)
    ),
    "nomination: to the probe, for whom somebody leaves": lambda s: s.says("a terminating pod on"),
    "nomination: taken by an eviction": lambda s: s.theirs.cleared,
    "nomination: in the way of an eviction": lambda s: (
        not s.placed
        and any(nominated(pod) == s.theirs.nominated for pod in _respected(s) if s.theirs.nominated)
    ),
}
