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
        #: The parts of the key, the ticket, the entry: flat, since that is compared faster.
        self.places: list[tuple[Any, ...]] = []
        self._full = _FEWEST

    def push(self, key: OrderKey, entry: Entry) -> None:
        if len(self.places) >= self._full:
            self._tidy()
        entry.ticket = next(self._tickets)
        heappush(self.places, (*key, entry.ticket, entry))

    def __iter__(self) -> Iterator[Entry]:
        """Those that have not moved on, in no order."""
        return (place[-1] for place in self.places if place[-1].ticket == place[-2])

    def _tidy(self) -> None:
        self.places = [place for place in self.places if place[-1].ticket == place[-2]]
        heapify(self.places)
        self._full = max(_FEWEST, 2 * len(self.places))

    def head(self) -> tuple[Any, Entry] | None:
        """The first part of the smallest key, and its entry."""
        while self.places:
            first = self.places[0]
            entry = first[-1]
            if entry.ticket == first[-2]:
                return first[0], entry
            heappop(self.places)
        return None
