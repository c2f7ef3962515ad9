"""How arguments of kube-scheduler's plugins become options of Fairlead's."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import UNSET, UnsetType

from fairlead.apps.config.kube_scheduler import args
from fairlead.model.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Option:
    #: As the Fairlead plugin calls it, and where it stands in the arguments.
    field: str
    key: str
    value: Any
    #: Would pods go elsewhere if the plugin did not have this option?
    matters: bool


def of(point: str, plugin: str, found: args.Args | None) -> tuple[str, list[Option]]:
    """The Fairlead plugin that stands for this one as a filter or score, and its options."""
    if point == "score" and isinstance(found, args.NodeResourcesFitArgs):
        return found.scoring_strategy.type, list(_strategy(found.scoring_strategy))
    make = _MAKERS[point].get(plugin)
    return plugin, list(make(found)) if make else []


def _added_affinity(found: args.NodeAffinityArgs) -> Iterator[Option]:
    added = found.added_affinity
    if isinstance(added, UnsetType):
        return
    required = added.required_during_scheduling_ignored_during_execution
    preferred = added.preferred_during_scheduling_ignored_during_execution
    value = {
        "required": [_term(t) for t in required.node_selector_terms] if required else None,
        "preferred": [{"weight": p.weight, "term": _term(p.preference)} for p in preferred],
    }
    yield Option("added_affinity", "addedAffinity", value, matters=True)


def _term(term: args.NodeSelectorTerm) -> dict[str, Any]:
    return {"labels": _lines(term.match_expressions), "fields": _lines(term.match_fields)}


def _lines(found: Sequence[args.NodeSelectorRequirement]) -> list[dict[str, Any]]:
    return [{"key": r.key, "operator": r.operator, "values": list(r.values)} for r in found]


def _ignored(found: args.NodeResourcesFitArgs) -> Iterator[Option]:
    for field, key, value in (
        ("ignored_resources", "ignoredResources", found.ignored_resources),
        ("ignored_resource_groups", "ignoredResourceGroups", found.ignored_resource_groups),
    ):
        if value:
            yield Option(field, key, list(value), matters=True)


def _constraints(found: args.PodTopologySpreadArgs) -> Iterator[Option]:
    constraints = [
        {
            "topology_key": constraint.topology_key,
            "max_skew": constraint.max_skew,
            "when_unsatisfiable": constraint.when_unsatisfiable,
        }
        for constraint in found.default_constraints or ()
    ]
    yield Option("default_constraints", "defaultConstraints", constraints, bool(constraints))
    for constraint in found.default_constraints or ():
        for field in ("min_domains", "node_affinity_policy", "node_taints_policy"):
            if not isinstance(getattr(constraint, field), UnsetType):
                yield Option(field, f"defaultConstraints: {field}", True, matters=True)
    # The constraints that System stands for are wishes, so only the score cares.
    yield Option("defaulting", "defaultingType", found.defaulting_type, matters=False)


def _soft_constraints(found: args.PodTopologySpreadArgs) -> Iterator[Option]:
    for option in _constraints(found):
        system = option.value == "System"
        yield Option(option.field, option.key, option.value, option.matters or system)


def _terms(found: args.InterPodAffinityArgs) -> Iterator[Option]:
    weight, ignores = found.hard_pod_affinity_weight, found.ignore_preferred_terms_of_existing_pods
    yield Option("hard_pod_affinity_weight", "hardPodAffinityWeight", weight, weight != 1)
    field = "ignore_preferred_terms_of_existing_pods"
    yield Option(field, "ignorePreferredTermsOfExistingPods", ignores, ignores)


def _strategy(found: args.ScoringStrategy) -> Iterator[Option]:
    yield _resources(found.resources, "scoringStrategy.resources")
    if found.requested_to_capacity_ratio is not UNSET:
        shape = found.requested_to_capacity_ratio.shape
        yield _shape(shape, "scoringStrategy.requestedToCapacityRatio.shape")


def _shape(points: Sequence[args.UtilizationShapePoint], key: str) -> Option:
    shape = [{"utilization": point.utilization, "score": point.score} for point in points]
    return Option("shape", key, shape, matters=True)


def _storage_shape(found: args.VolumeBindingArgs) -> Iterator[Option]:
    if not isinstance(found.shape, UnsetType):
        yield _shape(found.shape, "shape")


def _resources(resources: Sequence[args.Resource], key: str) -> Option:
    weights: dict[str, int] = {}
    for resource in resources:
        weights[resource.name] = weights.get(resource.name, 0) + resource.weight
    return Option("resources", key, weights, matters=True)


def _balanced(found: args.NodeResourcesBalancedAllocationArgs) -> Iterator[Option]:
    yield _resources(found.resources, "resources")


_MAKERS: Mapping[str, Mapping[str, Callable[[Any], Iterator[Option]]]] = {
    "filter": {
        "NodeAffinity": _added_affinity,
        "NodeResourcesFit": _ignored,
        "PodTopologySpread": _constraints,
    },
    "score": {
        "NodeAffinity": _added_affinity,
        "PodTopologySpread": _soft_constraints,
        "InterPodAffinity": _terms,
        "NodeResourcesBalancedAllocation": _balanced,
        "VolumeBinding": _storage_shape,
    },
}
