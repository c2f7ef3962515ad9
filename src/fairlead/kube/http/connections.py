"""Kept-alive HTTP/1.1 connections for short requests.

Every scheduled pod costs two writes, so this is the hottest path of the program: one protocol
object a connection, one system call to send, and a C parser for the reply. It does only what
requests to an API server need; watches and proxies go through aiohttp (see `client`).
"""

import asyncio
import ssl
from collections import deque
from collections.abc import Callable, Mapping
from functools import lru_cache
from urllib.parse import urlsplit

from fairlead.base.http_connection import HttpConnection, connect
from fairlead.kube.access.kubeconfig import Access
from fairlead.kube.errors import ReplyLost, ReplyTooLong, Unreachable
from fairlead.kube.http.reply import Reply, parse_retry_after
from fairlead.model.lazy_dataclass import dataclass

#: kube-apiserver closes idle connections after 90 s; we go first, so as not to meet a closing one.
_KEEP_ALIVE_S = 60.0
#: A caller may give up before; then the next one finds this attempt in progress.
_CONNECT_S = 10.0
#: What may be sent beside a body: headers, and the frames of chunks.
_BESIDE = 2**20
_RETRY_AFTER, _CONTENT_ENCODING = b"retry-after", b"content-encoding"
#: Most headers, of which each reply has half a dozen, are told from these two by their length.
_LENGTHS = frozenset((len(_RETRY_AFTER), len(_CONTENT_ENCODING)))
CLOSED = "the client is closed; make a new one"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where to connect, and as whom the server must prove itself."""

    server: str
    host: str
    port: int
    ssl_context: ssl.SSLContext | None
    server_hostname: str | None

    @classmethod
    def of(cls, access: Access) -> "Endpoint":
        parts = urlsplit(access.server)
        host = parts.hostname or ""
        if parts.scheme != "https":
            return cls(access.server, host, parts.port or 80, None, None)
        context = access.ssl_context or ssl.create_default_context()
        hostname = access.server_hostname or host
        return cls(access.server, host, parts.port or 443, context, hostname)


def encode_request(
    method: str, target: str, headers: Mapping[str, str], body: bytes | None
) -> bytes:
    """The whole request as bytes, to go out in one piece."""
    if " " in target or "\r" in target or "\n" in target:
        raise ValueError(f"{target!r} must not hold spaces or line breaks")
    head = f"{method} {target} HTTP/1.1\r\n{_header_lines(tuple(headers.items()))}"
    if body is None:
        return f"{head}\r\n".encode("latin-1")
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode("latin-1") + body


@lru_cache(maxsize=64)
def _header_lines(headers: tuple[tuple[str, str], ...]) -> str:
    """They are the same for most requests."""
    lines = [f"{name}: {text}" for name, text in headers]
    if any("\r" in line or "\n" in line for line in lines):
        raise ValueError("headers must not hold line breaks")
    return "".join(f"{line}\r\n" for line in lines)


class Connection(HttpConnection[Reply]):
    """One request at a time; its sender awaits the reply."""

    def __init__(self) -> None:
        super().__init__()
        self._body: list[bytes] = []
        self._length = 0
        self._retry_after: str | None = None
        #: Of the body, in bytes.
        self.longest = 0
        self._raw = 0
        self.idle_since_s = 0.0
        #: When it is given up unless the reply has come, on the clock of the loop.
        self.deadline_s = 0.0
        self.timeout_s = 0.0

    def lost(self, reason: str) -> Exception:
        return ReplyLost(f"no complete reply came: {reason}")

    def data_received(self, data: bytes) -> None:
        """Whatever is sent counts: headers and chunks of one byte may have no end."""
        self._raw += len(data)
        if self._raw > self.longest + _BESIDE:
            self._end_too_long()
            return
        super().data_received(data)

    # -- called by the parser ----------------------------------------------------------------

    def on_header(self, name: bytes, value: bytes) -> None:
        if len(name) not in _LENGTHS:
            return
        name = name.lower()
        if name == _RETRY_AFTER:
            self._retry_after = value.decode("latin-1")
        elif name == _CONTENT_ENCODING and value != b"identity":
            self.abort("the reply is compressed, which was not requested")

    def on_body(self, body: bytes) -> None:
        self._body.append(body)
        self._length += len(body)
        if self._length > self.longest:
            self._end_too_long()

    def on_message_complete(self) -> None:
        body = self._body[0] if len(self._body) == 1 else b"".join(self._body)
        retry_after_s = parse_retry_after(self._retry_after)
        self._body, self._length, self._raw, self._retry_after = [], 0, 0, None
        self._finish(Reply(self._parser.get_status_code(), body, retry_after_s))

    def _end_too_long(self) -> None:
        why = f"the reply is longer than {self.longest} bytes"
        self._fail(ReplyTooLong(why))  # before `abort`, which would raise a plain ReplyLost
        self.abort(why)


class Connections:
    """Kept-alive connections, up to a limit; a request that finds none waits.

    They are opened one after another. A handshake costs the server as much as a few requests, so of
    a burst most are better served by connections that others have just finished with.
    """

    def __init__(self, endpoint: Endpoint, limit: int) -> None:
        self._endpoint = endpoint
        self._limit = limit
        self._idle: list[Connection] = []
        #: Busy, idle and retired ones.
        self._open: set[Connection] = set()
        self._retired: set[Connection] = set()
        #: Those that await a reply, and when it is next looked for overdue ones.
        self._busy: set[Connection] = set()
        self._timer: asyncio.TimerHandle | None = None
        #: Those who wait for a connection, the first comer first.
        self._waiting: deque[asyncio.Future[Connection]] = deque()
        self._opener: asyncio.Task[None] | None = None
        self._closed = False

    async def exchange(
        self,
        request: bytes,
        *,
        timeout_s: float,
        longest: int,
        before_send: Callable[[], None] | None = None,
    ) -> Reply:
        """Sends the bytes and returns the reply; see `Client.request` for what it raises."""
        if self._closed:
            raise Unreachable(CLOSED)
        connection = self._take_idle() or await self._wait_for_one(timeout_s / 2)
        if not connection.usable:  # lost between the moment it was handed to us and this one
            self._put_back(connection, 0.0)
            raise Unreachable("the connection was lost before the request went out")
        if before_send is not None:
            self._ask(before_send, connection)
        return await self._exchange(connection, request, timeout_s, longest)

    def retire(self) -> None:
        """Use none of the present connections again: they were made with other credentials."""
        for connection in self._idle:
            self._drop(connection)
        self._idle.clear()
        self._retired |= self._open

    def close(self) -> None:
        """What is under way gets ReplyLost, what waits gets Unreachable."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        if self._opener is not None:
            self._opener.cancel()
        for connection in list(self._open):
            self._drop(connection)
        self._idle.clear()
        self._refuse_all(CLOSED)

    def _ask(self, before_send: Callable[[], None], connection: Connection) -> None:
        try:
            before_send()
        except BaseException:
            self._put_back(connection, asyncio.get_running_loop().time())
            raise

    async def _exchange(
        self, connection: Connection, request: bytes, timeout_s: float, longest: int
    ) -> Reply:
        loop = asyncio.get_running_loop()
        connection.longest, connection.timeout_s = longest, timeout_s
        connection.deadline_s = loop.time() + timeout_s
        reply = connection.send(request)
        self._busy.add(connection)
        self._look_at(connection.deadline_s)
        try:
            return await reply
        except asyncio.CancelledError:
            connection.abort("the request was cancelled")
            raise
        finally:
            self._busy.discard(connection)
            self._put_back(connection, loop.time())

    # -- deadlines: one timer for all, as nearly every reply comes long before its own -----------

    def _look_at(self, when_s: float) -> None:
        """Looks for overdue replies at that time, or before."""
        if self._timer is None or when_s < self._timer.when():
            if self._timer is not None:
                self._timer.cancel()
            self._timer = asyncio.get_running_loop().call_at(when_s, self._end_overdue)

    def _end_overdue(self) -> None:
        self._timer = None
        now = asyncio.get_running_loop().time()
        for connection in [each for each in self._busy if each.deadline_s <= now]:
            self._busy.discard(connection)
            connection.abort(f"nothing within {connection.timeout_s:g} s")
        if self._busy and not self._closed:
            self._look_at(min(each.deadline_s for each in self._busy))

    def _take_idle(self) -> Connection | None:
        now = asyncio.get_running_loop().time()
        while self._idle:
            connection = self._idle.pop()
            if connection.usable and now - connection.idle_since_s < _KEEP_ALIVE_S:
                return connection
            self._drop(connection)
        return None

    async def _wait_for_one(self, timeout_s: float) -> Connection:
        loop = asyncio.get_running_loop()
        waiting: asyncio.Future[Connection] = loop.create_future()
        self._waiting.append(waiting)
        self._open_more()
        try:
            async with asyncio.timeout(timeout_s):
                return await waiting
        except TimeoutError:
            self._give_on(waiting)
            raise Unreachable(self._why_none(timeout_s)) from None
        except asyncio.CancelledError:
            self._give_on(waiting)
            raise

    def _give_on(self, waiting: "asyncio.Future[Connection]") -> None:
        """A connection that was established after its caller had given up."""
        if waiting.done() and not waiting.cancelled() and waiting.exception() is None:
            self._put_back(waiting.result(), asyncio.get_running_loop().time())

    def _why_none(self, timeout_s: float) -> str:
        if self._open:
            return f"all {len(self._open)} connections were busy"
        return f"cannot connect to {self._endpoint.server}: nothing within {timeout_s:g} s"

    def _open_more(self) -> None:
        if self._opener is None and not self._closed:
            self._opener = asyncio.create_task(self._open_while_needed())

    async def _open_while_needed(self) -> None:
        try:
            while self._someone_waits() and len(self._open) < self._limit:
                connection = await self._connect(_CONNECT_S)
                self._put_back(connection, asyncio.get_running_loop().time())
        except Unreachable as error:
            if not self._open:  # else those that are open will serve all, in time
                self._refuse_all(str(error))
        finally:
            self._opener = None

    def _someone_waits(self) -> bool:
        while self._waiting and self._waiting[0].done():
            self._waiting.popleft()
        return bool(self._waiting)

    def _refuse_all(self, why: str) -> None:
        while self._someone_waits():
            self._waiting.popleft().set_exception(Unreachable(why))

    async def _connect(self, timeout_s: float) -> Connection:
        end = self._endpoint
        try:
            async with asyncio.timeout(timeout_s):
                connection = await connect(
                    Connection(),
                    end.host,
                    end.port,
                    tls=end.ssl_context,
                    server_hostname=end.server_hostname,
                )
        except ssl.SSLCertVerificationError as error:
            raise Unreachable(
                f"{end.server} shows a certificate that is not trusted ({error}); "
                "check the kubeconfig's certificate-authority and tls-server-name"
            ) from error
        except (OSError, TimeoutError) as error:
            said = str(error) or type(error).__name__
            raise Unreachable(f"cannot connect to {end.server}: {said}") from error
        self._open.add(connection)
        return connection

    def _put_back(self, connection: Connection, now: float) -> None:
        """To the caller that has waited longest, or back to the idle ones."""
        if not connection.usable or connection in self._retired or self._closed:
            self._drop(connection)
            if self._someone_waits():
                self._open_more()
        elif self._someone_waits():
            self._waiting.popleft().set_result(connection)
        else:
            connection.idle_since_s = now
            self._idle.append(connection)

    def _drop(self, connection: Connection) -> None:
        self._open.discard(connection)
        self._retired.discard(connection)
        connection.abort("the connection is no longer used")
