"""What if: a tentative change of the pods of one node, undone at its end."""

from types import TracebackType
from typing import TYPE_CHECKING, Self

from fairlead.model.holders import Holder

if TYPE_CHECKING:
    from fairlead.cluster.cluster import Cluster
    from fairlead.cluster.holdings import Holding


class Draft:
    """Use it in a `with`. Nothing is logged, so no shared answer may be refreshed meanwhile."""

    def __init__(self, cluster: "Cluster", row: int) -> None:
        self._cluster = cluster
        self._row = row
        self._work = cluster.work
        self._done: list[tuple[Holding, int]] = []
        #: Who had GPUs of the node before the first of them was taken away.
        self._holders: tuple[Holder, ...] = ()
        #: Pods of the node that are not there for the time being, by uid.
        self.away: set[str] = set()

    def add(self, held: "Holding") -> None:
        """The pod is there too."""
        self._apply(held, +1)
        self._done.append((held, +1))

    def take(self, held: "Holding") -> None:
        """The pod is not there."""
        if (held.grant or held.shared) and not self._holders:
            self._holders = self._cluster.columns.devices.holders(self._row)
        self._apply(held, -1)
        self._done.append((held, -1))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        while self._done:
            held, sign = self._done.pop()
            self._apply(held, -sign)
        if self._holders:
            self._cluster.columns.devices.reorder(self._row, self._holders)

    def _apply(self, held: "Holding", sign: int) -> None:
        self._work.trials += 1
        (self.away.discard if sign > 0 else self.away.add)(held.pod.uid)
        self._cluster.charge(self._row, held, sign)
