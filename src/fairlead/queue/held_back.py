"""Waiting units that the queue of a team holds back, by the queue whose change could end that."""

from collections import Counter
from collections.abc import Iterable, Iterator

from fairlead.queue.entries import Entry
from fairlead.queue.units import EquivalenceClass


class HeldBack:
    def __init__(self) -> None:
        #: How many units of which class.
        self._classes: dict[str, Counter[EquivalenceClass]] = {}

    def __bool__(self) -> bool:
        return bool(self._classes)

    def __contains__(self, key: str) -> bool:
        """Whether a unit waits for a change of this queue."""
        return key in self._classes

    def __iter__(self) -> Iterator[str]:
        return iter(self._classes)

    def classes(self, keys: Iterable[str]) -> list[EquivalenceClass]:
        """Of units that wait for a change of these queues."""
        found = (self._classes[key] for key in keys if key in self._classes)
        return list(dict.fromkeys(class_ for classes in found for class_ in classes))

    def put(self, entry: Entry, by: str | None) -> None:
        """A waiting unit waits for a change of this queue; None: of none."""
        self._count(entry, -1)
        entry.held_back_by = by if entry.equivalence_class is not None else None
        self._count(entry, +1)

    def _count(self, entry: Entry, change: int) -> None:
        key, class_ = entry.held_back_by, entry.equivalence_class
        if key is None or class_ is None:
            return
        classes = self._classes.setdefault(key, Counter())
        classes[class_] += change
        if not classes[class_]:
            del classes[class_]
        if not classes:
            del self._classes[key]
