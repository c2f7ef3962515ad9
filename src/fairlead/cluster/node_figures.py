"""What nodes cost, draw and emit, as columns that goals read; made only if a source says it."""

from collections.abc import Iterable, Sequence

import numpy as np

from fairlead.cluster.arrays import NodeScores
from fairlead.model.node_figures import Figure, FigureIndex, SeenFigures, is_sane, node_gpu_count
from fairlead.model.nodes import Node


class NodeFigures:
    """Plain storage; `Cluster` keeps it in step with the nodes."""

    def __init__(self) -> None:
        self._seen: dict[Figure, SeenFigures] = {}
        self._indices: dict[Figure, list[FigureIndex]] = {}
        #: By figure and row; NaN where it is not known. May be shorter than there are rows.
        self._known: dict[Figure, NodeScores] = {}
        #: The same, with the median where it is not known.
        self._columns: dict[Figure, NodeScores] = {}
        self._medians: dict[Figure, float] = {}

    @property
    def seen(self) -> Iterable[SeenFigures]:
        return self._seen.values()

    def __bool__(self) -> bool:
        return bool(self._seen)

    def put(self, seen: SeenFigures, nodes: Sequence[Node | None]) -> None:
        """The lists of one figure, for all rows."""
        figure = seen.figure
        self._seen[figure] = seen
        self._indices[figure] = [FigureIndex.of(each) for each in seen.lists]
        known = np.full(len(nodes), np.nan)
        for row, node in enumerate(nodes):
            if node is not None:
                known[row] = self._find(figure, node)[0]
        self._known[figure] = known
        self._medians[figure] = _median(known)
        self._columns[figure] = np.where(np.isnan(known), self._medians[figure], known)

    def put_node(self, row: int, node: Node) -> None:
        """The node of a row is new, or has changed. The median stays until lists come."""
        for figure in self._seen:
            self._fit(figure, row + 1)
            found, _ = self._find(figure, node)
            self._known[figure][row] = found
            self._columns[figure][row] = self._medians[figure] if np.isnan(found) else found

    def column(self, figure: Figure, size: int) -> NodeScores:
        """For the first rows, so many."""
        if figure not in self._columns:
            return np.zeros(size)
        self._fit(figure, size)
        return self._columns[figure][:size]

    def known(self, figure: Figure, size: int) -> NodeScores:
        """The same, with NaN where it is not known."""
        if figure not in self._known:
            return np.full(size, np.nan)
        self._fit(figure, size)
        return self._known[figure][:size]

    def source_of(self, figure: Figure, node: Node) -> str:
        """Which list has the figure of the node; empty if none."""
        return self._find(figure, node)[1]

    def _fit(self, figure: Figure, rows: int) -> None:
        known, more = self._known[figure], rows - len(self._known[figure])
        if more > 0:
            more = max(more, len(known))
            self._known[figure] = np.concatenate([known, np.full(more, np.nan)])
            filled = np.full(more, self._medians[figure])
            self._columns[figure] = np.concatenate([self._columns[figure], filled])

    def _find(self, figure: Figure, node: Node) -> tuple[float, str]:
        gpus = node_gpu_count(node)
        for index in self._indices[figure]:
            found = index.figure(node, gpus)
            if found is not None and is_sane(found):
                return found, index.source
        return np.nan, ""


def _median(known: NodeScores) -> float:
    there = known[~np.isnan(known)]
    return float(np.median(there)) if len(there) else 0.0
