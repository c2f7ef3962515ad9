"""The one configuration file, typed: what cannot be honoured is an error that says what to write.

apiVersion: fairlead.dev/v1alpha1
kind: SchedulerConfiguration
profiles:
  - schedulerName: gpu-scheduler     # pods with this schedulerName …
    profile: gpu-scheduler           # … start from this built-in profile,
    filters:
      enabled: [./my_rules.py:Quiet] # with this rule beside its own,
    scores:                          # and these scores in place of its own;
      - plugin: GpuBestFit
        weight: 2
      - plugin: ./my_policy.py:QuietNodes
    picker: ./my_picker.py:Coin      # this one has the last word
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from fairlead.apps.config import plugin_files, profiles, typed_yaml
from fairlead.apps.config.backfill_config import BackfillConfig
from fairlead.apps.config.consolidation_config import ConsolidationConfig
from fairlead.apps.config.decision_log_config import DecisionLogConfig
from fairlead.apps.config.election_options import ElectionOptions
from fairlead.apps.config.extender_format import Extender
from fairlead.apps.config.findings import Finding
from fairlead.apps.config.gangs_config import GangsConfig
from fairlead.apps.config.goals_config import GoalsConfig, ProfileGoalsConfig
from fairlead.apps.config.plugin_sets import changed
from fairlead.apps.config.queues_config import QueuesConfig
from fairlead.apps.config.readings_config import ReadingConfig, check_plugins, ruled_by
from fairlead.apps.config.rules_config import RuleConfig
from fairlead.apps.config.solver_config import SolverConfig
from fairlead.apps.config.telemetry_config import TelemetryConfig
from fairlead.apps.config.tenants_config import TenantsConfig
from fairlead.apps.config.topology_config import TopologyConfig
from fairlead.model.errors import ConfigError
from fairlead.model.gpus import Isolation
from fairlead.model.lazy_dataclass import dataclass
from fairlead.placement.gpus import GpuPolicy
from fairlead.placement.profile import Profile
from fairlead.plugins.api import AnyScore, Filter, Picker, Plugin
from fairlead.plugins.node_resources_fit import NodeResourcesFit
from fairlead.plugins.node_trusted import NodeTrusted
from fairlead.plugins.registry import Registry

Weight = Annotated[float, msgspec.Meta(ge=0, le=1_000_000)]


class _Strict(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    pass


class PluginOptions(_Strict):
    plugin: str
    options: dict[str, Any] = msgspec.field(default_factory=dict)


class ScoreConfig(_Strict):
    plugin: str
    weight: Weight = 1.0
    options: dict[str, Any] = msgspec.field(default_factory=dict)


class FiltersConfig(_Strict):
    """What a profile has beyond the filters of the one it starts from, and what it has not."""

    enabled: list[str | PluginOptions] = msgspec.field(default_factory=list)
    disabled: list[str] = msgspec.field(default_factory=list)


class ScoresConfig(_Strict):
    enabled: list[str | ScoreConfig] = msgspec.field(default_factory=list)
    disabled: list[str] = msgspec.field(default_factory=list)


class OvercommitConfig(_Strict):
    limit: Annotated[float, msgspec.Meta(gt=1, le=10)] = 1.5
    high_water: Annotated[float, msgspec.Meta(gt=0, le=1)] = 0.8


SchedulerName = Annotated[str, msgspec.Meta(min_length=1, max_length=253)]


class ClaimsConfig(_Strict):
    """Resource claims, where a profile does not act as kube-scheduler does."""

    #: Pods of lower priority may be evicted for the devices of their claims.
    preempts: bool = False
    #: Of equal devices the first, as the driver lists them, or by Fairlead's policies.
    choice: Literal["first", "policies"] = "first"
    #: Of alternatives the first that is possible for each pod, or so that a gang fits whole.
    alternatives: Literal["first", "gangs"] = "first"


class ProfileConfig(_Strict):
    scheduler_name: SchedulerName
    profile: str = "gpu-scheduler"
    #: A list replaces all of them.
    filters: list[str | PluginOptions] | FiltersConfig | None = None
    scores: list[str | ScoreConfig] | ScoresConfig | None = None
    picker: str | PluginOptions | None = None
    gpus: GpuPolicy | None = None
    preempts: bool = True
    overcommit: OvercommitConfig | None = None
    isolation: Isolation | None = None
    goals: ProfileGoalsConfig | None = None
    solver: SolverConfig | None = None
    claims: ClaimsConfig | None = None


class ElectionConfig(_Strict):
    """As in a KubeSchedulerConfiguration."""

    leader_elect: bool | None = None
    lease_duration: str = ""
    renew_deadline: str = ""
    retry_period: str = ""
    resource_lock: Literal["leases"] = "leases"
    resource_name: str = ""
    resource_namespace: str = ""

    def electing(self) -> ElectionOptions:
        return ElectionOptions(
            **{field.name: getattr(self, field.name) for field in fields(ElectionOptions)}
        )


class Config(_Strict):
    api_version: Literal["fairlead.dev/v1alpha1"] = "fairlead.dev/v1alpha1"
    kind: Literal["SchedulerConfiguration"] = "SchedulerConfiguration"
    profiles: list[ProfileConfig] = msgspec.field(default_factory=list)
    #: Names of other schedulers whose pods the first profile serves, too.
    additional_scheduler_names: list[SchedulerName] = msgspec.field(default_factory=list)
    gangs: GangsConfig = msgspec.field(default_factory=GangsConfig)
    queues: QueuesConfig = msgspec.field(default_factory=QueuesConfig)
    topology: TopologyConfig = msgspec.field(default_factory=TopologyConfig)
    consolidation: ConsolidationConfig = msgspec.field(default_factory=ConsolidationConfig)
    backfill: BackfillConfig = msgspec.field(default_factory=BackfillConfig)
    goals: GoalsConfig = msgspec.field(default_factory=GoalsConfig)
    address: str | None = None
    port: Annotated[int, msgspec.Meta(ge=0, le=65535)] | None = None
    authenticate: bool | None = None
    max_binds_in_flight: Annotated[int, msgspec.Meta(ge=1, le=1024)] = 64
    leader_election: ElectionConfig = msgspec.field(default_factory=ElectionConfig)
    telemetry: TelemetryConfig = msgspec.field(default_factory=TelemetryConfig)
    decision_log: DecisionLogConfig = msgspec.field(default_factory=DecisionLogConfig)
    rules: list[RuleConfig] = msgspec.field(default_factory=list)
    readings: list[ReadingConfig] = msgspec.field(default_factory=list)
    extenders: list[Extender] = msgspec.field(default_factory=list)
    tenants: TenantsConfig | None = None
    #: Whether pods may have rules of their own.
    user_rules: bool = False

    def ruled(self, built: Mapping[str, Profile]) -> dict[str, Profile]:
        """The profiles with the rules for all of them."""
        check_plugins(built, self.readings)
        if not self.rules and not self.user_rules:
            return dict(built)
        rules = ruled_by(self.rules, self.readings, user_rules=self.user_rules)
        return {name: profiles.ruled(profile, rules) for name, profile in built.items()}


_REPLACED = (
    "a list replaces all filters of {profile}, so these rules no longer apply: {gone}; use "
    "enabled and disabled under filters to change some filters and keep the others"
)
_COUNTED = (
    "GpuFit is missing: GPUs are counted but not assigned, and pods that request parts of GPUs "
    "are refused; enable GpuFit, or use another scheduler for such pods"
)

Filters = tuple[Filter, ...]
Scores = tuple[tuple[AnyScore, float], ...]


def read(path: Path) -> Config:
    """The configuration in a file, or a ConfigError that names the place and the way out."""
    return typed_yaml.read(path, "configuration", parse)


def parse(text: str) -> Config:
    config = typed_yaml.convert(text, Config, _reworded)
    _refuse_duplicates(config)
    return config


def _reworded(complaint: str) -> str:
    if "`$.apiVersion`" in complaint or "`$.kind`" in complaint:
        return (
            "this is not a scheduler configuration: apiVersion and kind must be "
            "fairlead.dev/v1alpha1 and SchedulerConfiguration, or those of a "
            "KubeSchedulerConfiguration; for a ConfigMap, pass the file that it contains"
        )
    return typed_yaml.reworded(complaint, Config)


def _refuse_duplicates(config: Config) -> None:
    names = [profile.scheduler_name for profile in config.profiles]
    names += config.additional_scheduler_names
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ConfigError(f"schedulerName {twice[0]!r} has two profiles; remove one")


def build_profiles(
    wanted: list[ProfileConfig],
    registry: Registry,
    file: Path | None = None,
    readings: Iterable[ReadingConfig] = (),
) -> dict[str, Profile]:
    """Profiles by scheduler name. Plugin files are looked up from where the configuration is."""
    units = {each.name: each.unit for each in readings}
    base = file.parent if file else Path()
    place = f"{file}: " if file else ""
    built: dict[str, Profile] = {}
    for profile in wanted:
        try:
            built[profile.scheduler_name] = _build(profile, registry, base, units)
        except ConfigError as error:
            text = f"{place}profile of {profile.scheduler_name!r}: {error}"
            raise ConfigError(text) from error
    return built


def _refuse_overbooking(filters: tuple[Filter, ...]) -> None:
    for rule in (NodeResourcesFit, NodeTrusted):
        if not any(isinstance(chosen, rule) for chosen in filters):
            raise ConfigError(
                f"filters must include {rule.name}: without it nodes are overcommitted"
            )


@dataclass(frozen=True, slots=True)
class _Maker:
    """Makes the plugins that one profile names."""

    registry: Registry
    base: Path

    def filter(self, item: str | PluginOptions) -> Filter:
        return plugin_files.as_filter(*self._made(item))

    def score(self, item: str | ScoreConfig) -> tuple[AnyScore, float]:
        weight = 1.0 if isinstance(item, str) else item.weight
        return plugin_files.as_score(*self._made(item)), weight

    def picker(self, item: str | PluginOptions) -> Picker:
        return plugin_files.as_picker(*self._made(item))

    def filters(self, wanted: ProfileConfig, base: Filters) -> Filters:
        found = wanted.filters
        if found is None:
            return base
        if isinstance(found, FiltersConfig):
            enabled = [self.filter(item) for item in found.enabled]
            filters = changed(base, enabled, found.disabled, lambda rule: rule.name)
        else:
            filters = tuple(self.filter(item) for item in found)
        _refuse_overbooking(filters)
        return filters

    def scores(self, wanted: ProfileConfig, base: Scores) -> Scores:
        found = wanted.scores
        if found is None:
            return base
        if isinstance(found, ScoresConfig):
            enabled = [self.score(item) for item in found.enabled]
            return changed(base, enabled, found.disabled, lambda weighed: weighed[0].name)
        return tuple(self.score(item) for item in found)

    def _made(self, item: str | PluginOptions | ScoreConfig) -> tuple[Plugin, str]:
        reference = item if isinstance(item, str) else item.plugin
        options = {} if isinstance(item, str) else item.options
        return plugin_files.make(self.registry, reference, options, self.base), reference


def _build(
    wanted: ProfileConfig, registry: Registry, base: Path, units: Mapping[str, str]
) -> Profile:
    start, maker = profiles.built_in(wanted.profile), _Maker(registry, base)
    picker = maker.picker(wanted.picker) if wanted.picker else None
    built = Profile(
        wanted.profile,
        maker.filters(wanted, start.filters),
        maker.scores(wanted, start.scores),
        picker,
        wanted.gpus or start.gpus,
        wanted.preempts,
    )
    if wanted.solver:
        built = replace(built, solver=wanted.solver.terms())
    if wanted.goals:
        built = profiles.aiming(built, wanted.goals.goals(base, units))
    if wanted.claims:
        built = profiles.claiming(
            built,
            preempts=wanted.claims.preempts,
            chooses=wanted.claims.choice == "policies",
            tries_later=wanted.claims.alternatives == "gangs",
        )
    if beyond := wanted.overcommit:
        built = profiles.overcommitted(built, beyond.limit, beyond.high_water)
    return profiles.isolated(built, wanted.isolation) if wanted.isolation else built


def warnings(wanted: list[ProfileConfig], built: Mapping[str, Profile]) -> Iterator[Finding]:
    """What the file says that is allowed, and probably not meant."""
    for number, profile in enumerate(wanted):
        start = profiles.built_in(profile.profile)
        there = {rule.name for rule in built[profile.scheduler_name].filters}
        gone = [rule.name for rule in start.filters if rule.name not in there]
        key = f"profiles[{number}].filters"
        if isinstance(profile.filters, list) and gone:
            yield Finding(key, _REPLACED.format(profile=profile.profile, gone=", ".join(gone)))
        if start.grants_gpus and "GpuFit" in gone:
            yield Finding(key, _COUNTED)
