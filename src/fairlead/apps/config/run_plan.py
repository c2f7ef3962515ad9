"""What `fairlead run` runs: command line, configuration file and defaults put together."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from fairlead.apps.config import config as configs
from fairlead.apps.config import plugin_files, profiles
from fairlead.apps.config.decision_log_config import DecisionLogConfig
from fairlead.apps.config.election_options import ElectionOptions
from fairlead.apps.config.extender_plans import checked_extenders
from fairlead.apps.config.extender_terms import ExtenderPlan
from fairlead.apps.config.findings import Finding, Translation
from fairlead.apps.config.forecasts_config import forecast_plans
from fairlead.apps.config.readings_config import reading_plans, reading_warnings
from fairlead.apps.config.reservation_options import ReservationOptions
from fairlead.apps.config.rules_config import rule_warnings
from fairlead.apps.config.service_classes_config import service_classes
from fairlead.apps.config.telemetry_config import endpoint_plan
from fairlead.apps.decision_log.log_writer import LogPlan
from fairlead.kube.gangs.registry import ALL, GangDialects
from fairlead.kube.queues.registry import ALL_QUEUES, QueueDialects
from fairlead.model.backfill import NO_BACKFILL, BackfillTerms
from fairlead.model.behaviour import Behaviour
from fairlead.model.consolidation import ConsolidationTerms
from fairlead.model.errors import ConfigError
from fairlead.model.gpu_tenants import TenantTerms
from fairlead.model.http_extenders import ExtenderTerms
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.node_requests import RequestTerms
from fairlead.model.service_classes import ServiceClass
from fairlead.model.topology import NO_LEVELS, Topology
from fairlead.placement.profile import Profile

if TYPE_CHECKING:
    from fairlead.telemetry.figures.figure_sources import FigurePlan
    from fairlead.telemetry.figures.forecast_sources import ForecastPlan
    from fairlead.telemetry.figures.reading_sources import ReadingPlan
    from fairlead.telemetry.sources import SourcePlan

DEFAULT_ADDRESS = "127.0.0.1"
DEFAULT_PORT = 8080


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What the command line and the environment said; None where they said nothing."""

    kubeconfig: str | None = None
    context: str | None = None
    scheduler_name: str | None = None
    profile: str | None = None
    config: Path | None = None
    address: str | None = None
    port: int | None = None
    electing: ElectionOptions = field(default_factory=ElectionOptions)
    authenticate: bool | None = None
    expects_variables: bool = False
    reservations: ReservationOptions = field(default_factory=ReservationOptions)
    decision_log: Path | None = None
    decision_log_size: str = ""


@dataclass(frozen=True, slots=True)
class RunPlan:
    """What will be run: options, file and defaults put together."""

    profiles: Mapping[str, Profile]
    address: str
    port: int
    max_binds_in_flight: int
    electing: ElectionOptions
    #: Whether callers are checked; None: where the address is open to others.
    authenticate: bool | None = None
    #: Whom to ask what GPUs do.
    sources: "Sequence[SourcePlan]" = ()
    #: The APIs that say which pods belong together.
    gang_dialects: GangDialects = ALL
    #: How nodes are requested for gangs that lack them; None: they are not.
    node_requests: RequestTerms | None = None
    #: The APIs that say what teams may use.
    queue_dialects: QueueDialects = ALL_QUEUES
    #: The levels of the cluster's topology; empty: what labels of nodes show.
    topology: Topology = NO_LEVELS
    #: Which running units may be moved so that a waiting one starts.
    consolidation: ConsolidationTerms = field(default_factory=ConsolidationTerms)
    #: Whether starts of waiting units are planned.
    backfill: BackfillTerms = NO_BACKFILL
    #: Where to learn what nodes cost, draw and emit.
    figures: "Sequence[FigurePlan]" = ()
    currency: str = ""
    #: Where to learn the readings that the file names.
    readings: "Sequence[ReadingPlan]" = ()
    #: Where to learn which hours are cheap, or have little carbon.
    forecasts: "Sequence[ForecastPlan]" = ()
    #: Whose pods do not share GPUs; None: all may.
    tenants: TenantTerms | None = None
    #: HTTP extenders that are asked about pods.
    extenders: Sequence[ExtenderPlan] = ()
    #: How long units of a kind may wait.
    service_classes: tuple[ServiceClass, ...] = ()
    #: Where all that is decided is recorded; None: nowhere.
    decision_log: LogPlan | None = None
    #: What the file says without effect, and what it says that is probably not meant.
    notes: Sequence[Finding] = ()
    warnings: Sequence[Finding] = ()
    #: Versions of Kubernetes that the file cannot be used with, and why.
    refused_with: Mapping[Behaviour, str] = field(default_factory=dict)

    @property
    def extender_terms(self) -> Sequence[ExtenderTerms]:
        """What decisions depend on."""
        return [each.terms for each in self.extenders]

    def meet(self, behaviour: Behaviour) -> None:
        """Raises ConfigError where the API server is of a version that the file is not for."""
        if behaviour in self.refused_with:
            why = self.refused_with[behaviour]
            raise ConfigError(f"{why} (the API server is Kubernetes {behaviour.name})")


def plan(options: RunOptions) -> RunPlan:
    """Options win over the file, the file over the defaults."""
    registry = plugin_files.installed()
    if options.config:
        from fairlead.apps.config import kube_scheduler

        moved = kube_scheduler.read(options.config, registry)
        if moved is not None:
            return _plan_moved(options, moved)
    config = configs.read(options.config) if options.config else configs.Config()
    served = _served(options, config)
    if options.scheduler_name is None:
        served += _additional(served[0], config.additional_scheduler_names)
    made = configs.build_profiles(served, registry, options.config, config.readings)
    built = config.ruled(made)
    base = options.config.parent if options.config else Path()
    return RunPlan(
        profiles=built,
        address=options.address or config.address or DEFAULT_ADDRESS,
        port=next(p for p in (options.port, config.port, DEFAULT_PORT) if p is not None),
        max_binds_in_flight=config.max_binds_in_flight,
        electing=options.electing.over(config.leader_election.electing()),
        authenticate=_either(options.authenticate, config.authenticate),
        sources=config.telemetry.plans() or _endpoint(served),
        gang_dialects=config.gangs.dialects(),
        node_requests=config.gangs.request_terms(),
        queue_dialects=config.queues.dialects(),
        topology=config.topology.topology(),
        consolidation=config.consolidation.terms(),
        backfill=config.backfill.terms(),
        figures=config.goals.plans(base),
        currency=config.goals.currency,
        readings=reading_plans(config.readings),
        forecasts=forecast_plans(config.goals.forecasts, base, config.goals.currency),
        tenants=config.tenants.terms() if config.tenants else None,
        extenders=checked_extenders(config.extenders),
        service_classes=service_classes(config.goals.classes),
        decision_log=config.decision_log.plan(options.decision_log, options.decision_log_size),
        warnings=(
            *configs.warnings(served, built),
            *config.topology.warnings(),
            *rule_warnings(config.rules),
            *reading_warnings(config.rules, config.readings),
        ),
    )


def _either(option: bool | None, said: bool | None) -> bool | None:
    return said if option is None else option


def _endpoint(served: list[configs.ProfileConfig]) -> "list[SourcePlan]":
    """The tutorial's scheduler takes the address of its metrics from a variable."""
    endpoint = os.environ.get("DCGM_ENDPOINT")
    wanted = any(profile.profile == "gpu-aware-scheduler" for profile in served)
    return [endpoint_plan(endpoint)] if endpoint and wanted else []


def _plan_moved(options: RunOptions, moved: Translation) -> RunPlan:
    """What a KubeSchedulerConfiguration asks for, if all of it can be honoured."""
    if moved.problems:
        raise ConfigError(_summary(options.config, moved.problems))
    if options.profile is not None:
        raise ConfigError(f"{options.config} defines its own profiles; remove --profile")
    names = _named_by_file(options.scheduler_name, list(moved.profiles))
    return RunPlan(
        profiles={name: moved.profiles[name] for name in names},
        address=options.address or DEFAULT_ADDRESS,
        port=DEFAULT_PORT if options.port is None else options.port,
        max_binds_in_flight=configs.Config().max_binds_in_flight,
        electing=options.electing.over(moved.electing),
        authenticate=options.authenticate,
        decision_log=DecisionLogConfig().plan(options.decision_log, options.decision_log_size),
        notes=moved.notes,
        extenders=moved.extenders,
        refused_with={
            behaviour: _summary(options.config, problems)
            for behaviour, problems in moved.refused_with.items()
        },
    )


def _summary(file: Path | None, problems: Sequence[Finding]) -> str:
    more = len(problems) - 1
    rest = f" (and {more} more: `fairlead check-config {file}`)" if more else ""
    return f"{file}: {problems[0]}{rest}"


def _served(options: RunOptions, config: configs.Config) -> list[configs.ProfileConfig]:
    """A name given by the user is served alone, by the profile asked for or the one so called."""
    name, profile = options.scheduler_name, options.profile
    if config.profiles and not (name and profile):
        if profile is not None:
            raise ConfigError(
                "the configuration assigns profiles to names; "
                "remove --profile, or add --scheduler-name"
            )
        chosen = _named_by_file(name, [p.scheduler_name for p in config.profiles])
        return [p for p in config.profiles if p.scheduler_name in chosen]
    if name is None and profile is None:
        return [configs.ProfileConfig(n, n) for n in profiles.SERVED_BY_DEFAULT]
    if profile is None:
        profile = name if name in profiles.NAMES else profiles.SERVED_BY_DEFAULT[0]
    profiles.built_in(profile)  # says so if there is none of that name
    return [configs.ProfileConfig(name or profile, profile)]


def _additional(first: configs.ProfileConfig, names: Sequence[str]) -> list[configs.ProfileConfig]:
    return [msgspec.structs.replace(first, scheduler_name=name) for name in names]


def _named_by_file(name: str | None, names: Sequence[str]) -> Sequence[str]:
    """Of the scheduler names in the file, those to serve."""
    if name is None:
        return names
    if name not in names:
        there = ", ".join(names)
        raise ConfigError(f"the configuration serves {there}, but not {name!r}; add it")
    return [name]
