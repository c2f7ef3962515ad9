"""The layers of a counted resource: which nodes each covers, and how many there are of it."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from fairlead.cluster.arrays import NodeMask
from fairlead.model.counted import CountedLayer, CountedResource

if TYPE_CHECKING:
    from fairlead.cluster.cluster import Cluster

#: Layers by value of a label; nodes with other values are not limited by it.
MOST_VALUES = 4096


class CountedLayers:
    def __init__(self, spec: CountedResource) -> None:
        self._layers = {layer.name: layer for layer in spec.layers}
        self._counts = {layer.name: dict(layer.counts) for layer in spec.layers}
        self._masks: dict[str, NodeMask] | None = None
        #: Layers by value of a label that a node has had.
        self._seen: dict[str, None] = {}

    def known(self) -> list[str]:
        """The names of all layers; of those by value of a label, of values that nodes have had."""
        return [*(name for name, layer in self._layers.items() if not layer.label), *self._seen]

    def count_of(self, name: str) -> int:
        """What pods may have of it; 0 if there is no such layer any more."""
        definition, _, value = name.partition("/")
        layer = self._layers.get(definition)
        if layer is None:
            return 0
        return self._counts[definition].get(value, layer.count) - layer.base

    def covering(self, labels: Mapping[str, str]) -> tuple[str, ...]:
        """The layers of a node, those above them included."""
        found: dict[str, None] = {}
        for layer in self._layers.values():
            name = _name_on(layer, labels)
            if name and layer.label and name not in self._seen:
                if len(self._seen) >= MOST_VALUES:
                    continue
                self._seen[name] = None
            if name:
                found[name] = None
                above = self._layers.get(layer.parent)
                while above is not None and above.name not in found:
                    found[above.name] = None
                    above = self._layers.get(above.parent)
        return tuple(found)

    def masks(self, cluster: "Cluster") -> dict[str, NodeMask]:
        """The rows of each layer that has any."""
        size = cluster.columns.size
        if self._masks is None or any(len(mask) != size for mask in self._masks.values()):
            self._masks = {}
            for row in cluster.row_of.values():
                for name in self.covering(cluster.node_at(row).labels):
                    if name not in self._masks:
                        self._masks[name] = np.zeros(size, dtype=np.bool_)
                    self._masks[name][row] = True
        return self._masks

    def forget_masks(self) -> None:
        self._masks = None


def _name_on(layer: CountedLayer, labels: Mapping[str, str]) -> str:
    """Its name on a node with these labels; empty if it does not cover the node."""
    if any(labels.get(key) != value for key, value in layer.selector):
        return ""
    if not layer.label:
        return layer.name if layer.selector else ""
    value = labels.get(layer.label, "")
    return f"{layer.name}/{value}" if value else ""
