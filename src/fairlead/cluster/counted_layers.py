"""The layers of a counted resource: which nodes each covers, and how many there are of it."""

from collections import Counter
from collections.abc import Iterator, Mapping
from sys import intern

from fairlead.cluster.layer_rows import LayerRows
from fairlead.model.counted import CountedLayer, CountedResource

#: Layers by value of a label; nodes with other values are not limited by it.
MOST_VALUES = 4096


class CountedLayers:
    def __init__(self, spec: CountedResource) -> None:
        self.rows = LayerRows()
        #: On how many nodes each value of a label is.
        self._nodes: Counter[str] = Counter()
        self.renumber(spec)
        for layer in spec.layers:
            if not layer.label:
                self.rows.add(layer.name)
        #: Layers and their places, by a label that nodes must have, and its value (None: any).
        self._by_label: dict[str, dict[str | None, list[tuple[int, CountedLayer]]]] = {}
        for place, layer in enumerate(spec.layers):
            for key, value in (*layer.selector, (layer.label, None))[:1]:
                self._by_label.setdefault(key, {}).setdefault(value, []).append((place, layer))

    def renumber(self, spec: CountedResource) -> None:
        """The same layers have these numbers."""
        self._layers = {layer.name: layer for layer in spec.layers}
        self._counts = {layer.name: dict(layer.counts) for layer in spec.layers}

    def known(self) -> list[str]:
        """The names of all layers; of those by value of a label, of values that nodes have."""
        return [*(name for name, layer in self._layers.items() if not layer.label), *self._nodes]

    def has(self, name: str) -> bool:
        """Whether there may be such a layer, on whatever nodes."""
        definition, _, value = name.partition("/")
        layer = self._layers.get(definition)
        return layer is not None and bool(layer.label) == bool(value)

    def count_of(self, name: str) -> int:
        """What pods may have of it; 0 if there is no such layer any more."""
        definition, _, value = name.partition("/")
        layer = self._layers.get(definition)
        if layer is None:
            return 0
        return self._counts[definition].get(value, layer.count) - layer.base

    def covering(self, row: int | None) -> tuple[str, ...]:
        """The layers of a row, those above them included; None: of a node that is gone."""
        return () if row is None else self.rows.names(row)

    def put_node(self, row: int, labels: Mapping[str, str] | None) -> list[str]:
        """The node of the row has these labels; None: it is gone. Returns layers that are new."""
        for each in self.rows.names(row):
            if each in self._nodes:
                self._leave(each)
        found = self._named(labels) if labels is not None else ()
        new = [each for each in found if each not in self.rows.places]
        for each in new:
            self.rows.add(each)
        self.rows.put(row, found)
        return new

    def _leave(self, name: str) -> None:
        self._nodes[name] -= 1
        if not self._nodes[name]:
            del self._nodes[name]
            self.rows.remove(name)

    def _named(self, labels: Mapping[str, str]) -> tuple[str, ...]:
        found: dict[str, None] = {}
        for layer in self._matching(labels):
            name = layer.name
            if layer.label:
                name = intern(f"{name}/{labels[layer.label]}")  # thousands of nodes have the same
                if name not in self._nodes and len(self._nodes) >= MOST_VALUES:
                    continue
                self._nodes[name] += 1
            found[name] = None
            above = self._layers.get(layer.parent)
            while above is not None and above.name not in found:
                found[above.name] = None
                above = self._layers.get(above.parent)
        return tuple(found)

    def _matching(self, labels: Mapping[str, str]) -> Iterator[CountedLayer]:
        """In the order of the object."""
        found: list[tuple[int, CountedLayer]] = []
        for key, by_value in self._by_label.items():
            value = labels.get(key)
            if value is not None:
                found += by_value.get(None, ())
                found += by_value.get(value, ())
        return (layer for _, layer in sorted(found, key=_place) if _covers(layer, labels))


def _place(each: tuple[int, CountedLayer]) -> int:
    return each[0]


def _covers(layer: CountedLayer, labels: Mapping[str, str]) -> bool:
    if layer.label and not labels.get(layer.label):
        return False
    return all(labels.get(key) == value for key, value in layer.selector)
