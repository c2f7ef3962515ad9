"""The status of objects of others: what became of them, where users of their API look."""

import asyncio
import time
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

import msgspec
import structlog

from fairlead.base.timestamps import second_time
from fairlead.kube.errors import ReplyLost, Unreachable
from fairlead.kube.http.reply import UNREADABLE, Reply
from fairlead.kube.http.transport import Transport
from fairlead.kube.writes.outbox import Outbox, WriteCounts
from fairlead.kube.writes.pauses import pause_s
from fairlead.model.lazy_dataclass import dataclass

log = structlog.get_logger(__name__)

_MERGE = "application/merge-patch+json"
_TIMEOUT_S = 5.0
_TRIES = 12
_LIMIT = 10_000
_WORKERS = 4
_LONGEST_PAUSE_S = 5.0
_UNREACHABLE_PAUSE_S = 0.5

Json = dict[str, Any]


class StatusOwner(Protocol):
    """An object as it was last seen."""

    @property
    def uid(self) -> str: ...
    @property
    def version(self) -> str: ...
    @property
    def status(self) -> bytes:
        """As JSON; empty where it was not kept."""


Obj = TypeVar("Obj", bound=StatusOwner)
Status_contra = TypeVar("Status_contra", contravariant=True)


class StatusKind(Protocol[Obj, Status_contra]):
    """A kind of object whose status is written, in the version in which it is read."""

    @property
    def full_name(self) -> str: ...
    def path(self, seen: Obj) -> str: ...
    def tail(self, body: Json) -> str:
        """What of the object is written, such as `/status`."""

    def read(self, raw: bytes) -> Obj: ...
    def body(self, seen: Obj, status: Status_contra, now: str) -> Json | None:
        """The fields to write; None if it says so already."""


@dataclass(slots=True)
class _Write(Generic[Obj, Status_contra]):
    kind: StatusKind[Obj, Status_contra]
    seen: Obj
    status: Status_contra
    #: Whether `seen` may be older than what the API server has.
    is_stale: bool = False
    failures: int = 0


class ObjectStatusWriter(Generic[Obj, Status_contra]):
    """Writes the newest status of each object, and none that stands there already.

    Custom resources know no merging of lists. So the whole list of conditions is written, with the
    version that it was read in; if another has written meanwhile, it is read and changed again.
    """

    def __init__(
        self, client: Transport, *, now_ns: Callable[[], int] = time.time_ns, limit: int = _LIMIT
    ) -> None:
        self._client = client
        self._now_ns = now_ns
        self.tally = WriteCounts()
        self._outbox = Outbox(self._deliver, self.tally, limit=limit, workers=_WORKERS)
        #: Kinds that we may not write, so that it is logged once.
        self._refused: set[str] = set()

    def submit(
        self, key: str, kind: StatusKind[Obj, Status_contra], seen: Obj, status: Status_contra
    ) -> None:
        """Has the status written some time, unless a newer one of the same key comes first."""
        self._outbox.put(key, _Write(kind, seen, status, not seen.status))

    async def run(self) -> None:
        await self._outbox.run()

    async def stop(self, grace_s: float) -> None:
        await self._outbox.stop(grace_s)

    async def _deliver(self, write: _Write[Obj, Status_contra], _tries: int) -> float | None:
        try:
            is_there = not write.is_stale or await self._read_again(write)
            body = self._body(write) if is_there else None
            if body is None:
                self.tally.skipped += 1
                return None
            return self._answered(write, await self._patch(write, body))
        except ReplyLost:
            return self._later(write)
        except Unreachable:
            # Not counted as a failure: the status is written when the server is back.
            await asyncio.sleep(_UNREACHABLE_PAUSE_S)
            return _UNREACHABLE_PAUSE_S

    async def _read_again(self, write: _Write[Obj, Status_contra]) -> bool:
        """Takes over what has changed; whether the object is still the one that was meant."""
        seen = write.seen
        path = write.kind.path(seen)
        reply = await self._client.request("GET", path, timeout_s=_TIMEOUT_S)
        if reply.status == 404:
            return False
        if reply.status != 200:
            raise ReplyLost(f"cannot read {path}: {reply.message}")
        write.seen = write.kind.read(reply.body)
        write.is_stale = False
        return write.seen.uid == seen.uid

    def _body(self, write: _Write[Obj, Status_contra]) -> Json | None:
        return write.kind.body(write.seen, write.status, second_time(self._now_ns()))

    async def _patch(self, write: _Write[Obj, Status_contra], body: Json) -> Reply:
        seen, kind = write.seen, write.kind
        meta = {**body.get("metadata", {}), "uid": seen.uid, "resourceVersion": seen.version}
        return await self._client.request(
            "PATCH",
            kind.path(seen) + kind.tail(body),
            body=msgspec.json.encode({**body, "metadata": meta}),
            content_type=_MERGE,
            timeout_s=_TIMEOUT_S,
        )

    def _answered(self, write: _Write[Obj, Status_contra], reply: Reply) -> float | None:
        if reply.status < 300:
            self.tally.written += 1
        elif reply.status == 404:
            self.tally.skipped += 1
        elif reply.status in (409, 429) or reply.status >= 500:
            return self._later(write, reply.retry_after_s or 0.0)
        else:
            self.tally.rejected += 1
            self._complain(write.kind.full_name, reply)
        return None

    def _later(self, write: _Write[Obj, Status_contra], at_least_s: float = 0.0) -> float | None:
        wait_s = pause_s(write.failures, longest_s=_LONGEST_PAUSE_S)
        write.is_stale = True
        write.failures += 1
        if write.failures >= _TRIES:
            self.tally.dropped += 1
            return None
        return max(wait_s, min(at_least_s, _LONGEST_PAUSE_S))

    def _complain(self, kind: str, reply: Reply) -> None:
        if kind not in self._refused:
            self._refused.add(kind)
            log.warning("status refused", kind=kind, reason=reply.message)


def decoded_status(seen: StatusOwner) -> Json:
    """The status of an object as it stands."""
    try:
        found = msgspec.json.decode(seen.status)
    except UNREADABLE:
        return {}
    return found if isinstance(found, dict) else {}
