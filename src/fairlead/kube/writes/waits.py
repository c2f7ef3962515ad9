"""Waiting for something to change, by keys: of an object that a watch shows, or of a pod."""

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import contextmanager


class Waits:
    def __init__(self) -> None:
        self._events: dict[str, set[asyncio.Event]] = {}

    def look(self, key: str) -> None:
        """Something with this key has changed: those who wait for it look again."""
        for changed in self._events.get(key, ()):
            changed.set()

    @contextmanager
    def on(self, keys: Iterable[str]) -> Iterator[asyncio.Event]:
        """The event is set by each change of one of these; clear it before you look."""
        kept, changed = frozenset(keys), asyncio.Event()
        for key in kept:
            self._events.setdefault(key, set()).add(changed)
        try:
            yield changed
        finally:
            for key in kept:
                self._events[key].discard(changed)
                if not self._events[key]:
                    del self._events[key]
