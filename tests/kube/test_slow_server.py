"""A server that is slow without end: one byte at a time, lines that stay empty, headers for ever.

Every wait here ends by a deadline of ours. What never comes is waited for briefly.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from fairlead.kube.access.credentials import Static
from fairlead.kube.access.kubeconfig import Access
from fairlead.kube.access.tls import Pem, client_context
from fairlead.kube.errors import ReplyLost, Stalled, Unreachable
from fairlead.kube.http.client import Client
from fairlead.kube.http.watch import WatchStream
from fairlead.sim.controlplane.certificates import Authority
from scripted import until
from test_client import server_tls

BRIEF_S = 0.5
#: For what follows something that must come first, on a busy machine, too.
LESS_BRIEF_S = 3.0
#: Several bytes come within BRIEF_S, so that no silence is longer than that.
DRIP_S = 0.02
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"

Answer = Callable[[asyncio.StreamWriter], Awaitable[None]]


@contextlib.asynccontextmanager
async def answered(
    answer: Answer, authority: Authority | None = None, **options: Any
) -> AsyncIterator[Client]:
    """A client of a server that answers every request so, then keeps the connection open."""
    served_by = server_tls(authority) if authority else None
    trusted = (
        client_context(Pem.read(authority.certificate), None, verify=True) if authority else None
    )

    served: set[asyncio.StreamWriter] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        served.add(writer)
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while await reader.readuntil(b"\r\n\r\n"):
                await answer(writer)
        writer.close()
        served.remove(writer)

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=served_by)
    address = f"http{'s' if authority else ''}://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    client = Client(Access(address, trusted, Static({})), **options)
    try:
        yield client
    finally:
        await client.close()
        server.close()
        for writer in served:
            writer.transport.abort()
        await until(lambda: not served)


def dripping(first: bytes, more: bytes) -> Answer:
    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(first)
        while True:
            for byte in more:
                writer.write(bytes([byte]))
                await writer.drain()
                await asyncio.sleep(DRIP_S)

    return answer


def sending(*pieces: bytes) -> Answer:
    async def answer(writer: asyncio.StreamWriter) -> None:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()

    return answer


def a_chunk(text: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(text), text)


async def read_on(stream: WatchStream) -> list[bytes]:
    """Reads for as long as no line comes."""
    async with asyncio.timeout(60):
        while not (lines := await stream.lines()):
            assert lines is not None
    return lines


@pytest.mark.parametrize(
    ("first", "more"),
    [
        (CHUNKED + a_chunk(b'{"type":'), a_chunk(b"x")),
        (CHUNKED, a_chunk(b"\n")),
        (CHUNKED + b"1;x=", b"a"),
    ],
    ids=["half a line", "empty lines", "a chunk's extension"],
)
async def test_bytes_without_an_event_do_not_keep_a_watch_alive(first: bytes, more: bytes) -> None:
    async with (
        answered(dripping(first, more)) as client,
        client.watch("/x", {}) as stream,
    ):
        stream._idle_timeout_s = BRIEF_S  # now that it is open
        with pytest.raises(Stalled, match=f"no event of the watch came for {BRIEF_S:g} s"):
            await read_on(stream)


async def test_each_event_begins_the_wait_for_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock is put forward: in real seconds, a pause of this process could be too long."""
    loop, go_on, skipped_s = asyncio.get_running_loop(), asyncio.Semaphore(0), 0.0
    real_s = loop.time
    monkeypatch.setattr(loop, "time", lambda: real_s() + skipped_s)

    async def slowly(writer: asyncio.StreamWriter) -> None:
        writer.write(CHUNKED + a_chunk(b"{"))
        for _ in range(4):
            await go_on.acquire()
            writer.write(a_chunk(b"}\n{"))

    async with (
        answered(slowly) as client,
        client.watch("/x", {}, idle_timeout_s=50.0) as stream,
    ):
        for _ in range(4):
            reading = asyncio.create_task(read_on(stream))
            await until(lambda: stream._due_s is not None)
            skipped_s += 20.0
            go_on.release()
            assert await reading == [b"{}"]


@pytest.mark.parametrize("chunk", [1, 700, 10**6], ids=["bytes", "parts of lines", "whole"])
@pytest.mark.parametrize("with_tls", [False, True], ids=["plain", "tls"])
async def test_bursts_reach_slow_readers_whole_and_in_order(
    with_tls: bool, chunk: int, tmp_path: Path
) -> None:
    """More than all buffers hold, so that reading pauses and goes on again and again."""
    lines = [b'{"n":%d,"x":"%s"}' % (n, b"y" * (n * 7919 % 4000)) for n in range(1200)]
    burst = b"".join(line + b"\n" for line in lines[: 60 if chunk == 1 else None])
    pieces = (a_chunk(burst[at : at + chunk]) for at in range(0, len(burst), chunk))
    body = b"".join(pieces)

    async def read(client: Client, number: int) -> list[bytes]:
        found: list[bytes] = []
        async with client.watch("/x", {}, idle_timeout_s=30) as stream:
            while sum(map(len, found)) + len(found) < len(burst):
                found += await read_on(stream)
                await asyncio.sleep(0.005 * (number % 2))
        return found

    authority = Authority(tmp_path / "authority") if with_tls else None
    async with answered(sending(CHUNKED, body), authority) as client:
        found = await asyncio.gather(*(read(client, number) for number in range(4)))
    assert found == [burst.splitlines()] * 4


async def test_a_transport_that_reads_no_more_is_noticed() -> None:
    """aiohttp stops its own clock while it does not read: for ever, if it never goes on."""
    async with (
        answered(sending(CHUNKED, a_chunk(b"{}\n"))) as client,
        client.watch("/x", {}) as stream,
    ):
        assert await read_on(stream) == [b"{}"]
        stream._idle_timeout_s = BRIEF_S  # now that what must come has come
        connection = stream._response.connection
        assert isinstance(connection, aiohttp.connector.Connection)
        assert connection.protocol is not None
        connection.protocol.pause_reading()
        with pytest.raises(Stalled):
            await read_on(stream)


@pytest.mark.parametrize(
    ("first", "more"),
    [
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
        (b"HTTP/1.1 200 OK\r\n", b"X-A: a\r\n"),
        (b"HTTP/1.1 200 OK\r\nX-A: ", b"a"),
    ],
    ids=["interim replies", "headers", "one header"],
)
async def test_a_watch_that_does_not_open_is_given_up(first: bytes, more: bytes) -> None:
    async with answered(dripping(first, more)) as client:
        async with asyncio.timeout(60):
            with pytest.raises(Stalled, match="not open within"):
                async with client.watch("/x", {}, idle_timeout_s=BRIEF_S):
                    pass


async def test_a_refusal_without_words_is_a_refusal() -> None:
    refused = b"HTTP/1.1 410 Gone\r\nContent-Length: 100\r\n\r\n"
    async with (
        answered(sending(refused)) as client,
        asyncio.timeout(60),
        client.watch("/x", {}, idle_timeout_s=LESS_BRIEF_S) as stream,
    ):
        assert (stream.status, stream.message) == (410, "HTTP 410")


@pytest.mark.parametrize(
    "first",
    [
        b"",
        b"HTTP/1.1 200 OK\r\nX-A: ",
        b"HTTP/1.1 200 OK\r\nContent-Length: 10000\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\n",
        CHUNKED + b"ffff\r\n",
    ],
    ids=["status line", "header", "body", "body without an end", "chunk"],
)
async def test_a_reply_that_comes_byte_by_byte_has_a_deadline(first: bytes) -> None:
    """As that of a list or a bind: time counts from the request to the end of the reply."""
    more = b"x" if first else b"HTTP/1.1 200 " + b"O" * 1000
    drips, is_open = dripping(first, more), False

    async def answer(writer: asyncio.StreamWriter) -> None:
        nonlocal is_open
        if is_open:
            await drips(writer)
        is_open = True
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")

    async with answered(answer) as client, asyncio.timeout(60):
        await client.request("GET", "/x")  # to connect takes time that is no reply's
        with pytest.raises(ReplyLost, match="nothing within"):
            await client.request("POST", "/x", body=b"{}", timeout_s=BRIEF_S)


async def test_a_server_that_closes_after_each_reply_is_asked_again() -> None:
    replies = [b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}"]
    async with answered(sending(*replies)) as client:
        for _ in range(5):
            assert (await client.request("GET", "/x", timeout_s=30)).body == b"{}"


async def test_a_redirect_of_a_watch_is_a_refusal_that_is_not_followed() -> None:
    moved = b"HTTP/1.1 307 T\r\nLocation: http://127.0.0.1:1/x\r\nContent-Length: 5\r\n\r\nmoved"
    async with answered(sending(moved)) as client, client.watch("/x", {}) as stream:
        assert (stream.status, stream.message) == (307, "moved")


async def test_connections_apart_do_not_wait_for_those_that_are_busy() -> None:
    asked_once = asyncio.Event()

    async def answer(writer: asyncio.StreamWriter) -> None:
        if asked_once.is_set():  # else nothing comes, ever
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
        asked_once.set()

    async with answered(answer, max_connections=1) as client:
        asked = asyncio.create_task(client.request("GET", "/x", timeout_s=60))
        await asked_once.wait()
        with pytest.raises(Unreachable, match="connections were busy"):
            await client.request("GET", "/x", timeout_s=2 * BRIEF_S)
        other = client.apart()
        assert (await other.request("GET", "/x", timeout_s=30)).body == b"{}"
        await client.close()
        with pytest.raises(Unreachable):
            await other.request("GET", "/x")
        with pytest.raises(ReplyLost):
            await asked
