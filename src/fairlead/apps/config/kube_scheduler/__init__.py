"""Moving over: what Fairlead makes of a KubeSchedulerConfiguration.

    JSON or YAML ─▶ format, args ─▶ validation ─▶ merging ─▶ translation ─▶ profiles of ours
                                        │            │            │
                                        └────────────┴────────────┴─▶ problems and notes

A problem is something that would put pods elsewhere than kube-scheduler does, or that it would not
start with. A note is about what has no effect on that. Both are a matter of its version; what is
made of the file is not, so that profiles can be had before the API server is asked for its own.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import UnsetType, structs

from fairlead.apps.config import typed_yaml
from fairlead.apps.config.election_options import ElectionOptions
from fairlead.apps.config.extender_plans import extender_plans, extender_problems
from fairlead.apps.config.findings import Finding, Translation
from fairlead.apps.config.kube_scheduler import args as plugin_args
from fairlead.apps.config.kube_scheduler import format as formats
from fairlead.apps.config.kube_scheduler import notes, validation, validation_args
from fairlead.apps.config.kube_scheduler.catalogue import Catalogue, catalogue_of
from fairlead.apps.config.kube_scheduler.merging import merge
from fairlead.apps.config.kube_scheduler.translation import Translator
from fairlead.model.behaviour import KNOWN, Behaviour
from fairlead.model.errors import ConfigError
from fairlead.model.lazy_dataclass import dataclass
from fairlead.placement.profile import Profile
from fairlead.plugins.registry import Registry

DEFAULT_NAME = "default-scheduler"


def read(
    path: Path, registry: Registry, versions: Sequence[Behaviour] = KNOWN
) -> Translation | None:
    """What becomes of the file with the newest of these versions that it can be used with.

    None if it is no KubeSchedulerConfiguration.
    """
    made = {
        behaviour: typed_yaml.read(
            path, "configuration", partial(translate, registry=registry, behaviour=behaviour)
        )
        for behaviour in reversed(versions)
    }
    refused = {known: found.problems for known, found in made.items() if found and found.problems}
    best = made[next((known for known in made if known not in refused), versions[-1])]
    return best and replace(best, refused_with=refused)


def translate(text: str, registry: Registry, behaviour: Behaviour) -> Translation | None:
    """What becomes of the text where kube-scheduler is of that version."""
    found = formats.without_nulls(typed_yaml.load(text))
    if not _is_meant_for_kube_scheduler(found):
        return None
    _refuse_older(str(found.get("apiVersion", "")))
    config = typed_yaml.shaped(found, formats.Configuration, _reworded)
    translation = Translation({}, list(validation.check(config)))
    translation.problems.extend(extender_problems(config.extenders))
    translation.notes.extend(notes.ignored(config, found))
    profiles = config.profiles or [formats.KubeSchedulerProfile()]
    names = [profile.scheduler_name or DEFAULT_NAME for profile in profiles]
    translation.notes.extend(notes.clash(names))
    left_to_extenders = tuple(
        resource.name
        for extender in config.extenders
        for resource in extender.managed_resources
        if resource.ignored_by_scheduler
    )
    reader = _Reader(registry, catalogue_of(behaviour), translation, left_to_extenders)
    made = {
        name: reader.profile(name, profile, f"profiles[{place}]")
        for place, (name, profile) in enumerate(zip(names, profiles, strict=True))
    }
    electing = _electing(config.leader_election)
    asked = extender_plans(config.extenders)
    return Translation(made, translation.problems, translation.notes, electing, extenders=asked)


def _electing(given: formats.LeaderElection) -> ElectionOptions:
    """Without a name of its own, we leave kube-scheduler's lease to kube-scheduler."""
    return ElectionOptions(
        given.leader_elect,
        given.lease_duration,
        given.renew_deadline,
        given.retry_period,
        given.resource_name,
        given.resource_namespace,
    )


def _is_meant_for_kube_scheduler(found: Any) -> bool:
    if not isinstance(found, dict):
        return False
    version = str(found.get("apiVersion", ""))
    return version.startswith(f"{formats.API_GROUP}/") or found.get("kind") == formats.KIND


_SELECTOR = "replace SelectorSpread, if used, with PodTopologySpread"
_WEIGHTS = (
    "remove healthzBindAddress and metricsBindAddress, and set the weights of "
    "TaintToleration, NodeAffinity and InterPodAffinity if you rely on 1 each (the defaults are "
    "3, 2 and 2 now)"
)
#: How a file of an older version becomes one of v1.
_OLDER = {"v1beta3": _SELECTOR, "v1beta2": f"{_SELECTOR}; {_WEIGHTS}"}


def _refuse_older(version: str) -> None:
    steps = _OLDER.get(version.removeprefix(f"{formats.API_GROUP}/"))
    if steps:
        raise ConfigError(
            f"kube-scheduler no longer reads {version}; use {formats.API_VERSION}, then {steps}"
        )


def _reworded(complaint: str) -> str:
    better = typed_yaml.suggest(complaint, formats.keys_at)
    if better:
        return better
    if "`$.apiVersion`" in complaint or "field `apiVersion`" in complaint:
        return f"apiVersion must be {formats.API_VERSION}; Kubernetes 1.29 removed older versions"
    if "`$.kind`" in complaint or "field `kind`" in complaint:
        return f"kind must be {formats.KIND}"
    return complaint


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads one profile after the other, and gathers what there is to say."""

    registry: Registry
    known: Catalogue
    into: Translation
    #: Resources that extenders count.
    left_to_extenders: tuple[str, ...] = ()

    def profile(self, name: str, profile: formats.KubeSchedulerProfile, key: str) -> Profile:
        arguments = self.arguments(profile, key)
        _ignore(arguments, self.left_to_extenders)
        translator = Translator(
            self.registry, self.known, arguments, key, self.into.problems, self.into.notes
        )
        translator.note_args(
            {given.name: f"{key}.pluginConfig[{n}].args"
             for n, given in enumerate(profile.plugin_config) if given.name in self.known.plugins}
        )  # fmt: skip
        found = merge(profile.plugins, f"{key}.plugins", self.known)
        self.into.problems.extend(found.problems)
        self.into.notes.extend(found.misses)
        return translator.profile(name, found)

    def arguments(
        self, profile: formats.KubeSchedulerProfile, key: str
    ) -> dict[str, plugin_args.Args]:
        """The arguments of every plugin that takes some: those of the file, else the defaults."""
        behaviour = self.known.behaviour
        arguments = {
            name: plugin_args.completed(kind(), behaviour)
            for name, kind in plugin_args.KINDS.items()
        }
        seen: set[str] = set()
        for number, given in enumerate(profile.plugin_config):
            place = f"{key}.pluginConfig[{number}]"
            if given.name in seen:
                self._refuse(place, f"{given.name} is configured twice; remove one")
            seen.add(given.name)
            if given.name not in self.known.plugins:
                self._refuse(f"{place}.name", self.known.unknown(given.name))
            elif given.name in plugin_args.KINDS and (found := self._args(given, f"{place}.args")):
                arguments[given.name] = found
        return arguments

    def _args(self, given: formats.PluginConfig, key: str) -> plugin_args.Args | None:
        """What is given there; None if it cannot be used."""

        def reworded(complaint: str) -> str:
            better = typed_yaml.suggest(complaint, lambda at: plugin_args.keys_at(given.name, at))
            return (better or complaint).replace("$", key)

        try:
            found = typed_yaml.shaped(given.args, plugin_args.KINDS[given.name], reworded)
        except ConfigError as error:
            self._refuse(key, str(error))
            return None
        found = plugin_args.completed(found, self.known.behaviour)
        complaints = list(validation_args.check(given.name, found, key, self.known.behaviour))
        self.into.problems.extend(complaints)
        return None if complaints else found

    def _refuse(self, key: str, text: str) -> None:
        self.into.problems.append(Finding(key, text))


def _ignore(arguments: dict[str, plugin_args.Args], resources: tuple[str, ...]) -> None:
    """An extender counts them, so that no node has to offer any."""
    fit = arguments["NodeResourcesFit"]
    if resources and isinstance(fit, plugin_args.NodeResourcesFitArgs):
        before = () if isinstance(fit.ignored_resources, UnsetType) else fit.ignored_resources
        ignored = (*before, *resources)
        arguments["NodeResourcesFit"] = structs.replace(fit, ignored_resources=ignored)
