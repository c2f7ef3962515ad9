"""Named readings as columns that goals, filters and rules read; made only if a source has some."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from fairlead.cluster.arrays import NodeScores
from fairlead.cluster.aspects import Aspect
from fairlead.cluster.changes import ANYWHERE
from fairlead.cluster.data_sets import put_data
from fairlead.model.gpus import Inventory
from fairlead.model.named_readings import ReadingTerms, SeenReading

if TYPE_CHECKING:
    from fairlead.cluster.cluster import Cluster

#: (rows, places): one place for a reading of nodes, a slot for each GPU otherwise.
Values = npt.NDArray[np.float64]
#: Above this share of the nodes, one entry in the log of changes stands for all.
_MANY = 0.25


class _Reading:
    """One reading: all of its values by key, and those of the nodes that are there, by row."""

    def __init__(self, terms: ReadingTerms) -> None:
        self.terms = terms
        self.values: dict[str, float] = {}
        self._column: Values = np.full((0, 1), math.nan)
        self._median: float | None = 0.0

    def put(self, seen: SeenReading) -> None:
        self.terms = seen.terms
        self.values |= seen.values
        for key in seen.gone:
            self.values.pop(key, None)
        self._median = None if self.values else 0.0

    @property
    def median(self) -> float:
        """Computed when it is asked for: values come in many parts."""
        if self._median is None:
            self._median = float(np.median(list(self.values.values())))
        return self._median

    def keys(self, node: str, inventory: Inventory | None) -> Sequence[str]:
        """In the order of the places of a row."""
        if not self.terms.by_gpu:
            return (node,)
        return tuple(gpu.uuid for gpu in inventory.gpus) if inventory else ()

    def put_row(self, row: int, keys: Sequence[str]) -> None:
        self._fit(row + 1, len(keys))
        self._column[row] = math.nan
        self._column[row, : len(keys)] = [self.values.get(key, math.nan) for key in keys]

    def column(self, rows: int, places: int) -> Values:
        """For the first rows; with the fallback, if there is one."""
        self._fit(rows, places)
        found = self._column[:rows, :places]
        fallback = self.terms.fallback
        return found if fallback is None else np.where(np.isnan(found), fallback, found)

    def _fit(self, rows: int, places: int) -> None:
        has_rows, has_places = self._column.shape
        if rows > has_rows or places > has_places:
            wider = np.full((max(rows, 2 * has_rows), max(places, has_places)), math.nan)
            wider[:has_rows, :has_places] = self._column
            self._column = wider


class NamedReadings:
    """Plain storage; `Columns` keeps it in step with the nodes and their GPUs."""

    def __init__(self) -> None:
        self._by_name: dict[str, _Reading] = {}

    def __bool__(self) -> bool:
        return bool(self._by_name)

    @property
    def seen(self) -> Iterable[SeenReading]:
        """All values of all readings."""
        return [SeenReading(each.terms, dict(each.values)) for each in self._by_name.values()]

    def put(self, seen: SeenReading, rows: Iterable[tuple[int, str, Inventory | None]]) -> set[int]:
        """New values; returns which of the rows they are of."""
        reading = self._by_name.setdefault(seen.terms.name, _Reading(seen.terms))
        reading.put(seen)
        changed, found = {*seen.values, *seen.gone}, set()
        for row, node, inventory in rows:
            keys = reading.keys(node, inventory)
            if not changed.isdisjoint(keys):
                reading.put_row(row, keys)
                found.add(row)
        return found

    def put_row(self, row: int, node: str, inventory: Inventory | None) -> None:
        """The node of a row, or its GPUs, are new or have changed; empty: there is none."""
        for reading in self._by_name.values():
            reading.put_row(row, reading.keys(node, inventory) if node else ())

    def values(self, name: str) -> Mapping[str, float]:
        """By key, without fallback."""
        found = self._by_name.get(name)
        return found.values if found else {}

    def is_of_gpus(self, name: str) -> bool:
        found = self._by_name.get(name)
        return found is not None and found.terms.by_gpu

    def median(self, name: str) -> float:
        """Of all values; 0 if there is none."""
        found = self._by_name.get(name)
        return found.median if found else 0.0

    def of_nodes(self, name: str, size: int) -> NodeScores:
        """By row; NaN without value and fallback."""
        found = self._by_name.get(name)
        return np.full(size, math.nan) if found is None else found.column(size, 1)[:, 0]

    def of_gpus(self, name: str, size: int, slots: int) -> Values:
        """By row and slot."""
        found = self._by_name.get(name)
        return np.full((size, slots), math.nan) if found is None else found.column(size, slots)

    def seen_of(self, key: str, *, by_gpu: bool) -> dict[str, float]:
        """What rules see of a node, or of a GPU."""
        found = {
            each.terms.name: each.values.get(key, each.terms.fallback)
            for each in self._by_name.values()
            if each.terms.by_gpu == by_gpu
        }
        return {name: value for name, value in found.items() if value is not None}


def put_named_reading(cluster: "Cluster", seen: SeenReading) -> None:
    """Values of a reading; answers that read it are computed again for the nodes concerned."""
    columns = cluster.columns
    inventories = columns.devices.inventories
    there = ((row, node, inventories.get(row)) for node, row in cluster.row_of.items())
    rows = columns.readings.put(seen, there)
    for row in {ANYWHERE} if len(rows) > _MANY * columns.size else rows:
        cluster.changes.add(row, Aspect.READINGS)
    cluster.improved.add(Aspect.READINGS)


def carry_feeds(old: "Cluster", new: "Cluster") -> None:
    """What came from outside of the API server is not shown again: it is kept."""
    for seen in old.columns.figures.seen:
        new.put_figures(seen)
    for reading in old.columns.readings.seen:
        put_named_reading(new, reading)
    for data in old.columns.data.seen:
        put_data(new, data)
