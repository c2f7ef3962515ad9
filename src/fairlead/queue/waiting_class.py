"""Units of one equivalence class that wait together. The first of them waits for all."""

from collections import OrderedDict
from collections.abc import Iterator
from itertools import count

from fairlead.queue.entries import Entry
from fairlead.queue.heap import EntryHeap
from fairlead.queue.order import OrderKey


class WaitingClass:
    """By arrival, or by the keys of an order."""

    __slots__ = ("_entries", "_heap")

    def __init__(self, tickets: "count[int] | None" = None) -> None:
        """`tickets` are those of the queue, if there is an order of its own."""
        #: Its first one is found at once, however many were removed before it, unlike a dict's.
        self._entries: OrderedDict[str, Entry] = OrderedDict()
        self._heap = EntryHeap(tickets) if tickets is not None else None

    def __bool__(self) -> bool:
        return bool(self._entries)

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries.values())

    @property
    def first(self) -> Entry:
        head = self._heap.head() if self._heap is not None else None
        return head[1] if head is not None else next(iter(self._entries.values()))

    def add(self, entry: Entry, key: OrderKey) -> None:
        woken_by = entry.woken_by
        if self._entries:
            woken_by |= self.first.woken_by
        self._entries[entry.unit.key] = entry
        if self._heap is not None:
            self._heap.push(key, entry)
        self.first.woken_by |= woken_by

    def remove(self, entry: Entry) -> None:
        del self._entries[entry.unit.key]
        entry.ticket = -1
        if self._entries:
            self.first.woken_by |= entry.woken_by
