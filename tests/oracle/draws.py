"""Draws of lots, and the few words that generated objects use, so that they often meet."""

import random
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from oracle.case import Object

T = TypeVar("T")

ZONE = "topology.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"
HOST = "kubernetes.io/hostname"
RACK = "rack"
TOPOLOGIES = (ZONE, HOST, RACK, REGION)

#: What pods are labelled with.
POD_WORDS: Mapping[str, tuple[str, ...]] = {
    "app": ("web", "db", "cache"),
    "tier": ("front", "back"),
    "version": ("v1", "v2"),
}
#: What namespaces are labelled with.
NAMESPACE_WORDS: Mapping[str, tuple[str, ...]] = {"env": ("prod", "dev"), "owner": ("red", "blue")}


class Draw(random.Random):
    """Lots. The same seed draws the same."""

    def chance(self, share: float) -> bool:
        return self.random() < share

    def one(self, things: Sequence[T]) -> T:
        return things[self.randrange(len(things))]

    def some(self, things: Sequence[T], least: int, most: int) -> list[T]:
        """Different ones of these, in their order."""
        most = min(most, len(things))
        picked = self.sample(range(len(things)), self.randint(min(least, most), most))
        return [things[index] for index in sorted(picked)]

    def weighted(self, weights: Mapping[T, float]) -> T:
        return self.choices(list(weights), list(weights.values()))[0]


def some_labels(draw: Draw, words: Mapping[str, tuple[str, ...]], share: float) -> dict[str, str]:
    return {key: draw.one(values) for key, values in words.items() if draw.chance(share)}


def selector(draw: Draw, words: Mapping[str, tuple[str, ...]], exact: float = 0.6) -> Object:
    """A label selector; `exact` of them are plain matchLabels, some mean everything."""
    if draw.chance(exact):
        key = draw.one(list(words))
        return {"matchLabels": {key: draw.one(words[key])}}
    if draw.chance(0.12):
        return {}
    return {"matchExpressions": [_line(draw, words) for _ in range(draw.randint(1, 2))]}


def _line(draw: Draw, words: Mapping[str, tuple[str, ...]]) -> dict[str, Any]:
    key = draw.one(list(words))
    operator = draw.one(("In", "NotIn", "Exists", "DoesNotExist"))
    if operator in ("Exists", "DoesNotExist"):
        return {"key": key, "operator": operator}
    return {"key": key, "operator": operator, "values": draw.some(words[key], 1, 2)}
