"""The client on a real socket: what it returns, and what it says when something breaks."""

import asyncio
import contextlib
import gc
import json
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.client_proto import ResponseHandler

from fairlead.kube.access.credentials import Static, bearer
from fairlead.kube.access.kubeconfig import Access
from fairlead.kube.access.tls import ClientKeyPair, Pem, client_context
from fairlead.kube.errors import KubeconfigError, ReplyLost, ReplyTooLong, Stalled, Unreachable
from fairlead.kube.http import client as client_module
from fairlead.kube.http.client import Client
from fairlead.kube.http.connections import Connection
from fairlead.kube.http.sessions import Sessions
from fairlead.sim.controlplane.certificates import Authority, KeyPair
from scripted import until

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

#: Short for what never comes, and long for what comes on a busy machine.
BRIEF_S = 1.0


@contextlib.asynccontextmanager
async def serving(handler: Handler, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handler)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
    await site.start()
    port = runner.addresses[0][1]
    try:
        yield f"{'https' if tls else 'http'}://127.0.0.1:{port}"
    finally:
        await runner.cleanup()


@contextlib.asynccontextmanager
async def talking(
    handler: Handler, credentials: Any = None, **options: Any
) -> AsyncIterator[Client]:
    async with serving(handler) as server:
        client = Client(Access(server, None, credentials or Static({})), **options)
        yield client
        await client.close()


async def echo(request: web.Request) -> web.Response:
    return web.json_response(
        {
            "method": request.method,
            "url": request.raw_path,
            "headers": {name.lower(): value for name, value in request.headers.items()},
            "body": (await request.read()).decode(),
        }
    )


def answering(status: int, **headers: str) -> Handler:
    async def handler(request: web.Request) -> web.Response:
        return web.Response(status=status, text="words", headers=headers)

    return handler


async def test_a_request_says_what_it_should() -> None:
    async with talking(echo, Static(bearer("t")), user_agent="fairlead/1") as client:
        reply = await client.request(
            "PATCH",
            "/api/v1/namespaces/a%2Fb",
            body=b"{}",
            params={"fieldManager": "a b", "fieldSelector": "spec.nodeName!="},
            content_type="application/merge-patch+json",
        )
    seen = json.loads(reply.body)
    assert reply.status == 200
    assert seen["method"] == "PATCH"
    assert (
        seen["url"] == "/api/v1/namespaces/a%2Fb?fieldManager=a+b&fieldSelector=spec.nodeName%21%3D"
    )
    assert seen["body"] == "{}"
    headers = seen["headers"]
    del headers["host"]
    assert headers == {
        "authorization": "Bearer t",
        "content-type": "application/merge-patch+json",
        "content-length": "2",
        "accept": "application/json",
        "accept-encoding": "identity",
        "user-agent": "fairlead/1",
    }


async def test_a_server_behind_a_path_is_reached() -> None:
    async with serving(echo) as server:
        client = Client(Access(f"{server}/k8s/c-1", None, Static({})))
        plain = await client.request("GET", "/api/v1/pods")
        with_query = await client.request("GET", "/api/v1/pods", params={"limit": "1"})
        await client.close()
    assert b'"/k8s/c-1/api/v1/pods"' in plain.body
    assert b'"/k8s/c-1/api/v1/pods?limit=1"' in with_query.body


@pytest.mark.parametrize("status", [200, 204, 301, 307, 400, 403, 404, 409, 422, 429, 500, 504])
async def test_every_status_is_a_reply(status: int) -> None:
    handler = answering(status, Location="/elsewhere", **{"Retry-After": "3"})
    async with talking(handler) as client:
        reply = await client.request("POST", "/x", body=b"{}")
    assert (reply.status, reply.retry_after_s) == (status, 3.0)


class Renewable:
    def __init__(self) -> None:
        self.token = "old"
        self.refreshed = 0

    async def headers(self) -> dict[str, str]:
        return bearer(self.token)

    async def refresh(self) -> None:
        self.refreshed += 1
        self.token = "new"


async def only_the_new_token(request: web.Request) -> web.Response:
    good = request.headers["Authorization"] == "Bearer new"
    return web.Response(status=200 if good else 401)


async def test_a_401_leads_to_a_new_login_and_one_more_try() -> None:
    credentials = Renewable()
    async with talking(only_the_new_token, credentials) as client:
        assert (await client.request("GET", "/x")).status == 200
        async with client.watch("/x", {"watch": "true"}) as stream:
            assert stream.status == 200
    assert credentials.refreshed == 1


async def test_a_401_that_stays_is_a_reply() -> None:
    seen: list[str] = []

    async def never(request: web.Request) -> web.Response:
        seen.append(request.headers["Authorization"])
        return web.Response(status=401)

    async with talking(never, Renewable()) as client:
        assert (await client.request("GET", "/x")).status == 401
        assert seen == ["Bearer old", "Bearer new"]
        async with client.watch("/x", {}) as stream:
            assert stream.status == 401


async def test_a_login_that_fails_is_told_as_not_sent() -> None:
    class Broken(Renewable):
        async def headers(self) -> dict[str, str]:
            raise KubeconfigError("log in again")

    async with talking(echo, Broken()) as client:
        with pytest.raises(Unreachable, match="log in again"):
            await client.request("POST", "/x", body=b"{}")


# What was sent, and what was not


async def test_no_server_is_unreachable() -> None:
    async with serving(echo) as server:
        pass
    client = Client(Access(server, None, Static({})))
    with pytest.raises(Unreachable, match="cannot connect"):
        await client.request("POST", "/x", body=b"{}")
    with pytest.raises(Unreachable):
        async with client.watch("/x", {}):
            pass
    await client.close()
    with pytest.raises(Unreachable, match="closed"):
        await client.request("GET", "/x")


async def test_waiting_for_a_connection_in_vain_is_unreachable() -> None:
    release = asyncio.Event()

    async def slow(request: web.Request) -> web.Response:
        await release.wait()
        return web.Response()

    async with talking(slow, max_connections=1) as client:
        first = asyncio.create_task(client.request("POST", "/x", body=b"{}"))
        await asyncio.sleep(0.05)
        with pytest.raises(Unreachable):
            await client.request("POST", "/x", body=b"{}", timeout_s=0.2)
        release.set()
        assert (await first).status == 200


async def test_no_reply_in_time_is_a_lost_reply() -> None:
    async def no_writes(request: web.Request) -> web.Response:
        if request.method != "GET":
            await asyncio.sleep(60)
        return web.Response()

    async with talking(no_writes) as client:
        await client.request("GET", "/x")  # else the time may be over before it is connected
        with pytest.raises(ReplyLost):
            await client.request("POST", "/x", body=b"{}", timeout_s=BRIEF_S)


async def test_a_cut_connection_is_a_lost_reply_and_nothing_is_sent_twice() -> None:
    seen: list[str] = []

    async def cut_writes(request: web.Request) -> web.Response:
        seen.append(request.method)
        if request.method != "GET":
            assert request.transport is not None
            request.transport.abort()
        return web.Response()

    async with talking(cut_writes) as client:
        for method in ("POST", "PUT", "PATCH", "DELETE"):
            await client.request("GET", "/x")  # leaves a connection to be used again
            with pytest.raises(ReplyLost):
                await client.request(method, "/x", body=b"{}")
    assert seen == ["GET", "POST", "GET", "PUT", "GET", "PATCH", "GET", "DELETE"]


async def half_a_body(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Length": "100"})
    await response.prepare(request)
    await response.write(b"half")
    assert request.transport is not None
    request.transport.close()
    return response


async def test_half_a_reply_is_a_lost_reply() -> None:
    async with talking(half_a_body) as client:
        with pytest.raises(ReplyLost):
            await client.request("GET", "/x")


async def test_a_reply_that_is_no_http_is_a_lost_reply() -> None:
    async def garbage(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"SSH-2.0-whatever\r\n")
        writer.close()

    server = await asyncio.start_server(garbage, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    client = Client(Access(f"http://127.0.0.1:{port}", None, Static({})))
    with pytest.raises(ReplyLost):
        await client.request("GET", "/x")
    await client.close()
    server.close()
    await server.wait_closed()


@pytest.mark.parametrize("chunked", [True, False])
async def test_a_reply_beyond_the_limit_is_given_up(chunked: bool) -> None:
    async def long(request: web.Request) -> web.StreamResponse:
        if not chunked:
            return web.Response(body=b"x" * 300_000)
        response = web.StreamResponse()
        await response.prepare(request)
        with contextlib.suppress(ConnectionError):
            while True:
                await response.write(b"x" * 10_000)
        return response

    async with talking(long) as client:
        with pytest.raises(ReplyTooLong, match="longer than 200000 bytes"):
            await client.request("GET", "/x", max_body=200_000)


@pytest.mark.parametrize(
    ("first", "more"),
    [
        (b"HTTP/1.1 200 OK\r\n", b"X-A: aaaaaaaa\r\n"),
        (b"HTTP/1.1 200 OK\r\nX-A: ", b"a"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;x=", b"a"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", b"X-A: a\r\n"),
    ],
    ids=["headers", "one header", "a chunk's extension", "trailers"],
)
async def test_a_reply_of_which_nothing_is_a_body_is_given_up(first: bytes, more: bytes) -> None:
    async def endless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(first)
        with contextlib.suppress(ConnectionError):
            while True:
                writer.write(more * 1000)
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(endless, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    client = Client(Access(f"http://127.0.0.1:{port}", None, Static({})))
    with pytest.raises(ReplyLost, match="longer than 1000 bytes"):
        await client.request("GET", "/x", max_body=1000)
    await client.close()
    server.close()


async def test_a_packed_reply_is_limited_by_what_it_unpacks_to() -> None:
    async def bomb(request: web.Request) -> web.Response:
        response = web.Response(body=b"0" * 5_000_000)
        response.enable_compression(web.ContentCoding.gzip)
        response._compression_force = web.ContentCoding.gzip
        return response

    async with talking(bomb) as client:
        with pytest.raises(ReplyLost):
            await client.request("GET", "/x", max_body=100_000)


async def test_many_at_once_share_the_connections() -> None:
    peers = set[Any]()

    async def note(request: web.Request) -> web.Response:
        assert request.transport is not None
        peers.add(request.transport.get_extra_info("peername"))
        return web.Response()

    async with talking(note, max_connections=4) as client:
        replies = await asyncio.gather(*(client.request("GET", f"/{n}") for n in range(100)))
    assert {reply.status for reply in replies} == {200}
    assert len(peers) <= 4


# Watches


def streaming(*pieces: bytes | float, cut: bool = False) -> Handler:
    """Sends bytes; a number is a pause."""

    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for piece in pieces:
            if isinstance(piece, bytes):
                await response.write(piece)
            else:
                await asyncio.sleep(piece)
        if cut:
            assert request.transport is not None
            request.transport.close()
        return response

    return handler


async def test_a_watch_is_its_whole_lines() -> None:
    line = '{"a":"日本"}'.encode()
    async with (
        talking(streaming(line[:7], 0.02, line[7:] + b"\n" + line, 0.02, b"\n{half")) as client,
        client.watch("/x", {"watch": "true"}) as stream,
    ):
        assert stream.status == 200
        assert [each async for each in stream] == [line, line]


async def test_a_watch_that_is_cut_says_so() -> None:
    handler = streaming(b"{}\n{ha", 0.02, cut=True)
    async with talking(handler) as client, client.watch("/x", {}) as stream:
        assert await stream.lines() == [b"{}"]
        with pytest.raises(ReplyLost):
            await stream.lines()


async def test_a_silent_watch_is_stalled() -> None:
    handler = streaming(b"{}\n", 60.0)
    async with (
        talking(handler) as client,
        client.watch("/x", {}) as stream,
    ):
        assert await stream.lines() == [b"{}"]
        stream._idle_timeout_s = BRIEF_S  # now that what must come has come
        with pytest.raises(Stalled):
            await stream.lines()


async def test_a_refused_watch_says_why() -> None:
    async def refuse(request: web.Request) -> web.Response:
        body = {"kind": "Status", "message": "too many"}
        return web.json_response(body, status=429, headers={"Retry-After": "5"})

    async with talking(refuse) as client, client.watch("/x", {}) as stream:
        assert (stream.status, stream.retry_after_s, stream.message) == (429, 5.0, "too many")


async def test_a_watch_can_be_hung_up_by_someone_else() -> None:
    async with talking(streaming(b"{}\n", 600.0)) as client, client.watch("/x", {}) as stream:
        assert await stream.lines() == [b"{}"]
        asyncio.get_running_loop().call_later(0.05, stream.close)
        async with asyncio.timeout(60):
            with contextlib.suppress(ReplyLost):
                assert await stream.lines() is None


async def test_watches_take_no_connection_from_requests() -> None:
    async def both(request: web.Request) -> web.StreamResponse:
        return await (streaming(b"{}\n", 600.0) if request.path == "/w" else echo)(request)

    async with talking(both, max_connections=1) as client, contextlib.AsyncExitStack() as stack:
        for _ in range(3):
            stream = await stack.enter_async_context(client.watch("/w", {}))
            assert await stream.lines() == [b"{}"]
        assert (await client.request("GET", "/x", timeout_s=60)).status == 200


# TLS


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "authority")


def server_tls(authority: Authority) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    pair = authority.server("server")
    context.load_cert_chain(pair.certificate, pair.key)
    context.load_verify_locations(authority.certificate)
    context.verify_mode = ssl.CERT_OPTIONAL
    return context


def pem_pair(pair: KeyPair) -> ClientKeyPair:
    return ClientKeyPair(Pem.read(pair.certificate), Pem.read(pair.key))


async def who(request: web.Request) -> web.Response:
    assert request.transport is not None
    certificate = request.transport.get_extra_info("peercert") or {}
    names = dict(part[0] for part in certificate.get("subject", ()))
    user = names.get("commonName", "nobody")
    return web.Response(status=401 if user == "expired" else 200, text=user)


async def test_a_server_is_trusted_by_its_authority_and_name(
    authority: Authority, tmp_path: Path
) -> None:
    trusted = client_context(Pem.read(authority.certificate), None, verify=True)
    other = Authority(tmp_path / "other")
    distrusted = client_context(Pem.read(other.certificate), None, verify=True)
    blind = client_context(None, None, verify=False)
    async with serving(who, server_tls(authority)) as server:
        good = Client(Access(server, trusted, Static({})))
        assert (await good.request("GET", "/x")).body == b"nobody"
        named = Client(Access(server, trusted, Static({}), server_hostname="kubernetes"))
        assert (await named.request("GET", "/x")).status == 200
        wrong = Client(Access(server, trusted, Static({}), server_hostname="example.org"))
        with pytest.raises(Unreachable, match="tls-server-name"):
            await wrong.request("GET", "/x")
        stranger = Client(Access(server, distrusted, Static({})))
        with pytest.raises(Unreachable, match="certificate-authority"):
            await stranger.request("GET", "/x")
        careless = Client(Access(server, blind, Static({})))
        assert (await careless.request("GET", "/x")).status == 200
        for client in (good, named, wrong, stranger, careless):
            await client.close()


async def ask(client: Client) -> None:
    await client.request("GET", "/x")


async def watch(client: Client) -> None:
    async with client.watch("/x", {}):
        pass


@pytest.mark.parametrize(("use", "protocol"), [(ask, Connection), (watch, ResponseHandler)])
async def test_a_client_that_is_closed_when_tls_has_just_begun_leaves_no_socket(
    authority: Authority,
    monkeypatch: pytest.MonkeyPatch,
    use: Callable[[Client], Awaitable[None]],
    protocol: type[asyncio.Protocol],
) -> None:
    made, closing = protocol.connection_made, list[asyncio.Task[None]]()

    def cancel_then(self: asyncio.Protocol, transport: asyncio.BaseTransport) -> None:
        made(self, transport)
        using.cancel()
        closing.append(asyncio.get_running_loop().create_task(client.close()))

    monkeypatch.setattr(protocol, "connection_made", cancel_then)
    tls = client_context(Pem.read(authority.certificate), None, verify=True)
    with silent_server(server_tls(authority)) as server:
        client = Client(Access(server, tls, Static({})))
        using = asyncio.ensure_future(use(client))
        with contextlib.suppress(asyncio.CancelledError, ReplyLost, Unreachable):
            await using
        await closing[0]
        await client.close()
        assert sockets_to(server) == []


@contextlib.contextmanager
def silent_server(tls: ssl.SSLContext) -> Iterator[str]:
    """It does its part of the handshake, and nothing after it."""
    ended = threading.Event()

    def serve() -> None:
        connection, _ = listening.accept()
        with tls.wrap_socket(connection, server_side=True):
            ended.wait()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        serving = threading.Thread(target=serve)
        serving.start()
        try:
            yield f"https://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            ended.set()
            serving.join()


def sockets_to(server: str) -> list[socket.socket]:
    """Those of this process that are connected to it."""
    port = int(server.rpartition(":")[2])
    sockets = [each for each in gc.get_objects() if isinstance(each, socket.socket)]
    return [each for each in sockets if each.family == socket.AF_INET and _peer(each) == port]


def _peer(each: socket.socket) -> int | None:
    try:
        return int(each.getpeername()[1])
    except OSError:
        return None


async def test_an_authority_that_left_its_file_is_no_longer_trusted(
    authority: Authority, tmp_path: Path
) -> None:
    old, new = Pem.read(authority.certificate), Pem.read(Authority(tmp_path / "n").certificate)
    context = client_context(old, None, verify=True)
    async with serving(who, server_tls(authority)) as server:
        for trusted, is_good in ((old, True), (Pem(old.data + new.data), True), (new, False)):
            context.trust(trusted)
            client = Client(Access(server, context, Static({})))
            if is_good:
                assert (await client.request("GET", "/x")).status == 200
            else:
                with pytest.raises(Unreachable, match="certificate-authority"):
                    await client.request("GET", "/x")
            await client.close()


async def test_a_renewed_client_certificate_is_used_after_a_401(authority: Authority) -> None:
    trusted = Pem.read(authority.certificate)
    context = client_context(trusted, pem_pair(authority.client("expired")), verify=True)

    class Renewed(Static):
        async def refresh(self) -> None:
            context.present(pem_pair(authority.client("me")))

    async with serving(who, server_tls(authority)) as server:
        client = Client(Access(server, context, Renewed({})))
        reply = await client.request("GET", "/x")
        assert (reply.status, reply.body) == (200, b"me")
        await client.close()


async def test_connections_are_left_behind_only_now_and_then(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    trusted = Pem.read(authority.certificate)
    context = client_context(trusted, pem_pair(authority.client("expired")), verify=True)
    ports: list[int] = []

    async def refuse(request: web.Request) -> web.Response:
        assert request.transport is not None
        ports.append(request.transport.get_extra_info("peername")[1])
        return web.Response(status=401)

    async with serving(refuse, server_tls(authority)) as server:
        client = Client(Access(server, context, Static({})))
        for _ in range(3):
            assert (await client.request("GET", "/x")).status == 401
        first, second = ports[0], ports[1]
        assert first != second, "the first refusal is worth a new connection"
        assert set(ports[1:]) == {second}, "those that follow at once are not"
        monkeypatch.setattr(client_module, "_RETIREMENT_S", 0.0)  # two minutes, in truth
        assert (await client.request("GET", "/x")).status == 401
        assert ports[-1] not in {first, second}
        await client.close()


async def test_no_more_connections_than_allowed_and_nobody_waits_for_ever() -> None:
    gate = asyncio.Event()
    ports: set[int] = set()

    async def slow(request: web.Request) -> web.Response:
        assert request.transport is not None
        ports.add(request.transport.get_extra_info("peername")[1])
        await gate.wait()
        return web.Response(text="ok")

    async with serving(slow) as server:
        client = Client(Access(server, None, Static({})), max_connections=2)
        first = [asyncio.create_task(client.request("GET", "/x")) for _ in range(6)]
        await until(lambda: len(ports) == 2)
        impatient = asyncio.create_task(client.request("GET", "/x", timeout_s=BRIEF_S))
        with pytest.raises(Unreachable, match="all 2 connections were busy"):
            await impatient
        first[2].cancel()  # one that waits gives up, and takes nobody's turn with it
        gate.set()
        done = await asyncio.gather(*first, return_exceptions=True)
        assert [getattr(reply, "status", None) for reply in done] == [200, 200, None, 200, 200, 200]
        assert len(ports) == 2
        await client.close()


async def test_connections_are_opened_one_after_another(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.get_running_loop()
    connect, opening, opened = loop.create_connection, 0, 0

    async def counted(*args: Any, **options: Any) -> Any:
        nonlocal opening, opened
        opening, opened = opening + 1, opened + 1
        assert opening == 1
        await asyncio.sleep(0.01)  # a handshake takes its time
        made = await connect(*args, **options)
        opening -= 1
        return made

    monkeypatch.setattr(loop, "create_connection", counted)
    async with talking(echo, max_connections=64) as client:
        replies = await asyncio.gather(*(client.request("GET", f"/{n}") for n in range(64)))
    assert {reply.status for reply in replies} == {200}
    assert opened < 64, "those that were answered serve the others"


async def test_a_server_that_is_gone_refuses_all_who_wait_at_once() -> None:
    async with serving(echo) as server:
        pass
    client = Client(Access(server, None, Static({})))
    asked = (client.request("GET", f"/{n}", timeout_s=600) for n in range(20))
    done = await asyncio.wait_for(asyncio.gather(*asked, return_exceptions=True), 60)
    assert all(isinstance(said, Unreachable) for said in done)
    await client.close()


async def test_who_waits_is_served_by_what_is_open_if_no_more_can_be_opened() -> None:
    gate, asked = asyncio.Event(), asyncio.Event()

    async def slow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.readuntil(b"\r\n\r\n"):
            asked.set()
            await gate.wait()
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

    server = await asyncio.start_server(slow, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    client = Client(Access(f"http://127.0.0.1:{port}", None, Static({})))
    first = asyncio.create_task(client.request("GET", "/x"))
    await asked.wait()
    server.close()  # listens no more; what is open stays open
    others = [asyncio.create_task(client.request("GET", "/x")) for _ in range(3)]
    await asyncio.sleep(0.1)
    gate.set()
    assert {reply.status for reply in await asyncio.gather(first, *others)} == {200}
    await client.close()


async def test_closing_ends_what_is_under_way_and_what_waits() -> None:
    asked = asyncio.Event()

    async def never(request: web.Request) -> web.Response:
        asked.set()
        await asyncio.sleep(60)
        return web.Response()

    async with serving(never) as server:
        client = Client(Access(server, None, Static({})), max_connections=1)
        under_way = asyncio.create_task(client.request("GET", "/x"))
        waiting = asyncio.create_task(client.request("GET", "/x"))
        await asked.wait()
        await client.close()
        with pytest.raises(ReplyLost):
            await under_way
        with pytest.raises(Unreachable, match="closed"):
            await waiting


def stop() -> None:
    raise Unreachable("not sent: this process is no longer the leader")


async def test_who_waits_for_a_connection_is_asked_again_at_the_moment_of_sending() -> None:
    leads, seen, go_on = True, list[str](), asyncio.Event()

    async def slow(request: web.Request) -> web.Response:
        seen.append(request.path)
        await go_on.wait()
        return web.Response()

    def ask() -> None:
        if not leads:
            stop()

    async with talking(slow, max_connections=1) as client:
        first = asyncio.create_task(client.request("POST", "/first", body=b"", before_send=ask))
        while not seen:
            await asyncio.sleep(0)
        second = asyncio.create_task(client.request("POST", "/second", body=b"", before_send=ask))
        await asyncio.sleep(0)
        leads = False
        go_on.set()
        assert (await first).status == 200
        with pytest.raises(Unreachable, match="not sent"):
            await second
        assert (await client.request("GET", "/third")).status == 200, "the connection is kept"
    assert seen == ["/first", "/third"]


async def test_who_logs_in_again_is_asked_again_before_the_second_try() -> None:
    asked = []

    def once() -> None:
        asked.append(1)
        if len(asked) > 1:
            stop()

    async with talking(answering(401)) as client:
        with pytest.raises(Unreachable, match="not sent"):
            await client.request("POST", "/binding", body=b"", before_send=once)


async def test_who_writes_through_a_proxy_is_asked_at_the_moment_of_sending() -> None:
    seen = []

    async def proxy(request: web.Request) -> web.Response:
        seen.append(request.method)
        return web.Response()

    async with serving(proxy) as server:
        client = Client(Access("http://cluster.example", None, Static({}), proxy=server))
        with pytest.raises(Unreachable, match="not sent"):  # on a new connection
            await client.request("POST", "/binding", body=b"", before_send=stop)
        assert (await client.request("GET", "/api")).status == 200
        with pytest.raises(Unreachable, match="not sent"):  # on one that was kept alive
            await client.request("POST", "/binding", body=b"", before_send=stop)
        await client.close()
    assert seen == ["GET"]


async def test_a_proxy_is_used() -> None:
    seen: list[str] = []

    async def proxy(request: web.Request) -> web.Response:
        seen.append(str(request.url))
        return web.Response(text="by proxy")

    async with serving(proxy) as server:
        client = Client(Access("http://cluster.example", None, Static({}), proxy=server))
        assert (await client.request("GET", "/api")).body == b"by proxy"
        with pytest.raises(ReplyTooLong, match="longer than 3 bytes"):
            await client.request("GET", "/api", max_body=3)
        await client.close()
    assert seen == ["http://cluster.example/api"] * 2


async def test_a_proxy_with_tls_is_checked_by_what_the_system_trusts() -> None:
    """aiohttp itself trusts no authority in a program that serves; see `apps.quick_start`."""
    access = Access("http://cluster", None, Static({}), proxy="https://proxy")
    sessions = Sessions(access, {}, 1)
    try:
        used = sessions._new_requests_session()
        assert used.connector._ssl.verify_mode == ssl.CERT_REQUIRED  # type: ignore[union-attr]
        await used.close()
    finally:
        await sessions.close()
