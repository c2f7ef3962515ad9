"""A merged profile of kube-scheduler, made of Fairlead's plugins, and what is missing for that."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import field, fields, is_dataclass, replace
from pathlib import Path
from typing import TypeVar

from fairlead.apps.config import plugin_files
from fairlead.apps.config.findings import Finding
from fairlead.apps.config.kube_scheduler import options
from fairlead.apps.config.kube_scheduler.args import Args, VolumeBindingArgs
from fairlead.apps.config.kube_scheduler.beyond import SUCCESSORS, gpu_policy_of, replaced
from fairlead.apps.config.kube_scheduler.catalogue import (
    BUILT_IN,
    COMPANIONS,
    OF_POD_GROUPS,
    Catalogue,
)
from fairlead.apps.config.kube_scheduler.merging import Merged
from fairlead.kube.dialects import RESOURCES
from fairlead.model.errors import ConfigError
from fairlead.model.lazy_dataclass import dataclass
from fairlead.placement.profile import Profile
from fairlead.plugins.api import Filter, Plugin
from fairlead.plugins.gpu_fit import GpuFit
from fairlead.plugins.node_capacity_type import NodeCapacityType
from fairlead.plugins.node_ending import NodeEnding
from fairlead.plugins.node_resources_fit import NodeResourcesFit
from fairlead.plugins.node_trusted import NodeTrusted
from fairlead.plugins.registry import Registry

#: Filters of Fairlead that every profile has.
_ALWAYS: tuple[Filter, ...] = (NodeEnding(), NodeCapacityType(), NodeTrusted())

_LEAVE = "or use kube-scheduler for the pods that need it"
_BIND_S = 600
#: Settings of plugins that do not change where pods go.
_HARMLESS_ARGS: Mapping[str, str] = {
    "DefaultPreemption": "ignored: Fairlead searches all nodes for pods to evict",
    "DynamicResources": "ignored: Fairlead limits searches by their steps, not by time",
    "VolumeBinding": f"bindTimeoutSeconds is ignored: Fairlead waits {_BIND_S} s for volumes",
}

T = TypeVar("T")


class _NotYet(Exception):
    """Fairlead has no such filter, or no such score."""


@dataclass(slots=True)
class Translator:
    """Turns the plugins of one profile, which stands at `key` in the file, into ours."""

    registry: Registry
    known: Catalogue
    args: Mapping[str, Args]
    key: str
    problems: list[Finding] = field(default_factory=list)
    notes: list[Finding] = field(default_factory=list)

    def profile(self, name: str, merged: Merged) -> Profile:
        """As much of it as Fairlead can do; `problems` says what is missing."""
        self.problems += [
            *_always_there(merged, self.key),
            *_torn(merged, self.key, self.known),
            *_pod_groups(merged, self.key, self.known),
        ]
        filters = self._made("filter", merged, plugin_files.as_filter)
        scores = self._made("score", merged, plugin_files.as_score)
        weighed = ((score, float(merged.weights[plugin])) for plugin, score in scores.items())
        named = frozenset((*filters, *scores))
        self.notes += [*_replaced(named, self.key)]
        return Profile(
            name,
            (*_without_dialects(filters.values()), *_ALWAYS),
            tuple(weighed),
            gpus=gpu_policy_of(named),
            preempts=merged.has("DefaultPreemption", "postFilter"),
        )

    def note_args(self, given: Mapping[str, str]) -> None:
        """Notes about arguments that the file gives; `given` says where, by plugin."""
        for plugin, key in given.items():
            if self._waits_as_ever(plugin):
                continue
            if plugin in _HARMLESS_ARGS:
                self.notes.append(Finding(key, _HARMLESS_ARGS[plugin]))
            elif plugin not in self.args:
                self.notes.append(Finding(key, f"ignored: {plugin} takes no arguments"))

    def _waits_as_ever(self, plugin: str) -> bool:
        """Do arguments for volumes leave the time for binding as it is?"""
        found = self.args.get(plugin)
        return isinstance(found, VolumeBindingArgs) and found.bind_timeout_seconds == _BIND_S

    def _made(self, point: str, merged: Merged, accept: Callable[[Plugin, str], T]) -> dict[str, T]:
        """Ours by the names of theirs. Names that are wrong here have been complained about."""
        made: dict[str, T] = {}
        for name in (n for n in merged.points[point] if self.known.works_at(point, n)):
            with suppress(_NotYet):
                made[name] = self._one(name, point, accept)
                continue
            self._missing(name, point)
        return made

    def _one(self, name: str, point: str, accept: Callable[[Plugin, str], T]) -> T:
        reference, wanted = options.of(point, replaced(name, point), self.args.get(name))
        if reference not in self.registry.names:
            raise _NotYet
        kind = self.registry.find(reference)
        known: list[str] = [f.name for f in fields(kind)] if is_dataclass(kind) else []
        given = {option.field: option.value for option in wanted if option.field in known}
        try:
            plugin = plugin_files.make(self.registry, reference, given, Path())
            made = accept(plugin, reference)
        except ConfigError as error:  # a filter and not a score, say
            raise _NotYet from error
        self._lacking(name, [o.key for o in wanted if o.matters and o.field not in known])
        return made

    def _lacking(self, name: str, arguments: list[str]) -> None:
        text = f"is not supported yet; remove it, {_LEAVE}"
        for argument in arguments:
            key = f"{self.key}.pluginConfig.{name}.args.{argument}"
            self.problems.append(Finding(key, text))

    def _missing(self, name: str, point: str) -> None:
        key = f"{self.key}.plugins.{point}"
        where = "here" if point == "score" else "at multiPoint"
        text = f"{name} is not supported yet; disable it {where} if you do not need it, {_LEAVE}"
        self.problems.append(Finding(key, text))


def _without_dialects(filters: Iterable[Filter]) -> tuple[Filter, ...]:
    """Where GPUs are assigned, resources that no node lists are the book's business."""
    rules = tuple(filters)
    if not any(isinstance(rule, GpuFit) for rule in rules):
        return rules
    return tuple(
        replace(rule, ignored_resources=(*rule.ignored_resources, *RESOURCES))
        if isinstance(rule, NodeResourcesFit)
        else rule
        for rule in rules
    )


def _replaced(named: frozenset[str], key: str) -> Iterator[Finding]:
    for name in sorted(named & SUCCESSORS.keys()):
        ours = " and ".join(SUCCESSORS[name].points.values())
        yield Finding(f"{key}.plugins", f"{name} becomes {ours} of Fairlead")


def _always_there(merged: Merged, key: str) -> Iterator[Finding]:
    """What kube-scheduler lets go of, and Fairlead does not."""
    for name, point in BUILT_IN.items():
        if not merged.has(name, point):
            text = f"{name} is built into Fairlead and cannot be disabled; leave it enabled"
            yield Finding(f"{key}.plugins.{point}", text)
    if not merged.has("NodeResourcesFit", "filter"):
        text = "NodeResourcesFit is required: without it nodes are overcommitted; enable it"
        yield Finding(f"{key}.plugins.filter", text)


def _torn(merged: Merged, key: str, known: Catalogue) -> Iterator[Finding]:
    """Plugins that are only partly on. Ours are rules as a whole."""
    for name, plugin in known.plugins.items():
        if name == "DynamicResources":
            continue
        for point, companions in COMPANIONS.items():
            there = [c for c in companions if plugin.needs(c)]
            on = [c for c in there if merged.has(name, c)]
            if merged.has(name, point) and on != there:
                off = next(c for c in there if c not in on)
                text = f"{name} is on at {point} and off at {off}; enable both or disable both"
                yield Finding(f"{key}.plugins.{off}", text)
            elif point == "filter" and plugin.refuses_early and on and not merged.has(name, point):
                text = f"{name} is off at {point} and on at {on[0]}; enable both or disable both"
                yield Finding(f"{key}.plugins.{on[0]}", text)


def _pod_groups(merged: Merged, key: str, known: Catalogue) -> Iterator[Finding]:
    for name in sorted(OF_POD_GROUPS):
        for point in sorted(known.plugins[name].points):
            if merged.has(name, point):
                text = f"{name} is not supported: Fairlead has no pod groups; disable it, {_LEAVE}"
                yield Finding(f"{key}.plugins.{point}", text)
                break
