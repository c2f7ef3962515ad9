"""Writes to one claim, each until its outcome is certain.

A write must not be reported as failed while the API server could still carry it out: the devices
would be given away twice. Every write requires the version that was read. So it is safe to send it
again after a lost reply, and once the claim has another version, no earlier try can succeed.
"""

import asyncio
from collections.abc import Callable
from itertools import count

import msgspec
import structlog

from fairlead.kube.claims.changes import ClaimRequest
from fairlead.kube.claims.claims import decode_claim
from fairlead.kube.claims.kinds import CLAIMS
from fairlead.kube.claims.protobuf import PROTOBUF, with_finalizer
from fairlead.kube.errors import ApiError, ReplyLost
from fairlead.kube.http.paths import in_namespace, named
from fairlead.kube.http.reply import UNREADABLE, Reply
from fairlead.kube.http.transport import JSON, Transport
from fairlead.kube.writes.pauses import pause_s
from fairlead.kube.writes.preparer import StepFailed
from fairlead.model.claims import ResourceClaim

log = structlog.get_logger(__name__)

Next = Callable[[ResourceClaim], ClaimRequest | None]

_TRIES = 5
#: kube-scheduler's, after a conflict.
_AFTER_CONFLICT_S = 0.01
_LONGEST_PAUSE_S = 2.0
#: How long a server may still carry out a request whose reply was lost (see `settling`).
IN_FLIGHT_S = 60.0
#: The claim has another version. A patch that does not fit it is invalid (422).
_CONFLICTS = frozenset({409, 422})
#: Statuses of a server, or of a proxy before it, that may still carry out the request.
_DOUBTFUL = frozenset({500, 502, 504})
#: Statuses after which the same write could succeed.
_PASSING = frozenset({401, 429, 503, *_DOUBTFUL})

_encode = msgspec.json.Encoder().encode


class ClaimSettlement:
    """One series of writes. `seen` is told each state of the claim that the server answers with."""

    def __init__(
        self, client: Transport, claim: ResourceClaim, seen: Callable[[ResourceClaim], None]
    ) -> None:
        self._client = client
        self._seen = seen
        self.now = claim
        folder = in_namespace(f"/apis/{CLAIMS.group}/v1", claim.namespace, CLAIMS.plural)
        self._path = named(folder, claim.name)
        self._failures = 0
        self._conflicts = 0
        self._doubt_until_s = 0.0
        self._doing = ""

    async def apply(self, next_request: Next) -> bool:
        """Writes until there is nothing more to do; whether anything was written."""
        has_written = False
        while (request := next_request(self.now)) is not None:
            await self._try(request)
            has_written = True  # at the end: also by a try whose reply was lost
        return has_written

    async def _try(self, request: ClaimRequest) -> None:
        """Raises StepFailed when it is certain that it was not written and will not be."""
        path, self._doing = f"{self._path}{request.subresource}", request.doing
        body = _encode(request.body)
        reply = await self._reply(request.method, path, body, request.content_type)
        if reply is not None and request.finalizer and _is_about_spelling(reply):
            reply = await self._add_in_protobuf(request.finalizer)
        if reply is not None:
            await self._settle(reply)

    async def _add_in_protobuf(self, finalizer: str) -> Reply | None:
        """The parameters of drivers have spaces, which JSON does not return as they were."""
        found = await self._reply("GET", self._path, accept=PROTOBUF)
        if found is None or found.status != 200:
            return found
        try:
            body = with_finalizer(found.body, self.now, finalizer)
        except ValueError as error:
            raise self._failed(f"the answer of the API server cannot be read: {error}") from error
        if body is not None:
            return await self._reply("PUT", self._path, body, PROTOBUF)
        self._conflicts += 1
        await self._read()
        if self._conflicts >= _TRIES:
            raise self._failed("it is changed by others again and again")
        return None

    async def _reply(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        content_type: str = JSON,
        accept: str | None = None,
    ) -> Reply | None:
        """None after a pause, if there was none."""
        try:
            return await self._client.request(
                method, path, body=body, content_type=content_type, accept=accept
            )
        except ApiError as error:
            if isinstance(error, ReplyLost) and method != "GET":
                self._doubt()
            await self._again(str(error))
            return None

    async def _settle(self, reply: Reply) -> None:
        if reply.status >= 300:
            return await self._refused(reply)
        try:
            self._take(reply)
        except UNREADABLE as error:
            self._doubt()
            await self._again(str(error))
        return None

    async def _refused(self, reply: Reply) -> None:
        if reply.status in _CONFLICTS:
            await self._conflict(reply)
            return
        if reply.status in _DOUBTFUL:
            self._doubt()
        if reply.status not in _PASSING and not self._is_in_doubt():
            await self._fail(reply.message)
        else:
            await self._again(reply.message)

    async def _conflict(self, reply: Reply) -> None:
        """Reads the claim. Raises StepFailed if it is as before, or changes all the time."""
        before = self.now.version
        self._conflicts += 1
        await asyncio.sleep(_AFTER_CONFLICT_S)
        await self._read()
        if self._conflicts >= _TRIES or (reply.status == 422 and self.now.version == before):
            raise self._failed(reply.message)

    async def _again(self, problem: str) -> None:
        """After a pause; raises when it was tried often enough, and none of the tries counts."""
        self._failures += 1
        if self._failures >= _TRIES and not self._is_in_doubt():
            return await self._fail(problem)
        if self._failures == _TRIES:
            log.warning("outcome of a write to a claim is unknown", claim=self.now.key, why=problem)
        await asyncio.sleep(pause_s(self._failures - 1, longest_s=_LONGEST_PAUSE_S))
        return None

    async def _fail(self, problem: str) -> None:
        """Raises StepFailed; after a lost reply only if the claim shows that nothing came of it.

        No try is carried out any more. One of them may have been.
        """
        before = self.now.version
        if self._doubt_until_s:
            await self._read()
            self._doubt_until_s = 0.0
        if self.now.version == before:
            raise self._failed(problem)

    def _failed(self, problem: str) -> StepFailed:
        return StepFailed(f"{self._doing} {self.now.key}: {problem}")

    def _doubt(self) -> None:
        self._doubt_until_s = asyncio.get_running_loop().time() + IN_FLIGHT_S

    def _is_in_doubt(self) -> bool:
        return asyncio.get_running_loop().time() < self._doubt_until_s

    def _take(self, reply: Reply) -> None:
        before, self.now = self.now.version, decode_claim(reply.body)
        if self.now.version != before:
            self._doubt_until_s = 0.0
        self._seen(self.now)

    async def _read(self) -> None:
        """Raises StepFailed if it is gone or cannot be read; after a lost reply it must be."""
        for tries in count():
            try:
                reply = await self._client.request("GET", self._path)
                if reply.status == 200:
                    return self._take(reply)
                problem, may_pass = reply.message, reply.status in _PASSING
            except (ApiError, *UNREADABLE) as error:
                problem, may_pass = str(error), True
            if not may_pass or (tries + 1 >= _TRIES and not self._doubt_until_s):
                raise StepFailed(f"get updated claim {self.now.key} after conflict: {problem}")
            await asyncio.sleep(pause_s(tries, longest_s=_LONGEST_PAUSE_S))
        return None


def _is_about_spelling(reply: Reply) -> bool:
    """Whether the API server takes what it showed of a claim for a change of it."""
    said = b"spec: Invalid value" in reply.body and b"field is immutable" in reply.body
    return reply.status == 422 and said
