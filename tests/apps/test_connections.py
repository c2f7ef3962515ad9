"""A port that others try to fill: probes are answered, and nobody is waited for."""

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest
from aiohttp import web
from prometheus_client import CollectorRegistry, Counter

from fairlead.apps.serving import connections, health
from fairlead.apps.serving.connections import ConnectionLimit, PortLimits
from fairlead.apps.serving.http_limits import Scrapes

Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]
LIMITS = PortLimits(connections=8, silent_s=60.0)


@asynccontextmanager
async def serving(
    app: web.Application | None = None, limits: PortLimits = LIMITS
) -> AsyncIterator[int]:
    app = app or health.make_app(CollectorRegistry(), str)
    port = await connections.serve(app, "127.0.0.1", 0, limits)
    try:
        yield port.number
    finally:
        await port.cleanup()


async def connect(port: int, send: bytes = b"") -> Stream:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(send)
    return reader, writer


async def probe(port: int) -> int:
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"http://127.0.0.1:{port}/livez") as reply,
    ):
        return reply.status


def closed(streams: list[Stream]) -> list[bool]:
    return [reader.at_eof() or reader.exception() is not None for reader, _ in streams]


async def ended(stream: Stream) -> None:
    """Waits until the other side has hung up."""
    try:
        while await stream[0].read(1024):
            pass
    except ConnectionResetError:
        return


def hang_up(streams: list[Stream]) -> None:
    for _, writer in streams:
        writer.close()


@pytest.mark.parametrize("sent", [b"", b"GET /livez HT", b"GET /livez HTTP/1.1\r\nHost: a\r\n\r\n"],
                         ids=["silent", "half a head", "kept alive"])  # fmt: skip
async def test_probes_are_answered_while_others_fill_the_port(sent: bytes) -> None:
    async with serving() as port:
        held = [await connect(port, sent) for _ in range(LIMITS.connections)]
        for _ in range(2 * LIMITS.connections):
            assert await probe(port) == 200
        await ended(held[0])
        hang_up(held)


async def test_the_newest_stay() -> None:
    async with serving() as port:
        held = [await connect(port) for _ in range(LIMITS.connections + 3)]
        for stream in held[:3]:
            await ended(stream)
        assert await probe(port) == 200  # one more goes
        await ended(held[3])
        assert closed(held[4:]) == [False] * (LIMITS.connections - 1)
        hang_up(held)


async def test_who_is_being_answered_is_not_cut_off() -> None:
    asked, go_on = asyncio.Event(), asyncio.Event()

    async def slow(_: web.Request) -> web.Response:
        asked.set()
        await go_on.wait()
        return web.Response(text="at last")

    app = health.make_app(CollectorRegistry(), str)
    app.router.add_get("/slow", slow)
    async with serving(app) as port:
        first = await connect(port, b"GET /slow HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        await asked.wait()
        held = [await connect(port) for _ in range(2 * LIMITS.connections)]
        await ended(held[0])
        go_on.set()
        assert b"at last" in await first[0].read()
        hang_up([first, *held])


async def test_who_says_nothing_is_not_waited_for() -> None:
    async with serving(limits=PortLimits(silent_s=0.2)) as port:
        for sent in (b"", b"GET /livez HTTP/1.1\r\nHost:"):
            stream = await connect(port, sent)
            await ended(stream)
            hang_up([stream])


@pytest.mark.parametrize("head", [b"A: " + b"x" * 20_000, b"\r\n".join([b"A: b"] * 40)],
                         ids=["long", "many"])  # fmt: skip
async def test_headers_have_a_limit(head: bytes) -> None:
    async with serving() as port:
        reader, writer = await connect(port, b"GET /livez HTTP/1.1\r\n" + head + b"\r\n\r\n")
        assert b" 400 " in await reader.readline()
        hang_up([(reader, writer)])


async def test_connections_that_come_and_go_leave_nothing_behind() -> None:
    now_s = iter(range(1_000_000))
    room = ConnectionLimit(8, clock=lambda: float(next(now_s)))

    async def handle(_: web.BaseRequest) -> web.StreamResponse:
        raise AssertionError

    make = room.limiting(web.Server(handle))
    for _ in range(1000):
        make()
    assert len(room) <= 8


def test_scrapes_take_a_tenth_of_the_time_at_most() -> None:
    registry, now_s = CollectorRegistry(), [0.0]
    counter = Counter("asked", "How often.", registry=registry)
    spent = itertools.count()  # so a text takes a second to make
    scrapes = Scrapes(registry, lambda: now_s[0], lambda: next(spent))
    first = scrapes.text()
    counter.inc()
    now_s[0] = 8.9
    assert scrapes.text() == first
    now_s[0] = 9.0
    assert scrapes.text() != first


def test_on_a_busy_machine_scrapes_are_not_older() -> None:
    registry, now_s = CollectorRegistry(), itertools.count(step=60)
    counter = Counter("asked", "How often.", registry=registry)
    scrapes = Scrapes(registry, lambda: next(now_s), lambda: 0.0)
    first = scrapes.text()
    counter.inc()
    assert scrapes.text() != first
