"""What the watches of objects have in common whose kinds come and go."""

from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any, Generic, Protocol, TypeVar

import structlog

from fairlead.apps.run.served_kinds import (
    EVERY_S,
    KindWatch,
    ServedKinds,
    Supervise,
    WatchedKind,
)
from fairlead.engine import events
from fairlead.kube.http.client import Client
from fairlead.kube.mirror.changes import Change, Deleted, Undecodable, Upserted, Vanished
from fairlead.kube.mirror.reflector import Reflector
from fairlead.kube.writes.object_status import ObjectStatusWriter, StatusKind, StatusOwner

log = structlog.get_logger(__name__)

_FORBIDDEN = "403"


class ObjectWatches:
    """Objects of kinds that come and go; subclasses say what is made of them."""

    _kinds: ServedKinds

    @property
    def reflectors(self) -> tuple[Reflector[Any], ...]:
        """Those of kinds that are served now."""
        return self._kinds.reflectors

    @property
    def is_synced(self) -> bool:
        """Whether all objects that can be listed once were: what is missing then is not there."""
        return self._kinds.is_synced

    def when_listed(self, call: Callable[[], None]) -> None:
        """To be called when `is_synced` may have become true, which no event need show."""
        self._kinds.when_listed = call

    async def run(self) -> None:
        """Follows until it is cancelled."""
        await self._kinds.run()

    async def retell(self) -> AsyncIterator[None]:
        """Everything that is known is fed once more; yields now and then."""
        async for _ in self._retell_objects():
            yield

    async def _retell_objects(self) -> AsyncIterator[None]:
        """All objects are told once more; yields now and then."""
        for reflector in self.reflectors:
            async for _ in reflector.retell():
                yield


class FedWatches(ObjectWatches):
    """Those whose objects become events; subclasses say which kinds, and what events."""

    def __init__(
        self,
        client: Client,
        feed: Callable[[events.Event], None],
        supervise: Supervise,
        *,
        is_on: bool = True,
        every_s: float = EVERY_S,
    ) -> None:
        self._feed = feed
        watches = list(self._watches()) if is_on else []
        self._kinds = ServedKinds(client, watches, supervise, every_s=every_s)

    def _watches(self) -> Iterable[KindWatch]:
        raise NotImplementedError


def is_forbidden(served: WatchedKind) -> bool:
    """Whether the objects were never listed, because we may not."""
    return served.reflector.problem == _FORBIDDEN and not served.reflector.synced


class NamedObject(StatusOwner, Protocol):
    @property
    def name(self) -> str: ...
    @property
    def key(self) -> str: ...


Seen = TypeVar("Seen", bound=NamedObject)
Written = TypeVar("Written")


class ClusterObjects(FedWatches, Generic[Seen, Written]):
    """One kind of objects without a namespace, and their status; subclasses make the events."""

    def __init__(
        self,
        client: Client,
        feed: Callable[[events.Event], None],
        supervise: Supervise,
        writer: ObjectStatusWriter[Seen, Written],
        *,
        is_on: bool = True,
        every_s: float = EVERY_S,
    ) -> None:
        super().__init__(client, feed, supervise, is_on=is_on, every_s=every_s)
        self.writer = writer

    def _watches(self) -> Iterable[KindWatch]:
        return [self._watch()]

    def _watch(self) -> KindWatch:
        raise NotImplementedError

    def _served(self, version: str) -> StatusKind[Seen, Written]:
        """The kind in the version in which it is read."""
        raise NotImplementedError

    def _seen(self, found: Seen) -> events.Event:
        raise NotImplementedError

    def _unreadable(self, name: str, problem: str) -> events.Event:
        raise NotImplementedError

    def _gone(self, name: str) -> None:
        raise NotImplementedError

    def write(self, name: str, status: Written) -> None:
        for served in self._kinds.served:
            seen = served.reflector.objects.get(name)
            if seen:
                self.writer.submit(name, self._served(served.version), seen, status)

    def _on_change(self, change: Change[Seen]) -> None:
        match change:
            case Upserted(found):
                self._feed(self._seen(found))
            case Deleted(found):
                self._gone(found.name)
            case Vanished():
                self._gone(change.key)
            case Undecodable():
                log.error("object cannot be read", name=change.key, error=change.error)
                if change.key is not None:
                    problem = f"it cannot be read: {change.error}"[:500]
                    self._feed(self._unreadable(change.key, problem))
            case _:
                return
