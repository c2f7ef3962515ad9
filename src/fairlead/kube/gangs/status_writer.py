"""The status of the objects of gangs: what became of a gang, where users of its API look."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import structlog

from fairlead.kube.errors import ReplyLost, Unreachable
from fairlead.kube.gangs.api import GangDialect, GangKind, GangObject, Json, Standing
from fairlead.kube.gangs.registry import decode_object
from fairlead.kube.http.paths import in_namespace, named
from fairlead.kube.http.reply import UNREADABLE, Reply
from fairlead.kube.http.transport import Transport
from fairlead.kube.writes.event_objects import second_time, shortened
from fairlead.kube.writes.outbox import Outbox, WriteCounts
from fairlead.kube.writes.pauses import pause_s
from fairlead.model.gangs import GangStatus

log = structlog.get_logger(__name__)

_MERGE = "application/merge-patch+json"
_TIMEOUT_S = 5.0
_TRIES = 12
_LIMIT = 10_000
_WORKERS = 4
_LONGEST_PAUSE_S = 5.0
_UNREACHABLE_PAUSE_S = 0.5
#: As the API server allows for the message of a condition.
_LONGEST_MESSAGE_BYTES = 8192


@dataclass(frozen=True, slots=True)
class ServedKind:
    """A kind of object that is served, in the version in which it is read."""

    dialect: GangDialect
    kind: GangKind
    version: str

    def path(self, namespace: str, name: str) -> str:
        root = f"/apis/{self.kind.group}/{self.version}"
        return named(in_namespace(root, namespace, self.kind.plural), name)


@dataclass(slots=True)
class _Write:
    served: ServedKind
    seen: GangObject
    status: GangStatus
    #: Whether `seen` may be older than what the API server has.
    is_stale: bool = False
    failures: int = 0


class GangStatusWriter:
    """Writes the newest status of each gang, and none that stands there already.

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

    def put(self, served: ServedKind, seen: GangObject, status: GangStatus) -> None:
        """Has the status written some time, unless a newer one comes first."""
        message = shortened(status.message, _LONGEST_MESSAGE_BYTES)
        write = _Write(served, seen, replace(status, message=message), not seen.status)
        self._outbox.put(seen.spec.key, write)

    async def run(self) -> None:
        await self._outbox.run()

    async def stop(self, grace_s: float) -> None:
        await self._outbox.stop(grace_s)

    async def _deliver(self, write: _Write, _tries: int) -> float | None:
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

    async def _read_again(self, write: _Write) -> bool:
        """Takes over what has changed; whether the object is still the one that was meant."""
        seen = write.seen
        reply = await self._client.request(
            "GET", write.served.path(seen.namespace, seen.name), timeout_s=_TIMEOUT_S
        )
        if reply.status == 404:
            return False
        if reply.status != 200:
            raise ReplyLost(f"cannot read the gang: {reply.message}")
        write.seen = decode_object(write.served.dialect, reply.body, with_long_status=True)
        write.is_stale = False
        return write.seen.uid == seen.uid

    def _body(self, write: _Write) -> Json | None:
        standing = Standing(
            _decoded(write.seen.status), write.seen.generation, write.served.version
        )
        return write.served.dialect.status(standing, write.status, second_time(self._now_ns()))

    async def _patch(self, write: _Write, body: Json) -> Reply:
        seen, kind = write.seen, write.served.kind
        tail = "/status" if kind.has_status_subresource and "status" in body else ""
        meta = {**body.get("metadata", {}), "uid": seen.uid, "resourceVersion": seen.version}
        return await self._client.request(
            "PATCH",
            write.served.path(seen.namespace, seen.name) + tail,
            body=msgspec.json.encode({**body, "metadata": meta}),
            content_type=_MERGE,
            timeout_s=_TIMEOUT_S,
        )

    def _answered(self, write: _Write, reply: Reply) -> float | None:
        if reply.status < 300:
            self.tally.written += 1
        elif reply.status == 404:
            self.tally.skipped += 1
        elif reply.status in (409, 429) or reply.status >= 500:
            return self._later(write, reply.retry_after_s or 0.0)
        else:
            self.tally.rejected += 1
            self._complain(write.served.kind, reply)
        return None

    def _later(self, write: _Write, at_least_s: float = 0.0) -> float | None:
        wait_s = pause_s(write.failures, longest_s=_LONGEST_PAUSE_S)
        write.is_stale = True
        write.failures += 1
        if write.failures >= _TRIES:
            self.tally.dropped += 1
            return None
        return max(wait_s, min(at_least_s, _LONGEST_PAUSE_S))

    def _complain(self, kind: GangKind, reply: Reply) -> None:
        if kind.full_name not in self._refused:
            self._refused.add(kind.full_name)
            log.warning("status of a gang refused", kind=kind.full_name, reason=reply.message)


def _decoded(status: bytes) -> dict[str, Any]:
    try:
        found = msgspec.json.decode(status)
    except UNREADABLE:
        return {}
    return found if isinstance(found, dict) else {}
