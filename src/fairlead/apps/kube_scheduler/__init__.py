"""Moving over: what Fairlead makes of a KubeSchedulerConfiguration.

    JSON or YAML ─▶ format, args ─▶ validation ─▶ merging ─▶ translation ─▶ profiles of ours
                                        │            │            │
                                        └────────────┴────────────┴─▶ problems and notes

A problem is something that would put pods elsewhere than kube-scheduler does, or that it would not
start with. A note is about what has no effect on that.
"""

from pathlib import Path
from typing import Any

from msgspec import UnsetType, structs

from fairlead.apps import typed_yaml
from fairlead.apps.electing import Electing
from fairlead.apps.findings import Finding, Translation
from fairlead.apps.kube_scheduler import args as plugin_args
from fairlead.apps.kube_scheduler import format as formats
from fairlead.apps.kube_scheduler import notes, validation, validation_args
from fairlead.apps.kube_scheduler.catalogue import PLUGINS, unknown
from fairlead.apps.kube_scheduler.merging import merge
from fairlead.apps.kube_scheduler.translation import Translator
from fairlead.model.errors import ConfigError
from fairlead.placement.profile import Profile
from fairlead.plugins.registry import Registry

DEFAULT_NAME = "default-scheduler"


def read(path: Path, registry: Registry) -> Translation | None:
    """What becomes of the file; None if it is no KubeSchedulerConfiguration."""
    return typed_yaml.read(path, "configuration", lambda text: translate(text, registry))


def translate(text: str, registry: Registry) -> Translation | None:
    found = formats.without_nulls(typed_yaml.load(text))
    if not _is_meant_for_kube_scheduler(found):
        return None
    config = typed_yaml.shaped(found, formats.Configuration, _reworded)
    translation = Translation({}, list(validation.check(config)))
    translation.problems.extend(notes.extenders(config.extenders, ignorable=False))
    translation.notes.extend(notes.ignored(config, found))
    translation.notes.extend(notes.extenders(config.extenders, ignorable=True))
    profiles = config.profiles or [formats.Profile()]
    names = [profile.scheduler_name or DEFAULT_NAME for profile in profiles]
    translation.notes.extend(notes.clash(names))
    left_to_extenders = tuple(
        resource.name
        for extender in config.extenders
        for resource in extender.managed_resources
        if resource.ignored_by_scheduler
    )
    made = {
        name: _profile(
            name, profile, f"profiles[{place}]", registry, translation, left_to_extenders
        )
        for place, (name, profile) in enumerate(zip(names, profiles, strict=True))
    }
    electing = _electing(config.leader_election)
    return Translation(made, translation.problems, translation.notes, electing)


def _electing(given: formats.LeaderElection) -> Electing:
    """Without a name of its own, we leave kube-scheduler's lease to kube-scheduler."""
    return Electing(
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


def _reworded(complaint: str) -> str:
    better = typed_yaml.suggest(complaint, formats.keys_at)
    if better:
        return better
    if "`$.apiVersion`" in complaint or "field `apiVersion`" in complaint:
        return f"apiVersion must be {formats.API_VERSION}; older ones are gone since 1.29"
    if "`$.kind`" in complaint or "field `kind`" in complaint:
        return f"kind must be {formats.KIND}"
    return complaint


def _profile(
    name: str,
    profile: formats.Profile,
    key: str,
    registry: Registry,
    into: Translation,
    left_to_extenders: tuple[str, ...],
) -> Profile:
    arguments = _arguments(profile, key, into.problems)
    _ignore(arguments, left_to_extenders)
    translator = Translator(registry, arguments, key, into.problems, into.notes)
    translator.note_args(
        {given.name: f"{key}.pluginConfig[{n}].args"
         for n, given in enumerate(profile.plugin_config) if given.name in PLUGINS}
    )  # fmt: skip
    found = merge(profile.plugins, f"{key}.plugins")
    into.problems.extend(found.problems)
    into.notes.extend(found.misses)
    return translator.profile(name, found)


def _arguments(
    profile: formats.Profile, key: str, problems: list[Finding]
) -> dict[str, plugin_args.Args]:
    """The arguments of every plugin that takes some: those of the file, else the defaults."""
    arguments = {name: kind() for name, kind in plugin_args.KINDS.items()}
    seen: set[str] = set()
    for number, given in enumerate(profile.plugin_config):
        place = f"{key}.pluginConfig[{number}]"
        if given.name in seen:
            problems.append(Finding(place, f"{given.name} is configured twice; leave one"))
        seen.add(given.name)
        if given.name not in PLUGINS:
            problems.append(Finding(f"{place}.name", unknown(given.name)))
        elif given.name in plugin_args.KINDS:
            _read_args(given, f"{place}.args", arguments, problems)
    return arguments


def _ignore(arguments: dict[str, plugin_args.Args], resources: tuple[str, ...]) -> None:
    """An extender counts them, so that no node has to offer any."""
    fit = arguments["NodeResourcesFit"]
    if resources and isinstance(fit, plugin_args.NodeResourcesFit):
        before = () if isinstance(fit.ignored_resources, UnsetType) else fit.ignored_resources
        ignored = (*before, *resources)
        arguments["NodeResourcesFit"] = structs.replace(fit, ignored_resources=ignored)


def _read_args(
    given: formats.PluginConfig,
    key: str,
    arguments: dict[str, plugin_args.Args],
    problems: list[Finding],
) -> None:
    def reworded(complaint: str) -> str:
        better = typed_yaml.suggest(complaint, lambda at: plugin_args.keys_at(given.name, at))
        return (better or complaint).replace("$", key)

    try:
        found = typed_yaml.shaped(given.args, plugin_args.KINDS[given.name], reworded)
    except ConfigError as error:
        problems.append(Finding(key, str(error)))
        return
    complaints = list(validation_args.check(given.name, found, key))
    problems.extend(complaints)
    if not complaints:
        arguments[given.name] = found
