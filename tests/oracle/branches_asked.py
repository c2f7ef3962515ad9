"""Branches of what a configuration asks for: arguments, weights, and what is left out."""

from collections.abc import Callable, Mapping

from oracle.branches_beyond import competing
from oracle.case import Object
from oracle.seen import APART, NEAR, Seen
from oracle.some_nodes import WIDGET

Branches = Mapping[str, Callable[[Seen], object]]


def _of(scheduler: str, took: Callable[[Seen], object]) -> Callable[[Seen], object]:
    return lambda s: s.spec["schedulerName"] == scheduler and took(s)


def _decides(scheduler: str) -> Callable[[Seen], object]:
    """Several nodes would do, so that scores choose among them."""
    return _of(scheduler, competing)


def _ignores_widgets(seen: Seen) -> bool:
    asked = any(
        container["resources"].get("requests", {}).get(WIDGET, "0") != "0"
        for container in seen.containers()
    )
    return seen.placed and asked and WIDGET not in seen.node["status"]["allocatable"]


def _others(seen: Seen, terms: Callable[..., list[Object]], *directions: str) -> bool:
    return bool(competing(seen)) and any(terms(*directions, of=pod) for pod in seen.bound)


def _hard_taints(seen: Seen) -> bool:
    taints = seen.node["spec"].get("taints", ()) if seen.placed else ()
    return any(taint["effect"] != "PreferNoSchedule" for taint in taints)


def _spread_by_default(seen: Seen) -> bool:
    own = seen.spec.get("topologySpreadConstraints")
    return not own and seen.says("topology spread constraints")


def _has_ports(seen: Seen) -> bool:
    return seen.placed and any("ports" in container for container in seen.containers())


ARGUMENTS: Branches = {
    "arguments: MostAllocated decides": _decides("packs"),
    "arguments: hardPodAffinityWeight": _of("packs", lambda s: _others(s, s.terms, NEAR)),
    "arguments: a ratio decides": _decides("shapes"),
    "arguments: preferences of others do not count": _of(
        "shapes", lambda s: _others(s, s.soft_terms, NEAR, APART)
    ),
    "arguments: an ignored resource": _of("shapes", _ignores_widgets),
    "arguments: an ignored group of resources": _of("spreads", _ignores_widgets),
    "arguments: LeastAllocated of GPUs decides": _decides("spreads"),
    "arguments: default constraints refuse": _of("spreads", _spread_by_default),
    "arguments: added affinity refuses": _of("adds", lambda s: s.says("scheduler-enforced")),
    "arguments: added affinity decides": _decides("adds"),
    "weights: decide": _decides("weighs"),
    "without a filter: tainted nodes": _of("weighs", _hard_taints),
    "without a filter: ports": _of("weighs", _has_ports),
}
