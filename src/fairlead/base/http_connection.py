"""One HTTP/1.1 connection to a server, on a C parser: no redirects, no cookies, no proxy."""

import asyncio
import ssl
from typing import Any, ClassVar, Generic, TypeVar

import httptools

T = TypeVar("T")
C = TypeVar("C", bound="HttpConnection[Any]")


class HttpConnection(asyncio.Protocol, Generic[T]):
    """One request at a time. A subclass has the parser's callbacks, and ends with `_finish`.

    A callback that calls `abort` may be followed by others, of bytes that have come already.
    """

    #: What errors call the answer of the server.
    REPLY: ClassVar[str] = "reply"

    def __init__(self) -> None:
        #: Whether it can take another request, once the last is answered.
        self.usable = False
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._waiting: asyncio.Future[T] | None = None

    def send(self, request: bytes) -> "asyncio.Future[T]":
        assert self._transport is not None
        assert self._waiting is None
        self._waiting = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return self._waiting

    def abort(self, reason: str) -> None:
        """Closes the connection; a reply that was under way is lost."""
        self.usable = False
        if self._transport is not None:
            self._transport.abort()
        self._fail(self.lost(reason))

    def lost(self, reason: str) -> Exception:
        """What the sender of a request gets in place of a reply."""
        raise NotImplementedError

    # -- called by the event loop ------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]
        self.usable = True

    def data_received(self, data: bytes) -> None:
        if self._waiting is None:
            self.abort("the server sent data without a request")
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self.abort(f"the {self.REPLY} is not HTTP: {error}")

    def connection_lost(self, error: Exception | None) -> None:
        self.usable = False
        self._fail(self.lost(str(error or "the connection was closed")))

    # -- called by subclasses ----------------------------------------------------------------

    def _finish(self, reply: T) -> None:
        self.usable = self.usable and self._parser.should_keep_alive()
        waiting, self._waiting = self._waiting, None
        if waiting is not None and not waiting.done():
            waiting.set_result(reply)

    def _fail(self, error: Exception) -> None:
        waiting, self._waiting = self._waiting, None
        if waiting is not None and not waiting.done():
            waiting.set_exception(error)


async def connect(
    connection: C,
    host: str,
    port: int,
    *,
    tls: ssl.SSLContext | None = None,
    server_hostname: str | None = None,
) -> C:
    """The connection, once it is open. None is left if this is cancelled.

    asyncio leaves one that is cancelled when the TLS handshake has just ended: it waits for the
    server's end of TLS for 30 s.
    """
    try:
        await asyncio.get_running_loop().create_connection(
            lambda: connection, host, port, ssl=tls, server_hostname=server_hostname
        )
    except BaseException:
        connection.abort("the connection was given up")
        raise
    return connection
