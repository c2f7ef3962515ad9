"""Routes that name pods and nodes, each cut down to what its caller may see.

Who asks is found out first, by as many at a time as the API server is to be asked for. Then one is
answered after the other, and after a long answer there is a rest: the loop that serves them is the
one that schedules.
"""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TypeVar

import msgspec
from aiohttp import web

from fairlead.apps.explain.scope import Answer, ExplanationScope
from fairlead.apps.queues.reader import NoSuchQueue, QueueReader
from fairlead.apps.queues.rows import QueueDetail, QueueListing
from fairlead.apps.run.usage import ReportScope, Usage
from fairlead.apps.serving.access import MOST_NAMESPACES, Authorizer, CallerRights
from fairlead.apps.serving.http_limits import JSON, HttpLimits, HttpRefusal, RequestLimiter, refusal

_CHECKING = HttpLimits(answer_s=10.0, in_hand=8, waiting=24)
_ANSWERING = HttpLimits(answer_s=30.0, in_hand=1, waiting=15)
#: After each byte of an answer: a row has 500 and takes 25 µs, so this is a fifth of the time.
_REST_S = 2e-7
#: Questions of one user at a time.
_EACH = 2
#: An explanation is found in one go, and what it took is rested for so many times over.
_RESTS = 9
#: Nodes in one explanation: each takes about 0.1 ms.
MOST_NODES = 200

_NO_NODES = "you may not list nodes: GPUs and the names of nodes are not shown"
_NO_PODS = "there is no pod with GPUs in a namespace where you may list pods"
_NOT_ALL = (
    f"only {MOST_NAMESPACES} namespaces with GPUs were checked; name yours (--namespace), or get "
    "the right to list pods in all namespaces"
)

T = TypeVar("T")
Pieces = AsyncIterator[bytes]


#: How an explanation is found: of the pod of that key, as far as it is shown; None: no such pod.
Explain = Callable[[str, ExplanationScope], Answer | None]


class Details:
    """`/usage`: what `fairlead top` shows; `/explain`: why a pod waits; `/queues`: queues."""

    def __init__(
        self,
        access: Authorizer,
        usage: Usage,
        explain: Explain = lambda *_: None,
        unready_because: Callable[[], str] = str,
        queues: QueueReader | None = None,
    ) -> None:
        self._queues = queues
        self._access = access
        self._usage = usage
        self._explain = explain
        self._unready_because = unready_because
        self._checking, self._answering = RequestLimiter(_CHECKING), RequestLimiter(_ANSWERING)
        self._asking: Counter[str] = Counter()
        self._rested_s = 0.0

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/usage", self._route(self._used)),
            web.get("/explain", self._route(self._explained)),
            *([web.get("/queues", self._route(self._queued))] if self._queues else []),
        ]

    def _route(
        self, find: Callable[[web.Request, CallerRights], Awaitable[Pieces]]
    ) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        async def handle(request: web.Request) -> web.StreamResponse:
            reply = web.StreamResponse(headers={"Content-Type": JSON})
            try:
                async with self._checking.admitted():
                    rights = await self._access.rights(request)
                with self._turn(rights.caller):
                    async with self._checking.admitted():
                        pieces = await find(request, rights)
                    async with self._answering.admitted():
                        await self._answer(request, reply, pieces)
            except HttpRefusal as refused:
                if not reply.prepared:
                    return refusal(refused)
                if request.transport:  # too slow to read it all
                    request.transport.abort()
            return reply

        return handle

    @contextmanager
    def _turn(self, caller: str) -> Iterator[None]:
        """Two questions of one user at a time, so that others are answered between them."""
        if caller and self._asking[caller] >= _EACH:
            raise HttpRefusal(429, "crowded", "too many requests at once; wait for the answers")
        self._asking[caller] += 1
        try:
            yield
        finally:
            self._asking[caller] -= 1
            self._asking = +self._asking  # without those at 0

    async def _answer(
        self, request: web.Request, reply: web.StreamResponse, pieces: Pieces
    ) -> None:
        await asyncio.sleep(max(0.0, self._rested_s - time.monotonic()))
        async for piece in pieces:
            if not reply.prepared:
                await reply.prepare(request)
            await reply.write(piece)
            self._rest(len(piece) * _REST_S)
        await reply.write_eof()

    def _rest(self, for_s: float) -> None:
        self._rested_s = max(self._rested_s, time.monotonic()) + for_s

    async def _explained(self, request: web.Request, rights: CallerRights) -> Pieces:
        namespace, name = (request.query.get(key, "") for key in ("namespace", "name"))
        if not namespace or not name:
            raise HttpRefusal(400, "bad", "name a pod: /explain?namespace=NAMESPACE&name=POD")
        if not await rights.pod(namespace, name):
            raise HttpRefusal(403, "forbidden", "you may not get that pod")
        shown = ExplanationScope(await rights.nodes(), await rights.pods_everywhere(), MOST_NODES)
        return self._explanation(f"{namespace}/{name}", shown)

    async def _explanation(self, key: str, shown: ExplanationScope) -> Pieces:
        found = self._in_one_go("explain pods", partial(self._explain, key, shown))
        if found is None:
            raise HttpRefusal(404, "absent", "there is no such pod, or it has finished")
        yield msgspec.json.encode(found)

    def _in_one_go(self, doing: str, find: Callable[[], T]) -> T:
        """What is found once everything is known, and rested for afterwards."""
        why = self._unready_because()
        if why:
            raise HttpRefusal(503, "unready", f"cannot {doing} yet: {why}; retry later")
        began_s = time.monotonic()
        try:
            return find()
        finally:
            self._rest(_RESTS * (time.monotonic() - began_s))

    async def _queued(self, request: web.Request, rights: CallerRights) -> Pieces:
        """Queues are visible to every user of the cluster; units by name in their namespaces."""
        assert self._queues is not None
        name, queues = request.query.get("name", ""), self._queues
        one = partial(queues.detail, name, now_s=time.monotonic())
        return self._visible_queues(one if name else queues.listing, rights)

    async def _visible_queues(
        self, find: Callable[[], QueueListing | QueueDetail], rights: CallerRights
    ) -> Pieces:
        try:
            found = self._in_one_go("list queues", find)
        except NoSuchQueue as error:
            raise HttpRefusal(404, "absent", str(error)) from error
        shown = await rights.namespaces(found.namespaces())
        yield msgspec.json.encode(found.visible_in(shown))

    async def _used(self, request: web.Request, rights: CallerRights) -> Pieces:
        return self._usage.pieces(await self._seen(rights, request.query.get("namespace", "")))

    async def _seen(self, rights: CallerRights, namespace: str) -> ReportScope:
        there = frozenset({namespace}) if namespace else self._usage.namespaces
        shown, nodes = await rights.namespaces(there), await rights.nodes()
        if namespace and not shown:
            raise HttpRefusal(403, "forbidden", "you may not list pods in that namespace")
        notes = [_NO_NODES] if not nodes else []
        notes += [_NO_PODS] if there and not shown else []
        if len(there) > MOST_NAMESPACES and not await rights.pods_everywhere():
            notes.append(_NOT_ALL)
        return ReportScope(shown, nodes, tuple(notes))
