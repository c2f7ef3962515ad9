"""What is to be done when, for any number of things, on one heap."""

from collections.abc import Hashable, Iterator
from enum import Enum, auto
from heapq import heappop, heappush
from itertools import count
from typing import Generic, Literal, TypeVar

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)


class Step(Enum):
    """What a kubelet can have to do."""

    START = auto()
    FINISH = auto()
    REMOVE = auto()
    RECONCILE = auto()
    RENEW = auto()


#: What it is about, and its key in the store.
Key = tuple[Literal["pod", "node", "lease"], str]


class Agenda(Generic[K, T]):
    """At most one appointment a key: a new one replaces the old."""

    def __init__(self) -> None:
        self._tickets = count()
        self._heap: list[tuple[float, int, K]] = []
        self._standing: dict[K, tuple[int, T]] = {}

    def __len__(self) -> int:
        return len(self._standing)

    def get(self, key: K) -> T | None:
        standing = self._standing.get(key)
        return standing[1] if standing else None

    def put(self, key: K, due_s: float, what: T) -> None:
        ticket = next(self._tickets)
        self._standing[key] = ticket, what
        heappush(self._heap, (due_s, ticket, key))

    def drop(self, key: K) -> None:
        self._standing.pop(key, None)

    def next_due_s(self) -> float | None:
        self._discard_void()
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now: float) -> Iterator[tuple[K, T]]:
        """Everything that is due, in order of time; what is put meanwhile comes too if due."""
        while (due_s := self.next_due_s()) is not None and due_s <= now:
            _, _, key = heappop(self._heap)
            yield key, self._standing.pop(key)[1]

    def _discard_void(self) -> None:
        while self._heap:
            _, ticket, key = self._heap[0]
            standing = self._standing.get(key)
            if standing is not None and standing[0] == ticket:
                return
            heappop(self._heap)
