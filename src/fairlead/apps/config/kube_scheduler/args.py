"""The arguments of kube-scheduler's plugins (`pluginConfig`), typed, with its defaults."""

from typing import Any, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from fairlead.apps.config.extender_format import Strict
from fairlead.apps.config.kube_scheduler.format import Int32, last_key
from fairlead.model.behaviour import Behaviour


class Args(Strict):
    """Every plugin's arguments may repeat their version and kind."""

    api_version: str | UnsetType = UNSET
    kind: str | UnsetType = UNSET


A = TypeVar("A", bound=Args)


class DefaultPreemptionArgs(Args):
    min_candidate_nodes_percentage: Int32 = 10
    min_candidate_nodes_absolute: Int32 = 100


class DynamicResourcesArgs(Args):
    filter_timeout: str = "10s"
    binding_timeout: str = "10m0s"


class InterPodAffinityArgs(Args):
    hard_pod_affinity_weight: Int32 = 1
    ignore_preferred_terms_of_existing_pods: bool = False


class NodeSelectorRequirement(Strict):
    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class NodeSelectorTerm(Strict, omit_defaults=True):
    match_expressions: tuple[NodeSelectorRequirement, ...] = ()
    match_fields: tuple[NodeSelectorRequirement, ...] = ()


class NodeSelector(Strict):
    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


class PreferredSchedulingTerm(Strict):
    weight: Int32 = 0
    preference: NodeSelectorTerm = msgspec.field(default_factory=NodeSelectorTerm)


class Affinity(Strict, omit_defaults=True):
    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    preferred_during_scheduling_ignored_during_execution: tuple[PreferredSchedulingTerm, ...] = ()


class NodeAffinityArgs(Args):
    added_affinity: Affinity | UnsetType = UNSET


class Resource(Strict):
    name: str = ""
    weight: int = 1

    def __post_init__(self) -> None:
        # A weight of 0 is one that was not set.
        self.weight = self.weight or 1


def _cpu_and_memory() -> tuple[Resource, ...]:
    return Resource("cpu"), Resource("memory")


class NodeResourcesBalancedAllocationArgs(Args):
    resources: tuple[Resource, ...] = ()

    def __post_init__(self) -> None:
        self.resources = self.resources or _cpu_and_memory()


class UtilizationShapePoint(Strict):
    utilization: Int32 = 0
    score: Int32 = 0


class Ratio(Strict):
    shape: tuple[UtilizationShapePoint, ...] = ()


class ScoringStrategy(Strict):
    type: str = ""
    resources: tuple[Resource, ...] = ()
    requested_to_capacity_ratio: Ratio | UnsetType = UNSET

    def __post_init__(self) -> None:
        self.resources = self.resources or _cpu_and_memory()


class NodeResourcesFitArgs(Args):
    ignored_resources: tuple[str, ...] | UnsetType = UNSET
    ignored_resource_groups: tuple[str, ...] | UnsetType = UNSET
    scoring_strategy: ScoringStrategy = msgspec.field(
        default_factory=lambda: ScoringStrategy("LeastAllocated")
    )


class SpreadConstraint(Strict):
    max_skew: Int32 = 0
    topology_key: str = ""
    when_unsatisfiable: str = ""
    label_selector: dict[str, Any] | UnsetType = UNSET
    min_domains: Int32 | UnsetType = UNSET
    node_affinity_policy: str | UnsetType = UNSET
    node_taints_policy: str | UnsetType = UNSET
    match_label_keys: tuple[str, ...] | UnsetType = UNSET


class PodTopologySpreadArgs(Args):
    default_constraints: tuple[SpreadConstraint, ...] | UnsetType = UNSET
    defaulting_type: str = "System"


class VolumeBindingArgs(Args):
    bind_timeout_seconds: int = 600
    shape: tuple[UtilizationShapePoint, ...] | UnsetType = UNSET


def _emptier_is_better() -> tuple[UtilizationShapePoint, ...]:
    return UtilizationShapePoint(0, 10), UtilizationShapePoint(100, 0)


def completed(found: A, behaviour: Behaviour) -> A:
    """With the defaults that kube-scheduler of only some versions has."""
    if isinstance(found, VolumeBindingArgs) and behaviour.scores_free_storage and not found.shape:
        return msgspec.structs.replace(found, shape=_emptier_is_better())
    return found


KINDS: dict[str, type[Args]] = {
    kind.__name__.removesuffix("Args"): kind
    for kind in (
        DefaultPreemptionArgs,
        DynamicResourcesArgs,
        InterPodAffinityArgs,
        NodeAffinityArgs,
        NodeResourcesBalancedAllocationArgs,
        NodeResourcesFitArgs,
        PodTopologySpreadArgs,
        VolumeBindingArgs,
    )
}

_INNER: dict[str, type[msgspec.Struct]] = {
    "addedAffinity": Affinity,
    "requiredDuringSchedulingIgnoredDuringExecution": NodeSelector,
    "nodeSelectorTerms": NodeSelectorTerm,
    "preferredDuringSchedulingIgnoredDuringExecution": PreferredSchedulingTerm,
    "preference": NodeSelectorTerm,
    "matchExpressions": NodeSelectorRequirement,
    "matchFields": NodeSelectorRequirement,
    "resources": Resource,
    "shape": UtilizationShapePoint,
    "requestedToCapacityRatio": Ratio,
    "scoringStrategy": ScoringStrategy,
    "defaultConstraints": SpreadConstraint,
}


def keys_at(plugin: str, path: str) -> tuple[str, ...]:
    """The keys known at a place in a plugin's arguments."""
    place = last_key(path)
    return _INNER.get(place, KINDS[plugin]).__struct_encode_fields__
