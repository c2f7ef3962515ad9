"""`readings:` of the configuration: numbers about nodes or GPUs, from any Prometheus query.

readings:
  - name: gpu-temperature
    url: http://prometheus.monitoring.svc:9090
    query: max by (UUID) (DCGM_FI_DEV_GPU_TEMP)
    by: gpu
    unit: C
    range: [0, 120]
    fallback: 60
"""

import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Literal
from urllib.parse import urlsplit

import msgspec

from fairlead.apps.config.findings import Finding
from fairlead.apps.config.rules_config import RuleConfig, node_rules
from fairlead.base.durations import seconds
from fairlead.model.errors import ConfigError
from fairlead.model.named_readings import MOST_READINGS, ReadingTerms
from fairlead.placement.profile import Profile
from fairlead.plugins.api import Plugin
from fairlead.plugins.named_readings import GpuReadingScore
from fairlead.plugins.rules import NodeRules, RulesOfReadings

if TYPE_CHECKING:
    from fairlead.telemetry.figures.reading_sources import ReadingPlan

#: So that it can be a name in a metric's label and in an expression.
_NAME = r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"
#: A reading in an expression: node.readings["x"], gpu.readings[?"x"], readings.x.
_READ = re.compile(r"""readings\s*(?:\[\s*(\??)\s*(['"])(.*?)\2|\.(\??)(\w+))""")
_STEPS = 100
#: What to use for a reading of GPUs.
_OF_GPUS = {
    "ReadingLimit": 'use a rule such as gpus.exists(g, g.readings["x"] < 80.0)',
    "ReadingScore": "use GpuReadingScore",
}


class ReadingConfig(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    name: Annotated[str, msgspec.Meta(pattern=_NAME)]
    url: str
    query: Annotated[str, msgspec.Meta(min_length=1, max_length=4096)]
    by: Literal["node", "gpu"] = "node"
    label: Annotated[str, msgspec.Meta(max_length=128)] = ""
    unit: Annotated[str, msgspec.Meta(max_length=16)] = ""
    range: tuple[float, float] | None = None
    fallback: float | None = None
    step: Annotated[float, msgspec.Meta(ge=0)] | None = None
    token_file: str = ""
    ca_file: str = ""
    every: str = "15s"
    timeout: str = "5s"
    max_age: str = "5m"

    def plan(self) -> "ReadingPlan":
        from fairlead.telemetry.figures.reading_sources import ReadingPlan  # where there is one

        """Raises ConfigError."""
        if urlsplit(self.url).scheme not in ("http", "https"):
            raise ConfigError(f"{self.url!r} is not a valid URL; use http://… or https://…")
        lowest, highest = self.range or (-math.inf, math.inf)
        if lowest >= highest:
            raise ConfigError(f"range is {lowest:g} to {highest:g}; write the lower end first")
        if self.fallback is not None and not lowest <= self.fallback <= highest:
            raise ConfigError(f"fallback {self.fallback:g} is out of range; write one within it")
        usual = (highest - lowest) / _STEPS if self.range else 0.0
        return ReadingPlan(
            ReadingTerms(self.name, self.unit, self.by == "gpu", self.fallback),
            self.url,
            self.query,
            self.label,
            lowest,
            highest,
            usual if self.step is None else self.step,
            self.token_file,
            self.ca_file,
            _time("timeout", self.timeout, 0.1),
            _time("every", self.every, 1.0),
            _time("maxAge", self.max_age, 1.0),
        )


def reading_plans(found: Sequence[ReadingConfig]) -> "tuple[ReadingPlan, ...]":
    """Raises ConfigError."""
    if len(found) > MOST_READINGS:
        raise ConfigError(f"there are {len(found)} readings; write at most {MOST_READINGS}")
    names = [each.name for each in found]
    if twice := [name for name in names if names.count(name) > 1]:
        raise ConfigError(f"two readings have the name {twice[0]!r}; rename one")
    plans = []
    for each in found:
        try:
            plans.append(each.plan())
        except ConfigError as error:
            raise ConfigError(f"reading {each.name!r}: {error}") from None
    return tuple(plans)


def names_read(expression: str) -> set[str]:
    """Readings that an expression names."""
    return {name for name, _ in _read(expression)}


def ruled_by(
    rules: Sequence[RuleConfig], readings: Sequence[ReadingConfig], *, user_rules: bool
) -> NodeRules:
    """The filter of all rules. Raises ConfigError if one reads what is not configured."""
    known = {each.name for each in readings}
    for rule in rules:
        for name in sorted(names_read(rule.nodes)):
            check_name(f"rule {rule.name!r}", name, known)
    reads = bool(known) and (user_rules or any(names_read(rule.nodes) for rule in rules))
    return (RulesOfReadings if reads else NodeRules)(node_rules(rules), user_rules)


def check_plugins(profiles: Mapping[str, Profile], readings: Sequence[ReadingConfig]) -> None:
    """Raises ConfigError if a plugin of a profile reads what is not configured."""
    by = {each.name: each.by for each in readings}
    for name, profile in profiles.items():
        goals = profile.goals.all if profile.goals else ()
        for plugin in (*profile.filters, *(score for score, _ in profile.scores), *goals):
            for read in getattr(plugin, "readings", ()):
                check_name(f"profile of {name!r}: {plugin.name}", read, by)
                if hint := _other_kind(plugin, by[read]):
                    raise ConfigError(f"profile of {name!r}: {read!r} is by {by[read]}; {hint}")


def _other_kind(plugin: Plugin, by: str) -> str:
    if by == "gpu":
        return _OF_GPUS.get(plugin.name, "")
    return "use ReadingScore" if isinstance(plugin, GpuReadingScore) else ""


def check_name(place: str, name: str, known: Collection[str]) -> None:
    if name not in known:
        there = ", ".join(sorted(known)) or "none"
        raise ConfigError(f"{place} reads {name!r}, which is no reading; there are: {there}")


def reading_warnings(
    rules: Sequence[RuleConfig], readings: Sequence[ReadingConfig]
) -> Iterator[Finding]:
    bare = {each.name for each in readings if each.fallback is None}
    for rule in rules:
        for name, optional in _read(rule.nodes):
            if name in bare and not optional:
                yield Finding(
                    f"rules.{rule.name}",
                    f"the reading {name} has no fallback, so the rule refuses nodes without a "
                    f'value; set a fallback, or write readings[?"{name}"].orValue(…)',
                )


def _read(expression: str) -> Iterator[tuple[str, bool]]:
    for mark, _, name, dotted_mark, dotted in _READ.findall(expression):
        yield name or dotted, bool(mark or dotted_mark)


def _time(key: str, text: str, least_s: float) -> float:
    found = seconds(text)
    if found is None or found < least_s:
        raise ConfigError(f"{key}: {text!r} is too short, or not a time; use a value such as 15s")
    return found
