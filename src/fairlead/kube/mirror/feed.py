"""From the lines of a watch, or the items of a list, to changes in order. No I/O of its own.

A feed owns the copy of the objects and our position in the server's history, and moves both
together: an event is either told and counted, or it raises and neither has happened.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Generic, NoReturn, TypeVar

from fairlead.kube.http.reply import UNREADABLE
from fairlead.kube.mirror import wire
from fairlead.kube.mirror.changes import Change, Synced, T, Undecodable, Upserted
from fairlead.kube.mirror.mirror import Mirror, Snapshot
from fairlead.kube.mirror.position import OutOfStep, Position
from fairlead.kube.nesting import flattened
from fairlead.model.lazy_dataclass import dataclass

#: Objects reported at a time; then other tasks get their turn on the event loop.
_BREATH = 256

_V = TypeVar("_V")


@dataclass(slots=True)
class Stats:
    """What happened so far; plain counters, read for metrics."""

    events: int = 0
    duplicates: int = 0
    #: Objects that could not be read.
    undecodable: int = 0
    #: Events that made no sense: of an unknown type or kind, out of order, or no JSON.
    oddities: int = 0
    #: Completed syncs, and those of them that came after the first.
    syncs: int = 0
    relists: int = 0
    #: Connections after the first.
    reconnects: int = 0
    #: Objects that a cross-check with a list found wrong.
    mismatches: int = 0


class Feed(Generic[T]):
    """Takes in events and reports changes."""

    def __init__(
        self,
        decode: Callable[[bytes], T],
        deliver: Callable[[Change[T]], None],
        kind: str,
        stats: Stats,
    ) -> None:
        self.mirror = Mirror[T]()
        self.position = Position()
        self._decode = decode
        self._deliver = deliver
        self._kind = kind
        # The API server writes the kind first, so comparing a few bytes is nearly always enough.
        self._kind_prefix = f'{{"kind":"{kind}",'.encode() if kind else b""
        self._stats = stats

    def apply(self, line: bytes) -> None:
        """Take one event of a watch. Raises OutOfStep or, for an ERROR event, Refusal."""
        event = _sensible(wire.read_envelope, line)
        self._stats.events += 1
        match event.type:
            case "MODIFIED" | "ADDED":
                self._upsert(self._read(bytes(event.object)))
            case "DELETED":
                self._remove(self._read(bytes(event.object)))
            case "BOOKMARK":
                self.position.advance(_sensible(wire.read_bookmark, event.object).version)
            case _:
                _refuse(event)

    def gather(self, line: bytes, snapshot: Snapshot[T]) -> str:
        """Take one event of a streamed list; returns its revision if it is the last, else "".

        These events come in no order, so none but the last says where to resume.
        """
        event = _sensible(wire.read_envelope, line)
        self._stats.events += 1
        match event.type:
            case "ADDED" | "MODIFIED":
                self.add(bytes(event.object), snapshot)
            case "DELETED":
                snapshot.discard(_sensible(wire.read_identity, event.object).key)
            case "BOOKMARK":
                bookmark = _sensible(wire.read_bookmark, event.object)
                return bookmark.version if bookmark.ends_initial_events else ""
            case _:
                _refuse(event)
        return ""

    def add(self, raw: bytes, snapshot: Snapshot[T]) -> None:
        """Take one object of a list."""
        obj = self._read(raw)
        if isinstance(obj, Undecodable):
            snapshot.add_unreadable(obj)
        else:
            snapshot.add(obj)

    async def install(self, snapshot: Snapshot[T], version: str) -> None:
        """Tell the difference between the copy and the snapshot, then that it is complete."""
        if not version:
            raise OutOfStep("a list that does not say its revision")
        for number, changes in enumerate(self.mirror.replace(snapshot), start=1):
            self._notify(changes)
            if number % _BREATH == 0:
                await asyncio.sleep(0)
        self.position.start(version)
        self._stats.relists += self._stats.syncs > 0
        self._stats.syncs += 1
        self._deliver(Synced())

    async def retell(self) -> AsyncIterator[None]:
        """Tell the whole copy again, to a listener that must start over; yields now and then.

        Events that come meanwhile are reported as always: each object is reported as it is by then.
        """
        for number, key in enumerate(list(self.mirror.objects), start=1):
            obj = self.mirror.objects.get(key)
            if obj is not None:
                self._deliver(Upserted(obj))
            if number % _BREATH == 0:
                await asyncio.sleep(0)
                yield
        for bad in list(self.mirror.unreadable.values()):
            self._deliver(bad)
        yield

    def _upsert(self, obj: T | Undecodable) -> None:
        if isinstance(obj, Undecodable):
            self.position.advance(obj.version)
            self._notify(self.mirror.put_unreadable(obj))
        elif self.mirror.holds(obj):
            self._stats.duplicates += 1
        else:
            self.position.advance(obj.version)
            self._notify(self.mirror.put(obj))

    def _remove(self, obj: T | Undecodable) -> None:
        if obj.key is None:
            raise OutOfStep("a deletion of an object whose name cannot be read")
        self.position.advance(obj.version)
        last = None if isinstance(obj, Undecodable) else obj
        self._notify(self.mirror.remove(obj.key, obj.uid, last))

    def _notify(self, changes: list[Change[T]]) -> None:
        for change in changes:
            self._deliver(change)

    def _read(self, raw: bytes) -> T | Undecodable:
        if not raw.startswith(self._kind_prefix):
            self._check_kind(raw)
        try:
            try:  # costs nothing on this path, unlike one more call
                return self._decode(raw)
            except RecursionError:
                return self._decode(flattened(raw))
        except Exception as error:
            self._stats.undecodable += 1
            return wire.undecodable(raw, error)

    def _check_kind(self, raw: bytes) -> None:
        kind = wire.kind_of(raw)
        if kind and kind != self._kind:  # the items of a list have none
            raise OutOfStep(f"an object of kind {kind!r} among {self._kind!r}")


def _sensible(read: Callable[[bytes], _V], raw: bytes) -> _V:
    try:
        try:
            return read(raw)
        except RecursionError:
            return read(flattened(raw))
    except UNREADABLE as error:
        raise OutOfStep(f"an event that cannot be read: {error}") from error


def _refuse(event: wire.Envelope) -> NoReturn:
    if event.type == "ERROR":
        raise _sensible(wire.StatusError.of_event, event.object)
    raise OutOfStep(f"an event of unknown type {event.type!r}")
