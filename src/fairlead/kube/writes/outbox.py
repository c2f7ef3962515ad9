"""Writes that may wait: bounded, tried again, never in anyone's way."""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from typing import Generic, TypeVar

import structlog

from fairlead.model.lazy_dataclass import dataclass

T = TypeVar("T")

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class WriteCounts:
    """What became of the writes asked for."""

    written: int = 0
    #: Nothing to write: it stands there already, or only a count went up.
    skipped: int = 0
    #: A newer one took its place before it was sent.
    superseded: int = 0
    #: Held back by the spam filter.
    filtered: int = 0
    retried: int = 0
    #: The server will never take it.
    rejected: int = 0
    #: Given up: too many were waiting, or too many tries failed.
    dropped: int = 0


@dataclass(slots=True)
class _Entry(Generic[T]):
    item: T
    tries: int = 0


class Outbox(Generic[T]):
    """A queue with one place for each key, emptied by a few workers.

    `put` never blocks. A newer item takes the place of one with the same key that was not sent yet,
    and two of one key are never under way together. When `limit` items wait, the oldest is dropped.
    `deliver(item, tries)` returns None when it is finished with the item, or how many seconds later
    to call it again; meanwhile its worker serves others.
    """

    def __init__(
        self,
        deliver: Callable[[T, int], Awaitable[float | None]],
        tally: WriteCounts,
        *,
        limit: int,
        workers: int,
    ) -> None:
        self._deliver = deliver
        self._tally = tally
        self._limit = limit
        self._worker_count = workers
        self._waiting: dict[str, _Entry[T]] = {}
        # The keys of what waits, in order, and some of what was withdrawn since.
        self._keys: asyncio.Queue[str] = asyncio.Queue()
        #: Of these, what is to be sent before the others; in order.
        self._urgent: dict[str, None] = {}
        #: Set for a moment when something is under way no more.
        self._ended = asyncio.Event()
        #: What is under way, and what came for the same key meanwhile.
        self._sending: dict[str, _Entry[T] | None] = {}
        self._later: dict[str, tuple[_Entry[T], asyncio.TimerHandle]] = {}
        self._idle = asyncio.Event()
        self._idle.set()
        self._workers: list[asyncio.Task[None]] = []
        self._stopping = False
        self._stopped = False

    def __len__(self) -> int:
        """How many wait to be sent, now or later."""
        return len(self._waiting) + len(self._later)

    def holds(self, key: str) -> bool:
        """Whether an item of this key is waiting or under way."""
        return key in self._waiting or key in self._later or key in self._sending

    def unsent(self, key: str) -> T | None:
        """The item of this key that waits to be sent, if there is one."""
        later = self._later.get(key)
        entry = self._sending.get(key) or self._waiting.get(key) or (later[0] if later else None)
        return entry.item if entry else None

    async def settled(self, keys: Collection[str], within_s: float) -> None:
        """Waits until no item of these keys is waiting or under way, but not longer than that."""
        try:
            async with asyncio.timeout(within_s):
                while any(self.holds(key) for key in keys):
                    await self._ended.wait()
        except TimeoutError:
            return

    def put(self, key: str, item: T, *, urgent: bool = False) -> None:
        """Has the item delivered some time, unless a newer one of its key comes first.

        `urgent`: before those that wait.
        """
        entry = _Entry(item)
        if key in self._sending:
            self._tally.superseded += self._sending[key] is not None
            self._sending[key] = entry
        elif key in self._waiting:
            self._tally.superseded += 1
            self._waiting[key] = entry
        else:
            self._tally.superseded += self.withdraw(key)
            self._enqueue(key, entry)
        if urgent:
            self._urgent[key] = None

    def withdraw(self, key: str) -> bool:
        """Forgets what waits for this key; what is under way cannot be called back."""
        later = self._later.pop(key, None)
        if later is not None:
            later[1].cancel()
        if self._sending.get(key) is not None:
            self._sending[key] = None
        waiting = self._waiting.pop(key, None)
        self._urgent.pop(key, None)
        self._notice_idle()
        return waiting is not None or later is not None

    async def run(self) -> None:
        """Delivers until it is stopped or cancelled."""
        if self._stopped:
            return
        self._workers = [asyncio.create_task(self._work()) for _ in range(self._worker_count)]
        try:
            await asyncio.wait(self._workers)
        finally:
            await self._end()

    async def stop(self, grace_s: float) -> None:
        """Delivers what it can within the grace; the rest is dropped and counted."""
        self._stopping = True
        for key, (entry, timer) in list(self._later.items()):
            timer.cancel()
            del self._later[key]
            self._enqueue(key, entry)
        if not self._stopped:
            await _within(self._idle.wait(), grace_s)
        await self._end()
        self._tally.dropped += len(self)
        self._waiting.clear()
        self._later.clear()

    def _enqueue(self, key: str, entry: _Entry[T]) -> None:
        while len(self) >= self._limit:
            self._drop_oldest()
        if self._keys.qsize() > 2 * self._limit:
            self._forget_withdrawn()
        self._idle.clear()
        self._waiting[key] = entry
        self._keys.put_nowait(key)

    def _forget_withdrawn(self) -> None:
        """While the server is away, keys of what was withdrawn would pile up."""
        while not self._keys.empty():
            self._keys.get_nowait()
        for key in self._waiting:
            self._keys.put_nowait(key)

    def _drop_oldest(self) -> None:
        oldest = next(iter(self._later), "")
        while self._waiting:
            oldest = self._keys.get_nowait()
            if oldest in self._waiting:
                break
        self.withdraw(oldest)
        self._tally.dropped += 1

    async def _work(self) -> None:
        while True:
            key = await self._keys.get()
            while self._urgent:
                urgent = next(iter(self._urgent))
                del self._urgent[urgent]
                await self._send_waiting(urgent)
            await self._send_waiting(key)

    async def _send_waiting(self, key: str) -> None:
        entry = self._waiting.pop(key, None)
        if entry is not None:
            await self._send(key, entry)
        self._notice_idle()

    async def _send(self, key: str, entry: _Entry[T]) -> None:
        self._sending[key] = None
        again_s: float | None = None
        try:
            again_s = await self._deliver(entry.item, entry.tries)
        except asyncio.CancelledError:
            self._tally.dropped += 1
            raise
        except Exception:
            # These writes only inform. A bug in one of them must not silence the others.
            log.exception("write dropped", key=key)
            self._tally.dropped += 1
        finally:
            newer = self._sending.pop(key)
        if newer is not None:
            self._enqueue(key, newer)
        elif again_s is not None:
            self._postpone(key, entry, again_s)

    def _postpone(self, key: str, entry: _Entry[T], delay_s: float) -> None:
        entry.tries += 1
        self._tally.retried += 1
        if self._stopping:
            delay_s = min(delay_s, 0.1)
        timer = asyncio.get_running_loop().call_later(delay_s, self._resume, key)
        self._later[key] = (entry, timer)

    def _resume(self, key: str) -> None:
        entry, _ = self._later.pop(key)
        self._enqueue(key, entry)

    def _notice_idle(self) -> None:
        self._ended.set()
        self._ended.clear()
        if not self._waiting and not self._later and not self._sending:
            self._idle.set()

    async def _end(self) -> None:
        self._stopped = True
        for worker in self._workers:
            worker.cancel()
        await asyncio.gather(*self._workers, return_exceptions=True)
        for _, timer in self._later.values():
            timer.cancel()


async def _within(work: Awaitable[object], grace_s: float) -> None:
    try:
        await asyncio.wait_for(work, grace_s)
    except TimeoutError:
        return
