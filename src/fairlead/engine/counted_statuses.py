"""Statuses of counted resources, and how old the numbers of outside use are."""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from heapq import nsmallest

from fairlead.cluster.counted_book import CountedBook
from fairlead.engine.instructions import CountedStatusChanged, Instruction
from fairlead.model.counted import CountedStatus

#: How often statuses are looked at.
_EVERY_S = 5.0
#: Namespaces and layers that a status lists.
_MOST_HOLDERS = 50
_MOST_LAYERS = 50
#: Layers that are looked at in one turn, for all statuses together: about 50 ms.
_LAYERS_OF_TURN = 20_000


class CountedStatuses:
    def __init__(self, utc_s: Callable[[float], float]) -> None:
        self._utc_s = utc_s
        self._looked_s = float("-inf")
        self._made: dict[str, tuple[int, CountedStatus]] = {}
        #: Those of the last look that are left for the next turns.
        self._left: deque[str] = deque()

    def forget(self, name: str) -> None:
        self._made.pop(name, None)

    def due_s(self, books: Iterable[CountedBook]) -> float | None:
        """When one has to be looked at: its use has changed, or a number becomes too old."""
        if self._left:
            return self._looked_s
        due = [self._stale_at(book) for book in books]
        if any(map(self._has_changed, books)):
            due.append(self._looked_s + _EVERY_S)
        return min((each for each in due if each is not None), default=None)

    def _stale_at(self, book: CountedBook) -> float | None:
        terms, measured = book.spec.outside, book.spec.measured
        if terms is None or measured is None or book.is_stale:
            return None
        return measured.at_s + terms.max_age_s - self._utc_s(0.0)

    def refresh(self, book: CountedBook, now: float) -> bool:
        """Whether fewer are used outside than before."""
        before = book.outside
        terms, measured = book.spec.outside, book.spec.measured
        if terms is None:
            book.count_outside(0)
        elif measured is None or abs(self._utc_s(now) - measured.at_s) >= terms.max_age_s:
            book.count_outside(terms.fallback, is_stale=True)
        else:
            book.count_outside(measured.used, includes_pods=terms.includes_pods)
        return book.outside < before

    def tend(self, books: Iterable[CountedBook], now: float) -> tuple[list[Instruction], list[str]]:
        """Statuses to be written, and resources of which more are left than before."""
        due_s = self.due_s(books)
        if due_s is None or now < due_s:
            return [], []
        freed = [book.spec.name for book in books if self.refresh(book, now)]
        if not self._left:
            self._looked_s = now
            self._left.extend(book.spec.name for book in books if self._has_changed(book))
        return self._made_anew({book.spec.name: book for book in books}), freed

    def _has_changed(self, book: CountedBook) -> bool:
        return self._made.get(book.spec.name, (-1,))[0] != book.version

    def _made_anew(self, books: Mapping[str, CountedBook]) -> list[Instruction]:
        """Statuses of some that are left, as many as a turn has time for."""
        made: list[Instruction] = []
        layers = 0
        while self._left and layers < _LAYERS_OF_TURN:
            name = self._left.popleft()
            if name not in books:
                continue
            book, (_, before) = books[name], self._made.get(name, (-1, None))
            layers += 1 + len(book.layers.known())
            self._made[name] = book.version, (status := status_of(book))
            if status != before:
                made.append(CountedStatusChanged(name, status))
        return made


def status_of(book: CountedBook) -> CountedStatus:
    free = book.free
    holders = nsmallest(_MOST_HOLDERS, book.by_namespace.items(), key=lambda each: (-each[1], each))
    layers = nsmallest(
        _MOST_LAYERS, book.layers.known(), key=lambda name: (book.left_on(name), name)
    )
    return CountedStatus(
        book.used,
        None if free is None else max(0, free),
        book.outside,
        tuple(holders),
        tuple((name, book.by_layer[name], book.layers.count_of(name)) for name in layers),
        _message(book),
    )


def _message(book: CountedBook) -> str:
    spec, free = book.spec, book.free
    if spec.problem:
        return spec.problem
    if book.is_stale:
        return f"use outside the cluster is not known; {book.outside} are assumed"
    if free is not None and free < 0:
        return f"{-free} more are used than there are"
    over = [name for name in book.layers.known() if book.left_on(name) < 0]
    return f"more are used than there are on {', '.join(sorted(over)[:3])}" if over else ""
