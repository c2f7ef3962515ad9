"""What each queue has used so far, those beneath it included."""

from collections.abc import Iterable

from fairlead.model.queues import GPUS, PastUse
from fairlead.queue.quotas.past_use import UseMeter
from fairlead.queue.quotas.sums import TreeSums
from fairlead.queue.quotas.tree import QueueTree


class UseMeters:
    """One meter for each queue. Changes of use are noted, and read when time goes on."""

    def __init__(self, tree: QueueTree, used: TreeSums) -> None:
        self._tree = tree
        self._used = used
        self._meters: dict[str, UseMeter] = {}
        self._touched: set[str] = set()
        #: The time of day, in seconds since 1970.
        self.now_s = 0.0

    def touch(self, keys: Iterable[str]) -> None:
        """These may have come or gone, or use more or less than before."""
        self._touched.update(keys)

    def advance(self, now_s: float) -> None:
        """It is later. What was noted happened at the time until now."""
        if self._touched:
            self._read()
        self.now_s = now_s

    def past(self, key: str) -> PastUse | None:
        if self._touched:
            self._read()
        meter = self._meters.get(key)
        return meter.at(self.now_s) if meter else None

    def fraction(self, key: str, capacity_milli: float) -> float:
        """Of what the cluster could have done."""
        meter = self._meters.get(key)
        return meter.fraction(self.now_s, capacity_milli) if meter else 0.0

    def _read(self) -> None:
        for key in self._touched:
            meter = self._meter(key)
            if meter is not None:
                meter.use(self._used.of(key).get(GPUS, 0), self.now_s)
        self._touched.clear()

    def _meter(self, key: str) -> UseMeter | None:
        """A meter goes on from what was recorded when its queue was first seen."""
        spec = self._tree.get(key)
        if spec is None:
            self._meters.pop(key, None)
            return None
        if key not in self._meters:
            self._meters[key] = UseMeter(self.now_s, spec.recorded)
        return self._meters[key]
