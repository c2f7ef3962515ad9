"""The part of the configuration about topology: the levels, the widest first."""

from collections.abc import Iterator
from difflib import get_close_matches
from typing import Annotated

import msgspec

from fairlead.apps.config.findings import Finding
from fairlead.base.names import label_name_problems
from fairlead.model.errors import ConfigError
from fairlead.model.topology import (
    HOSTNAME,
    KNOWN,
    MOST_LEVELS,
    Topology,
    TopologyLevel,
    level_labels,
    short,
)


class LevelConfig(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    node_label: str
    #: By which rules may name it; without one, what is behind the slash of the label.
    name: Annotated[str, msgspec.Meta(max_length=63)] = ""


class TopologyConfig(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    #: Without levels, those that the labels of nodes show.
    levels: list[str | LevelConfig] = msgspec.field(default_factory=list)

    def topology(self) -> Topology:
        """Raises ConfigError for levels that make no tree."""
        if len(self.levels) > MOST_LEVELS:
            raise ConfigError(
                f"topology.levels has {len(self.levels)} levels; the limit is {MOST_LEVELS}"
            )
        levels = [_level(place, each) for place, each in enumerate(self.levels)]
        if levels and levels[-1].label == HOSTNAME:
            del levels[-1]  # single nodes are always the last level
        _refuse_duplicates(levels)
        _refuse_wrong_order([level.label for level in levels])
        return Topology(tuple(levels))

    def warnings(self) -> Iterator[Finding]:
        known = level_labels()
        for place, each in enumerate(self.levels):
            label = each if isinstance(each, str) else each.node_label
            like = get_close_matches(label, known, 1, 0.9)
            if like and label not in known:
                yield Finding(f"topology.levels[{place}]", f"{label} is similar to {like[0]}")


def _level(place: int, found: str | LevelConfig) -> TopologyLevel:
    config = LevelConfig(found) if isinstance(found, str) else found
    if problems := label_name_problems(config.node_label[:512]):
        raise ConfigError(
            f"topology.levels[{place}]: {config.node_label[:64]!r} is not the key of a node label: "
            f"{problems[0]}; write for example topology.kubernetes.io/zone"
        )
    return TopologyLevel(config.node_label, config.name)


def _refuse_duplicates(levels: list[TopologyLevel]) -> None:
    labels: set[str] = set()
    names: set[str] = set()
    for place, level in enumerate(levels):
        name = level.name or short(level.label)
        if level.label in labels or name in names:
            raise ConfigError(
                f"topology.levels[{place}]: another level is {level.label!r} or is named {name!r}; "
                "write each level once, and give levels different names with name"
            )
        if level.label == HOSTNAME:
            raise ConfigError(
                f"topology.levels[{place}]: {HOSTNAME} must be the last level; "
                "the widest level is the first"
            )
        labels.add(level.label)
        names.add(name)


def _refuse_wrong_order(labels: list[str]) -> None:
    for known in (
        ("topology.kubernetes.io/region", "topology.kubernetes.io/zone"),
        *KNOWN.values(),
    ):
        found = [label for label in labels if label in known]
        right = sorted(found, key=known.index)
        if found != right:
            raise ConfigError(
                "topology.levels has the widest level last; write the widest first: "
                + ", ".join(right)
            )
