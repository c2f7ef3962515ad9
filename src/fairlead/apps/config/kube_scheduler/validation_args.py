"""Which arguments of its plugins kube-scheduler would refuse."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import UNSET, UnsetType

from fairlead.apps.config.findings import Finding
from fairlead.apps.config.kube_scheduler import args
from fairlead.apps.config.kube_scheduler.validation import out_of_range
from fairlead.base.durations import seconds
from fairlead.base.names import label_name_problems, label_value_problems
from fairlead.model.behaviour import Behaviour

STRATEGIES = ("LeastAllocated", "MostAllocated", "RequestedToCapacityRatio")
_HIGHEST_SHAPE_SCORE = 10
_INTEGER = re.compile(r"[-+]?\d+", re.ASCII)


def check(plugin: str, found: args.Args, key: str, behaviour: Behaviour) -> Iterator[Finding]:
    """What is wrong with a plugin's arguments, which stand at `key`, to that version."""
    if found.kind not in (UNSET, f"{plugin}Args"):
        yield Finding(f"{key}.kind", f"{found.kind!r} is not valid here; use {plugin}Args")
    yield from _CHECKS[plugin](found, key)
    if isinstance(found, args.VolumeBindingArgs) and not isinstance(found.shape, UnsetType):
        yield from _storage_shape(found.shape, f"{key}.shape", behaviour)


def _preemption(found: args.DefaultPreemptionArgs, key: str) -> Iterator[Finding]:
    percentage, absolute = found.min_candidate_nodes_percentage, found.min_candidate_nodes_absolute
    yield from out_of_range(f"{key}.minCandidateNodesPercentage", percentage, 0, 100)
    yield from out_of_range(f"{key}.minCandidateNodesAbsolute", absolute, 0)
    if percentage == absolute == 0:
        text = "cannot be 0 together with minCandidateNodesAbsolute"
        yield Finding(f"{key}.minCandidateNodesPercentage", text)


def _dynamic_resources(found: args.DynamicResourcesArgs, key: str) -> Iterator[Finding]:
    limits = (
        ("filterTimeout", found.filter_timeout, 0),
        ("bindingTimeout", found.binding_timeout, 1),
    )
    for name, text, least_s in limits:
        length_s = seconds(text)
        if length_s is None or length_s < least_s:
            yield Finding(f"{key}.{name}", f"{text!r} is not a time of at least {least_s}s")


def _inter_pod_affinity(found: args.InterPodAffinityArgs, key: str) -> Iterator[Finding]:
    return out_of_range(f"{key}.hardPodAffinityWeight", found.hard_pod_affinity_weight, 0, 100)


def _node_affinity(found: args.NodeAffinityArgs, key: str) -> Iterator[Finding]:
    if isinstance(found.added_affinity, UnsetType):
        return
    required = found.added_affinity.required_during_scheduling_ignored_during_execution
    place = f"{key}.addedAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
    for number, term in enumerate(required.node_selector_terms if required else ()):
        yield from _term(term, f"{place}[{number}]")
    place = f"{key}.addedAffinity.preferredDuringSchedulingIgnoredDuringExecution"
    preferred = found.added_affinity.preferred_during_scheduling_ignored_during_execution
    for number, rated in enumerate(preferred):
        if rated.weight:
            yield from _term(rated.preference, f"{place}[{number}]")


def _term(term: args.NodeSelectorTerm, key: str) -> Iterator[Finding]:
    for number, line in enumerate(term.match_expressions):
        yield from _label_line(line, f"{key}.matchExpressions[{number}]")
    for number, line in enumerate(term.match_fields):
        where = f"{key}.matchFields[{number}]"
        if line.operator not in ("In", "NotIn"):
            yield _one_of(f"{where}.operator", line.operator, ("In", "NotIn"))
        elif len(line.values) != 1:
            yield Finding(f"{where}.values", "needs exactly one value")


def _label_line(line: args.NodeSelectorRequirement, key: str) -> Iterator[Finding]:
    match line.operator:
        case "In" | "NotIn":
            wrong = "" if line.values else "needs at least one value"
        case "Exists" | "DoesNotExist":
            wrong = "must be removed with this operator" if line.values else ""
        case "Gt" | "Lt":
            whole = len(line.values) == 1 and _INTEGER.fullmatch(line.values[0])
            wrong = "" if whole else "needs exactly one whole number"
        case _:
            operators = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
            yield _one_of(f"{key}.operator", line.operator, operators)
            return
    if wrong:
        yield Finding(f"{key}.values", wrong)
    yield from _label(f"{key}.key", line.key)
    for number, value in enumerate(line.values):
        for problem in label_value_problems(value)[:1]:
            yield Finding(
                f"{key}.values[{number}]", f"{value!r} is not a valid label value: {problem}"
            )


def _label(key: str, name: str) -> Iterator[Finding]:
    for problem in label_name_problems(name)[:1]:
        yield Finding(key, f"{name!r} is not a valid name: {problem}")


def _one_of(key: str, value: str, known: Sequence[str]) -> Finding:
    return Finding(key, f"{value!r} is unknown; use one of {', '.join(known)}")


def _balanced(found: args.NodeResourcesBalancedAllocationArgs, key: str) -> Iterator[Finding]:
    names = [resource.name for resource in found.resources]
    for number, resource in enumerate(found.resources):
        place = f"{key}.resources[{number}]"
        if resource.name in names[:number]:
            yield Finding(f"{place}.name", f"{resource.name!r} is a duplicate; remove one")
        if resource.weight != 1:
            yield Finding(f"{place}.weight", f"{resource.weight} is not possible here; use 1")


def _fit(found: args.NodeResourcesFitArgs, key: str) -> Iterator[Finding]:
    for number, name in enumerate(found.ignored_resources or ()):
        yield from _label(f"{key}.ignoredResources[{number}]", name)
    for number, group in enumerate(found.ignored_resource_groups or ()):
        place = f"{key}.ignoredResourceGroups[{number}]"
        if "/" in group:
            yield Finding(place, f"{group!r} has a '/'; use only the part before it")
        else:
            yield from _label(place, group)
    yield from _strategy(found.scoring_strategy, f"{key}.scoringStrategy")


def _strategy(found: args.ScoringStrategy, key: str) -> Iterator[Finding]:
    if found.type not in STRATEGIES:
        yield _one_of(f"{key}.type", found.type, STRATEGIES)
    for number, resource in enumerate(found.resources):
        yield from out_of_range(f"{key}.resources[{number}].weight", resource.weight, 1, 100)
    ratio, where = found.requested_to_capacity_ratio, f"{key}.requestedToCapacityRatio"
    if found.type != "RequestedToCapacityRatio":
        if ratio is not UNSET:
            yield Finding(where, "is only for type RequestedToCapacityRatio; remove it")
    elif isinstance(ratio, UnsetType):
        yield Finding(where, "is missing; set its shape")
    else:
        yield from _shape(ratio.shape, f"{where}.shape")


def _shape(shape: Sequence[args.UtilizationShapePoint], key: str) -> Iterator[Finding]:
    if not shape:
        yield Finding(key, "is empty; add at least one point")
    for number, point in enumerate(shape):
        place = f"{key}[{number}]"
        if number and point.utilization <= shape[number - 1].utilization:
            text = f"{point.utilization} is not ascending; order the points by utilization"
            yield Finding(f"{place}.utilization", text)
        yield from out_of_range(f"{place}.utilization", point.utilization, 0, 100)
        yield from out_of_range(f"{place}.score", point.score, 0, _HIGHEST_SHAPE_SCORE)


def _spread(found: args.PodTopologySpreadArgs, key: str) -> Iterator[Finding]:
    constraints = found.default_constraints or ()
    if found.defaulting_type not in ("System", "List"):
        yield _one_of(f"{key}.defaultingType", found.defaulting_type, ("System", "List"))
    elif found.defaulting_type == "System" and constraints:
        text = "System does not allow defaultConstraints; use List"
        yield Finding(f"{key}.defaultingType", text)
    seen: set[tuple[str, str]] = set()
    for number, constraint in enumerate(constraints):
        place = f"{key}.defaultConstraints[{number}]"
        yield from _constraint(constraint, place)
        pair = (constraint.topology_key, constraint.when_unsatisfiable)
        if pair in seen:
            yield Finding(place, "is a duplicate: the same topologyKey and whenUnsatisfiable")
        seen.add(pair)


def _constraint(found: args.SpreadConstraint, key: str) -> Iterator[Finding]:
    yield from out_of_range(f"{key}.maxSkew", found.max_skew, 1)
    yield from _label(f"{key}.topologyKey", found.topology_key)
    actions = ("DoNotSchedule", "ScheduleAnyway")
    if found.when_unsatisfiable not in actions:
        yield _one_of(f"{key}.whenUnsatisfiable", found.when_unsatisfiable, actions)
    if found.label_selector is not UNSET:
        text = "must be removed; it is set for each pod"
        yield Finding(f"{key}.labelSelector", text)


def _volume_binding(found: args.VolumeBindingArgs, key: str) -> Iterator[Finding]:
    return out_of_range(f"{key}.bindTimeoutSeconds", found.bind_timeout_seconds, 0)


def _storage_shape(
    shape: Sequence[args.UtilizationShapePoint], key: str, behaviour: Behaviour
) -> Iterator[Finding]:
    if behaviour.scores_free_storage:
        yield from _shape(shape, key)
    else:
        text = f"kube-scheduler {behaviour.name} does not score storage; remove it"
        yield Finding(key, text)


_CHECKS: Mapping[str, Callable[[Any, str], Iterator[Finding]]] = {
    "DefaultPreemption": _preemption,
    "DynamicResources": _dynamic_resources,
    "InterPodAffinity": _inter_pod_affinity,
    "NodeAffinity": _node_affinity,
    "NodeResourcesBalancedAllocation": _balanced,
    "NodeResourcesFit": _fit,
    "PodTopologySpread": _spread,
    "VolumeBinding": _volume_binding,
}
