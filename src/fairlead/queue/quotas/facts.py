"""What the order of units must know, and the engine tells it."""

from collections.abc import Iterable, Mapping
from typing import Protocol

from fairlead.queue.entries import Entry
from fairlead.queue.quotas.ageing import WaitingUnits
from fairlead.queue.quotas.unit_order import UnitTimes
from fairlead.queue.units import Unit


class QueueFacts(WaitingUnits, UnitTimes, Protocol):
    """What the order must know of the units and of the queues."""

    def asked_by(self, unit: Unit) -> Mapping[str, int]:
        """What it would use, in the amounts of a queue."""
        ...

    def used_in(self, key: str, namespace: str) -> float:
        """How much of a queue the units of a namespace use."""
        ...

    def nominated(self) -> Iterable[Entry]:
        """Pending units of which a pod waits for others to leave a node."""
        ...

    def is_nominated(self, unit: Unit) -> bool:
        """Whether a pod of it waits for others to leave a node."""
        ...
