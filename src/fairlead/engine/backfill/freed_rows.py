"""What rows have free at a time in the future, by amounts."""

from collections.abc import Container, Sequence

import numpy as np

from fairlead.cluster.arrays import PerNode
from fairlead.cluster.changes import ANYWHERE, Mark
from fairlead.cluster.cluster import Cluster
from fairlead.cluster.priority_sums import AmountsByRow
from fairlead.engine.backfill.ends import Ends
from fairlead.model.pods import Pod
from fairlead.placement.room_rows import FreeAmounts, PodKind, fitting_pods


class FreedRows:
    """It follows the cluster at the cost of what has changed."""

    def __init__(
        self,
        cluster: Cluster,
        ends: Ends,
        kinds: Sequence[PodKind],
        evictor: Pod,
        until_s: float,
        freed: AmountsByRow,
        mark: Mark,
    ) -> None:
        """`freed` by pods that end until then, as it was at the mark."""
        self._cluster = cluster
        self._ends = ends
        self.kinds = kinds
        self._evictor = evictor
        self._until_s = until_s
        self._freed = freed
        self._mark = mark

    def room(self, now: float, staying: Container[str]) -> list[PerNode] | None:
        """How many pods of each kind each row fits then; None: what there is cannot be compared.

        Pods that are `staying` end later.
        """
        amounts = FreeAmounts(self._cluster, self.kinds, None)
        if amounts.free.shape != self._freed.shape:
            return None
        self._follow(amounts, now, staying)
        free = amounts.free + self._freed
        self._cluster.work.ask(free.size)
        return [
            np.where(kind.rows, fitting_pods(free, needs, kind.count), 0)
            for kind, needs in zip(self.kinds, amounts.needs, strict=True)
        ]

    def _follow(self, amounts: FreeAmounts, now: float, staying: Container[str]) -> None:
        changed = self._cluster.changes.since(self._mark)
        self._mark = self._cluster.changes.mark
        everywhere = changed is None or ANYWHERE in changed
        rows = self._cluster.row_of.values() if everywhere or changed is None else changed
        for row in rows:
            self._freed[:, row] = self._freed_on(row, amounts, now, staying)

    def _freed_on(
        self, row: int, amounts: FreeAmounts, now: float, staying: Container[str]
    ) -> list[int]:
        found = [0] * len(amounts.names)
        node = self._cluster.columns.nodes[row]
        for held in self._cluster.held_on(node.name) if node else ():
            self._cluster.work.pods += 1
            end = self._ends.of(held, now, self._evictor)
            if end is not None and end.at_s <= self._until_s and held.pod.uid not in staying:
                found = [a + b for a, b in zip(found, amounts.taken_by(held), strict=True)]
        return found


def is_enough(room: Sequence[PerNode], kinds: Sequence[PodKind]) -> bool:
    """Whether there is room for all pods of each kind, each kind by itself."""
    return all(int(each.sum()) >= kind.count for each, kind in zip(room, kinds, strict=True))
