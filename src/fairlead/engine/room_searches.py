"""Searches for units to evict: what they may cost over time, and those that are not finished."""

from collections.abc import Callable, Hashable
from typing import Any, Generic, Protocol, TypeVar

from fairlead.cluster.trial import Trial
from fairlead.model.sizes import Kept, weigh
from fairlead.placement.making_room import RoomOutcome
from fairlead.queue.units import EquivalenceClass

P = TypeVar("P")

#: Work (see `Work.spent`) that searches may cost in a second, and at once.
_WORK_PER_S = 200_000
_MOST_AT_ONCE = 400_000

#: How many searches that were cut short may go on, and how long.
_MOST_UNFINISHED = 8
_UNFINISHED_S = 60.0

#: How long an answer stands for pods of the same class while nothing changes: some pods may be
#: evicted only after they have run for a while. And how many are kept.
_KNOWN_S = 1.0
_MOST_KNOWN = 4096
_KNOWN_BYTES = 8 << 20


class Search(Protocol[P]):
    """A search for units to evict."""

    def search(self, trial: Trial) -> RoomOutcome[P]:
        """The trial is left as it was; one that was cut short goes on if it is called again."""
        ...

    @property
    def may_go_on(self) -> bool: ...

    def follow(self, before: Any) -> None:
        """What a search for the same unit had found when something changed is tried first."""
        ...


class SearchPace:
    """Limits what searches cost over time, however many gangs ask for them."""

    def __init__(self) -> None:
        self._spent = 0.0
        self._at_s = 0.0

    def allows(self, now: float) -> bool:
        self._spent = max(0.0, self._spent - (now - self._at_s) * _WORK_PER_S)
        self._at_s = now
        return self._spent < _MOST_AT_ONCE

    def spend(self, work: int) -> None:
        self._spent += work


class UnfinishedSearches:
    """Searches that were cut short go on where they stopped, if nothing has changed meanwhile.

    Otherwise a new one begins with what they had found: in a busy cluster something always changes.
    """

    def __init__(self) -> None:
        #: By unit: the search, the state that it began in, and until when it may go on.
        self._kept: dict[str, tuple[Search[Any], Hashable, float]] = {}

    def put(self, key: str, search: Search[Any], state: Hashable, now: float) -> None:
        if len(self._kept) >= _MOST_UNFINISHED:
            del self._kept[next(iter(self._kept))]
        self._kept[key] = search, state, now + _UNFINISHED_S

    def take(
        self, key: str, state: Hashable, now: float, begin: Callable[[], Search[P]]
    ) -> Search[P]:
        kept, begun_in, until_s = self._kept.pop(key, (None, None, 0.0))
        if kept is not None and begun_in == state and now < until_s:
            return kept
        search = begin()
        if kept is not None and now < until_s:
            search.follow(kept)
        return search


class UselessSearches(Generic[P]):
    """Thousands of equal pods may wait: what was of no use to one is of none to the next."""

    def __init__(self) -> None:
        #: When a search was of no use to a pod of the class, and why; while the state is this one.
        self._refused: Kept[EquivalenceClass, tuple[float, RoomOutcome[P]]] = Kept(_KNOWN_BYTES)
        self._state: Hashable = None

    def get(self, class_: EquivalenceClass, state: Hashable, now: float) -> RoomOutcome[P] | None:
        if self._state != state or len(self._refused) >= _MOST_KNOWN:
            self._refused.clear()
            self._state = state
        known = self._refused.get(class_)
        return known[1] if known is not None and now - known[0] < _KNOWN_S else None

    def put(self, class_: EquivalenceClass, found: RoomOutcome[P], now: float) -> None:
        if found.plan is None and not found.cut_short:
            self._refused.keep(class_, (now, found), weigh(class_, found.why))
