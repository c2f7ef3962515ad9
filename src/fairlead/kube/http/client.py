"""One cluster's API over HTTP: a reply for every request that got one, and watches as lines.

The client decides nothing. Statuses are answers for the caller to read; what it raises says only
whether the server may have seen the request (`ReplyLost`) or certainly has not (`Unreachable`),
which is what a caller must know before it sends a write again.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import lru_cache, partial
from typing import Any
from urllib.parse import urlencode

import aiohttp
from yarl import URL

from fairlead.kube.access.kubeconfig import Access
from fairlead.kube.errors import KubeconfigError, ReplyLost, Unreachable
from fairlead.kube.http.connections import CLOSED, Connections, Endpoint, encode_request
from fairlead.kube.http.reply import Reply, parse_retry_after
from fairlead.kube.http.watch import WatchStream, hang_up

__all__ = ["Client", "Reply", "WatchStream"]

#: Bookmarks come about once a minute, so this much silence means a dead connection.
IDLE_TIMEOUT_S = 150.0
#: A page of 500 objects of 100 KiB each would still fit.
LONGEST_BODY = 64 * 2**20
#: kube-apiserver closes idle connections after 90 s; we go first, so as not to meet a closing one.
_KEEP_ALIVE_S = 60.0
_WATCH_CONNECT_S = 15.0
_WATCH_BUFFER = 256 * 2**10
#: Longer than any request lives: by then a retired session has nothing under way.
_RETIREMENT_S = 120.0


class Client:
    """Sends requests to one cluster as one user. Create and close it inside the event loop."""

    def __init__(
        self, access: Access, *, user_agent: str = "fairlead", max_connections: int = 128
    ) -> None:
        self.access = access
        self._root = URL(access.server, encoded=True)
        self._prefix = self._root.raw_path.rstrip("/")
        #: Headers of every request.
        self._common = {
            "Host": self._root.raw_authority,
            "Accept": "application/json",
            # Packing a reply costs the server, and unpacking it us, more than sending it.
            "Accept-Encoding": "identity",
            "User-Agent": user_agent,
        }
        self._max_connections = max_connections
        self._closed = False
        self._options: dict[str, Any] = {"allow_redirects": False}
        if access.server_hostname:
            self._options["server_hostname"] = access.server_hostname
        self._direct: Connections | None = None
        self._session: aiohttp.ClientSession | None = None
        if access.proxy:
            self._session = self._new_requests_session()
        else:
            self._direct = Connections(Endpoint.of(access), max_connections)
        # Watches keep their connection for minutes: they must neither use up the connections of
        # short requests nor wait behind them.
        self._watches = self._new_session(limit=0, force_close=True)
        self._retired: aiohttp.ClientSession | None = None
        self._retired_at = float("-inf")

    async def request(
        self,
        method: str,
        path: str,
        *,
        body: bytes | None = None,
        params: Mapping[str, str] | None = None,
        content_type: str = "application/json",
        timeout_s: float = 30.0,
        accept: str | None = None,
        max_body: int = LONGEST_BODY,
        before_send: Callable[[], None] | None = None,
    ) -> Reply:
        """The server's reply, whatever its status. `path` is percent-encoded and has no query.

        Raises Unreachable if the request was certainly not processed, and ReplyLost if it was
        sent but no complete reply of at most `max_body` bytes came in time. Redirects are not
        followed, and nothing but a 401 is ever sent twice: log in again, then one more try.
        `before_send`: see `Transport`.
        """
        url = self._url(path, params)
        extra: dict[str, str] = {}
        if body is not None:
            extra["Content-Type"] = content_type
        if accept is not None:
            extra["Accept"] = accept
        send = partial(
            self._send,
            method,
            url,
            body,
            extra,
            timeout_s=timeout_s,
            max_body=max_body,
            before_send=before_send,
        )
        reply = await send()
        if reply.status == 401:
            await self._log_in_again()
            reply = await send()
        return reply

    @asynccontextmanager
    async def watch(
        self, path: str, params: Mapping[str, str], *, idle_timeout_s: float = IDLE_TIMEOUT_S
    ) -> AsyncIterator[WatchStream]:
        """An open watch, or its refusal: look at `.status`. Reading it may raise ReplyLost.

        Without a byte for `idle_timeout_s` it raises Stalled. Raises Unreachable and ReplyLost
        like `request` while it is being opened.
        """
        url = self._url(path, params)
        response = await self._open(url, idle_timeout_s)
        try:
            if response.status == 401:
                hang_up(response)
                await self._log_in_again()
                response = await self._open(url, idle_timeout_s)
            yield await WatchStream.of(response)
        finally:
            hang_up(response)

    async def close(self) -> None:
        """End every connection; what is under way gets ReplyLost. May be repeated."""
        self._closed = True
        if self._direct is not None:
            self._direct.close()
        for session in (self._session, self._watches, self._retired):
            if session is not None:
                await session.close()
        for _ in range(3):  # a connection that is being made is cancelled, dropped, and closed
            await asyncio.sleep(0)

    async def _send(
        self,
        method: str,
        url: URL,
        body: bytes | None,
        extra: dict[str, str],
        *,
        timeout_s: float,
        max_body: int,
        before_send: Callable[[], None] | None,
    ) -> Reply:
        headers = await self._login() | extra
        if self._direct is not None:
            request = encode_request(method, url.raw_path_qs, self._common | headers, body)
            return await self._direct.exchange(
                request, timeout_s=timeout_s, longest=max_body, before_send=before_send
            )
        assert self._session is not None
        try:
            async with self._session.request(
                method,
                url,
                data=body,
                headers=headers,
                timeout=_deadlines(timeout_s),
                trace_request_ctx=before_send,
                **self._options,
            ) as response:
                text = await _read(response, max_body)
                retry_after_s = parse_retry_after(response.headers.get("Retry-After"))
                return Reply(response.status, text, retry_after_s)
        except (aiohttp.ClientError, OSError) as error:
            raise self._translated(error) from error

    async def _open(self, url: URL, idle_timeout_s: float) -> aiohttp.ClientResponse:
        headers = await self._login()
        timeout = aiohttp.ClientTimeout(connect=_WATCH_CONNECT_S, sock_read=idle_timeout_s)
        try:
            return await self._watches.get(
                url, headers=headers, timeout=timeout, read_bufsize=_WATCH_BUFFER, **self._options
            )
        except (aiohttp.ClientError, OSError) as error:
            raise self._translated(error) from error

    async def _login(self) -> dict[str, str]:
        if self._closed:
            raise Unreachable(CLOSED)
        try:
            return await self.access.credentials.headers()
        except KubeconfigError as error:
            raise Unreachable(str(error)) from error

    async def _log_in_again(self) -> None:
        try:
            await self.access.credentials.refresh()
        except KubeconfigError as error:
            raise Unreachable(str(error)) from error
        if self.access.ssl_context is not None:
            await self._leave_old_connections()

    async def _leave_old_connections(self) -> None:
        """Reconnect: a connection made with an expired client certificate stays refused.

        What is under way on the old connections ends in peace.
        """
        now = time.monotonic()
        if self._closed or now - self._retired_at < _RETIREMENT_S:
            return
        self._retired_at = now
        if self._direct is not None:
            self._direct.retire()
            return
        leaving, self._retired = self._retired, self._session
        self._session = self._new_requests_session()
        if leaving is not None:
            await leaving.close()

    def _new_requests_session(self) -> aiohttp.ClientSession:
        return self._new_session(limit=self._max_connections, keepalive_timeout=_KEEP_ALIVE_S)

    def _new_session(self, **connector: Any) -> aiohttp.ClientSession:
        tls = self.access.ssl_context
        session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=True if tls is None else tls, **connector),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers=self._common,
            proxy=self.access.proxy,
            trace_configs=[_asking_before_send()],
        )
        # aiohttp would send a PUT or DELETE again when a kept-alive connection breaks. The first
        # may have been processed, and then the second is refused: the caller would be misled.
        session._retry_connection = False
        return session

    def _url(self, path: str, params: Mapping[str, str] | None) -> URL:
        if not params:
            # Twice as fast as parsing the whole URL, on the path of every bind.
            return self._root.with_path(self._prefix + path, encoded=True)
        return URL(f"{self.access.server}{path}?{urlencode(params)}", encoded=True)

    def _translated(self, error: BaseException) -> Unreachable | ReplyLost:
        said = str(error) or type(error).__name__
        server = self.access.server
        if isinstance(error, aiohttp.ClientConnectorCertificateError):
            return Unreachable(
                f"{server} shows a certificate that is not trusted ({said}); "
                "check the kubeconfig's certificate-authority and tls-server-name"
            )
        if isinstance(error, _NEVER_SENT):
            return Unreachable(f"cannot connect to {server}: {said}")
        return ReplyLost(f"{server} did not answer completely: {said}")


def _asking_before_send() -> aiohttp.TraceConfig:
    """Calls `before_send` of a request when it has got a connection, new or kept alive."""

    async def ask(_session: object, context: Any, _params: object) -> None:
        if context.trace_request_ctx is not None:
            context.trace_request_ctx()

    trace = aiohttp.TraceConfig()
    trace.on_connection_create_end.append(ask)
    trace.on_connection_reuseconn.append(ask)
    return trace


_NEVER_SENT = (
    aiohttp.ClientConnectorError,
    aiohttp.ConnectionTimeoutError,
    aiohttp.ClientHttpProxyError,
)


@lru_cache(maxsize=64)
def _deadlines(timeout_s: float) -> aiohttp.ClientTimeout:
    # Connecting must give up first: a timeout after that means that the request was sent.
    return aiohttp.ClientTimeout(total=timeout_s, connect=timeout_s / 2)


async def _read(response: aiohttp.ClientResponse, max_body: int) -> bytes:
    pieces: list[bytes] = []
    length = 0
    while piece := await response.content.readany():
        pieces.append(piece)
        length += len(piece)
        if length > max_body:
            response.close()
            raise aiohttp.ClientPayloadError(f"the reply is longer than {max_body} bytes")
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)
