"""A reverse proxy that breaks things on request, between our client and a real API server.

    async with FaultProxy(access) as proxy:
        client = Client(proxy.access)
        proxy.on_watch(drop(a("DELETED", "x")))        # the next watch loses that event
        proxy.on_request(lose_reply, method="POST")    # the next POST is done, but not answered

A fault applies `times` times (None: until `heal`), to requests that match. Faults of watches are
generators: whole lines of the real watch in, bytes for the client out; several are chained.
"""

import asyncio
import contextlib
import json
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Mapping,
)
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Self

import aiohttp
from aiohttp import web
from yarl import URL

from fairlead.kube.access.credentials import Static
from fairlead.kube.access.kubeconfig import Access
from fairlead.kube.http.sockets import Sockets
from fairlead.kube.http.watch import LineSplitter, hang_up

Event = Mapping[str, Any]
Chunks = AsyncGenerator[bytes, None]
WatchFault = Callable[[Chunks], Chunks]
Forward = Callable[[], Awaitable[web.Response]]
RequestFault = Callable[[Forward], Coroutine[Any, Any, web.Response]]

_HOP_BY_HOP = {"connection", "transfer-encoding", "content-length", "content-encoding", "host"}


class CutError(Exception):
    """Raised by a fault: break the connection here, without a proper end."""


@dataclass(slots=True)
class _Armed:
    fault: Any
    matches: Callable[[web.Request], bool]
    left: int | None

    def take(self, request: web.Request) -> bool:
        if self.left == 0 or not self.matches(request):
            return False
        if self.left is not None:
            self.left -= 1
        return True


class FaultProxy:
    """Serves plain HTTP on the loopback address and forwards to the server behind `upstream`."""

    def __init__(self, upstream: Access) -> None:
        #: Every request that came, as "METHOD /path?query".
        self.requests: list[str] = []
        self._upstream = upstream
        self._on_watch: list[_Armed] = []
        self._on_request: list[_Armed] = []
        self._open: dict[int, web.Request] = {}
        self._under_way: set[asyncio.Task[web.Response]] = set()
        self._sockets = Sockets()

    @property
    def access(self) -> Access:
        """How to reach the server through this proxy."""
        return Access(f"http://127.0.0.1:{self._port}", None, Static({}))

    def on_watch(
        self, *faults: WatchFault, times: int | None = 1, path: str = "", query: str = ""
    ) -> None:
        """Let the faults work on the next watches whose path and query contain these texts."""

        def matches(request: web.Request) -> bool:
            return _is_watch(request) and path in request.path and query in request.query_string

        for fault in faults:
            self._on_watch.append(_Armed(fault, matches, times))

    def on_request(
        self,
        fault: RequestFault,
        *,
        times: int | None = 1,
        method: str = "",
        path: str = "",
        query: str = "",
    ) -> None:
        """Let the fault answer the next matching requests, watches too."""

        def matches(request: web.Request) -> bool:
            wanted = method in ("", request.method)
            return wanted and path in request.path and query in request.query_string

        self._on_request.append(_Armed(fault, matches, times))

    def heal(self) -> None:
        """No more faults for requests that begin from now on."""
        self._on_watch.clear()
        self._on_request.clear()

    def cut(self) -> None:
        """Break every open connection at once."""
        for request in list(self._open.values()):
            _abort(request)

    def count(self, text: str) -> int:
        """How many requests contained this text."""
        return sum(text in request for request in self.requests)

    async def __aenter__(self) -> Self:
        tls = self._upstream.ssl_context
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                ssl=True if tls is None else tls, limit=0, socket_factory=self._sockets.new
            ),
            timeout=aiohttp.ClientTimeout(total=None),
            auto_decompress=True,
        )
        app = web.Application(client_max_size=2**30)
        app.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(
            app,
            access_log=None,
            shutdown_timeout=0.1,
            handler_cancellation=True,  # else handlers that wait outlive their client
        )
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self._port = self._runner.addresses[0][1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self.cut()
        await self._runner.cleanup()
        for task in self._under_way:
            task.cancel()
        await asyncio.gather(*self._under_way, return_exceptions=True)
        await self._session.close()
        await self._sockets.closed()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(f"{request.method} {request.path_qs}")
        self._open[id(request)] = request
        try:
            return await self._answer(request)
        except (CutError, aiohttp.ClientError):
            _abort(request)
            return web.Response()
        finally:
            del self._open[id(request)]

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        for armed in self._on_request:
            if armed.take(request):
                return await self._to_the_end(armed.fault(lambda: self._forward(request)))
        if _is_watch(request):
            return await self._stream(request)
        return await self._to_the_end(self._forward(request))

    async def _to_the_end(self, work: Coroutine[Any, Any, web.Response]) -> web.Response:
        """Goes on even if the client hangs up: the server gets the request all the same."""
        task = asyncio.create_task(work)
        self._under_way.add(task)
        task.add_done_callback(self._ended)
        return await asyncio.shield(task)

    def _ended(self, task: asyncio.Task[web.Response]) -> None:
        self._under_way.discard(task)
        if not task.cancelled():
            task.exception()  # seen; who still listens has got it as well

    async def _forward(self, request: web.Request) -> web.Response:
        async with self._asked(request) as answer:
            return await _whole(answer)

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        # Faults work on a watch that was really opened; a refused one is passed on.
        async with self._asked(request) as answer:
            if answer.status != 200:
                return await _whole(answer)
            response = web.StreamResponse(headers=_passed_on(answer.headers))
            await response.prepare(request)
            async with contextlib.AsyncExitStack() as stack:
                chunks = await stack.enter_async_context(aclosing(_lines(answer.content)))
                for armed in self._on_watch:
                    if armed.take(request):
                        chunks = await stack.enter_async_context(aclosing(armed.fault(chunks)))
                async for chunk in chunks:
                    await response.write(chunk)
            await response.write_eof()
            return response

    @contextlib.asynccontextmanager
    async def _asked(self, request: web.Request) -> AsyncIterator[aiohttp.ClientResponse]:
        headers = _passed_on(request.headers) | await self._upstream.credentials.headers()
        answer = await self._session.request(
            request.method,
            URL(self._upstream.server + request.raw_path, encoded=True),
            headers=headers,
            data=await request.read() or None,
            allow_redirects=False,
        )
        try:
            yield answer
        finally:
            hang_up(answer)


async def _whole(answer: aiohttp.ClientResponse) -> web.Response:
    headers = _passed_on(answer.headers)
    return web.Response(status=answer.status, body=await answer.read(), headers=headers)


def _is_watch(request: web.Request) -> bool:
    return request.query.get("watch") in ("true", "1")


def _passed_on(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name.lower() not in _HOP_BY_HOP}


def _abort(request: web.Request) -> None:
    if request.transport is not None:
        request.transport.abort()


async def _lines(content: aiohttp.StreamReader) -> Chunks:
    splitter = LineSplitter()
    async for piece in content.iter_any():
        for line in splitter.feed(piece):
            yield line + b"\n"


# Faults of single requests


def answer(status: int, message: str = "", **headers: str) -> RequestFault:
    """Answer ourselves, without asking the server. `Retry_After="1"` becomes a header."""
    body = {"kind": "Status", "apiVersion": "v1", "code": status, "message": message}

    async def fault(forward: Forward) -> web.Response:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return web.json_response(body, status=status, headers=named)

    return fault


async def refuse_connection(forward: Forward) -> web.Response:
    """Break the connection before the server sees the request."""
    raise CutError


async def lose_reply(forward: Forward) -> web.Response:
    """Let the server process the request, and break the connection instead of answering."""
    await forward()
    raise CutError


async def never_answer(forward: Forward) -> web.Response:
    """Keep the connection and say nothing."""
    await asyncio.sleep(3600)
    raise CutError


def hold_reply(until: asyncio.Event) -> RequestFault:
    """Let the server process the request at once, and pass its reply on when `until` is set."""

    async def fault(forward: Forward) -> web.Response:
        reply = await forward()
        await until.wait()
        return reply

    return fault


# Faults of watches


def drop(matches: Callable[[Event], bool], times: int = 1) -> WatchFault:
    """Lose the first matching events."""

    async def fault(chunks: Chunks) -> Chunks:
        left = times
        async for line in chunks:
            if left and matches(_event(line)):
                left -= 1
            else:
                yield line

    return fault


def duplicate(matches: Callable[[Event], bool]) -> WatchFault:
    """Send matching events twice."""

    async def fault(chunks: Chunks) -> Chunks:
        async for line in chunks:
            yield line
            if matches(_event(line)):
                yield line

    return fault


def swap(matches: Callable[[Event], bool]) -> WatchFault:
    """Send the first matching event after the one that follows it, bookmarks not counted."""

    async def fault(chunks: Chunks) -> Chunks:
        held, done = b"", False
        async for line in chunks:
            if not held and not done and matches(_event(line)):
                held = line
                continue
            yield line
            if held and _event(line)["type"] != "BOOKMARK":
                yield held
                held, done = b"", True

    return fault


def insert(line: bytes, after: Callable[[Event], bool]) -> WatchFault:
    """Send a line of our own after the first matching event."""

    async def fault(chunks: Chunks) -> Chunks:
        done = False
        async for real in chunks:
            yield real
            if not done and after(_event(real)):
                done = True
                yield line

    return fault


def alter(change: Callable[[dict[str, Any]], object]) -> WatchFault:
    """Change every event in place."""

    async def fault(chunks: Chunks) -> Chunks:
        async for line in chunks:
            event = _event(line)
            change(event)
            yield json.dumps(event).encode() + b"\n"

    return fault


def stall(after: Callable[[Event], bool]) -> WatchFault:
    """Keep the connection open after a matching event, and send nothing more."""

    async def fault(chunks: Chunks) -> Chunks:
        async for line in chunks:
            yield line
            if after(_event(line)):
                await asyncio.sleep(3600)

    return fault


def cut_inside(matches: Callable[[Event], bool]) -> WatchFault:
    """Send half of a matching event, then break the connection."""

    async def fault(chunks: Chunks) -> Chunks:
        async for line in chunks:
            if matches(_event(line)):
                yield line[: len(line) // 2]
                await asyncio.sleep(0.05)  # let the half arrive
                raise CutError
            yield line

    return fault


def end_inside(matches: Callable[[Event], bool]) -> WatchFault:
    """Send half of a matching event, then end the watch in good order."""

    async def fault(chunks: Chunks) -> Chunks:
        async for line in chunks:
            if matches(_event(line)):
                yield line[: len(line) // 2]
                return
            yield line

    return fault


async def end_at_once(chunks: Chunks) -> Chunks:
    """Open the watch and end it."""
    return
    yield b""


def in_pieces_of(size: int) -> WatchFault:
    """Send everything in pieces of so many bytes, also through the middle of characters."""

    async def fault(chunks: Chunks) -> Chunks:
        async for line in chunks:
            for start in range(0, len(line), size):
                yield line[start : start + size]
                await asyncio.sleep(0)

    return fault


def expired(message: str = "too old resource version") -> bytes:
    """The ERROR event that tells, inside a 200, that a revision is gone."""
    status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
    status |= {"reason": "Expired", "code": 410, "message": message}
    return json.dumps({"type": "ERROR", "object": status}).encode() + b"\n"


# Events to look for


def _event(line: bytes) -> dict[str, Any]:
    """The event of a line; one of no type where an earlier fault has left a mere piece of it."""
    try:
        return dict(json.loads(line))
    except ValueError:
        return {"type": "", "object": {"metadata": {}}}


def any_event(event: Event) -> bool:
    return True


def a(kind: str, name: str = "") -> Callable[[Event], bool]:
    """Events of this type (ADDED, MODIFIED …), of the object of this name if one is given."""

    def matches(event: Event) -> bool:
        return event["type"] == kind and name in ("", event["object"]["metadata"].get("name"))

    return matches


def end_of_list(event: Event) -> bool:
    """The bookmark that ends a streamed list."""
    annotations = event["object"].get("metadata", {}).get("annotations") or {}
    return event["type"] == "BOOKMARK" and "k8s.io/initial-events-end" in annotations
