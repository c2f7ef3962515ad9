"""What the pending pods of each queue request, kept as pods come and go.

A pod that is being bound is counted as used, and not as pending at the same time.
"""

from collections.abc import Callable, Collection

from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.pods import Amounts, Pod, PodRequest
from fairlead.queue.quotas.sums import LateSums
from fairlead.queue.quotas.tree import QueueTree

#: In place of a resource: units that are pending, a gang being one.
UNITS = "units"
_ONE_UNIT: Amounts = ((UNITS, 1),)


@dataclass(slots=True)
class _Record:
    pod: Pod
    key: str
    unit: str
    charge: Amounts
    is_held: bool = False


class PendingSums:
    def __init__(
        self,
        tree: QueueTree,
        key_of: Callable[[Pod], str],
        charge_of: Callable[[PodRequest], Amounts],
        on_change: Callable[[str], None],
    ) -> None:
        self._key_of = key_of
        self._on_change = on_change
        self._charge_of = charge_of
        self.sums = LateSums(tree)
        self._records: dict[str, _Record] = {}
        #: Pending pods of each unit of a queue.
        self._units: dict[str, dict[str, int]] = {}

    def came(self, pod: Pod, unit: str) -> None:
        """A pending pod was seen, for the first time or changed."""
        old = self._records.get(pod.uid)
        key = self._key_of(pod)
        if (key == old.key and pod is old.pod) if old else not key:
            return
        is_held = old is not None and old.is_held
        if old is not None:
            self._count(old, -1)
            self._on_change(old.key)
            del self._records[pod.uid]
        if key:
            charge = () if pod.gates else self._charge_of(pod.request)
            record = self._records[pod.uid] = _Record(pod, key, unit, charge, is_held)
            self._count(record, +1)
            self._on_change(key)

    def left(self, uid: str) -> None:
        record = self._records.pop(uid, None)
        if record is not None and not record.is_held:  # else it counts as used, and went on to run
            self._count(record, -1)
            self._on_change(record.key)

    def hold(self, uid: str, *, is_held: bool, key: str = "") -> Amounts:
        """The pod holds a node from now on, or does no longer.

        What is pending less, or more, in this queue.
        """
        record = self._records.get(uid)
        if record is None or record.is_held == is_held:
            return ()
        self._count(record, -1)
        record.is_held = is_held
        self._count(record, +1)
        if record.key == key:
            return record.charge
        self._on_change(record.key)
        return ()

    def units_of(self, key: str) -> Collection[str]:
        """The keys of its pending units."""
        return self._units.get(key, {}).keys()

    def _count(self, record: _Record, change: int) -> None:
        if record.is_held:
            return
        units = self._units.get(record.key)
        if units is None:
            units = self._units[record.key] = {}
        before = units.get(record.unit, 0)
        after = before + change
        if after:
            units[record.unit] = after
        else:
            del units[record.unit]
            if not units:
                del self._units[record.key]
        charge = record.charge if before and after else record.charge + _ONE_UNIT
        self.sums.add(record.key, charge, change)
