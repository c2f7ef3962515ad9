"""What nodes would have to fetch for a pod: images and data that they do not have."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from fairlead.cluster.arrays import NodeScores
from fairlead.cluster.aspects import Aspect
from fairlead.cluster.changes import ANYWHERE
from fairlead.model.data_sets import CACHED, DataItem, DataSet, NodeData, data_size_bytes
from fairlead.model.sizes import Kept, weigh

if TYPE_CHECKING:
    from fairlead.cluster.cluster import Cluster
    from fairlead.cluster.columns import Columns

#: Of vectors that are kept, and of sets of data: objects beyond these are not counted.
_KEPT_BYTES = 16 << 20
_MOST_SETS = 20_000
_ALL = slice(None)

#: What a pod reads: its images, the prefix of labels of nodes, and its data.
Wanted = tuple[tuple[str, ...], str, tuple[DataItem, ...]]


class DataSets:
    """Plain storage. Bytes are computed again when a node or a set of data has changed."""

    def __init__(self) -> None:
        self._sets: dict[str, DataSet] = {}
        self._on_nodes: dict[str, frozenset[str]] = {}
        self._nodes_with: dict[str, set[str]] = {}
        self._kept: Kept[Wanted, NodeScores] = Kept(_KEPT_BYTES)
        self._kept_at = 0
        #: Grows with every change of nodes and of data.
        self.version = 0

    @property
    def seen(self) -> Iterable[DataSet | NodeData]:
        yield from self._sets.values()
        for node, keys in self._on_nodes.items():
            yield NodeData(node, keys)

    def put(self, seen: DataSet | NodeData) -> None:
        self.version += 1
        if isinstance(seen, NodeData):
            self._put_node(seen)
        elif not seen.size_bytes:
            self._sets.pop(seen.key, None)
        elif seen.key in self._sets or len(self._sets) < _MOST_SETS:
            self._sets[seen.key] = seen

    def _put_node(self, seen: NodeData) -> None:
        for key in self._on_nodes.pop(seen.node, ()):
            self._nodes_with[key].discard(seen.node)
            if not self._nodes_with[key]:
                del self._nodes_with[key]
        if seen.keys:
            self._on_nodes[seen.node] = seen.keys
        for key in seen.keys:
            self._nodes_with.setdefault(key, set()).add(seen.node)

    def missing_bytes(self, wanted: Wanted, columns: "Columns") -> NodeScores:
        """What each row would have to fetch; what has no known size is not counted."""
        if self._kept_at != self.version:
            self._kept.clear()
            self._kept_at = self.version
        found = self._kept.get(wanted)
        if found is None or len(found) != columns.size:
            found = self._add_up(wanted, columns)
            self._kept.keep(wanted, found, weigh(wanted, found))
        return found

    def _add_up(self, wanted: Wanted, columns: "Columns") -> NodeScores:
        images, prefix, items = wanted
        missing = np.zeros(columns.size)
        for image in dict.fromkeys(images):
            sizes = columns.images.sizes_bytes(image, columns.size)
            missing += np.where(sizes > 0, 0, sizes.max(initial=0))
        for key, declared_bytes in dict.fromkeys(items):
            missing += self._missing_of(key, declared_bytes, prefix, columns)
        return missing

    def _missing_of(
        self, key: str, declared_bytes: int, prefix: str, columns: "Columns"
    ) -> NodeScores:
        if key.startswith(CACHED):
            here = _by_label(prefix + key.removeprefix(CACHED), columns) if prefix else None
            if here is None:
                return np.zeros(columns.size)
            whole = declared_bytes or _largest(here)
            return np.maximum(whole - here, 0.0)
        known = self._sets.get(key)
        whole = known.size_bytes if known else declared_bytes
        here = self._here(key, known, whole, columns)
        return np.maximum(whole - here, 0.0)

    def _here(
        self, key: str, known: DataSet | None, whole: float, columns: "Columns"
    ) -> NodeScores:
        here = np.zeros(columns.size)
        rows = [
            columns.row_of[name] for name in self._nodes_with.get(key, ()) if name in columns.row_of
        ]
        here[rows] = whole
        if known and known.label and known.cached_bytes:
            sharing = columns.label(known.label).exists(_ALL)[: columns.size]
            here[sharing] = known.cached_bytes / max(1, int(np.count_nonzero(sharing)))
        return here


def _by_label(label: str, columns: "Columns") -> NodeScores:
    """The amounts in a label of nodes; `true` is all of it."""
    column = columns.label(label)
    amounts = np.zeros(max(column.code_of.values(), default=-1) + 2)
    for value, code in column.code_of.items():
        amounts[code] = np.inf if value.lower() == "true" else data_size_bytes(value)
    found: NodeScores = amounts[column.codes(_ALL)[: columns.size]]  # code -1 reads the end
    return found


def _largest(amounts: NodeScores) -> float:
    there = amounts[np.isfinite(amounts)]
    return float(there.max(initial=0.0))


def put_data(cluster: "Cluster", seen: DataSet | NodeData) -> None:
    """A set of data, or what a node has; goals count again."""
    cluster.columns.data.put(seen)
    cluster.changes.add(ANYWHERE, Aspect.FIGURES)
    cluster.improved.add(Aspect.FIGURES)
