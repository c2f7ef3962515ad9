"""Branches of what is promised: pods that wait for a node count there, though they are nowhere."""

from collections.abc import Callable, Mapping

from fairlead.placement.explain import NodeAnswer
from oracle.case import FOREIGN, Object, nominated
from oracle.judge import feasible_nodes
from oracle.seen import Seen

Branches = Mapping[str, Callable[[Seen], object]]


def _promised(seen: Seen) -> list[Object]:
    return [pod for pod in seen.case.of_kind("Pod") if nominated(pod)]


def _importance(pod: Object) -> int:
    return int(pod["spec"].get("priority", 0))


def _respected(seen: Seen) -> list[Object]:
    """Pods whose promise the probe has to respect."""
    own = seen.spec.get("priority", 0)
    return [
        pod
        for pod in _promised(seen)
        if _importance(pod) >= own and pod["spec"]["schedulerName"] != FOREIGN
    ]


def _kept_free(seen: Seen, *rules: str) -> list[NodeAnswer]:
    """Nodes that would do, were it not for a promise; of those that these rules keep free."""
    answers = seen.probed.judged.nodes
    return [a for a in answers if a.kept_for and (not rules or a.rule in rules)]


def _refused_for(*rules: str) -> Callable[[Seen], object]:
    return lambda s: _kept_free(s, *rules)


def _in_spite_of_lesser(seen: Seen) -> bool:
    """Placed where room is promised to somebody less important."""
    own = seen.spec.get("priority", 0)
    there = [pod for pod in _promised(seen) if nominated(pod) == seen.theirs.node]
    return any(_importance(pod) < own for pod in there)


def _beside(seen: Seen) -> bool:
    """Placed where there is room for both."""
    return seen.placed and any(nominated(pod) == seen.theirs.node for pod in _respected(seen))


NOMINATIONS: Branches = {
    "promise: kept free of a probe": _kept_free,
    "promise: of resources": _refused_for("NodeResourcesFit"),
    "promise: of ports": _refused_for("NodePorts"),
    "promise: among pods that must not be near": _refused_for("InterPodAffinity"),
    "promise: of pods that are spread": _refused_for("PodTopologySpread"),
    "promise: sends a probe elsewhere": lambda s: (
        s.placed and _kept_free(s) and feasible_nodes(s.probed.judged)
    ),
    "promise: refuses a probe": lambda s: not s.placed and _kept_free(s),
    "promise: of equal importance": lambda s: any(
        _importance(pod) == s.spec.get("priority", 0) for pod in _respected(s)
    ),
    "promise: to somebody less important": _in_spite_of_lesser,
    "promise: room for both": _beside,
    "promise: while gated": lambda s: any(
        "schedulingGates" in pod["spec"] for pod in _respected(s)
    ),
    "promise: by another scheduler": lambda s: any(
        pod["spec"]["schedulerName"] == FOREIGN for pod in _promised(s)
    ),
    "promise: of a node that is gone": lambda s: any(
        nominated(pod) == "gone" for pod in _promised(s)
    ),
    "promise: to the probe, and kept": lambda s: (
        s.placed and nominated(s.probed.probe) == s.theirs.node
    ),
    "promise: to the probe, and not kept": lambda s: (
        s.placed and nominated(s.probed.probe) not in ("", s.theirs.node)
    ),
    "promise: to the probe, for whom somebody leaves": lambda s: s.says("a terminating pod on"),
    "promise: taken by an eviction": lambda s: s.theirs.renounced,
    "promise: in the way of an eviction": lambda s: (
        not s.placed
        and any(nominated(pod) == s.theirs.nominated for pod in _respected(s) if s.theirs.nominated)
    ),
}
