"""One cluster's API over HTTP: a reply for every request that got one, and watches as lines.

The client decides nothing. Statuses are answers for the caller to read; what it raises says only
whether the server may have seen the request (`ReplyLost`) or certainly has not (`Unreachable`),
which is what a caller must know before it sends a write again.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from yarl import URL

from fairlead.kube.access.kubeconfig import Access
from fairlead.kube.errors import KubeconfigError, Stalled, Unreachable
from fairlead.kube.http.connections import CLOSED, Connections, Endpoint, encode_request
from fairlead.kube.http.reply import Reply

if TYPE_CHECKING:
    from aiohttp import ClientResponse

    from fairlead.kube.http.sessions import Sessions
    from fairlead.kube.http.watch import WatchStream

__all__ = ["Client", "Reply"]

#: Bookmarks come about once a minute: without an event for so long, nothing more comes.
IDLE_TIMEOUT_S = 150.0
#: For the headers of a watch, and the words of a refusal. They come at once, or after a queue.
_WATCH_OPENS_S = 60.0
#: A page of 500 objects of 100 KiB each would still fit; where it does not, pages are smaller.
LONGEST_BODY = 64 * 2**20
#: Longer than any request lives: by then a retired session has nothing under way.
_RETIREMENT_S = 120.0


class Client:
    """Sends requests to one cluster as one user. Create and close it inside the event loop."""

    def __init__(
        self, access: Access, *, user_agent: str = "fairlead", max_connections: int = 128
    ) -> None:
        self.access = access
        root = URL(access.server, encoded=True)
        self._prefix = root.raw_path.rstrip("/")
        #: Headers of every request.
        self._common = {
            "Host": root.raw_authority,
            "Accept": "application/json",
            # Packing a reply costs the server, and unpacking it us, more than sending it.
            "Accept-Encoding": "identity",
            "User-Agent": user_agent,
        }
        self._max_connections = max_connections
        self._closed = False
        self._direct: Connections | None = None
        if not access.proxy:
            self._direct = Connections(Endpoint.of(access), max_connections)
        self._opened: Sessions | None = None
        self._retired_at = float("-inf")
        self._apart: list[Client] = []

    def apart(self, max_connections: int = 2) -> "Client":
        """The same user on other connections, for what must not wait behind all else.

        It is closed with this client.
        """
        agent = self._common["User-Agent"]
        other = Client(self.access, user_agent=agent, max_connections=max_connections)
        self._apart.append(other)
        return other

    @property
    def _sessions(self) -> "Sessions":
        """For watches, and for requests through a proxy; made when the first one is needed."""
        if self._opened is None:
            from fairlead.kube.http.sessions import Sessions

            self._opened = Sessions(self.access, self._common, self._max_connections)
        return self._opened

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

        Raises Unreachable if the request was certainly not processed, ReplyLost if it was sent but
        no complete reply came in time, and ReplyTooLong beyond `max_body` bytes. Redirects are not
        followed, and nothing but a 401 is ever sent twice: log in again, then one more try.
        `before_send`: see `Transport`.
        """
        target = f"{path}?{urlencode(params)}" if params else path
        extra: dict[str, str] = {}
        if body is not None:
            extra["Content-Type"] = content_type
        if accept is not None:
            extra["Accept"] = accept
        send = partial(
            self._send,
            method,
            target,
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
    ) -> AsyncIterator["WatchStream"]:
        """An open watch, or its refusal: look at `.status`. Reading it may raise ReplyLost.

        Without a whole line for `idle_timeout_s` it raises Stalled, whatever bytes come. Raises
        Unreachable and ReplyLost like `request` while it is being opened.
        """
        from fairlead.kube.http.watch import WatchStream, hang_up

        url = self._url(f"{path}?{urlencode(params)}")
        opens_s = min(idle_timeout_s, _WATCH_OPENS_S)
        response = await self._open_watch(url, opens_s)
        try:
            if response.status == 401:
                hang_up(response)
                await self._log_in_again()
                response = await self._open_watch(url, opens_s)
            yield await WatchStream.of(response, idle_timeout_s, opens_s)
        finally:
            hang_up(response)

    async def close(self) -> None:
        """End every connection; what is under way gets ReplyLost. May be repeated."""
        for other in self._apart:
            await other.close()
        self._closed = True
        if self._direct is not None:
            self._direct.close()
        if self._opened is not None:
            await self._opened.close()
        for _ in range(3):  # a connection that is being made is cancelled, dropped, and closed
            await asyncio.sleep(0)

    async def _send(
        self,
        method: str,
        target: str,
        body: bytes | None,
        extra: dict[str, str],
        *,
        timeout_s: float,
        max_body: int,
        before_send: Callable[[], None] | None,
    ) -> Reply:
        headers = await self._login() | extra
        if self._direct is not None:
            request = encode_request(method, self._prefix + target, self._common | headers, body)
            return await self._direct.exchange(
                request, timeout_s=timeout_s, longest=max_body, before_send=before_send
            )
        return await self._sessions.send(
            method,
            self._url(target),
            body,
            headers,
            timeout_s=timeout_s,
            max_body=max_body,
            before_send=before_send,
        )

    async def _open_watch(self, url: URL, within_s: float) -> "ClientResponse":
        headers = await self._login()
        try:
            async with asyncio.timeout(within_s):
                return await self._sessions.open_watch(url, headers)
        except TimeoutError:
            raise Stalled(f"the watch was not open within {within_s:g} s") from None

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
        await self._sessions.retire()

    def _url(self, target: str) -> URL:
        return URL(f"{self.access.server}{target}", encoded=True)
