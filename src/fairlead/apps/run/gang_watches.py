"""The objects of gangs: watched as long as their kinds are served, their statuses written.

CustomResourceDefinitions may be installed, upgraded and removed while we run. A kind that goes
takes its gangs with it: their pods wait and say what to install, they are never placed singly.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial

import structlog

from fairlead.engine import events
from fairlead.kube.errors import ApiError
from fairlead.kube.gangs.api import GangDialect, GangKind, GangObject
from fairlead.kube.gangs.discovery import served_versions
from fairlead.kube.gangs.registry import GangDialects, decode_object
from fairlead.kube.gangs.status_writer import GangStatusWriter, ServedKind
from fairlead.kube.http.client import Client
from fairlead.kube.mirror.changes import Change, Deleted, Synced, Undecodable, Upserted
from fairlead.kube.mirror.reflector import Reflector
from fairlead.model.gangs import GangSpec, GangStatus

log = structlog.get_logger(__name__)

EVERY_S = 5.0
_FORBIDDEN = "403"

WhenServed = Callable[[], Awaitable[None]]
Supervise = Callable[[str, Callable[[], Awaitable[None]]], Awaitable[None]]


class _Watched:
    """One kind that is served, and the task that follows it."""

    def __init__(self, served: ServedKind, reflector: Reflector[GangObject]) -> None:
        self.served = served
        self.reflector = reflector
        self.task: asyncio.Task[None] | None = None


class GangWatches:
    """Follows what the API server serves, and feeds the engine what it says about gangs."""

    def __init__(
        self,
        client: Client,
        dialects: GangDialects,
        feed: Callable[[events.Event], None],
        supervise: Supervise,
        writer: GangStatusWriter,
        *,
        when_served: Mapping[str, WhenServed] | None = None,
        every_s: float = EVERY_S,
    ) -> None:
        self._client = client
        self._feed = feed
        self._supervise = supervise
        self.writer = writer
        self._every_s = every_s
        self._dialects = {each.kind: each for each in dialects.dialects if each.kind}
        self._watched: dict[str, _Watched] = {}
        #: What the engine was last told, by dialect.
        self._problems: dict[str, str] = {}
        self._has_looked = not self._dialects
        self._was_synced = False
        self._when_served = dict(when_served or {})

    @property
    def reflectors(self) -> tuple[Reflector[GangObject], ...]:
        """Those of kinds that are served now."""
        return tuple(each.reflector for each in self._watched.values())

    @property
    def is_synced(self) -> bool:
        """Whether all gangs that can be listed once were: what is missing then is not there."""
        if not self._was_synced and self._has_looked:
            self._was_synced = all(each.synced or each.problem for each in self.reflectors)
        return self._was_synced

    async def run(self) -> None:
        """Follows until it is cancelled."""
        try:
            for watched in self._watched.values():
                self._follow(watched)
            while True:
                if self._dialects:
                    await self._look()
                await asyncio.sleep(self._every_s)
        finally:
            for watched in self._watched.values():
                await _end(watched)

    async def retell(self) -> AsyncIterator[None]:
        """Everything that is known is fed once more; yields now and then."""
        for dialect, problem in self._problems.items():
            self._feed(events.GangKindSeen(dialect, problem))
        for reflector in self.reflectors:
            async for _ in reflector.retell():
                yield

    def write(self, spec: GangSpec, status: GangStatus) -> None:
        """Has the status of a gang's object written, if it has one."""
        dialect, _, name = spec.key.partition("/")
        watched = self._watched.get(dialect)
        seen = watched.reflector.objects.get(name) if watched else None
        if watched is not None and seen is not None:
            self.writer.put(watched.served, seen, status)

    async def _look(self) -> None:
        try:
            served = await served_versions(self._client, self._dialects)
        except ApiError as error:
            log.debug("cannot ask which kinds of gangs are served; retrying", error=str(error))
            self._has_looked = True
            return
        for kind, version in served.items():
            dialect = self._dialects[kind]
            await self._keep(dialect, kind, version)
            if version:
                await self._prepare(dialect.name)
        self._has_looked = True

    async def _prepare(self, dialect: str) -> None:
        """Does once what is to be done where the objects of the dialect are served."""
        if todo := self._when_served.get(dialect):
            try:
                await todo()
            except ApiError as error:
                log.debug("cannot prepare for gangs; retrying", dialect=dialect, error=str(error))
            else:
                del self._when_served[dialect]

    async def _keep(self, dialect: GangDialect, kind: GangKind, version: str) -> None:
        """Follows the kind in this version, or not at all."""
        watched = self._watched.get(dialect.name)
        if watched is not None and watched.served.version != version:
            await self._forget(dialect.name)
            watched = None
        if watched is None and version:
            watched = self._start(dialect, kind, version)
        elif watched is None and kind.is_built_in and dialect.name not in self._problems:
            log.info("gangs of Kubernetes are off", kind=kind.full_name, to_use_them=kind.remedy)
        self._say(dialect.name, _problem(kind, watched))

    def _start(self, dialect: GangDialect, kind: GangKind, version: str) -> _Watched:
        log.info("watching gangs", dialect=dialect.name, kind=kind.full_name, version=version)
        reflector = Reflector(
            self._client,
            kind.path(version),
            partial(decode_object, dialect),
            partial(self._on_change, dialect.name),
        )
        watched = self._watched[dialect.name] = _Watched(
            ServedKind(dialect, kind, version), reflector
        )
        self._follow(watched)
        return watched

    def _follow(self, watched: _Watched) -> None:
        name = f"gangs {watched.served.dialect.name}"
        following = self._supervise(name, watched.reflector.run)
        watched.task = asyncio.create_task(_awaited(following), name=name)

    async def _forget(self, dialect: str) -> None:
        watched = self._watched.pop(dialect)
        await _end(watched)
        log.warning("gangs are not served any more", dialect=dialect)
        for name in list(watched.reflector.objects):
            self._feed(events.GangGone(f"{dialect}/{name}"))

    def _say(self, dialect: str, problem: str) -> None:
        if self._problems.get(dialect) != problem:
            self._problems[dialect] = problem
            self._feed(events.GangKindSeen(dialect, problem))

    def _on_change(self, dialect: str, change: Change[GangObject]) -> None:
        match change:
            case Upserted(obj):
                self._feed(events.GangSeen(obj.spec))
            case Deleted(obj):
                self._feed(events.GangGone(obj.spec.key))
            case Synced():
                self._feed(events.GangKindSeen(dialect))
            case Undecodable():
                log.error("gang cannot be read", gang=change.key, error=change.error)


def _problem(kind: GangKind, watched: _Watched | None) -> str:
    if watched is None:
        return (
            f"the gang of the pod is not known: the API server does not serve {kind.full_name}; "
            f"{kind.remedy}"
        )
    if watched.reflector.problem == _FORBIDDEN and not watched.reflector.synced:
        return (
            f"the gang of the pod is not known: the scheduler may not list {kind.full_name}; "
            "grant it get, list and watch"
        )
    return ""


async def _end(watched: _Watched) -> None:
    if watched.task is not None:
        watched.task.cancel()
        with suppress(asyncio.CancelledError):
            await watched.task
        watched.task = None


async def _awaited(work: Awaitable[None]) -> None:
    await work
