"""Which plugins a profile ends up with: kube-scheduler's rules for multiPoint, "*" and weights.

1. The file's multiPoint is merged into the default one: what it disables goes, what it enables
   again takes the default's place (with the file's weight, or none), the rest comes last.
2. Each extension point gets what the file enables there, and of multiPoint whatever works there,
   unless the point disables it, or everything with "*". Order: what is in both as the point has
   it, then the others of multiPoint, then the others of the point.
3. A score weighs what the point says, else what multiPoint says; no weight means 1.
"""

from collections.abc import Iterator, Mapping

from msgspec import UNSET

from fairlead.apps.config.findings import Finding
from fairlead.apps.config.kube_scheduler.catalogue import POINTS_SINCE, Catalogue
from fairlead.apps.config.kube_scheduler.format import Enabled, Plugins, PluginSet
from fairlead.model.lazy_dataclass import dataclass

_ALL = "*"
_MULTI = "multiPoint"


@dataclass(frozen=True, slots=True)
class Merged:
    """Plugins by extension point, in order, and what each score weighs."""

    points: Mapping[str, tuple[str, ...]]
    weights: Mapping[str, int]
    #: Why kube-scheduler itself would not start with this.
    problems: tuple[Finding, ...] = ()
    #: Names that are disabled and unknown: they have no effect, which a user may not expect.
    misses: tuple[Finding, ...] = ()

    def has(self, plugin: str, point: str) -> bool:
        return plugin in self.points[point]


def merge(asked: Plugins, key: str, known: Catalogue) -> Merged:
    """What the `plugins` of one profile come to; `key` is where they stand in the file."""
    multi = _merged_into_defaults(asked.multi_point, known)
    sets = {
        point: chosen
        for point, chosen in asked.by_point()
        if point != _MULTI and known.has_point(point)
    }
    brought = {point: _expansion(point, chosen, multi, known) for point, chosen in sets.items()}
    points = {point: _expanded(chosen, brought[point]) for point, chosen in sets.items()}
    return Merged(
        points,
        _weights([*asked.score.enabled, *multi], known),
        (
            *_too_new(asked, key, known),
            *_refused(asked, key, known),
            *_twice(sets, brought, key),
            *_counted(points, key),
        ),
        tuple(_missed(asked, key, known)),
    )


def _merged_into_defaults(asked: PluginSet, known: Catalogue) -> list[Enabled]:
    disabled = {plugin.name for plugin in asked.disabled}
    kept: list[Enabled] = []
    if _ALL not in disabled:
        defaults = [Enabled(n, p.weight) for n, p in known.plugins.items() if p.on_by_default]
        kept = [plugin for plugin in defaults if plugin.name not in disabled]
    again = {plugin.name: place for place, plugin in enumerate(asked.enabled)}
    replacing = {again[plugin.name] for plugin in kept if plugin.name in again}
    merged = [asked.enabled[again[p.name]] if p.name in again else p for p in kept]
    return merged + [p for place, p in enumerate(asked.enabled) if place not in replacing]


def _expansion(point: str, chosen: PluginSet, multi: list[Enabled], known: Catalogue) -> list[str]:
    """What multiPoint brings to this point, before the point's own choice is looked at."""
    disabled = {plugin.name for plugin in chosen.disabled}
    if _ALL in disabled:
        return []
    names = [plugin.name for plugin in multi]
    return [name for name in names if known.works_at(point, name) and name not in disabled]


def _expanded(chosen: PluginSet, brought: list[str]) -> tuple[str, ...]:
    own = [plugin.name for plugin in chosen.enabled]
    in_both = [name for name in own if name in brought]
    only_brought = [name for name in brought if name not in own]
    return (*in_both, *only_brought, *(name for name in own if name not in brought))


def _weights(plugins: list[Enabled], known: Catalogue) -> dict[str, int]:
    weights: dict[str, int] = {}
    for plugin in plugins:
        if known.works_at("score", plugin.name):
            weights.setdefault(plugin.name, plugin.weight or 1)
    return weights


def _too_new(asked: Plugins, key: str, known: Catalogue) -> Iterator[Finding]:
    point = "podGroupPostFilter"
    if asked.pod_group_post_filter is not UNSET and not known.has_point(point):
        yield Finding(f"{key}.{point}", known.belongs_to(point, POINTS_SINCE[point]))


def _refused(asked: Plugins, key: str, known: Catalogue) -> Iterator[Finding]:
    for point, chosen in asked.by_point():
        for place, plugin in enumerate(chosen.enabled):
            where = f"{key}.{point}.enabled[{place}]"
            if plugin.name not in known.plugins:
                yield Finding(where, _not_enabled(plugin.name, known))
            elif point != _MULTI and not known.may_stand_at(point, plugin.name):
                points = ", ".join(sorted(known.plugins[plugin.name].points))
                text = f"{plugin.name} does not work at this extension point; it works at {points}"
                yield Finding(where, text)
            elif plugin.weight < 0:
                yield Finding(f"{where}.weight", f"{plugin.weight} is less than 0; use 1 or more")


def _not_enabled(name: str, known: Catalogue) -> str:
    if name == _ALL:
        return "'*' can be disabled but not enabled; name the plugins"
    return known.unknown(name)


def _missed(asked: Plugins, key: str, known: Catalogue) -> Iterator[Finding]:
    for point, chosen in asked.by_point():
        for place, plugin in enumerate(chosen.disabled):
            if plugin.name not in known.plugins and plugin.name != _ALL:
                yield Finding(f"{key}.{point}.disabled[{place}]", known.unknown(plugin.name))


def _twice(
    sets: Mapping[str, PluginSet], brought: Mapping[str, list[str]], key: str
) -> Iterator[Finding]:
    said: set[str] = set()
    for point, chosen in sets.items():
        own = [plugin.name for plugin in chosen.enabled]
        rest = [name for name in brought[point] if name not in own]
        for where, names in ((f"{key}.{point}", own), (f"{key}.{_MULTI}", rest)):
            again = {name for name in names if names.count(name) > 1} - said
            for name in sorted(again):
                said.add(name)
                yield Finding(f"{where}.enabled", f"{name} is enabled twice; remove one")


def _counted(points: Mapping[str, tuple[str, ...]], key: str) -> Iterator[Finding]:
    if len(points["queueSort"]) != 1:
        yield Finding(f"{key}.queueSort", "kube-scheduler needs exactly one plugin here")
    if not points["bind"]:
        yield Finding(f"{key}.bind", "kube-scheduler needs a plugin here")
    if len(points["placementGenerate"]) > 1:
        yield Finding(
            f"{key}.placementGenerate",
            "kube-scheduler accepts only one plugin here; remove the others",
        )
