"""Searches for units to evict: what they may cost over time, and those that are not finished."""

from collections.abc import Hashable
from typing import Any

from fairlead.placement.making_room import RoomSearch

#: Work (see `Work.spent`) that searches may cost in a second, and at once.
_WORK_PER_S = 200_000
_MOST_AT_ONCE = 400_000

#: How many searches that were cut short may go on, and how long.
_MOST_UNFINISHED = 8
_UNFINISHED_S = 60.0


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
    """Searches that were cut short go on where they stopped, if nothing has changed meanwhile."""

    def __init__(self) -> None:
        #: By unit: the search, the state that it began in, and until when it may go on.
        self._kept: dict[str, tuple[RoomSearch[Any], Hashable, float]] = {}

    def put(self, key: str, search: RoomSearch[Any], state: Hashable, now: float) -> None:
        if len(self._kept) >= _MOST_UNFINISHED:
            del self._kept[next(iter(self._kept))]
        self._kept[key] = search, state, now + _UNFINISHED_S

    def take(self, key: str, state: Hashable, now: float) -> RoomSearch[Any] | None:
        search, begun_in, until_s = self._kept.pop(key, (None, None, 0.0))
        return search if begun_in == state and now < until_s else None
