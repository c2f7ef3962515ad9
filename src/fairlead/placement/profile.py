"""A profile: the opinions that decide where pods of one scheduler name go."""

from collections.abc import Mapping
from dataclasses import field, replace
from functools import reduce
from operator import or_

from fairlead.cluster.aspects import Aspect
from fairlead.model.gpus import FAIRLEAD, GpuRequest, Isolation
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.map_slots import MapSlot
from fairlead.model.pods import PodField
from fairlead.model.solver import SolverTerms
from fairlead.placement.gpus import GpuPolicy
from fairlead.plugins.api import (
    AnyScore,
    ClusterFilter,
    DetailedGpuFilter,
    DeviceAllocator,
    EvictionForecast,
    FailingFilter,
    Filter,
    GpuChooser,
    Picker,
    Plugin,
    PreFilter,
    PreFilterResult,
    RelativeScore,
    Score,
    depends_on_pods,
    pod_fields_of,
    pod_keys_of,
)
from fairlead.plugins.goals import Goals
from fairlead.plugins.gpus_counted import GpusCounted
from fairlead.plugins.prepare import PreBind

_MORE_THAN_AMOUNTS = Aspect.PORTS | Aspect.PODS | Aspect.VOLUMES | Aspect.DEVICES
ABOUT_PODS = Aspect.USAGE | _MORE_THAN_AMOUNTS

# What allocators are asked about to find out whether they serve every request.
_ANY_DIALECT = GpuRequest(1, whole=False, dialect="")
_A_SHARE = GpuRequest(1, whole=False, dialect=FAIRLEAD)
_BY_MAP = GpuRequest(1, map_slot=MapSlot("", ()))


@dataclass(frozen=True, slots=True, eq=False)
class Profile:
    """Filters in order (a node counts under the first that refuses it) and weighted scores."""

    name: str
    filters: tuple[Filter, ...]
    scores: tuple[tuple[AnyScore, float], ...] = ()
    #: Without a picker the highest score wins, and among equals the first node.
    picker: Picker | None = None
    #: How shares of a GPU find their GPU, unless a score chooses.
    gpus: GpuPolicy = GpuPolicy.PACK
    #: May pods of lower priority be evicted to make room?
    preempts: bool = True
    #: How the solver plans gangs whose pods differ; None: it is not asked.
    solver: SolverTerms | None = None
    #: Pod labels and annotations that some plugin reads.
    pod_keys: tuple[str, ...] = field(init=False)
    #: Cluster filters, by their place; and filters that read pods.
    cluster_filters: Mapping[int, ClusterFilter] = field(init=False)
    #: Of the former, those that can predict what evicting pods would change.
    eviction_forecasts: Mapping[int, EvictionForecast] = field(init=False)
    about_pods: frozenset[int] = field(init=False)
    #: Of the latter, those that see more than how much is taken on the node.
    by_pods: frozenset[int] = field(init=False)
    #: Filters that are called before any node is checked.
    pre_filters: tuple[PreFilter, ...] = field(init=False)
    pre_filter_results: tuple[PreFilterResult, ...] = field(init=False)
    #: Filters that may fail, by their place.
    failing_filters: Mapping[int, FailingFilter] = field(init=False)
    #: Filters that know what must be done before a bind.
    pre_binds: tuple[PreBind, ...] = field(init=False)
    #: Scores, by their place, by row; and relative to other nodes.
    rates: Mapping[int, Score] = field(init=False)
    relative_scores: Mapping[int, RelativeScore] = field(init=False)
    #: Fields of the pod that some plugin reads, as a plain number.
    pod_fields: int = field(init=False)

    #: Filters whose devices are chosen one by one; devices of other requests are only counted.
    allocators: tuple[DeviceAllocator, ...] = field(init=False)
    #: Of these the first that describes single GPUs.
    gpu_details: DetailedGpuFilter | None = field(init=False)
    #: Does it choose GPUs in every dialect? Otherwise they are counted, or refused.
    grants_gpus: bool = field(init=False)

    def __post_init__(self) -> None:
        self._find_allocators()
        pod_fields = [pod_fields_of(rule, as_filter=True) for rule in self.filters]
        pod_fields += [pod_fields_of(score) for score, _ in self.scores]
        pod_fields += [pod_fields_of(self.picker)] if self.picker else []
        object.__setattr__(self, "pod_fields", int(reduce(or_, pod_fields, PodField(0))))
        found = dict.fromkeys(key for plugin in self.plugins for key in pod_keys_of(plugin))
        object.__setattr__(self, "pod_keys", tuple(found))
        rules = list(enumerate(self.filters))
        cluster_filters = {index: rule for index, rule in rules if isinstance(rule, ClusterFilter)}
        object.__setattr__(self, "cluster_filters", cluster_filters)
        eviction_forecasts = {
            index: rule for index, rule in rules if isinstance(rule, EvictionForecast)
        }
        object.__setattr__(self, "eviction_forecasts", eviction_forecasts)
        about_pods = frozenset(
            index for index, rule in rules if rule.reads & ABOUT_PODS and depends_on_pods(rule)
        )
        object.__setattr__(self, "about_pods", about_pods)
        by_pods = frozenset(i for i in about_pods if self.filters[i].reads & _MORE_THAN_AMOUNTS)
        object.__setattr__(self, "by_pods", by_pods)
        self._sort_out()

    def _find_allocators(self) -> None:
        found = tuple(rule for rule in self.filters if isinstance(rule, DeviceAllocator))
        object.__setattr__(self, "allocators", found)
        detailed = (rule for rule in found if isinstance(rule, DetailedGpuFilter))
        object.__setattr__(self, "gpu_details", next(detailed, None))
        object.__setattr__(self, "grants_gpus", self.chosen_gpus(_ANY_DIALECT) is not None)

    def _sort_out(self) -> None:
        """Asking a plugin what it can do is slow, and views are made all the time."""
        pre_filters = tuple(rule for rule in self.filters if isinstance(rule, PreFilter))
        follows_maps = self.chosen_gpus(_BY_MAP) is not None
        if not (self.grants_gpus and follows_maps):
            pre_filters = (GpusCounted(self.allocators), *pre_filters)
        pre_filter_results = tuple(
            rule for rule in self.filters if isinstance(rule, PreFilterResult)
        )
        scores = [(index, score) for index, (score, _) in enumerate(self.scores)]
        rates = {index: score for index, score in scores if not isinstance(score, RelativeScore)}
        relative_scores = {
            index: score for index, score in scores if isinstance(score, RelativeScore)
        }
        object.__setattr__(self, "pre_filters", pre_filters)
        object.__setattr__(self, "pre_filter_results", pre_filter_results)
        pre_binds = tuple(rule for rule in self.filters if isinstance(rule, PreBind))
        object.__setattr__(self, "pre_binds", pre_binds)
        failing = {
            i: rule for i, rule in enumerate(self.filters) if isinstance(rule, FailingFilter)
        }
        object.__setattr__(self, "failing_filters", failing)
        object.__setattr__(self, "rates", rates)
        object.__setattr__(self, "relative_scores", relative_scores)

    def chosen_gpus(self, ask: GpuRequest | None) -> GpuRequest | None:
        """The ask as far as this profile goes with it; None where it does not choose GPUs."""
        if ask is None:
            return None
        for rule in self.allocators:
            found = rule.allocates(ask)
            if found is not None:
                return found
        return None

    @property
    def isolation(self) -> Isolation | None:
        """Of shares that demand none, if the profile names one."""
        found = self.chosen_gpus(_A_SHARE)
        return found.isolation if found else None

    @property
    def gpu_chooser(self) -> GpuChooser | None:
        """Who says which GPU a share goes to."""
        return next((score for score, _ in self.scores if isinstance(score, GpuChooser)), None)

    @property
    def goals(self) -> Goals | None:
        return next((score for score, _ in self.scores if isinstance(score, Goals)), None)

    @property
    def plugins(self) -> tuple[Plugin, ...]:
        picker = (self.picker,) if self.picker else ()
        return (*self.filters, *(score for score, _ in self.scores), *picker)


def without_solver(profiles: Mapping[str, Profile]) -> dict[str, Profile]:
    """For a look ahead, where no solver answers: no gang waits for it."""
    return {name: replace(profile, solver=None) for name, profile in profiles.items()}
