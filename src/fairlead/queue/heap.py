"""Entries of the queue in order, some of which may have moved on."""

from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from typing import Any

from fairlead.queue.entries import Entry
from fairlead.queue.order import OrderKey

_FEWEST = 1024


class EntryHeap:
    """Entries by their keys. Entries that moved on meanwhile are dropped when they come up.

    Or when they are the most: a standby takes none out, and pods come and go all the same.
    """

    def __init__(self, tickets: Iterator[int]) -> None:
        self._tickets = tickets
        self._heap: list[tuple[OrderKey, int, Entry]] = []
        self._full = _FEWEST

    def push(self, key: OrderKey, entry: Entry) -> None:
        if len(self._heap) >= self._full:
            self._tidy()
        entry.ticket = next(self._tickets)
        heappush(self._heap, (key, entry.ticket, entry))

    def _tidy(self) -> None:
        self._heap = [place for place in self._heap if place[2].ticket == place[1]]
        heapify(self._heap)
        self._full = max(_FEWEST, 2 * len(self._heap))

    def head(self) -> tuple[Any, Entry] | None:
        """The first part of the smallest key, and its entry."""
        while self._heap:
            key, ticket, entry = self._heap[0]
            if entry.ticket == ticket:
                return key[0], entry
            heappop(self._heap)
        return None
