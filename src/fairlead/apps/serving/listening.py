"""The socket: TLS, and a timeout for connections that send no request."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web

from fairlead.apps.serving.connections import ConnectionLimit, Handler, MakeProtocol, open_port
from fairlead.apps.serving.http_limits import HttpLimits

#: For requests that are still under way after `farewell_s`.
_GRACE_S = 3.0
#: Longer than API servers keep an idle connection: they must not meet one that is closing.
_IDLE_S = 120.0
#: How long the rest of a body that was refused is listened to, so that the refusal is read.
_REST_S = 1.0


@asynccontextmanager
async def listening(
    app: web.Application,
    context: ssl.SSLContext | None,
    address: str,
    port: int,
    limits: HttpLimits,
) -> AsyncIterator[int]:
    """Serves inside the block, over TLS if there is a context; gives the port, chosen if 0."""
    timeout, limit = HeaderTimeout(limits.head_s), ConnectionLimit(limits.connections)
    app.middlewares.extend((timeout.seen, limit.occupied))
    # A body that unpacks itself could be any length.
    runner = web.AppRunner(
        app,
        access_log=None,
        auto_decompress=False,
        keepalive_timeout=_IDLE_S,
        lingering_time=_REST_S,
        shutdown_timeout=_GRACE_S,
    )
    served = await open_port(
        runner, lambda server: timeout.watched(limit.limiting(server)), address, port,
        ssl=context, backlog=512, ssl_handshake_timeout=limits.head_s if context else None,
    )  # fmt: skip
    try:
        yield served.number
    finally:
        timeout.is_leaving = True
        await asyncio.sleep(limits.farewell_s)
        await served.cleanup()


class HeaderTimeout:
    """Closes connections that send no complete request header, for which aiohttp would wait.

    During shutdown it closes each connection after its answer.
    """

    def __init__(self, head_s: float) -> None:
        self._head_s = head_s
        self.is_leaving = False
        self._silent: dict[web.RequestHandler, asyncio.TimerHandle] = {}

    @web.middleware
    async def seen(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        self._leave(request.protocol)
        answer = await handler(request)
        if self.is_leaving:
            answer.force_close()
        return answer

    def watched(self, make: MakeProtocol) -> MakeProtocol:
        def made() -> web.RequestHandler:
            protocol, loop = make(), asyncio.get_running_loop()
            self._silent[protocol] = loop.call_later(self._head_s, self._hang_up, protocol)
            return protocol

        return made

    def _hang_up(self, protocol: web.RequestHandler) -> None:
        self._leave(protocol)
        protocol.force_close()

    def _leave(self, protocol: web.RequestHandler) -> None:
        timer = self._silent.pop(protocol, None)
        if timer is not None:
            timer.cancel()
