"""Requests through a proxy, and watches: what aiohttp does for the client.

It takes a tenth of a second to load, and a command that only reads lists needs none of it.
"""

import ssl
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import aiohttp
from yarl import URL

from fairlead.kube.access.kubeconfig import Access
from fairlead.kube.errors import ReplyLost, ReplyTooLong, Unreachable
from fairlead.kube.http.reply import Reply, parse_retry_after
from fairlead.kube.http.sockets import Sockets

#: kube-apiserver closes idle connections after 90 s; we go first, so as not to meet a closing one.
_KEEP_ALIVE_S = 60.0
_WATCH_TIMEOUT = aiohttp.ClientTimeout(connect=15.0)
_WATCH_BUFFER = 256 * 2**10


class Sessions:
    """Create and close it inside the event loop."""

    def __init__(self, access: Access, headers: dict[str, str], max_connections: int) -> None:
        """`headers` of every request."""
        self._access = access
        self._headers = headers
        self._max_connections = max_connections
        self._sockets = Sockets()
        self._options: dict[str, Any] = {"allow_redirects": False}
        if access.server_hostname:
            self._options["server_hostname"] = access.server_hostname
        self._requests = self._new_requests_session() if access.proxy else None
        # Watches keep their connection for minutes: they must neither use up the connections of
        # short requests nor wait behind them.
        self._watches = self._new_session(limit=0, force_close=True)
        self._retired: aiohttp.ClientSession | None = None

    async def send(
        self,
        method: str,
        url: URL,
        body: bytes | None,
        headers: dict[str, str],
        *,
        timeout_s: float,
        max_body: int,
        before_send: Callable[[], None] | None,
    ) -> Reply:
        assert self._requests is not None, "there is no proxy"
        try:
            async with self._requests.request(
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

    async def open_watch(self, url: URL, headers: dict[str, str]) -> aiohttp.ClientResponse:
        """The reply as far as its headers. How long it may take after that is the reader's."""
        try:
            return await self._watches.get(
                url,
                headers=headers,
                timeout=_WATCH_TIMEOUT,
                read_bufsize=_WATCH_BUFFER,
                **self._options,
            )
        except (aiohttp.ClientError, OSError) as error:
            raise self._translated(error) from error

    async def retire(self) -> None:
        """New requests get new connections; what is under way on the old ones ends in peace."""
        leaving, self._retired = self._retired, self._requests
        self._requests = self._new_requests_session()
        if leaving is not None:
            await leaving.close()

    async def close(self) -> None:
        for session in (self._requests, self._watches, self._retired):
            if session is not None:
                await session.close()
        await self._sockets.closed()

    def _new_requests_session(self) -> aiohttp.ClientSession:
        return self._new_session(limit=self._max_connections, keepalive_timeout=_KEEP_ALIVE_S)

    def _new_session(self, **connector: Any) -> aiohttp.ClientSession:
        tls = self._access.ssl_context
        if tls is None and self._access.proxy:  # which may itself be reached by TLS
            tls = ssl.create_default_context()
        session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                ssl=True if tls is None else tls, socket_factory=self._sockets.new, **connector
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers=self._headers,
            proxy=self._access.proxy,
            trace_configs=[_asking_before_send()],
        )
        # aiohttp would send a PUT or DELETE again when a kept-alive connection breaks. The first
        # may have been processed, and then the second is refused: the caller would be misled.
        session._retry_connection = False
        return session

    def _translated(self, error: BaseException) -> Unreachable | ReplyLost:
        said = str(error) or type(error).__name__
        server = self._access.server
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
            raise ReplyTooLong(f"the reply is longer than {max_body} bytes")
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)
