"""What all servers have: a limit of concurrent requests, and routes for health.

A limited number of requests is read and answered at a time. Others wait, with their bodies left in
the network; beyond a second limit they are refused.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from fairlead.model.lazy_dataclass import dataclass

JSON = "application/json"


@dataclass(frozen=True, slots=True)
class HttpLimits:
    #: The API server's own limit of an object is 3 MiB, and a review holds up to two of them.
    body_bytes: int = 7 * 2**20
    #: For waiting, reading and answering together.
    answer_s: float = 2.0
    #: CPU time of one answer, after which it is ended; for programs that ask for it.
    cpu_s: float = 0.25
    #: Open at once; when one more comes, the longest silent one is closed.
    connections: int = 1024
    #: Read and answered at once, which bounds the memory they take.
    in_hand: int = 8
    waiting: int = 512
    #: From the connection to the end of the first request's head.
    head_s: float = 5.0
    #: After the signal to stop, requests are answered for so long, and each connection is closed
    #: after its answer: clients connect again, to another replica, never to one that is closing.
    farewell_s: float = 1.0


class HttpRefusal(Exception):
    """An error reply: an HTTP status, one word for the metrics, and a sentence."""

    def __init__(self, status: int, outcome: str, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status
        self.outcome = outcome


class RequestLimiter:
    """Admits a limited number of requests at a time."""

    def __init__(self, limits: HttpLimits) -> None:
        self._limits = limits
        self._slots = asyncio.Semaphore(limits.in_hand)
        self._admitted = 0

    @asynccontextmanager
    async def admitted(self) -> AsyncIterator[None]:
        """Waits until a slot is free. Refused if too many wait, or after a timeout."""
        if self._admitted >= self._limits.in_hand + self._limits.waiting:
            raise HttpRefusal(429, "crowded", "too many requests at once; try again")
        self._admitted += 1
        try:
            async with asyncio.timeout(self._limits.answer_s), self._slots:
                yield
        except TimeoutError:
            seconds = self._limits.answer_s
            raise HttpRefusal(503, "late", f"not read and answered within {seconds:g} s") from None
        finally:
            self._admitted -= 1


def answered(body: bytes, *, close: bool = False) -> web.Response:
    response = web.Response(body=body, content_type=JSON)
    if close:
        response.force_close()
    return response


def refusal(refused: HttpRefusal) -> web.Response:
    # What was not read is left behind with the connection.
    headers = {} if refused.outcome == "bad" else {"Connection": "close"}
    if refused.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return web.Response(text=f"{refused}\n", status=refused.status, headers=headers)


async def read(request: web.Request, limits: HttpLimits) -> bytes:
    """The body; Refusal if it is no JSON, or too much of it."""
    if request.content_type != JSON:
        raise HttpRefusal(415, "bad", f"send {JSON}, and not {request.content_type[:80]!r}")
    if request.headers.get("Content-Encoding", "identity") != "identity":
        raise HttpRefusal(415, "bad", "send it without a Content-Encoding")
    body = bytearray()
    try:
        async for chunk in request.content.iter_any():
            body += chunk
            if len(body) > limits.body_bytes:
                raise HttpRefusal(
                    413, "large", f"the body is longer than {_size(limits.body_bytes)}"
                )
    except OSError as error:  # the client has gone, and hears no answer
        raise HttpRefusal(400, "bad", str(error)) from error
    return bytes(body)


def _size(number: int) -> str:
    return f"{number // 2**20} MiB" if number >= 2**20 else f"{number // 2**10} KiB"


class Scrapes:
    """What Prometheus reads, rendered at most so often that it takes a tenth of the time.

    Going through all nodes takes a while in which nothing else happens. What counts is the CPU that
    it takes: on a machine that is busy with other work, the text would be old for seconds.
    """

    def __init__(
        self,
        registry: CollectorRegistry,
        clock: Callable[[], float] = time.monotonic,
        cpu_clock: Callable[[], float] = time.thread_time,
    ) -> None:
        self._registry = registry
        self._clock = clock
        self._cpu_clock = cpu_clock
        self._text = b""
        self._good_until_s = float("-inf")
        #: How often the text was made: a client can see whether it has a new one.
        self._made = 0

    async def answer(self, _: web.Request) -> web.Response:
        body = self.text()
        headers = {"Content-Type": CONTENT_TYPE_LATEST, "ETag": f'"{self._made}"'}
        return web.Response(body=body, headers=headers)

    def text(self) -> bytes:
        if self._clock() >= self._good_until_s:
            began_s = self._cpu_clock()
            self._text = generate_latest(self._registry)
            self._made += 1
            self._good_until_s = self._clock() + 9 * (self._cpu_clock() - began_s)
        return self._text


def health(registry: CollectorRegistry, unready_because: Callable[[], str]) -> list[web.RouteDef]:
    """Live as long as the event loop turns; ready while there is nothing against it."""

    async def live(_: web.Request) -> web.Response:
        return web.Response(text="ok")

    async def ready(_: web.Request) -> web.Response:
        why = unready_because()
        return web.Response(text=why or "ok", status=503 if why else 200)

    return [
        web.get("/healthz", live),
        web.get("/livez", live),
        web.get("/readyz", ready),
        web.get("/metrics", Scrapes(registry).answer),
    ]
