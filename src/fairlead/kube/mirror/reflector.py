"""Keeps a copy of one kind of object equal to the API server's, and reports every change.

A *sync* brings all objects: streamed over a watch (WatchList), or listed in pages where the server
does not do that. They are collected aside, and compared with the copy when they are complete, so a
sync that breaks off changes nothing. Then a *watch* is followed, and continued from where it ended
whenever it ends. A new sync comes only when the server has forgotten that revision, when an event
makes no sense, or when someone asks for it.
"""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Generic, NoReturn

import structlog

from fairlead.kube.errors import ApiError, ReplyLost, ReplyTooLong
from fairlead.kube.http.client import IDLE_TIMEOUT_S, Client
from fairlead.kube.mirror import listing
from fairlead.kube.mirror.backoff import Backoff
from fairlead.kube.mirror.breath import Breath
from fairlead.kube.mirror.changes import Change, T
from fairlead.kube.mirror.comparer import mismatches
from fairlead.kube.mirror.feed import Feed, Stats
from fairlead.kube.mirror.mirror import Snapshot
from fairlead.kube.mirror.position import OutOfStep
from fairlead.kube.mirror.wire import StatusError

if TYPE_CHECKING:
    from fairlead.kube.http.watch import WatchStream

__all__ = ["Reflector", "Stats"]

#: Streamed lists that may break off before we list in pages instead.
_STREAM_TRIES = 3
#: Lists whose pages may expire, not end or be too long, before we ask for all in one piece.
_PAGE_TRIES = 2
#: Refusals that say nothing about our position: wait and ask again.
_PASSING = frozenset({401, 403, 404, 408, 429})
_HINTS = {
    401: "; check the credentials of this user",
    403: "; grant this user list and watch here",
    404: "; is this kind of object installed in the cluster?",
}

_log = structlog.get_logger()


class Reflector(Generic[T]):
    """One kind of object, mirrored. `run` it in a task of its own; cancel the task to stop."""

    def __init__(
        self,
        client: Client,
        path: str,
        decode: Callable[[bytes], T],
        deliver: Callable[[Change[T]], None],
        *,
        kind: str = "",
        field_selector: str = "",
        label_selector: str = "",
        page_size: int = 500,
        idle_timeout_s: float = IDLE_TIMEOUT_S,
        stream_timeout_s: float = 60.0,
        healthy_s: float = 5.0,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        rng: random.Random | None = None,
    ) -> None:
        """`decode` reads one object's JSON and may raise anything; `deliver` must be quick.

        With `kind`, events that carry another kind of object are found out. An exception of
        `deliver` ends `run`: the listener has lost count, and only it knows what to do.
        `stream_timeout_s` is how long a streamed list may go without a new object or its end; a
        watch that lives for `healthy_s` was a good one, and the next begins at once.
        """
        self.path = path
        self.stats = Stats()
        self._client = client
        self._feed = Feed(decode, deliver, kind, self.stats)
        self._position = self._feed.position
        selectors = {"fieldSelector": field_selector, "labelSelector": label_selector}
        self._selectors = {name: text for name, text in selectors.items() if text}
        self._page_size = page_size
        self._idle_timeout_s = idle_timeout_s
        self._stream_timeout_s = stream_timeout_s
        self._healthy_s = healthy_s
        self._clock = clock
        self._sleep = sleep
        self._rng = rng or random.Random()
        self._backoff = Backoff(self._rng)
        self._stream: WatchStream | None = None
        self._streams_lists = True
        self._broken_streams = 0
        self._broken_pages = 0
        self._followed_since: float | None = None
        self._in_doubt = False
        self._resync_reason = ""
        self._problem = ""

    @property
    def objects(self) -> Mapping[str, T]:
        """What has been reported, by key."""
        return MappingProxyType(self._feed.mirror.objects)

    @property
    def synced(self) -> bool:
        """Whether a list was ever reported completely."""
        return self.stats.syncs > 0

    @property
    def version(self) -> str:
        """The revision up to which everything has been reported; "" before the first list."""
        return self._position.resume or self._position.since

    @property
    def problem(self) -> str:
        """Why we are not in touch with the server; empty when we are."""
        return self._problem

    async def run(self) -> NoReturn:
        """Sync, then follow, for ever. Run again after a cancellation, it goes on where it was."""
        while True:
            await self._pause(await self._attempt())
            self.stats.reconnects += 1

    def resync(self, reason: str) -> None:
        """Relist from the newest state, soon."""
        self._resync_reason = reason
        if self._stream is not None:
            self._stream.close()

    def retell(self) -> AsyncIterator[None]:
        """Reports everything that still exists again; see `Feed.retell`."""
        return self._feed.retell()

    async def verify(self, *, settle_s: float = 5.0) -> list[str]:
        """Compare with a fresh list, and resync if objects differ; returns the keys that do.

        A watch that lost an event looks perfectly healthy; this is how it is found out. The mirror
        lags by milliseconds, so it gets `settle_s` to catch up with the list. Raises ApiError, or
        Refusal, when there is no list to be had.
        """
        if not self.synced:
            return []
        removed = self._feed.mirror.removed = set[str]()
        version, listed = await listing.identities(
            self._client, self.path, self._selectors, page_size=self._page_size
        )
        await self._sleep(settle_s)
        wrong = mismatches(self._feed.mirror, listed, version, removed)
        self.stats.mismatches += len(wrong)
        if wrong:
            self.resync(f"{len(wrong)} objects differ from a list, among them {wrong[:5]}")
        return wrong

    async def catch_up(self, *, look_every_s: float = 0.05, patience_s: float = 5.0) -> None:
        """Returns when everything that existed at the time of this call has been reported.

        Where something happens, the watch soon shows a later revision. Where nothing does, the next
        bookmark is a minute away: there, what a list shows and we hold has been told, too. A watch
        that gets nowhere is restarted. Raises ApiError, or StatusError, when there is no list.
        """
        version = await listing.newest_version(self._client, self.path, self._selectors)
        ways = [
            asyncio.create_task(self._until_reached(version, look_every_s)),
            asyncio.create_task(self._until_equal(look_every_s, patience_s)),
        ]
        try:
            ended, _ = await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            for way in ended:
                way.result()
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)

    async def _until_reached(self, version: str, look_every_s: float) -> None:
        while not self._position.has_reached(version):
            await self._sleep(look_every_s)

    async def _until_equal(self, look_every_s: float, patience_s: float) -> None:
        await self._sleep(4 * look_every_s)  # the list is dear: perhaps it is not needed
        version, listed = await listing.identities(
            self._client, self.path, self._selectors, page_size=self._page_size
        )
        waited_s = 0.0
        while mismatches(self._feed.mirror, listed, version, ()):
            if waited_s >= patience_s:
                self.resync(f"it is behind revision {version}")
                waited_s = 0.0
            await self._sleep(look_every_s)
            waited_s += look_every_s

    # Connections, and what becomes of them

    async def _attempt(self) -> float | None:
        """One connection, to its end; returns how long the server asked us to wait.

        None: go on at once.
        """
        self._followed_since = None
        try:
            await self._connect()
        except StatusError as refusal:
            return self._heed(refusal)
        except OutOfStep as surprise:
            self._distrust(str(surprise))
        except ApiError as error:
            self._in_doubt = True
            self._note(type(error).__name__, str(error))
        return 0.0

    async def _pause(self, asked_s: float | None) -> None:
        followed_s = -1.0 if self._followed_since is None else self._clock() - self._followed_since
        if followed_s >= self._healthy_s:
            self._backoff.reset()
        if asked_s or (asked_s is not None and followed_s < self._healthy_s):
            await self._sleep(max(asked_s, self._backoff.next_s()))

    def _heed(self, refusal: StatusError) -> float | None:
        """Find out what a refusal says about our position."""
        position, code = self._position, refusal.code
        syncing = position.resume is None
        if syncing and self._streams_lists and code in (400, 422):
            self._list_instead(str(refusal))
            return None
        if code == 410 and not syncing:
            position.sync_from_here()
        elif code == 410 or refusal.too_new:
            self._broken_pages += syncing
            position.sync_anew()
        elif code not in _PASSING and code < 500:
            position.sync_anew()
        self._note(f"{code}", f"{refusal}{_HINTS.get(code, '')}")
        return refusal.retry_after_s or 0.0

    def _distrust(self, reason: str) -> None:
        if reason != self._resync_reason:
            self.stats.oddities += 1
        self._resync_reason = ""
        self._in_doubt = False
        self._position.sync_anew()
        _log.warning("relisting", path=self.path, reason=reason)

    def _list_instead(self, reason: str) -> None:
        self._streams_lists = False
        _log.info("streamed lists not supported; using paged lists", path=self.path, reason=reason)

    def _note(self, problem: str, message: str) -> None:
        """Log a trouble when it begins, changes or ends, however often it is met in between."""
        if problem and problem != self._problem:
            _log.warning("watch error; retrying", path=self.path, reason=message)
        elif self._problem and not problem:
            _log.info("watch restored", path=self.path)
        self._problem = problem

    async def _connect(self) -> None:
        """Sync if need be, then follow the watch until it ends."""
        if self._resync_reason:
            raise OutOfStep(self._resync_reason)
        if self._in_doubt and self._position.resume is not None:
            await self._check_revision()
        if self._position.resume is None and not self._streams_lists:
            await self._list()
        async with self._client.watch(
            self.path, self._params(), idle_timeout_s=self._idle_timeout_s
        ) as stream:
            if stream.status != 200:
                raise StatusError.of(stream)
            self._stream = stream
            try:
                await self._follow(stream)
            finally:
                self._stream = None

    def _params(self) -> dict[str, str]:
        params = {
            **self._selectors,
            "watch": "true",
            "allowWatchBookmarks": "true",
            # Spread, so that the watches of a fleet do not all end together.
            "timeoutSeconds": str(self._rng.randint(300, 600)),
        }
        if self._position.resume is not None:
            return params | {"resourceVersion": self._position.resume}
        return params | {
            "resourceVersion": self._position.since,
            "resourceVersionMatch": "NotOlderThan",
            "sendInitialEvents": "true",
        }

    async def _check_revision(self) -> None:
        """After a failure, find out whether the server was set back to an older state.

        It would accept a watch from a revision it has yet to reach, and then stay silent.
        """
        newest = await listing.newest_version(self._client, self.path, self._selectors)
        self._in_doubt = False
        if self._position.is_ahead_of(newest):
            raise OutOfStep(f"the server is at revision {newest}, and was at {self.version}")

    async def _follow(self, stream: "WatchStream") -> None:
        lines: list[bytes] | None = []
        breath = Breath()
        if self._position.resume is None:
            lines = await self._collect(stream)
        self._followed_since = self._clock()
        self._note("", "")
        while lines is not None:
            for line in lines:
                self._feed.apply(line)
                if breath.is_due(len(line)):
                    await asyncio.sleep(0)
            lines = await self._next_lines(stream)

    async def _next_lines(self, stream: "WatchStream") -> list[bytes] | None:
        lines = await stream.lines()
        if self._resync_reason:
            raise OutOfStep(self._resync_reason)
        return lines

    # Syncs

    async def _list(self) -> None:
        if self._broken_pages >= _PAGE_TRIES:
            self._broken_pages = 0  # if that fails, too, pages get another chance
            snapshot, version = await self._listed(page_size=0)
        else:
            try:
                snapshot, version = await self._listed(self._page_size)
            except (listing.EndlessList, ReplyTooLong):
                self._broken_pages += 1
                raise
        await self._install(snapshot, version)

    async def _listed(self, page_size: int) -> tuple[Snapshot[T], str]:
        snapshot, version = Snapshot[T](), ""
        since, breath = self._position.since, Breath()
        async for page in listing.pages(
            self._client, self.path, self._selectors, since=since, page_size=page_size
        ):
            version = page.metadata.resource_version
            for raw in page.items or ():
                self._feed.add(bytes(raw), snapshot)
                if breath.is_due(len(raw)):
                    await asyncio.sleep(0)
        return snapshot, version

    async def _collect(self, stream: "WatchStream") -> list[bytes]:
        """Take in a streamed list; returns the lines that came after its end."""
        try:
            snapshot, version, rest = await self._streamed(stream)
        except ApiError:
            self._broken_streams += 1
            if self._broken_streams >= _STREAM_TRIES:
                self._list_instead("the server's streamed lists do not end")
            raise
        await self._install(snapshot, version)
        return rest

    async def _streamed(self, stream: "WatchStream") -> tuple[Snapshot[T], str, list[bytes]]:
        snapshot, size, length, breath = Snapshot[T](), 0, 0, Breath()
        clock = asyncio.get_running_loop().time
        until_s = clock() + listing.LONGEST_LIST_S
        try:
            async with asyncio.timeout(self._stream_timeout_s) as limit:
                while (lines := await self._next_lines(stream)) is not None:
                    for number, line in enumerate(lines, start=1):
                        version = self._feed.gather(line, snapshot)
                        if version:
                            return snapshot, version, lines[number:]
                        length += len(line)
                        if breath.is_due(len(line)):
                            await asyncio.sleep(0)
                    if length > listing.LONGEST_LIST:
                        limit.reschedule(clock())
                    # Only new objects count: a server that does not know of streamed lists sends
                    # changes for ever, and never an end.
                    elif len(snapshot) > size:
                        size = len(snapshot)
                        limit.reschedule(min(clock() + self._stream_timeout_s, until_s))
        except TimeoutError as error:
            self._list_instead("the server's streamed list does not end")
            raise ReplyLost("no end of the streamed list came in time") from error
        raise ReplyLost("the watch ended before the list that it streams")

    async def _install(self, snapshot: Snapshot[T], version: str) -> None:
        if snapshot.nameless:
            _log.warning(
                "objects without a readable name; no deletions in this list",
                path=self.path,
                first=snapshot.nameless[0].raw_excerpt,
            )
        await self._feed.install(snapshot, version)
        self._broken_streams = self._broken_pages = 0
