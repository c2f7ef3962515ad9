"""The order in which pods are tried."""

from typing import Any, Protocol

from fairlead.queue.entries import Entry

#: Keys of one order have one length, and compare with each other. The smaller comes first.
OrderKey = tuple[Any, ...]


class QueueOrder(Protocol):
    """A key is computed when the pod enters a pool; `SchedulingQueue.reorder` computes it again."""

    def active(self, entry: Entry) -> OrderKey:
        """Among the pods that may be tried now."""
        ...

    def backoff(self, entry: Entry) -> OrderKey:
        """Among the pods whose backoff ends in the same second."""
        ...


class PrioritySort:
    """kube-scheduler's: by priority, then by time of entry."""

    def active(self, entry: Entry) -> OrderKey:
        return -entry.unit.priority, entry.queued_s

    def backoff(self, entry: Entry) -> OrderKey:
        return (-entry.unit.priority,)
