"""Kinds that are watched as long as the API server serves them.

CustomResourceDefinitions may be installed, upgraded and removed while we run.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import Any

import msgspec
import structlog

from fairlead.kube.errors import ApiError
from fairlead.kube.gangs.discovery import ApiKind, served_versions
from fairlead.kube.http.client import Client
from fairlead.kube.mirror.changes import Change, Synced
from fairlead.kube.mirror.reflector import Reflector
from fairlead.model.lazy_dataclass import dataclass

log = structlog.get_logger(__name__)

EVERY_S = 5.0

Supervise = Callable[[str, Callable[[], Awaitable[None]]], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class KindWatch:
    """One kind: how its objects are read, and what is called when they change."""

    #: In the log, and to ask for it.
    name: str
    kind: ApiKind
    decode: Callable[[bytes | msgspec.Raw], Any]
    on_change: Callable[[Change[Any]], None]
    #: Called with the key of each object when the kind is not served any more.
    on_gone: Callable[[str], None]


class WatchedKind:
    """A kind that is served, in the version in which it is read, and the task that follows it."""

    def __init__(self, watch: KindWatch, version: str, reflector: Reflector[Any]) -> None:
        self.watch = watch
        self.version = version
        self.reflector = reflector
        self.task: asyncio.Task[None] | None = None


#: Told after each look, with None for a kind that is not served.
Looked = Callable[[KindWatch, WatchedKind | None], Awaitable[None]]


class ServedKinds:
    """Follows what the API server serves of some kinds."""

    def __init__(
        self,
        client: Client,
        watches: Iterable[KindWatch],
        supervise: Supervise,
        *,
        looked: Looked | None = None,
        every_s: float = EVERY_S,
    ) -> None:
        self._client = client
        self._supervise = supervise
        self._looked = looked
        self._every_s = every_s
        self._watches = {each.kind: each for each in watches}
        #: Called when one more kind was looked for, or listed.
        self.when_listed: Callable[[], None] = lambda: None
        self._served: dict[str, WatchedKind] = {}
        self._has_looked = not self._watches
        self._was_synced = False

    def __len__(self) -> int:
        """How many kinds are watched where they are served."""
        return len(self._watches)

    @property
    def reflectors(self) -> tuple[Reflector[Any], ...]:
        """Those of kinds that are served now."""
        return tuple(each.reflector for each in self._served.values())

    @property
    def served(self) -> tuple[WatchedKind, ...]:
        """Kinds that are served now."""
        return tuple(self._served.values())

    @property
    def is_synced(self) -> bool:
        """Whether all objects that can be listed once were: what is missing then is not there."""
        if not self._was_synced and self._has_looked:
            self._was_synced = all(each.synced or each.problem for each in self.reflectors)
        return self._was_synced

    def get(self, name: str) -> WatchedKind | None:
        """What is served of the kind that is watched under this name."""
        return self._served.get(name)

    async def run(self) -> None:
        """Follows until it is cancelled."""
        try:
            for served in self._served.values():
                self._follow(served)
            while True:
                if self._watches:
                    await self._look()
                await asyncio.sleep(self._every_s)
        finally:
            for served in self._served.values():
                await _end(served)

    async def _look(self) -> None:
        try:
            versions = await served_versions(self._client, self._watches)
        except ApiError as error:
            log.debug("cannot ask which kinds are served; retrying", error=str(error))
            self._end_look()
            return
        for kind, version in versions.items():
            watch = self._watches[kind]
            await self._keep(watch, version)
            if self._looked is not None:
                await self._looked(watch, self._served.get(watch.name))
        self._end_look()

    def _end_look(self) -> None:
        if not self._has_looked:
            self._has_looked = True
            self.when_listed()

    def _deliver(self, watch: KindWatch, change: Change[Any]) -> None:
        watch.on_change(change)
        if isinstance(change, Synced):
            self.when_listed()

    async def _keep(self, watch: KindWatch, version: str) -> None:
        """Follows the kind in this version, or not at all."""
        served = self._served.get(watch.name)
        if served is not None and served.version != version:
            await self._forget(served)
            served = None
        if served is None and version:
            self._start(watch, version)

    def _start(self, watch: KindWatch, version: str) -> None:
        log.info("watching a kind", kind=watch.kind.full_name, version=version)
        path, deliver = watch.kind.path(version), partial(self._deliver, watch)
        reflector = Reflector(self._client, path, watch.decode, deliver)
        served = self._served[watch.name] = WatchedKind(watch, version, reflector)
        self._follow(served)

    def _follow(self, served: WatchedKind) -> None:
        name = f"kind {served.watch.name}"
        following = self._supervise(name, served.reflector.run)
        served.task = asyncio.create_task(_awaited(following), name=name)

    async def _forget(self, served: WatchedKind) -> None:
        await _end(served)
        log.warning("a kind is not served any more", kind=served.watch.kind.full_name)
        for key in list(served.reflector.objects):
            served.watch.on_gone(key)
        del self._served[served.watch.name]


async def _end(served: WatchedKind) -> None:
    if served.task is not None:
        served.task.cancel()
        with suppress(asyncio.CancelledError):
            await served.task
        served.task = None


async def _awaited(work: Awaitable[None]) -> None:
    await work
