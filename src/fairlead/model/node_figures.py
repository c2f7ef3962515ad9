"""Figures about nodes that goals count: what they cost, draw and emit.

Figures come as lists, one for each source, and the first list that has a figure for a node counts.
A list has rules: a node that has all properties of a rule has its figure. Of a list, the figure of
the node and the figure of each of its GPUs add up, as in a price sheet of OpenCost.
"""

import math
from enum import StrEnum

from fairlead.model.capacity_types import capacity_type
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.nodes import GPU, Node


class Figure(StrEnum):
    PRICE = "price"  #: money for an hour
    WATTS = "watts"
    CARBON = "carbon"  #: grams of CO2 for a kWh
    BANDWIDTH = "bandwidth"  #: MB/s at which the node fetches data


#: What a rule may ask about, besides labels and annotations.
NAME, PROVIDER_ID, CAPACITY, MODEL = (
    "metadata.name", "spec.providerID", "capacityType", "model",
)  # fmt: skip
LABEL, ANNOTATION = "metadata.labels.", "metadata.annotations."

#: Beyond this, a figure is an error: no node costs a million for an hour, or draws a megawatt.
HIGHEST = 1e6


def is_sane(figure: float) -> bool:
    return math.isfinite(figure) and 0 <= figure <= HIGHEST


@dataclass(frozen=True, slots=True)
class FigureRule:
    #: Properties and their values, which are compared without case.
    match: tuple[tuple[str, str], ...]
    figure: float
    #: The figure is that of each GPU.
    per_gpu: bool = False
    #: Only if the model of its GPUs contains this; empty: whatever the model.
    model: str = ""


@dataclass(frozen=True, slots=True)
class FigureList:
    source: str
    rules: tuple[FigureRule, ...] = ()
    #: A label of nodes that has the figure; empty: none.
    label: str = ""


@dataclass(slots=True)
class FigureIndex:
    """One list, so that a node finds its rules without a look at all of them."""

    source: str
    label: str
    #: For nodes and for GPUs: by properties, by their values, the rules and their places.
    _rules: tuple[dict[tuple[str, ...], dict[tuple[str, ...], list[tuple[int, FigureRule]]]], ...]

    @classmethod
    def of(cls, told: FigureList) -> "FigureIndex":
        found: FigureIndex = cls(told.source, told.label, ({}, {}))
        for place, rule in enumerate(told.rules):
            match = sorted((key, value.lower()) for key, value in rule.match)
            keys, values = tuple(key for key, _ in match), tuple(value for _, value in match)
            by_values = found._rules[rule.per_gpu].setdefault(keys, {})
            by_values.setdefault(values, []).append((place, rule))
        return found

    def figure(self, node: Node, gpus: int) -> float | None:
        """Of a node with so many GPUs; None if the list has none."""
        if self.label:
            return _number(node.labels.get(self.label))
        of_node, of_gpu = (self._first(node, per_gpu) for per_gpu in (False, True))
        if of_node is None and (of_gpu is None or not gpus):
            return None
        return (of_node.figure if of_node else 0.0) + (of_gpu.figure * gpus if of_gpu else 0.0)

    def _first(self, node: Node, per_gpu: bool) -> FigureRule | None:
        best: tuple[int, FigureRule] | None = None
        for keys, by_values in self._rules[per_gpu].items():
            for place, rule in by_values.get(tuple(property_of(node, key) for key in keys), ()):
                if (best is None or place < best[0]) and rule.model.lower() in model_of(node):
                    best = place, rule
        return best[1] if best else None


def _number(text: str | None) -> float | None:
    try:
        found = float(text) if text else math.nan
    except ValueError:
        return None
    return found if is_sane(found) else None


def property_of(node: Node, key: str) -> str:
    """In lower case; empty where the node has no such property."""
    if key.startswith(LABEL):
        return node.labels.get(key.removeprefix(LABEL), "").lower()
    if key.startswith(ANNOTATION):
        return node.annotations.get(key.removeprefix(ANNOTATION), "").lower()
    if key == NAME:
        return node.name.lower()
    return capacity_type(node.labels).word if key == CAPACITY else _instance_id(node.provider_id)


def _instance_id(provider_id: str) -> str:
    """Without the zone, as price sheets have it: `aws:///zone/i-1` is `i-1`."""
    scheme, _, rest = provider_id.partition(":///")
    return (rest.rpartition("/")[2] if scheme == "aws" else provider_id).lower()


def model_of(node: Node) -> str:
    """The model of its GPUs, in lower case; empty if it is not known."""
    gpus = node.inventory.gpus if node.inventory else ()
    found = gpus[0].model if gpus else node.labels.get("nvidia.com/gpu.product", "")
    return found.lower()


def node_gpu_count(node: Node) -> int:
    return len(node.inventory.gpus) if node.inventory else dict(node.allocatable).get(GPU, 0)


@dataclass(frozen=True, slots=True)
class SeenFigures:
    """All lists of one figure, in order."""

    figure: Figure
    lists: tuple[FigureList, ...] = ()
